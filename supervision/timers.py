"""Timers on the runtime's clock: tokens, no drift, no wall clock.

A timer fires at most once, on the control thread, never before its time; a cancelled one never fires, even if it is
due.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from supervision.boundary import guarded
from supervision.clock import Clock
from supervision.errors import NoProc

if TYPE_CHECKING:
    from supervision._process import Ref
    from supervision.registry import NameRef

__all__ = ["Timers", "Token"]


class Token:
    """One timer. `cancel` it, or give it to `Timers.cancel`."""

    __slots__ = ("_run", "_timers", "cancelled", "due")

    def __init__(self, timers: Timers, due: float) -> None:
        self._timers = timers
        self._run: list[Callable[[], object]] = []
        self.due = due
        self.cancelled = False

    def load(self, run: Callable[[], object]) -> None:
        """What it is to do when it is due."""
        self._run.append(run)

    def take(self) -> Callable[[], object] | None:
        """What it was to do, for whoever comes first: the one who fires it, or the one who takes it back."""
        try:
            return self._run.pop()
        except IndexError:
            return None

    def cancel(self) -> bool:
        """Take the timer back; True when it had not fired, and so never will. A message of it that lies unread in a
        mailbox is dropped too.
        """
        if self.cancelled:
            return False
        self.cancelled = True
        taken = self.take() is not None
        self._timers.forget()
        return taken


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
        token = Token(self, due)
        token.load(run)
        return self._push(token)

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
        were, and whatever they raised.
        """
        if period <= 0:
            raise ValueError("a period is more than 0 seconds")
        start = self.clock.now()
        turns = count(2)

        def again() -> None:
            guarded("a periodic call", run)
            if not token.cancelled:
                token.due = start + next(turns) * period
                while token.due <= self.clock.now():
                    token.due = start + next(turns) * period
                token.load(again)
                self._push(token)

        token = Token(self, start + period)
        token.load(again)
        return self._push(token)

    def send_after(self, delay: float, ref: Ref[Any] | NameRef, message: object) -> Token:
        """Tell `message` to `ref`, or to whoever has the name by then, after `delay` seconds. It is no error if nobody
        is there.
        """
        token = Token(self, self.clock.now() + max(0.0, delay))

        def send() -> None:
            with contextlib.suppress(NoProc):  # nobody has the name
                ref.life.put_system(message, token)

        token.load(send)
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

    def run_due(self) -> None:
        """Run what is due. Only the control thread calls this."""
        now = self.clock.now()
        while True:
            with self._lock:
                if not self._heap or self._heap[0][0] > now:
                    return
                token = heapq.heappop(self._heap)[2]
            run = None if token.cancelled else token.take()
            if run is not None:
                guarded("a timer", run)

    def unlock(self) -> None:
        """In a forked child: whoever held the lock is not here to give it back."""
        self._lock = Lock()

    def clear(self) -> None:
        """Drop every timer."""
        with self._lock:
            for _, _, token in self._heap:
                token.take()
            self._heap.clear()

    def forget(self) -> None:
        """Account for a cancelled timer; sweep when they are the majority."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            with self._lock:
                self._heap = [entry for entry in self._heap if not entry[2].cancelled]
                heapq.heapify(self._heap)
                self._cancelled = 0
