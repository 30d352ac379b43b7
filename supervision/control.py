"""The control thread: the clock's pulse, timers, and every supervisor of one runtime.

Everything that runs here is short and never blocks; that is why a supervisor answers at any time, whatever its
children do.
"""

from __future__ import annotations

import threading
import time
from _thread import get_ident
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from supervision.boundary import guarded
from supervision.clock import Clock
from supervision.oneshot import OneShot
from supervision.timers import Timers

__all__ = ["Control"]


class Control:
    """One daemon thread that carries out posted calls in order, and timers when they are due."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.timers = Timers(clock, self._wake)
        self.ended = OneShot()
        self._name = name
        self._queue: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._running = True
        self._ident: int | None = None
        self._pulse: Callable[[], None] | None = None
        self._pulse_seconds = 0.0
        self._undo = clock.on_advance(self._advanced)
        self._thread = threading.Thread(target=self._main, name=f"{name}-control", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, call: Callable[..., object], *args: Any) -> bool:
        """Have `call(*args)` run on the control thread, after everything posted before. False when it has ended."""
        if not self._running:
            return False
        self._queue.put((call, args))
        return True

    def here(self) -> bool:
        """True on the control thread itself."""
        return get_ident() == self._ident

    def pulse(self, seconds: float, call: Callable[[], None] | None) -> None:
        """Run `call` every so many real seconds, whatever the clock says: it watches threads, and threads are real."""
        self._pulse_seconds = seconds
        self._pulse = call
        self._wake()

    def stop(self, timeout: float) -> bool:
        """End after what has been posted; True when it has ended in time."""
        self._undo()
        self._queue.put((self._quit, ()))
        return True if self.here() else self.ended.block(timeout)

    def forget(self) -> None:
        """In a forked child: the thread is not here."""
        self._running = False
        self._queue = SimpleQueue()
        self.ended.settle(None)

    def _quit(self) -> None:
        self._running = False
        self.timers.clear()

    def _wake(self) -> None:
        if get_ident() != self._ident:
            self._queue.put(None)

    def _advanced(self) -> None:
        if self.here():
            return
        done = OneShot()
        if self.post(lambda: self.post(done.settle, None)):
            done.block(5.0)

    def _main(self) -> None:
        self._ident = get_ident()
        beat = time.monotonic()
        get = self._queue.get
        timers = self.timers
        try:
            while self._running:
                timers.run_due()
                timeout: float | None = None
                if not self.clock.manual and (due := timers.next_due()) is not None:
                    timeout = max(0.0, due - self.clock.now())
                if (pulse := self._pulse) is not None:
                    now = time.monotonic()
                    if now - beat >= self._pulse_seconds:
                        beat = now
                        guarded("a pulse", pulse)
                    rest = max(0.0, beat + self._pulse_seconds - now)
                    timeout = rest if timeout is None else min(timeout, rest)
                try:
                    item = (
                        get() if timeout is None else get(timeout=min(timeout, 3600.0)) if timeout > 0 else get(False)
                    )
                except Empty:
                    continue
                if item is not None:
                    guarded("a call on the control thread", item[0], *item[1])
                    del item
        finally:
            self._running = False
            self.ended.settle(None)
