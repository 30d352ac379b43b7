"""Where somebody's function is called that can't be allowed to hurt: an observer, a watcher, a timer, a callback.

Each of them is called in the middle of something that others wait for: a reply that is being given to its readers, an
end that is being told, the thread that all supervisors stand on. Whatever it raises is logged and goes no further, a
`SystemExit` too: it ends neither that thread nor what comes after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from supervision.errors import Stuck
from supervision.logged import unsaid

__all__ = ["guarded"]

_log = logging.getLogger("supervision")


def guarded(what: str, call: Callable[..., object], *args: Any) -> None:
    """Do `call(*args)`; `what` names it in the log, should it fail. Any thread."""
    try:
        call(*args)
    except Stuck:
        raise  # the simulator's, and nobody's mistake: this is where a thread would hang
    except BaseException:  # noqa: BLE001 - boundary: what is somebody's never takes along what others wait for.
        _log.error("%s failed", what, exc_info=unsaid())
