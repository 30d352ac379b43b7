"""What an abandoned actor still does is not done.

A hung thread can't be ended in CPython. When it wakes up at last it may send, answer and resolve as if it still
lived; the fence knows its thread (or, of a coroutine that swallowed its cancellation, its task) and refuses. While
nobody is abandoned the check is one attribute read.
"""

from __future__ import annotations

import asyncio
import itertools
from _thread import get_ident
from typing import Any

from supervision._asyncio import running_loop

__all__ = ["Fence", "fence"]


class Fence:
    """The threads and tasks whose actors have been given up. One for the process: a thread belongs to one actor
    alone.
    """

    def __init__(self) -> None:
        self.active = False
        self._threads: set[int] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._drops = itertools.count(1)
        self.dropped = 0

    def shut_thread(self, ident: int) -> None:
        """Refuse from now on what the thread `ident` sends."""
        self._threads.add(ident)
        self.active = True

    def shut_task(self, task: asyncio.Task[Any]) -> None:
        """Refuse from now on what `task` sends."""
        self._tasks.add(task)
        self.active = True

    def open_thread(self, ident: int) -> None:
        """The thread has ended; the system may give its number to another."""
        self._threads.discard(ident)
        self.active = bool(self._threads or self._tasks)

    def open_task(self, task: asyncio.Task[Any]) -> None:
        """The task has ended."""
        self._tasks.discard(task)
        self.active = bool(self._threads or self._tasks)

    def _task_is_shut(self) -> bool:
        return bool(self._tasks) and running_loop() is not None and asyncio.current_task() in self._tasks

    def refuses(self) -> bool:
        """True when the caller is an abandoned actor; counts what is dropped. Ask only while `active`."""
        if get_ident() not in self._threads and not self._task_is_shut():
            return False
        self.dropped = next(self._drops)
        return True


fence = Fence()
