"""The one gate in front of the network: how many calls at once, how many a second, and who goes first.

The HTTP library's own queue is never used (it is quadratic in what waits, and blind to who waits). A call that waits
here costs one heap entry; whoever is past its deadline when its turn comes is dropped unsent. Lives on one event
loop, takes no lock.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from itertools import count

from honcho_actors.honcho.outcomes import Priority

OLDEST_EVERY = 16
"""Every 16th grant goes to whoever has waited longest, whatever its priority: nobody starves behind a stream of cold
turns.
"""


@dataclass(slots=True, order=True)
class _Waiter:
    rank: tuple[int, float, int]
    deadline: float = field(compare=False)
    granted: asyncio.Future[bool] = field(compare=False)


class Limiter:
    """`concurrency` calls at once, `per_second` of them started a second (None: no limit), at most `max_waiting` in
    the queue.
    """

    def __init__(self, concurrency: int = 32, per_second: float | None = None, max_waiting: int = 10_000) -> None:
        self.concurrency = max(1, concurrency)
        self.busy = 0
        """Slots in use now."""
        self.dropped = 0
        """How many were dropped unsent: past their deadline, or the queue was full."""
        self._max_waiting = max_waiting
        self._allow(per_second)
        self._heap: list[_Waiter] = []
        self._by_age: list[_Waiter] = []
        self._waiting = 0
        self._seq = count(1)
        self._grants = 0
        self._timer: asyncio.TimerHandle | None = None

    def _allow(self, per_second: float | None) -> None:
        self._asked_per_second = per_second
        self._per_second = per_second if per_second and per_second > 0 else None
        self._tokens = self._burst = max(1.0, per_second or 1.0)
        self._filled_at: float | None = None

    def change(self, concurrency: int, per_second: float | None) -> None:
        """Other limits from now on, on the limiter's loop. Calls on their way go on, so that a lower concurrency holds
        from when enough of them have ended; who waits keeps their place."""
        if per_second != self._asked_per_second:
            self._allow(per_second)
        self.concurrency = max(1, concurrency)
        if self._waiting:
            self._pump(asyncio.get_running_loop())

    @property
    def waiting(self) -> int:
        """Calls in the queue now."""
        return self._waiting

    async def acquire(self, priority: Priority, deadline: float, due: float | None = None) -> bool:
        """True: a slot is held, `release` it. False: dropped. Cancelling the wait gives nothing up that was not
        granted. Among calls of one priority the one that is `due` first goes first, by default by its deadline.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if deadline <= now:
            self.dropped += 1
            return False
        if not self._waiting and self.busy < self.concurrency and self._take_token(now):
            self.busy += 1
            return True
        if self._waiting >= self._max_waiting:
            self.dropped += 1
            return False
        rank = (int(priority), deadline if due is None else due, next(self._seq))
        waiter = _Waiter(rank, deadline, loop.create_future())
        heapq.heappush(self._heap, waiter)
        self._by_age.append(waiter)
        self._waiting += 1
        self._compact()
        self._pump(loop)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.result():
                self.release()
            elif not waiter.granted.done() or waiter.granted.cancelled():
                waiter.granted.cancel()
                self._waiting -= 1
                self._compact()
            raise

    def release(self) -> None:
        """Gives a slot back; the next in line gets it at once."""
        self.busy -= 1
        if self._waiting:
            self._pump(asyncio.get_running_loop())

    def close(self) -> None:
        """Drops everybody who waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in self._heap:
            if not waiter.granted.done():
                self._settle(waiter, False)
        self._heap.clear()
        self._by_age.clear()

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        while self._waiting and self.busy < self.concurrency:
            if not self._has_token(now):  # asked first: whoever is taken out of line goes
                self._wake_for_token(loop)
                return
            waiter = self._next()
            if waiter is None:
                return
            if waiter.deadline <= now:
                self._settle(waiter, False)
                continue
            self._take_token(now)
            self.busy += 1
            self._grants += 1
            self._settle(waiter, True)

    def _next(self) -> _Waiter | None:
        if self._grants % OLDEST_EVERY == OLDEST_EVERY - 1:
            self._by_age = [waiter for waiter in self._by_age if not waiter.granted.done()]
            if self._by_age:
                return self._by_age.pop(0)
        while self._heap:
            waiter = heapq.heappop(self._heap)
            if not waiter.granted.done():
                return waiter
        return None

    def _settle(self, waiter: _Waiter, granted: bool) -> None:
        self._waiting -= 1
        if not granted:
            self.dropped += 1
        waiter.granted.set_result(granted)

    def _compact(self) -> None:
        """What is settled stays listed until it is met; when it outnumbers the living, the lists are rebuilt."""
        bound = 64 + 2 * self._waiting
        if len(self._heap) > bound:
            self._heap = [waiter for waiter in self._heap if not waiter.granted.done()]
            heapq.heapify(self._heap)
        if len(self._by_age) > bound:
            self._by_age = [waiter for waiter in self._by_age if not waiter.granted.done()]

    def _take_token(self, now: float) -> bool:
        if not self._has_token(now):
            return False
        if self._per_second is not None:
            self._tokens -= 1.0
        return True

    def _has_token(self, now: float) -> bool:
        if self._per_second is None:
            return True
        if self._filled_at is None:
            self._filled_at = now
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        return self._tokens >= 1.0

    def _wake_for_token(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None or self._per_second is None:
            return

        def wake() -> None:
            self._timer = None
            self._pump(loop)

        self._timer = loop.call_later(max(0.001, (1.0 - self._tokens) / self._per_second), wake)
