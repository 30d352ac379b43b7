"""The conversations of one process: opened once, bounded in number and bytes, the same object for whoever asks.

A conversation that has left for lack of room comes back out of the store, with its id and every byte; without a store
it begins anew, and its next prompt says so. One that somebody still holds is never opened a second time.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from honcho_actors.host.history import TranscriptStore
from honcho_actors.host.lane import Lane
from honcho_actors.host.transcript import Conversation, Replay, Transcript
from honcho_actors.model import SessionKey

MAX_OPEN: Final = 10_000
MAX_OPEN_BYTES: Final = 64 * 1024 * 1024
LOOK_EVERY: Final = 64
"""Conversations that are opened between two counts of the bytes."""
READERS: Final = 4
"""Threads on which stores are asked for whoever runs an event loop."""

One = TypeVar("One", bound=Conversation)


class Conversations(Generic[One]):
    """Opens conversations of one kind. Any thread."""

    def __init__(
        self,
        kind: Callable[[str, TranscriptStore | None, str], One],
        store: TranscriptStore | None = None,
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
        self._open: dict[Hashable, One] = {}
        self._left: weakref.WeakValueDictionary[Hashable, One] = weakref.WeakValueDictionary()
        self._opened = 0
        self._clock = 0
        self._lanes: tuple[Lane, ...] = ()
        self._lanes_of = 0
        """The process whose threads they are: a forked child has none of them."""

    def open(self, key: Hashable, owner: str = "") -> One:
        """The conversation of this key. The first call for it reads the store and may block; later ones do not.

        `key` must name the person too, where one key may be used by several. `owner` is the remote peer of the person;
        a `SessionKey`, and a tuple that begins with one, says it itself.
        """
        found = self._open.get(key)
        if found is None:
            found = self._admit(key, owner)
        self._clock += 1
        found.used = self._clock
        return found

    async def aopen(self, key: Hashable, owner: str = "") -> One:
        """As `open`; the store is read on a thread of ours, a daemon that nobody joins."""
        if key in self._open or self._store is None:
            return self.open(key, owner)
        reading = self._reader(key).submit(lambda: self.open(key, owner))
        assert reading is not None  # these lanes take everything
        good, found = await reading
        if not good:
            raise found
        opened: One = found
        return opened

    def _reader(self, key: Hashable) -> Lane:
        """The same one for whoever opens the same conversation."""
        if self._lanes_of != os.getpid():
            with self._lock:
                if self._lanes_of != os.getpid():
                    self._lanes = tuple(Lane("histories", None) for _ in range(READERS))
                    self._lanes_of = os.getpid()
        return self._lanes[hash(key) % READERS]

    def close(self, key: Hashable) -> None:
        """Lets a conversation go; what is kept of it stays in the store."""
        with self._lock:
            self._leave(key)

    def drop(self, key: Hashable) -> None:
        """Ends a conversation: nothing of it stays, here or in the store."""
        with self._lock:
            for one in (self._open.pop(key, None), self._left.pop(key, None)):
                if one is not None:
                    one.let_go()
        if self._store is not None:
            self._store.drop(named(key)[0])

    def forget(self, owner: str) -> int:
        """Drops every open conversation of a person, and what is kept of them. How many. (A store that can say whose
        its rows are forgets the others: `forget` of its own.)"""
        with self._lock:
            keys = [key for key, one in [*self._open.items(), *self._left.items()] if one.owner == owner]
        for key in keys:
            self.drop(key)
        forget = getattr(self._store, "forget", None)
        if forget is not None:
            forget(owner)
        return len(keys)

    def status(self) -> dict[str, Any]:
        """Counts, JSON-able."""
        with self._lock:
            return {"open": len(self._open), "bytes": sum(one.size for one in self._open.values())}

    def _admit(self, key: Hashable, owner: str) -> One:
        found = self._left.get(key)
        if found is None:
            name, person = named(key)
            found = self._kind(name, self._store, owner or person)
        with self._lock:
            one = self._open.get(key)
            if one is not None:
                return one
            one = self._left.pop(key, None) or found
            self._clock += 1
            one.used = self._clock
            self._open[key] = one
            self._opened += 1
            if len(self._open) > self._max_open or self._opened % LOOK_EVERY == 0:
                self._bound()
            return one

    def _bound(self) -> None:
        """The least recently used leave until both bounds hold; an eighth at once, so that it is seldom done."""
        total = sum(one.size for one in self._open.values())
        if len(self._open) <= self._max_open and total <= self._max_bytes:
            return
        order = sorted(self._open, key=lambda key: self._open[key].used)
        for key in order[:-1]:
            if len(self._open) <= self._max_open * 7 // 8 and total <= self._max_bytes * 7 // 8:
                break
            total -= self._open[key].size
            self._leave(key)

    def _leave(self, key: Hashable) -> None:
        one = self._open.pop(key, None)
        if one is not None:
            self._left[key] = one


class Transcripts(Conversations[Transcript]):
    """The transcripts of one process. Any thread."""

    def __init__(
        self, store: TranscriptStore | None = None, *, max_open: int = MAX_OPEN, max_bytes: int = MAX_OPEN_BYTES
    ) -> None:
        super().__init__(Transcript, store, max_open=max_open, max_bytes=max_bytes)


class Replays(Conversations[Replay]):
    """The ledgers of one process, also by key. Any thread; only the first call for a conversation reads the store."""

    def __init__(
        self, store: TranscriptStore | None = None, *, max_open: int = MAX_OPEN, max_bytes: int = MAX_OPEN_BYTES
    ) -> None:
        super().__init__(Replay, store, max_open=max_open, max_bytes=max_bytes)

    def mark(self, key: Hashable) -> str:
        """128 bits of this conversation, in hexadecimal: they open and close what is put beside a message."""
        return self.open(key).mark

    def get(self, key: Hashable, ordinal: int, digest: bytes) -> str | None:
        """What was put beside this message; None when it was never met."""
        return self.open(key).get(ordinal, digest)

    def keep(self, key: Hashable, ordinal: int, digest: bytes, block: str) -> str:
        """Notes the block, unless there is one already. Gives the one that holds."""
        return self.open(key).keep(ordinal, digest, block)


def named(key: Hashable) -> tuple[str, str]:
    """What a conversation is called in a store, and whose it is ("" when the key does not say)."""
    if isinstance(key, str):
        return key, ""
    session = key if isinstance(key, SessionKey) else key[0] if isinstance(key, tuple) and key else None
    owner = session.user if isinstance(session, SessionKey) else ""
    return json.dumps(key, separators=(",", ":"), default=str), owner
