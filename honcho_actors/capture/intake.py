"""What waits for the writer: turns in order of admission, and the deliveries' own entries, which go first.

Bounded by count and by characters. No lock: appending to a deque is atomic, and the writer is woken by whoever finds it
asleep. What the writer has taken in hand but not finished stays here, so that a restarted writer takes it up again.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from honcho_actors.capture.receipt import Receipt
from honcho_actors.model import Turn
from honcho_actors.privacy.identity import Identity
from supervision import Waiter

T = TypeVar("T")

LIMIT = 10_000
"""Turns that may wait."""
LIMIT_CHARS = 64 * 1024 * 1024
GROUP = 512
"""Entries of one commit."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A turn that passed the filters, with what was true when it was handed over."""

    turn: Turn
    identity: Identity
    batch_id: bytes
    at_us: int
    max_chars: int
    keep: bool
    receipt: Receipt
    chars: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An entry that could not be carried out."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """Something to be done on the outbox, inside the writer's transaction. `after` runs when it is committed."""

    act: Callable[[sqlite3.Connection], T]
    waiter: Waiter[T | Failed]
    after: Callable[[T], Any] | None = None


Item = Captured | Entry[Any]


class Intake:
    """The two queues in front of the writer."""

    def __init__(self, limit: int = LIMIT, limit_chars: int = LIMIT_CHARS) -> None:
        self._first: deque[Entry[Any]] = deque()
        self._turns: deque[Item] = deque()
        self._limit = limit
        self._limit_chars = limit_chars
        self._chars = 0
        self.in_hand: list[Item] = []
        self.awake = False
        self.closed = False

    def __len__(self) -> int:
        return len(self._turns) + len(self._first) + len(self.in_hand)

    @property
    def full(self) -> bool:
        """Whether another turn has to wait."""
        return len(self._turns) >= self._limit or self._chars >= self._limit_chars

    def add(self, item: Captured) -> None:
        """Puts a turn behind the others."""
        self._chars += item.chars
        self._turns.append(item)

    def add_entry(self, entry: Entry[Any], *, in_order: bool = False) -> None:
        """Puts an entry before the turns; `in_order`: behind those that were handed over before it."""
        (self._turns if in_order else self._first).append(entry)

    def take(self) -> list[Item]:
        """Takes the next group in hand (or the one that was left in hand)."""
        if not self.in_hand:
            group = self.in_hand
            while self._first and len(group) < GROUP:
                group.append(self._first.popleft())
            while self._turns and len(group) < GROUP:
                item = self._turns.popleft()
                if isinstance(item, Captured):
                    self._chars -= item.chars
                group.append(item)
            if not self._turns:
                self._chars = 0
        return self.in_hand

    def done(self) -> None:
        """The group in hand is finished."""
        self.in_hand = []
