"""The conversations of one process: opened once, bounded in number and bytes, the same object for whoever asks.

A conversation that has left for lack of room comes back out of the store, with its id and every byte; without a store
it begins anew, and its next prompt says so. One that somebody still holds is never opened a second time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from honcho_actors.host.history import TranscriptStore
from honcho_actors.host.transcript import Conversation, Transcript

MAX_OPEN: Final = 10_000
MAX_OPEN_BYTES: Final = 64 * 1024 * 1024
LOOK_EVERY: Final = 64
"""Conversations that are opened between two counts of the bytes."""

One = TypeVar("One", bound=Conversation)


class Transcripts(Generic[One]):
    """Opens conversations of one kind (`Transcript` or `Replay`). Any thread."""

    def __init__(
        self,
        store: TranscriptStore | None = None,
        kind: Callable[[str, TranscriptStore | None, str], One] = Transcript,  # type: ignore[assignment]
        *,
        max_open: int = MAX_OPEN,
        max_bytes: int = MAX_OPEN_BYTES,
    ) -> None:
        self._store = store
        self._kind = kind
        self._max_open = max_open
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        """Held for a moment, never while a store is asked, and not for a conversation that is open."""
        self._open: dict[str, One] = {}
        self._left: weakref.WeakValueDictionary[str, One] = weakref.WeakValueDictionary()
        self._opened = 0
        self._clock = 0

    def open(self, name: str, owner: str = "") -> One:
        """The conversation of this name. The first call for it reads the store and may block; later ones do not.

        `name` is the caller's own and must name the person too, where one key may be used by several. `owner` is the
        remote peer of the person.
        """
        found = self._open.get(name)
        if found is None:
            found = self._admit(name, owner)
        self._clock += 1
        found.used = self._clock
        return found

    def close(self, name: str) -> None:
        """Lets a conversation go; what is kept of it stays in the store."""
        with self._lock:
            self._leave(name)

    def drop(self, name: str) -> None:
        """Ends a conversation: nothing of it stays, here or in the store."""
        with self._lock:
            self._open.pop(name, None)
            self._left.pop(name, None)
        if self._store is not None:
            self._store.drop(name)

    def forget(self, owner: str) -> int:
        """Drops every open conversation of a person, and what is kept of them. How many. (A store that can say whose
        its rows are forgets the others: `forget` of its own.)"""
        with self._lock:
            names = [name for name, one in [*self._open.items(), *self._left.items()] if one.owner == owner]
        for name in names:
            self.drop(name)
        forget = getattr(self._store, "forget", None)
        if forget is not None:
            forget(owner)
        return len(names)

    def status(self) -> dict[str, Any]:
        """Counts, JSON-able."""
        with self._lock:
            return {"open": len(self._open), "bytes": sum(one.size for one in self._open.values())}

    def _admit(self, name: str, owner: str) -> One:
        found = self._left.get(name)
        made = found if found is not None else self._kind(name, self._store, owner)
        with self._lock:
            found = self._open.get(name)
            if found is not None:
                return found
            found = self._open[name] = self._left.pop(name, None) or made
            self._opened += 1
            self._clock += 1
            found.used = self._clock
            if len(self._open) > self._max_open or self._opened % LOOK_EVERY == 0:
                self._bound()
            return found

    def _bound(self) -> None:
        """The least recently used leave until both bounds hold; an eighth at once, so that it is seldom done."""
        total = sum(one.size for one in self._open.values())
        if len(self._open) <= self._max_open and total <= self._max_bytes:
            return
        order = sorted(self._open, key=lambda name: self._open[name].used)
        for name in order[:-1]:
            if len(self._open) <= self._max_open * 7 // 8 and total <= self._max_bytes * 7 // 8:
                break
            total -= self._open[name].size
            self._leave(name)

    def _leave(self, name: str) -> None:
        one = self._open.pop(name, None)
        if one is not None:
            self._left[name] = one
