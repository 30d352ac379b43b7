"""Every refusal has a name, and is raised in the thread of the caller that it concerns. The tree is unharmed by any of them."""

from __future__ import annotations

import pykka


class SupervisionError(Exception):
    """Base of what this package raises on its own account."""


class NoProc(SupervisionError, pykka.ActorDeadError):
    """There is nobody behind this ref (any more)."""


class Overloaded(SupervisionError):
    """The mailbox is at its limit. The message was not accepted, and the sender was not blocked."""


class CallTimeout(SupervisionError, pykka.Timeout):
    """The reply did not come within the caller's own timeout. A reply that comes later is dropped."""


class CallingSelf(SupervisionError):
    """An actor asked itself, or waited for its own end: it would wait for ever."""


class WouldBlockLoop(SupervisionError):
    """A blocking call on a thread that runs an event loop. Await the asynchronous form instead."""


class StartError(SupervisionError):
    """An actor, a child or a whole tree did not start. `child` names the child, `reason` says why; `__cause__` is the original."""

    def __init__(self, message: str, *, child: object = None, reason: object = None) -> None:
        super().__init__(message)
        self.child = child
        self.reason = reason


class StartTimeout(StartError):
    """`on_start` took longer than `start_timeout`; the half-started actor was killed."""


class TooManyAbandoned(StartError):
    """The runtime has abandoned as many hung threads as it may; nothing is started in their place."""


class NotFound(SupervisionError):
    """The supervisor has no such child."""


class Running(SupervisionError):
    """The child is running; this call wants one that is not."""


class Restarting(SupervisionError):
    """The child is being restarted; this call wants one that is at rest."""


class AlreadyStarted(SupervisionError):
    """The id or the name is taken by a running actor: `ref`."""

    def __init__(self, message: str, ref: object = None) -> None:
        super().__init__(message)
        self.ref = ref


class AlreadyPresent(SupervisionError):
    """The id is taken by a child that is not running."""


class MaxChildren(SupervisionError):
    """The dynamic supervisor holds as many children as it may."""


class BadCombination(SupervisionError, ValueError):
    """Two values that are each legal and together make no sense."""
