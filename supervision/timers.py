"""Timers on the runtime's clock: tokens, no drift, no wall clock.

A timer fires at most once, on the control thread, never before its time; a cancelled one never fires, even if it is
due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from supervision.clock import Clock

if TYPE_CHECKING:
    from supervision._process import Ref

__all__ = ["Timers", "Token"]


class Token:
    """One timer. `cancel` it, or give it to `Timers.cancel`."""

    __slots__ = ("_timers", "cancelled", "due", "fired", "run")

    def __init__(self, timers: Timers, due: float, run: Callable[[], object] | None) -> None:
        self._timers = timers
        self.due = due
        self.run = run
        self.cancelled = False
        self.fired = False

    def cancel(self) -> bool:
        """Take the timer back; True when it had not fired. A message of it that lies unread in a mailbox is dropped
        too.
        """
        if self.cancelled:
            return False
        self.cancelled = True
        self.run = None
        self._timers.forget()
        return not self.fired


class Timers:
    """The timers of one runtime. Every method may be called from any thread."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self.clock = clock
        self._wake = wake
        self._heap: list[tuple[float, int, Token]] = []
        self._order = count()
        self._lock = Lock()
        self._cancelled = 0

    def __len__(self) -> int:
        return sum(not token.cancelled for _, _, token in list(self._heap))

    def call_at(self, due: float, run: Callable[[], object]) -> Token:
        """Call `run()` on the control thread at the time `due` of the clock. It must not block."""
        return self._push(Token(self, due, run))

    def _push(self, token: Token) -> Token:
        with self._lock:
            heapq.heappush(self._heap, (token.due, next(self._order), token))
            first = self._heap[0][2] is token
        if first:
            self._wake()
        return token

    def call_after(self, delay: float, run: Callable[[], object]) -> Token:
        """Call `run()` on the control thread after `delay` seconds (a delay of 0 or less: as soon as it gets to it)."""
        return self.call_at(self.clock.now() + max(0.0, delay), run)

    def call_every(self, period: float, run: Callable[[], object]) -> Token:
        """Call `run()` every `period` seconds. The n-th call is due n periods from now, however late the ones before
        were.
        """
        if period <= 0:
            raise ValueError("a period is more than 0 seconds")
        start = self.clock.now()
        turns = count(2)

        def again() -> None:
            run()
            if not token.cancelled:
                due = start + next(turns) * period
                while due <= self.clock.now():
                    due = start + next(turns) * period
                self._rearm(token, due, again)

        token = Token(self, start + period, again)
        return self._push(token)

    def send_after(self, delay: float, ref: Ref[Any], message: object) -> Token:
        """Tell `message` to `ref` after `delay` seconds. It is no error if nobody is there by then."""
        token = Token(self, self.clock.now() + max(0.0, delay), None)
        token.run = lambda: ref.life.put_system(message, token)  # before it can fire: it may be due at once
        return self._push(token)

    def cancel(self, token: Token) -> bool:
        """Take a timer back; True when it had not fired."""
        return token.cancel()

    def next_due(self) -> float | None:
        """When the earliest timer is due; None without timers."""
        with self._lock:
            heap = self._heap
            while heap and heap[0][2].cancelled:
                heapq.heappop(heap)
            return heap[0][0] if heap else None

    def run_due(self, guard: Callable[[Callable[[], object]], None]) -> None:
        """Run through `guard` what is due. Only the control thread calls this."""
        now = self.clock.now()
        while True:
            with self._lock:
                if not self._heap or self._heap[0][0] > now:
                    return
                token = heapq.heappop(self._heap)[2]
            run = token.run
            if not token.cancelled and run is not None:
                token.fired = True
                token.run = None
                guard(run)

    def clear(self) -> None:
        """Drop every timer."""
        with self._lock:
            for _, _, token in self._heap:
                token.run = None
            self._heap.clear()

    def forget(self) -> None:
        """Account for a cancelled timer; sweep when they are the majority."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            with self._lock:
                self._heap = [entry for entry in self._heap if not entry[2].cancelled]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def _rearm(self, token: Token, due: float, run: Callable[[], object]) -> None:
        token.run = run
        token.fired = False
        token.due = due
        with self._lock:
            heapq.heappush(self._heap, (due, next(self._order), token))
            first = self._heap[0][2] is token
        if first:
            self._wake()
