"""Every refusal has a name, raised in the thread of the caller that it concerns; the tree is unharmed by any of them."""

from __future__ import annotations

import pykka

from supervision.spec_errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadArgs,
    BadAutoShutdown,
    BadChildren,
    BadClass,
    BadCombination,
    BadExtraArgs,
    BadId,
    BadIntensity,
    BadKwargs,
    BadMaxChildren,
    BadName,
    BadPeriod,
    BadRestart,
    BadReturn,
    BadShutdown,
    BadSignificant,
    BadSpec,
    BadStartTimeout,
    BadStrategy,
    BadWatchdog,
    ByRefOnly,
    DuplicateId,
    MaxChildren,
    NotFound,
    Restarting,
    Running,
    ShuttingDown,
    StartError,
    StartTimeout,
    SupervisionError,
    TooManyAbandoned,
)

__all__ = [
    "AlreadyPresent",
    "AlreadyStarted",
    "BadArgs",
    "BadAutoShutdown",
    "BadChildren",
    "BadClass",
    "BadCombination",
    "BadExtraArgs",
    "BadId",
    "BadIntensity",
    "BadKwargs",
    "BadMaxChildren",
    "BadName",
    "BadPeriod",
    "BadRestart",
    "BadReturn",
    "BadShutdown",
    "BadSignificant",
    "BadSpec",
    "BadStartTimeout",
    "BadStrategy",
    "BadWatchdog",
    "ByRefOnly",
    "CallTimeout",
    "CallingSelf",
    "DuplicateId",
    "MaxChildren",
    "NoProc",
    "NotFound",
    "Overloaded",
    "Restarting",
    "Running",
    "ShuttingDown",
    "StartError",
    "StartTimeout",
    "SupervisionError",
    "TooManyAbandoned",
    "WouldBlockLoop",
]


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
