"""Waking tasks on somebody else's event loop: one call across threads for any number of them.

`call_soon_threadsafe` writes a byte to a socket, which gives the GIL away: a writer that answers two thousand waiters
would have to get it back two thousand times. A bell that is rung already is not rung again before it was heard.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque

__all__ = ["Bell", "bell_of"]


class Bell:
    """Of one event loop. `ring` from any thread; whoever is rung for is woken on the loop, in order."""

    __slots__ = ("_loop", "_rung", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._rung = False

    def of(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is this loop's."""
        return self._loop() is loop

    def ring(self, future: asyncio.Future[None]) -> None:
        """Have `future` resolved on the loop, soon. Never blocks, never raises; a loop that is closed has no readers
        left."""
        self._waiting.append(future)
        if self._rung:  # put first, looked afterwards: whoever hears it takes this one, too
            return
        self._rung = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._heard)
        except RuntimeError:
            self._waiting.clear()
            self._rung = False

    def _heard(self) -> None:
        self._rung = False
        waiting = self._waiting
        try:
            while True:
                future = waiting.popleft()
                if not future.done():
                    future.set_result(None)
        except IndexError:
            pass


_here = threading.local()


def bell_of(loop: asyncio.AbstractEventLoop) -> Bell:
    """The bell of the loop that runs on this thread."""
    bell: Bell | None = getattr(_here, "bell", None)
    if bell is None or not bell.of(loop):
        bell = _here.bell = Bell(loop)
    return bell
