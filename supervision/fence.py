"""What an abandoned actor still does is not done.

A hung thread can't be ended in CPython. When it wakes up at last it may send, answer and resolve as if it still
lived; the fence knows its thread (or, of a coroutine that swallowed its cancellation, its task) and refuses. While
nobody is abandoned the check is one attribute read.
"""

from __future__ import annotations

import asyncio
import itertools
from _thread import allocate_lock, get_ident
from collections.abc import Callable
from typing import Any

from supervision._asyncio import running_loop

__all__ = ["Fence", "fence"]


class Fence:
    """The threads and tasks whose actors have been given up. One for the process: a thread belongs to one actor
    alone.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._drops = itertools.count(1)
        self.forget()

    def forget(self) -> None:
        """In a forked child: none of the abandoned is here, and the system gives their numbers to new threads."""
        self.active = False
        self._lock = allocate_lock()  # `active` is told from both tables
        self._threads: dict[int, Callable[[], object]] = {}
        self._tasks: dict[asyncio.Task[Any], Callable[[], object]] = {}
        self._telling: set[int] = set()

    def shut_thread(self, ident: int, tell: Callable[[], object]) -> None:
        """Refuse from now on what the thread `ident` sends; `tell()` at each refusal."""
        with self._lock:
            self._threads[ident] = tell
            self.active = True

    def shut_task(self, task: asyncio.Task[Any], tell: Callable[[], object]) -> None:
        """Refuse from now on what `task` sends; `tell()` at each refusal."""
        with self._lock:
            self._tasks[task] = tell
            self.active = True

    def open_thread(self, ident: int) -> None:
        """The thread has ended; the system may give its number to another."""
        with self._lock:
            self._threads.pop(ident, None)
            self.active = bool(self._threads or self._tasks)

    def open_task(self, task: asyncio.Task[Any]) -> None:
        """The task has ended."""
        with self._lock:
            self._tasks.pop(task, None)
            self.active = bool(self._threads or self._tasks)

    def refuses(self) -> bool:
        """True when the caller is an abandoned actor; what it does is then counted and dropped. Ask only while
        `active`.
        """
        ident = get_ident()
        tell = self._threads.get(ident)
        if tell is None and self._tasks and running_loop() is not None:
            task = asyncio.current_task()
            tell = None if task is None else self._tasks.get(task)
        if tell is None or ident in self._telling:  # what an observer does about it is the observer's
            return False
        self.dropped = next(self._drops)
        self._telling.add(ident)
        try:
            tell()
        finally:
            self._telling.discard(ident)
        return True


fence = Fence()
