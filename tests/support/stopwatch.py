"""Seconds that a promise took, without those that the machine took away.

`Stopwatch()` starts; `seconds` is what went by, less the time by which a thread that does nothing but sleep came back
late meanwhile. On a quiet machine the two are the same; on one that runs ten other things, a promise of "at once" is
not broken by a thread that was not given a processor. A promise that is really broken (a wait where there must be
none) sleeps as the control does, and counts in full.
"""

from __future__ import annotations

import threading
import time
from typing import Final

NAP: Final = 0.002
"""Seconds of one plain sleep of the control."""


class _Control:
    def __init__(self) -> None:
        self.over = threading.Event()
        self.late = 0.0
        self.due = time.monotonic() + NAP
        threading.Thread(target=self._sleep, name="stopwatch", daemon=True).start()

    def _sleep(self) -> None:
        while not self.over.wait(NAP):
            now = time.monotonic()
            self.late += max(0.0, now - self.due)
            self.due = now + NAP


class Stopwatch:
    """Starts when it is made; its control ends when nobody holds it any more."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._control = _Control()

    def __del__(self) -> None:
        self._control.over.set()

    @property
    def elapsed(self) -> float:
        """Seconds since the start by the clock on the wall, for promises of "not before"."""
        return time.monotonic() - self._begun

    @property
    def seconds(self) -> float:
        """Seconds since the start that are not the machine's, for promises of "not after"."""
        now = time.monotonic()
        return now - self._begun - self._control.late - max(0.0, now - self._control.due)
