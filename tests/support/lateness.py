"""A control for promises about time: plain timed waits, on this machine, in this process, at the same time.

Whoever promised to be back by a deadline shares processors, the interpreter and its lock with everything else that
runs. Beside the promise stand threads (or a task on the same event loop) that do nothing but wait for a short while,
again and again, and note how late they come back: that much is the machine's. A promise is broken when it is broken
by more than the control was late in the same moments.
"""

from __future__ import annotations

import asyncio
import threading
import time
from _thread import allocate_lock
from typing import Final

WAIT: Final = 0.02
"""Seconds of one plain wait."""
GRAIN: Final = 0.25
"""Seconds of one moment: the worst wait that touches it is kept, so that an hour of it takes no memory to speak of."""


class Lateness:
    """`with Lateness() as control`: plain waits on threads. `worst(begun, ended)`: seconds by which one of them was
    late in that span of `time.monotonic()`. On a loop: `task = loop.create_task(control.on_loop())` besides, or alone
    with `threads=0`."""

    def __init__(self, threads: int = 2) -> None:
        self._moments: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._stop = False
        self._threads = [threading.Thread(target=self._wait, args=(n,), daemon=True) for n in range(threads)]

    def __enter__(self) -> Lateness:
        for thread in self._threads:
            if thread.ident is None:  # an interpreter that ends starts none: whoever closes there has begun before
                thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()

    async def on_loop(self) -> None:
        """Plain waits on the running loop, until cancelled."""
        while True:
            begun = time.monotonic()
            self._due[-1] = begun + WAIT
            await asyncio.sleep(WAIT)
            self._note(begun, time.monotonic())

    def worst(self, begun: float, ended: float) -> float:
        """How late the latest of the waits was that touch this span, or is that still goes on; 0.0 for none."""
        span = range(int(begun / GRAIN), int(ended / GRAIN) + 2)
        now = time.monotonic()
        going = [now - due for due in list(self._due.values()) if due < ended + GRAIN]
        return max(0.0, *(self._moments.get(moment, 0.0) for moment in span), *going)

    def worst_of_all(self) -> float:
        """How late the latest of all waits was."""
        return max(list(self._moments.values()), default=0.0)

    def _wait(self, number: int) -> None:
        gate = allocate_lock()
        gate.acquire()
        while not self._stop:
            begun = time.monotonic()
            self._due[number] = begun + WAIT
            gate.acquire(timeout=WAIT)
            self._note(begun, time.monotonic())
        self._due.pop(number, None)

    def _note(self, begun: float, ended: float) -> None:
        late = ended - begun - WAIT
        for moment in range(int(begun / GRAIN), int(ended / GRAIN) + 1):
            if late > self._moments.get(moment, 0.0):
                self._moments[moment] = late
