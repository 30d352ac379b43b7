"""Daemon threads for calls that may block, one for each call, at most so many at a time.

For whatever must not hold up an event loop or the caller: a provider's search, a look at the file system. A call that
never comes back costs one thread and one place; when all places are taken the next call is refused at once, so that
a stuck disk or server is passed over and not queued for. No thread is ever joined: neither a turn nor the exit of the
process can hang on one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from supervision import Waiter

Value = tuple[bool, Any]
"""(True, what the call gave) or (False, the exception that it raised)."""


class Crew:
    """Runs calls off the caller's thread. Any thread, any event loop."""

    def __init__(self, name: str, most: int = 8) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._working = 0

    @property
    def working(self) -> int:
        """Calls that have not come back yet."""
        return self._working

    def submit(self, call: Callable[[], Any]) -> Waiter[Value] | None:
        """Starts `call`; its outcome comes in the waiter. None: every place is taken."""
        with self._lock:
            if self._working >= self._most:
                return None
            self._working += 1
        outcome: Waiter[Value] = Waiter()
        try:
            threading.Thread(target=self._work, args=(call, outcome), name=self._name, daemon=True).start()
        except RuntimeError:  # no thread is to be had: the machine is out of them, or the interpreter ends
            self._left()
            return None
        return outcome

    def _work(self, call: Callable[[], Any], outcome: Waiter[Value]) -> None:
        try:
            value: Value = (True, call())
        except BaseException as error:  # noqa: BLE001 boundary: what a call raises is its caller's to judge
            value = (False, error)
        self._left()
        outcome.resolve(value)

    def _left(self) -> None:
        with self._lock:
            self._working -= 1
