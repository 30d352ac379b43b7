"""The last hour of a runtime, kept beside it: what was served and why not, minute by minute.

Counters say what happened since the start; an operator asks what happened just now. Pure: counts and the time go in.
Only what moved is kept, so an idle runtime's hour weighs nothing, and the busiest one's some kilobytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MINUTE: Final = 60.0
MINUTES: Final = 60

Counts = Mapping[tuple[str, ...], float]
"""Values that only grow, by their labels."""


class History:
    """What moved in each of the last sixty minutes. One thread at a time."""

    def __init__(self, now: float, counts: Counts = MappingProxyType({})) -> None:
        """`counts` are where it begins: what they hold already is of no minute. `now` is monotonic, in seconds."""
        self._minutes: deque[tuple[int, dict[tuple[str, ...], float]]] = deque(maxlen=MINUTES)
        self._last: dict[tuple[str, ...], float] = dict(counts)
        self._began = now

    def look(self, counts: Counts, now: float) -> None:
        """Takes the counters as they are. Called every few seconds, and before the history is shown."""
        minute = int((now - self._began) // MINUTE)
        for key, value in counts.items():
            grown = value - self._last.get(key, 0.0)
            if grown:
                self._last[key] = value
                if grown > 0:
                    moved = self._of(minute)
                    moved[key] = moved.get(key, 0.0) + grown

    def total(self, now: float) -> dict[tuple[str, ...], float]:
        """What moved in the last hour, by labels."""
        found: dict[tuple[str, ...], float] = {}
        for _, moved in self._kept(now):
            for key, value in moved.items():
                found[key] = found.get(key, 0.0) + value
        return found

    def minutes(self, now: float) -> list[dict[tuple[str, ...], float]]:
        """What moved, a minute at a time, oldest first; always sixty."""
        minute = int((now - self._began) // MINUTE)
        found: list[dict[tuple[str, ...], float]] = [{} for _ in range(MINUTES)]
        for one, moved in self._kept(now):
            found[MINUTES - 1 - (minute - one)] = dict(moved)
        return found

    def _of(self, minute: int) -> dict[tuple[str, ...], float]:
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, {}))
        return self._minutes[-1][1]

    def _kept(self, now: float) -> list[tuple[int, dict[tuple[str, ...], float]]]:
        oldest = int((now - self._began) // MINUTE) - MINUTES + 1
        return [one for one in self._minutes if one[0] >= oldest]
