"""Turns that wait for a base layer. Each is answered once; whoever went away gives its place up.

The waiters hang on their entries and pin them. The count is kept beside them only for its gauge and its bound, and is
corrected whenever an entry's waiters are looked at.
"""

from __future__ import annotations

from honcho_actors.model import Context
from honcho_actors.sessions.table import Entry
from supervision import Waiter

MAX_WAITERS = 20_000
"""Turns that may wait at once in the whole process; one more is answered at once, without memory."""


class Waiting:
    """Owned by the SessionManager."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def full(self) -> bool:
        return self.count >= MAX_WAITERS

    def park(self, entry: Entry, waiter: Waiter[Context]) -> None:
        """Waits with the entry until `answer`, or until the waiter's own deadline."""
        if entry.waiters is None:
            entry.waiters = []
        entry.waiters.append(waiter)
        self.count += 1

    def answer(self, entry: Entry, context: Context, cause: str) -> int:
        """Resolves everyone who still waits for this entry. How many."""
        waiters, entry.waiters = entry.waiters, None
        if not waiters:
            return 0
        self.count -= len(waiters)
        return sum(waiter.resolve(context, cause) for waiter in waiters)

    def prune(self, entry: Entry) -> None:
        """Frees the places of those who were answered otherwise: by their deadline, or because they went away."""
        waiters = entry.waiters
        if not waiters:
            return
        left = [waiter for waiter in waiters if not waiter.resolved]
        self.count -= len(waiters) - len(left)
        entry.waiters = left or None
