"""The two things that happen to a whole process: it exits, or it is forked.

Exit: no thread of ours is joined. Event loops are stopped first (a loop that runs while the interpreter is taken down
can crash it), everything else is a daemon thread. Fork: the child has none of our threads, so its copies of our
actors have ended, and say so. Both hooks are set when the first runtime is made.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from supervision.fence import fence
from supervision.logged import unsaid
from supervision.reasons import Killed

if TYPE_CHECKING:
    from supervision.host import Host

__all__ = ["end_lives", "forget", "remember"]

_log = logging.getLogger("supervision")

EXIT_SECONDS = 0.5
"""What all event loops together get at exit."""

_runtimes: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()
_hooked = False


def remember(runtime: Any) -> None:
    """Take care of `runtime` at exit and after a fork."""
    global _hooked
    with _lock:
        _runtimes.add(runtime)
        if not _hooked:
            _hooked = True
            atexit.register(_at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_in_child)


def forget(runtime: Any) -> None:
    """The runtime has closed."""
    with _lock:
        _runtimes.discard(runtime)


def end_lives(host: Host) -> None:
    """Without threads: answer every asker, tell every watcher."""
    reason = Killed("forked")
    lives = list(host.lives)
    for life in lives:
        life.closed = True
    for life in lives:
        life.finish(reason)


def _at_exit() -> None:
    runtimes = list(_runtimes)
    for runtime in runtimes:
        runtime.closing = True  # before: whose actors end now would be started again, on another loop
        place = runtime.loop.running
        if place is not None:
            place.stop()
    for runtime in runtimes:
        runtime.stop_loop(EXIT_SECONDS / max(1, len(runtimes)))


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    runtimes = list(_runtimes)
    _runtimes.clear()
    fence.forget()
    for runtime in runtimes:  # all of them first: an actor of one is watched by another's
        runtime.unlock()
    for runtime in runtimes:
        try:
            runtime.forked()
        except Exception:  # noqa: BLE001 - boundary: one runtime's trouble never keeps the next from being ended in the child.
            _log.error("a runtime could not be ended in a forked child", exc_info=unsaid())
