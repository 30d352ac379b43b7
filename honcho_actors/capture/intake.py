"""What waits for the writer: turns in order of admission, and the deliveries' own entries, which go first.

Bounded by count and by characters. No lock: appending to a deque is atomic, and the writer is woken by whoever finds it
asleep. What the writer has taken in hand but not finished stays here, so that a restarted writer takes it up again.

A large turn is screened apart from the writer, or everybody would wait for it. Until that is done its own conversation
waits behind it here, and so do entries that were handed over after it; nobody else does.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from honcho_actors.capture.content import Drafted
from honcho_actors.capture.receipt import Receipt
from honcho_actors.model import Realm, Turn
from honcho_actors.privacy.identity import Identity
from supervision import Waiter

T = TypeVar("T")

LIMIT = 10_000
"""Turns that may wait."""
LIMIT_CHARS = 64 * 1024 * 1024
GROUP = 512
"""Entries of one commit."""
GROUP_CHARS = 700_000
"""Characters of the turns of one commit: a second of screening at worst, a twentieth of one for ordinary text."""
LARGE_CHARS = 100_000
"""A turn with more is screened apart."""
MAX_TURN_CHARS = 8_000_000
"""A turn with more is not captured: nobody said it, and it would be 320 messages."""


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

    @property
    def place(self) -> tuple[Realm, str]:
        """The conversation in whose order it stands."""
        return self.identity.realm, self.identity.remote_session


@dataclass(frozen=True, slots=True)
class Failed:
    """An entry that could not be carried out."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """Something to be done on the outbox, inside the writer's transaction. `after` runs when it is committed. `fence`:
    when it stands among the turns and has to wait there, everything behind it does.
    """

    act: Callable[[sqlite3.Connection], T]
    waiter: Waiter[T | Failed]
    after: Callable[[T], Any] | None = None
    fence: bool = True


@dataclass(slots=True, eq=False)
class Large:
    """A turn that is screened apart; `drafted` when that is done."""

    item: Captured
    number: int
    begun: bool = False
    drafted: Drafted | None = None


Item = Captured | Entry[Any] | Large


@dataclass(frozen=True, slots=True)
class _Held:
    """What had to wait behind a large turn, with its place in the order of all."""

    number: int
    item: Captured | Entry[Any]


class Intake:
    """The two queues in front of the writer."""

    def __init__(self, limit: int = LIMIT, limit_chars: int = LIMIT_CHARS) -> None:
        self._first: deque[Entry[Any]] = deque()
        self._turns: deque[Captured | Entry[Any] | _Held] = deque()
        self._held: list[_Held] = []
        """Older than everything in `_turns`, and in order."""
        self._fenced = False
        """A fence is among them."""
        self._large: list[Large] = []
        self._taken = 0
        self._limit = limit
        self._limit_chars = limit_chars
        self._chars = 0
        self.in_hand: list[Item] = []
        self.awake = False
        self.closed = False

    def __len__(self) -> int:
        return len(self._turns) + len(self._first) + len(self.in_hand) + len(self._held) + len(self._large)

    @property
    def full(self) -> bool:
        """Whether another turn has to wait."""
        return len(self._turns) + len(self._held) >= self._limit or self._chars >= self._limit_chars

    @property
    def ready(self) -> bool:
        """Whether there is something to take now."""
        return bool(self._turns or self._first or self.in_hand or any(large.drafted for large in self._large))

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
            self._take_screened(group)
            chars = 0
            while self._turns and len(group) < GROUP and chars < GROUP_CHARS:
                found = self._turns.popleft()
                number, item = (found.number, found.item) if isinstance(found, _Held) else (self._number(), found)
                if self._has_to_wait(number, item):
                    self._held.append(_Held(number, item))
                elif isinstance(item, Entry):
                    group.append(item)
                elif item.chars > LARGE_CHARS:
                    self._large.append(Large(item, number))
                else:
                    self._chars -= item.chars
                    chars += item.chars
                    group.append(item)
            if not (self._turns or self._held or self._large):
                self._chars = 0
        return self.in_hand

    def done(self) -> None:
        """The group in hand is finished."""
        self.in_hand = []

    def next_large(self) -> Large | None:
        """The large turn that is to be screened now: the oldest, one at a time."""
        if any(large.begun and large.drafted is None for large in self._large):
            return None
        found = next((large for large in self._large if not large.begun), None)
        if found is not None:
            found.begun = True
        return found

    def drop_large(self) -> list[Captured]:
        """Takes out the large turns that are not screened yet; what waited behind them does so no longer."""
        dropped = [large for large in self._large if large.drafted is None]
        self._large = [large for large in self._large if large.drafted is not None]
        for large in dropped:
            self._chars -= large.item.chars
        self._release()
        return [large.item for large in dropped]

    def _take_screened(self, group: list[Item]) -> None:
        screened = [large for large in self._large if large.drafted is not None]
        if screened:
            group += screened
            self._large = [large for large in self._large if large not in screened]
            for large in screened:
                self._chars -= large.item.chars
            self._release()

    def _release(self) -> None:
        """What was held is looked at anew, before everything newer."""
        held, self._held, self._fenced = self._held, [], False
        self._turns.extendleft(reversed(held))

    def _has_to_wait(self, number: int, item: Captured | Entry[Any]) -> bool:
        if self._fenced:
            return True
        if isinstance(item, Entry):
            waits = any(large.number < number for large in self._large)
            self._fenced = waits and item.fence
            return waits
        return any(large.item.place == item.place for large in self._large)

    def _number(self) -> int:
        self._taken += 1
        return self._taken
