"""Time is an object that you are given.

`Clock` is monotonic time. `ManualClock` stands still until a test moves it; every timer, deadline and blocked reader
that was given it then sees the new time. Nothing in this package reads a wall clock.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

from supervision.oneshot import OneShot

__all__ = ["Clock", "ManualClock"]


class Clock:
    """Monotonic seconds of the machine."""

    def now(self) -> float:
        """Seconds since some fixed point; never goes back, not even when somebody sets the date."""
        return time.monotonic()

    def block(self, outcome: OneShot, deadline: float | None) -> bool:
        """Hold this thread until `outcome` is settled or `deadline` (on this clock) has passed; True when settled."""
        return outcome.block(None if deadline is None else deadline - self.now())

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` run whenever the clock is moved by hand; the result undoes it. Real time is moved by
        nobody.
        """
        return lambda: None

    def alarm(self, deadline: float, callback: Callable[[], object]) -> Callable[[], object]:
        """On a running event loop: call `callback` at `deadline`; the result takes it back."""
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, deadline - self.now()), callback).cancel

    @property
    def manual(self) -> bool:
        """True when this clock only moves by hand, so that a timed wait for it makes no sense."""
        return False


class ManualClock(Clock):
    """A clock for tests: starts at `start` seconds and moves by `advance` alone.

    `advance` returns when everything that became due on the runtimes that use this clock has been *started* by their
    control threads. What they told to actors may still be on its way: ask the actor something to be sure that it has
    arrived.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._alarms: list[tuple[float, int, OneShot]] = []
        self._order = count()
        self._listeners: dict[int, Callable[[], None]] = {}

    @property
    def manual(self) -> bool:
        return True

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds` and start what became due. From any thread but a runtime's control
        thread.
        """
        if seconds < 0:
            raise ValueError("a monotonic clock does not go back")
        with self._lock:
            self._now += seconds
            due = []
            while self._alarms and self._alarms[0][0] <= self._now:
                due.append(heapq.heappop(self._alarms)[2])
            listeners = list(self._listeners.values())
        for alarm in due:
            alarm.settle(None)
        for listener in listeners:
            listener()

    def block(self, outcome: OneShot, deadline: float | None) -> bool:
        if deadline is None:
            return outcome.block(None)
        alarm = OneShot()
        with self._lock:
            if deadline > self._now:
                heapq.heappush(self._alarms, (deadline, next(self._order), alarm))
            else:
                alarm.settle(None)
        outcome.subscribe(lambda: alarm.settle(None))
        alarm.block(None)
        return outcome.settled

    def alarm(self, deadline: float, callback: Callable[[], object]) -> Callable[[], object]:
        def check() -> None:
            if self._now >= deadline:
                undo()
                callback()

        undo = self.on_advance(check)
        check()
        return undo

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        key = next(self._order)
        with self._lock:
            self._listeners[key] = callback

        def undo() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return undo
