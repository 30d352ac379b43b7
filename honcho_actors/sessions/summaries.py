"""Summaries of conversations, also of those that have left: a block that comes back without its summary, and gets it
again some turns later, would change a system prompt twice while nothing was learned.

Written by the manager's thread (and by whoever forgets a person), read from any; every step is one operation on a
dictionary. Bounded in number and characters, the one that was put first leaves first. A cache: what is missing is read
again when it is due.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 10_000
MOST_CHARS: Final = 4 * 1024 * 1024

Key = tuple[str, str, str, str, str, str]


class Summaries:
    """By conversation."""

    __slots__ = ("_chars", "_kept")

    def __init__(self) -> None:
        self._kept: dict[Key, str] = {}
        self._chars = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> str:
        """The newest summary of a conversation; "" when none is known."""
        return self._kept.get(key, "")

    def put(self, key: Key, summary: str) -> None:
        """The newest summary of a conversation; "" takes it out."""
        self._chars -= len(self._kept.pop(key, ""))
        if summary:
            self._kept[key] = summary
            self._chars += len(summary)
        while self._kept and (len(self._kept) > MOST or self._chars > MOST_CHARS):
            self._chars -= len(self._kept.pop(next(iter(self._kept)), ""))

    def forget(self, peer: str) -> None:
        """Drops those of a person."""
        for key in [key for key in list(self._kept) if key[4] == peer]:
            self._chars -= len(self._kept.pop(key, ""))
