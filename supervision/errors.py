"""Errors of calls between actors. The errors of specs and supervisors are in `spec_errors`.

Each is raised in the thread of the caller that it concerns; nobody else notices.
"""

from __future__ import annotations

import pykka

from supervision.spec_errors import SupervisionError

__all__ = ["CallTimeout", "CallingSelf", "Deadlock", "NoProc", "Overloaded", "Stuck", "WouldBlockLoop", "harmless"]


class NoProc(SupervisionError, pykka.ActorDeadError):
    """There is nobody behind this ref (any more)."""


class Overloaded(SupervisionError):
    """The mailbox is at its limit. The message was not accepted, and the sender was not blocked."""


class CallTimeout(SupervisionError, pykka.Timeout):
    """The reply did not come within the caller's own timeout. A reply that comes later is dropped."""


class CallingSelf(SupervisionError):
    """An actor asked itself, or waited for its own end: it would wait for ever."""


class Stuck(BaseException):
    """In the simulator: this actor waits for something that does not come. It stands for a thread that hangs."""


class Deadlock(SupervisionError):
    """In the simulator: somebody waits without a limit, and nothing is left that could happen."""


class WouldBlockLoop(SupervisionError):
    """A blocking call on a thread that runs an event loop. Await the asynchronous form instead."""


def harmless(error: BaseException, what: str) -> Exception:
    """An error as somebody else gets it: what would end a thread or stop a loop, a `SystemExit`, a cancellation, is
    raised in nobody but who raised it. `what` says who did, and ends in "raised" or "crashed with".
    """
    if isinstance(error, Exception):
        return error
    answer = NoProc(f"{what} {type(error).__name__}")
    answer.__cause__ = error
    return answer
