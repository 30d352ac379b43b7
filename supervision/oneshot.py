"""One value, once: the smallest thing that a thread or an event loop can wait for.

The first `settle` wins; every later one is refused. Replies, waiters, start handshakes and ends of actors all stand
on it. It promises that each subscriber is called exactly once, whichever way the race between subscribing and
settling goes.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections.abc import Callable, Generator
from typing import Any

from supervision._asyncio import running_loop
from supervision.bell import bell_of
from supervision.boundary import guarded

__all__ = ["OneShot"]


class OneShot:
    """Settled at most once, read by any number of threads and event loops."""

    __slots__ = ("__weakref__", "_callbacks", "_lock", "_outcome", "settled")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._outcome: Any = None
        self._callbacks: list[Callable[[], object]] | None = None
        self.settled = False

    def settle(self, outcome: Any) -> bool:
        """Take `outcome` if nothing was taken before; True for the one caller who won. Never blocks, never raises."""
        with self._lock:
            if self.settled:
                return False
            self._outcome = outcome
            self.settled = True
            callbacks = self._callbacks
            self._callbacks = None
        if callbacks is not None:
            for callback in callbacks:
                guarded("a callback on a settled outcome", callback)
        return True

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Have `callback` called once, by whoever settles; at once, here, when that has happened already."""
        with self._lock:
            if not self.settled:
                if self._callbacks is None:
                    self._callbacks = [callback]
                else:
                    self._callbacks.append(callback)
                return
        callback()

    def unsubscribe(self, callback: Callable[[], object]) -> None:
        """Forget `callback`; no effect when it has been called."""
        with self._lock:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)

    def block(self, timeout: float | None) -> bool:
        """Hold this thread for at most `timeout` real seconds (`None`: for as long as it takes); True when settled."""
        if self.settled:
            return True
        if timeout is not None and timeout <= 0:
            return False
        gate = allocate_lock()
        gate.acquire()
        release = gate.release
        self.subscribe(release)
        if timeout is None:
            gate.acquire()
            return True
        if gate.acquire(timeout=min(timeout, 4_000_000.0)):
            return True
        self.unsubscribe(release)
        return self.settled

    def wait_on_loop(self) -> Generator[Any, None, None]:
        """Suspend the current task until settled. A cancelled reader cancels nobody else."""
        if self.settled:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if running_loop() is loop:
                if not future.done():
                    future.set_result(None)
                return
            bell.ring(future)

        bell = bell_of(loop)
        self.subscribe(wake)
        try:
            yield from future
        finally:
            if not self.settled:
                self.unsubscribe(wake)
