"""A thread of the registry's own for one contributor that it does not trust to be quick.

A lane runs one call at a time. A call that overruns is left behind, and until it has come back its contributor is
passed over: one stuck contributor costs one thread, once. The thread is a daemon, starts with the first call, ends
when the lane is closed or gone, and is never joined: neither a turn nor the exit of the process can hang on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from supervision import Waiter

Value = tuple[bool, Any]
"""(True, what the call gave) or (False, the exception that it raised)."""

MAX_QUEUED = 64
"""Calls that wait at most, unless the lane is told otherwise."""


class Lane:
    """Runs calls of one contributor, one after another, off the caller's thread."""

    def __init__(self, name: str, most: int | None = MAX_QUEUED) -> None:
        """`most` is None where whoever calls waits for the answer, and so bounds how many calls there are."""
        self._name = name
        self._most = most
        self._queue: SimpleQueue[tuple[Callable[[], Any], Waiter[Value]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stuck: Waiter[Value] | None = None

    @property
    def stuck(self) -> bool:
        """A call that somebody gave up on has not come back yet."""
        stuck = self._stuck
        return stuck is not None and not stuck.resolved

    def submit(self, call: Callable[[], Any]) -> Waiter[Value] | None:
        """Starts `call`; its outcome comes in the waiter. None: the lane is stuck or full."""
        if self.stuck or (self._most is not None and self._queue.qsize() >= self._most):
            return None
        outcome: Waiter[Value] = Waiter()
        self._queue.put((call, outcome))
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    name = f"context-{self._name}"
                    self._thread = threading.Thread(target=_work, args=(self._queue,), name=name, daemon=True)
                    self._thread.start()
        return outcome

    def give_up(self, outcome: Waiter[Value]) -> None:
        """Nobody waits for this call any more; the lane takes no other until it has come back."""
        self._stuck = outcome

    def close(self) -> None:
        """Ends the thread after what it is doing."""
        self._queue.put(None)

    def __del__(self) -> None:
        self._queue.put(None)


def _work(queue: SimpleQueue[tuple[Callable[[], Any], Waiter[Value]] | None]) -> None:
    """A lane's thread. It knows the queue alone: a lane that nobody holds any more ends it."""
    while (job := queue.get()) is not None:
        call, outcome = job
        try:
            value: Value = (True, call())
        except BaseException as error:  # noqa: BLE001 boundary: a contributor's failure costs only itself
            value = (False, error)
        outcome.resolve(value)
        del job, call, outcome, value
