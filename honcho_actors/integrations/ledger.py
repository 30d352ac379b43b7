"""What was put beside each user message of a conversation, so that it is put there again, byte for byte.

Frameworks and clients keep what people typed. Without this ledger the next turn would send the old messages without
their blocks, and the provider's prompt cache would miss from the first of them on. An entry belongs to a place (how
many user messages stand before it) and to the words that stand there; the first that is written wins, an edited
message is another entry. "" is an entry, too: this message was met, and nothing was put beside it.

Bounded by conversations, by entries of one conversation and by characters of all; the one that was used longest ago
goes first, and its next turn begins a new prefix. No lock: one dictionary operation a step, which is atomic.
"""

from __future__ import annotations

import hashlib
import heapq
import secrets
import time
from collections.abc import Callable, Hashable
from typing import Final, Protocol

MAX_CONVERSATIONS: Final = 10_000
MAX_ENTRIES: Final = 4_096
"""Of one conversation: a model's window holds fewer user messages."""
MAX_CHARS: Final = 32 * 1024 * 1024
"""Of all blocks together."""
_ENTRY_CHARS: Final = 160
"""What an entry costs beside its text."""
Key = Hashable


class Replays(Protocol):
    """Where blocks are kept. Every method may be called from any thread and never waits."""

    def mark(self, key: Key) -> str:
        """128 bits of this conversation, in hexadecimal: they open and close what is put beside a message."""

    def get(self, key: Key, ordinal: int, digest: bytes) -> str | None:
        """What was put beside this message; None when it was never met."""

    def keep(self, key: Key, ordinal: int, digest: bytes, block: str) -> str:
        """Notes the block, unless there is one already. Gives the one that holds."""


def digest_of(text: str) -> bytes:
    """16 bytes that stand for the words of a message."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Conversation:
    __slots__ = ("blocks", "chars", "mark", "used")

    def __init__(self, used: float) -> None:
        self.mark = secrets.token_hex(16)
        self.blocks: dict[tuple[int, bytes], str] = {}
        self.chars = 0
        self.used = used


class ReplayLedger:
    """Blocks in memory, for one runtime."""

    def __init__(
        self,
        *,
        max_conversations: int = MAX_CONVERSATIONS,
        max_entries: int = MAX_ENTRIES,
        max_chars: int = MAX_CHARS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_conversations = max_conversations
        self._max_entries = max_entries
        self._max_chars = max_chars
        self._now = now
        self._kept: dict[Key, _Conversation] = {}
        self._chars = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def chars(self) -> int:
        """Characters held, entries' own cost included."""
        return self._chars

    def mark(self, key: Key) -> str:
        """See `Replays`."""
        return self._conversation(key).mark

    def get(self, key: Key, ordinal: int, digest: bytes) -> str | None:
        """See `Replays`."""
        held = self._kept.get(key)
        if held is None:
            return None
        held.used = self._now()
        return held.blocks.get((ordinal, digest))

    def keep(self, key: Key, ordinal: int, digest: bytes, block: str) -> str:
        """See `Replays`."""
        held = self._conversation(key)
        place = (ordinal, digest)
        before = len(held.blocks)
        kept = held.blocks.setdefault(place, block)
        if len(held.blocks) > before:
            cost = len(block) + _ENTRY_CHARS
            held.chars += cost
            self._chars += cost
            if len(held.blocks) > self._max_entries:
                self._shorten(held)
            if self._chars > self._max_chars:
                self._make_room()
        return kept

    def drop(self, key: Key) -> None:
        """Forgets a conversation."""
        held = self._kept.pop(key, None)
        if held is not None:
            self._chars -= held.chars

    def _conversation(self, key: Key) -> _Conversation:
        held = self._kept.get(key)
        now = self._now()
        if held is None:
            held = self._kept.setdefault(key, _Conversation(now))
            if len(self._kept) > self._max_conversations:
                self._make_room()
        held.used = now
        return held

    def _shorten(self, held: _Conversation) -> None:
        """Drops the first quarter of an endless conversation: its client does not send those messages any more."""
        for place in list(held.blocks)[: self._max_entries // 4]:
            gone = held.blocks.pop(place, None)
            if gone is not None:
                held.chars -= len(gone) + _ENTRY_CHARS
                self._chars -= len(gone) + _ENTRY_CHARS

    def _make_room(self) -> None:
        """Drops those used longest ago: a sixteenth of the conversations, and on until the characters fit."""
        self._chars = sum(held.chars for held in list(self._kept.values()))
        count = max(1, len(self._kept) // 16)
        while len(self._kept) > 1 and (len(self._kept) > self._max_conversations or self._chars > self._max_chars):
            for key, _ in heapq.nsmallest(count, list(self._kept.items()), key=lambda one: one[1].used):
                if len(self._kept) > 1:
                    self.drop(key)
