"""asyncio's private names, all of them, in one place. `tests/supervision/test_private_names.py` fails when one
changes.

- `events._get_running_loop`: the running loop or None, without an exception for the common answer.
- the *future protocol* of `Task` (`_asyncio_future_blocking`, `get_loop`, `add_done_callback`, `result`, `cancel`):
what `Gate` speaks.
- `SelectorEventLoop._write_to_self`, `_read_from_self`, `_ssock`: what `WakefulLoop` overrides.
- on 3.11, that `Task()` schedules its first step by `loop.call_soon(step, context=...)`: what `start_task` runs at
once.
- `events._set_running_loop`; `BaseEventLoop._ready`, `_scheduled`, `_timer_cancelled_count`, `_clock_resolution`,
`_process_events`, `_write_to_self`; `Handle._run`, `_cancelled`, `_scheduled`, `_when`: what `VirtualLoop` stands on.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

__all__ = ["Gate", "VirtualLoop", "WakefulLoop", "running_loop", "start_task"]

running_loop: Callable[[], asyncio.AbstractEventLoop | None] = events._get_running_loop
_set_running_loop: Callable[[asyncio.AbstractEventLoop | None], None] = events._set_running_loop


class Gate:
    """Where a task waits for its next message; fired by one callback on its loop, which runs the task's step itself.

    An asyncio.Future would take a second trip through the loop for every message (`set_result`, then the wake-up).
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_loop", "_wakeup")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._wakeup: Callable[[Any], object] | None = None
        self._cancelled = False
        self._context: Context | None = None

    def fire(self) -> None:
        """Let the task go on, in its own context, if it waits here. On the loop's thread, outside any task."""
        wakeup = self._wakeup
        if wakeup is not None and self._context is not None:
            self._wakeup = None
            self._context.run(wakeup, self)

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wakeup: Callable[[Any], object], *, context: Context | None = None) -> None:
        self._wakeup = wakeup
        self._context = context

    def remove_done_callback(self, wakeup: Callable[[Any], object]) -> int:
        waiting = self._wakeup is not None
        self._wakeup = None
        return int(waiting)

    def done(self) -> bool:
        return self._wakeup is None

    def cancel(self, msg: object = None) -> bool:
        if self._wakeup is None:
            return False
        self._cancelled = True
        self._loop.call_soon(self.fire)
        return True

    def result(self) -> None:
        if self._cancelled:
            self._cancelled = False
            raise asyncio.CancelledError


class WakefulLoop(asyncio.SelectorEventLoop):
    """A selector loop that many threads wake cheaply: one byte for any number of calls, one read for any number of
    bytes.

    asyncio writes a byte per call and reads until there is an error; each of these system calls gives the GIL away.
    """

    _woken = False

    def _write_to_self(self) -> None:
        # The call is in `_ready` already, and the loop looks there again after every read.
        if not self._woken:
            self._woken = True
            super()._write_to_self()  # type: ignore[misc]

    def _read_from_self(self) -> None:
        try:
            self._ssock.recv(4096)  # type: ignore[attr-defined]
        except (BlockingIOError, InterruptedError):
            pass
        # Only now: a byte that is written between the two would be eaten, and nobody would ever write another one.
        self._woken = False


def start_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None], context: Context | None
) -> asyncio.Task[None]:
    """A task that takes its first step here and now, not in the loop's next pass. On the loop's thread, outside any
    task."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True, context=context)
    first: list[tuple[Callable[..., object], Context | None]] = []

    def call_soon(callback: Callable[..., object], *_: Any, context: Context | None = None) -> None:
        first.append((callback, context))

    loop.call_soon = call_soon  # type: ignore[method-assign,assignment]
    try:
        task = asyncio.Task(coroutine, loop=loop, context=context)
    finally:
        del loop.call_soon
    step, own = first[0]
    if own is None:
        step()
    else:
        own.run(step)
    return task


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is a number. It never sleeps: `step` runs one callback, `skip` jumps to the next timer.

    It has no selector: what runs on it may await timers, tasks, futures and in-memory transports, not sockets.
    """

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.now = start
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now

    def step(self) -> bool:
        """Run one callback that is due; False when none is."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= self.now):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            else:
                self._ready.append(handle)  # type: ignore[attr-defined]
        ready = self._ready  # type: ignore[attr-defined]
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                before = running_loop()
                _set_running_loop(self)
                try:
                    handle._run()
                finally:
                    _set_running_loop(before)
                return True
        return False

    def skip(self, horizon: float) -> bool:
        """Nothing is due: move the time to the next timer, not beyond `horizon`; False (and at the horizon) without
        one.
        """
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if scheduled and scheduled[0]._when <= horizon:
            self.now = max(self.now, scheduled[0]._when)
            return True
        return False

    def outside(self) -> contextlib.AbstractContextManager[None]:
        """For code that stands for another thread: no event loop runs there."""
        return _Outside()

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


class _Outside(contextlib.AbstractContextManager[None]):
    def __enter__(self) -> None:
        self._before = running_loop()
        _set_running_loop(None)

    def __exit__(self, *_: object) -> None:
        _set_running_loop(self._before)
