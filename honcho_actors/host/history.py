"""The port through which the history of a conversation is kept, and the reasons why a prompt begins a new prefix.

What is kept is a head and numbered rows, both JSON text that the store need not read. `load` may block and is called
when a conversation is opened; the other calls come from a turn and must return at once (queue, and write elsewhere).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, Protocol

_PIECE: Final = 2_000
"""Bytes that are hashed at once: above 2,047 hashing gives the interpreter away, in the middle of a turn."""


def digest_of(text: str) -> bytes:
    """16 bytes that stand for the words of a message."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= _PIECE:
        return sha256(data).digest()[:16]
    digest = sha256()
    for at in range(0, len(data), _PIECE):
        digest.update(data[at : at + _PIECE])
    return digest.digest()[:16]


class Prefix(StrEnum):
    """How a prompt stands to the one before it in its conversation. Closed."""

    CONTINUED = "continued"
    """Everything that was sent before is a prefix of this request."""
    NEW = "new"
    """The first prompt of the conversation: the store was asked and knows nothing of it."""
    NO_STORE = "no_store"
    """The first prompt in this process, and nothing is kept across processes."""
    STORE_FAILED = "store_failed"
    """The first prompt in this process; what was kept can't be read."""
    STATIC_CHANGED = "static_changed"
    """The host's own system text is another."""
    MEMORY_CHANGED = "memory_changed"
    """What memory holds still is another."""
    COMPACTED = "compacted"
    """The host replaced the beginning of the history."""
    REWOUND = "rewound"
    """The host took the end of the history back; what stands before it goes on being cached."""
    TRIMMED = "trimmed"
    """The history had outgrown its bound."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store kept of one conversation: the newest head, and rows 0, 1, 2 ... without a gap."""

    head: str
    rows: tuple[str, ...] = ()


class TranscriptStore(Protocol):
    """Where histories survive a restart. `name` names a conversation, `owner` the remote peer of its person ("" when
    nobody said): what is forgotten of a person is found by it. Any thread."""

    def load(self, name: str) -> Kept | None:
        """What was kept, or None. May block; raises what it likes when it can't."""
        ...

    def save(self, name: str, owner: str, head: str | None, at: int, rows: Sequence[str]) -> None:
        """From row `at` on the history is these rows; a head of None has not changed. Never waits."""
        ...

    def drop(self, name: str) -> None:
        """Nothing is kept of this conversation any more. Never waits."""
        ...


class MemoryTranscripts:
    """A store in memory: for tests, and for hosts that keep one process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, str, list[str]]] = {}

    def load(self, name: str) -> Kept | None:
        found = self._kept.get(name)
        return None if found is None else Kept(found[1], tuple(found[2]))

    def save(self, name: str, owner: str, head: str | None, at: int, rows: Sequence[str]) -> None:
        _, old, kept = self._kept.get(name, ("", "", []))
        self._kept[name] = (owner, old if head is None else head, [*kept[:at], *rows])

    def drop(self, name: str) -> None:
        self._kept.pop(name, None)

    def forget(self, owner: str) -> None:
        """Drops every conversation of a person."""
        for name in [name for name, kept in self._kept.items() if kept[0] == owner]:
            del self._kept[name]
