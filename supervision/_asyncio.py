"""asyncio's private names, all of them, in one place. `tests/supervision/test_private_names.py` fails when one changes.

- `events._get_running_loop`: the running loop or None, without an exception for the common answer.
- the *future protocol* of `Task` (`_asyncio_future_blocking`, `get_loop`, `add_done_callback`, `result`, `cancel`): what `Gate` speaks.
- `BaseEventLoop._run_once`, `_ready`, `_scheduled`, `_selector`, `_process_events`, `_write_to_self`, `_clock_resolution`: what
  `VirtualLoop` stands on.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

__all__ = ["Gate", "running_loop"]

running_loop: Callable[[], asyncio.AbstractEventLoop | None] = events._get_running_loop


class Gate:
    """Where a task waits for its next message; fired by one callback on its loop, which runs the task's step itself.

    An asyncio.Future would take a second trip through the loop for every message (`set_result`, then the wake-up).
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_loop", "_wakeup", "context")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._wakeup: Callable[[Any], object] | None = None
        self._cancelled = False
        self.context: Context | None = None

    def fire(self) -> None:
        """Let the task go on, if it waits here. On the loop's thread, in the task's context, outside any task."""
        wakeup = self._wakeup
        if wakeup is not None:
            self._wakeup = None
            wakeup(self)

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wakeup: Callable[[Any], object], *, context: Context | None = None) -> None:
        self._wakeup = wakeup
        self.context = context

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
        self._loop.call_soon(self.fire, context=self.context)
        return True

    def result(self) -> None:
        if self._cancelled:
            self._cancelled = False
            raise asyncio.CancelledError
