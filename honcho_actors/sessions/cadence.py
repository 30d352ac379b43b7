"""When a layer is read again, how hard a question thinks, and what an hour may cost. Pure arithmetic, no clock.

The unit of a cadence is the substantive turn, never the second. A marker is the index of the turn at which a refresh of
that layer last *started*, so that an outage costs one attempt a window and not one a turn.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

LEVELS = ("minimal", "low", "medium", "high", "max")
LEVEL_STEPS = (120, 400)
"""Characters of the message from which a question thinks one, then two levels harder."""

MAX_EMPTY_BACKOFF = 8
"""After empty answers the dialectic's cadence doubles, up to this factor."""

SUMMARY_EVERY_TURNS = 10
"""A summary changes every 20 messages on the server, which is ten turns."""

HOUR = 3600.0


def due(turn: int, mark: int | None, cadence: int) -> bool:
    """True when the layer has never been started, or `cadence` turns have gone by since it was."""
    return mark is None or turn - mark >= cadence


def dialectic_cadence(cadence: int, empty_answers: int) -> int:
    """The cadence after so many empty answers in a row: doubled for each after the first, bounded."""
    return cadence * min(MAX_EMPTY_BACKOFF, 1 << max(0, min(empty_answers, 16)))


def level_for(query: str | None, base: str, cap: str) -> str:
    """The reasoning level for a message: longer messages think harder, never above `cap`, never below `base`."""
    steps = sum(1 for edge in LEVEL_STEPS if query is not None and len(query) >= edge)
    if base not in LEVELS:
        return base
    lowest = LEVELS.index(base)
    highest = max(lowest, LEVELS.index(cap)) if cap in LEVELS else lowest
    return LEVELS[min(lowest + steps, highest)]


class SpendBudget:
    """How many billed calls an hour may make: a sliding window over the caller's monotonic clock.

    Reservations are made before the calls and given back when a job stops early, so that the window is never exceeded.
    Shared by the manager and the tools: any thread, one small lock, never on a turn.
    """

    def __init__(self) -> None:
        self._spent: deque[float] = deque()
        self._lock = Lock()

    def reserve(self, calls: int, now: float, limit: int | None) -> int:
        """Takes up to `calls` from the window and gives how many were granted. `limit=None` grants all and keeps
        none."""
        if limit is None:
            return calls
        with self._lock:
            while self._spent and now - self._spent[0] >= HOUR:
                self._spent.popleft()
            granted = max(0, min(calls, limit - len(self._spent)))
            self._spent.extend([now] * granted)
        return granted

    def give_back(self, calls: int) -> None:
        """Returns reservations that were not used, newest first."""
        with self._lock:
            for _ in range(min(calls, len(self._spent))):
                self._spent.pop()
