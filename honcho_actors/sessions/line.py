"""The line of first reads that wait for a worker: the earliest deadline first, and nobody is kept waiting in vain.

In a storm it is known early who can't be served: so many ahead of them, so many answered a second. Those are told while
there is time, the last in line first and a few at a time. Otherwise they would all be told at their deadlines, which
lie in one moment, and in that moment nobody can be answered in time. The estimate of the pace is a hopeful one. A line
of `MANY` ends by itself in time, and is left alone.

Pure but for its own book: time comes in with every call.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Final

MANY: Final = 100
"""Turns that may come to their deadlines in one moment: each takes its loop some fifty microseconds."""
AT_ONCE: Final = 128
"""At most so many are told at once."""
HOPE: Final = 1.25
"""By so much the pace may still become better."""
WINDOW: Final = 5.0
"""Seconds of which the pace speaks, or twice as many."""


class Line:
    """Numbers in the order of their deadlines (on the caller's clock; infinite: nobody waits)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._since = 0.0
        self._served = 0.0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, deadline: float, number: int, now: float) -> None:
        """Lines up."""
        if not self._heap:
            self._since, self._served = now, 0.0
        heappush(self._heap, (deadline, number))

    def pop(self) -> int | None:
        """The next."""
        return heappop(self._heap)[1] if self._heap else None

    def served(self) -> None:
        """Somebody who was ahead of the line has been answered."""
        self._served += 1.0

    def hopeless(self, now: float, ahead: int, places: int, patience: Callable[[int], float | None]) -> list[int]:
        """Takes out whose turn can't come before their time is over: `ahead` go before the whole line, `places` are
        served at once. `patience(number)`: when the last of those who wait for it gives up, infinite when nobody waits,
        None when there is nothing to be done for it any more; asked of those alone whose own deadline is too near."""
        most = min(AT_ONCE, len(self._heap) - MANY)
        if most <= 0:
            return []
        pace = HOPE * self._pace(now, places)
        before = ahead
        gone: list[tuple[float, int]] = []
        line = sorted(self._heap)
        for one in line:
            deadline, number = one
            if before + 1 > pace * (deadline - now):
                until = patience(number)
                if until is not None and before + 1 > pace * (until - now):
                    gone.append(one)
                    continue
            before += 1
        if not gone:
            return []
        gone = gone[-most:]
        out = set(gone)
        self._heap = [one for one in line if one not in out]  # a sorted list is a heap
        return [number for _, number in gone]

    def _pace(self, now: float, places: int) -> float:
        """Answers a second: those that came since the line began to form, and twice those that are on their way: the
        first of them take their time, and some are about to come."""
        seconds = now - self._since
        if seconds > 2 * WINDOW:
            kept = WINDOW / seconds
            self._since, self._served = now - WINDOW, self._served * kept
            seconds = WINDOW
        return (self._served + 2 * places) / seconds if seconds > 0.0 else inf
