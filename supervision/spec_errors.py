"""The errors of specs and of supervisors, free of any runtime: the pure core refuses with them.

Each is raised in the thread of the caller that it concerns; the tree is unharmed by any of them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class SupervisionError(Exception):
    """Base of every error that this package raises at a caller."""


class BadSpec(SupervisionError, ValueError):
    """A field of a spec or a flag of a supervisor has a value that cannot work. `field` names it."""

    field: str = "spec"

    def __init__(self, value: object, wanted: str) -> None:
        super().__init__(f"{self.field} must be {wanted}, not {show(value)}")
        self.value_type = type(value).__name__


class BadId(BadSpec):
    field = "id"


class BadClass(BadSpec):
    field = "actor_class"


class BadArgs(BadSpec):
    field = "args"


class BadKwargs(BadSpec):
    field = "kwargs"


class BadRestart(BadSpec):
    field = "restart"


class BadShutdown(BadSpec):
    field = "shutdown"


class BadSignificant(BadSpec):
    field = "significant"


class BadName(BadSpec):
    field = "name"


class BadStartTimeout(BadSpec):
    field = "start_timeout"


class BadWatchdog(BadSpec):
    field = "watchdog"


class BadStrategy(BadSpec):
    field = "strategy"


class BadIntensity(BadSpec):
    field = "intensity"


class BadPeriod(BadSpec):
    field = "period"


class BadAutoShutdown(BadSpec):
    field = "auto_shutdown"


class BadMaxChildren(BadSpec):
    field = "max_children"


class BadExtraArgs(BadSpec):
    field = "extra_args"


class BadChildren(BadSpec):
    field = "children"


class DuplicateId(BadSpec):
    """Two children of one supervisor have the same id."""

    field = "children"

    def __init__(self, child_id: object) -> None:
        ValueError.__init__(self, f"duplicate child id {show(child_id)}")
        self.child_id = child_id


class BadCombination(BadSpec):
    """Two fields that are fine alone contradict each other."""

    field = "significant"

    def __init__(self, why: str) -> None:
        ValueError.__init__(self, why)


class BadReturn(SupervisionError, TypeError):
    """A supervisor's `init` returned neither a `TreeSpec` nor `IGNORE`."""

    def __init__(self, where: str, value: object) -> None:
        super().__init__(f"{where} returned a {type(value).__name__}; wanted a TreeSpec or IGNORE")


class StartError(SupervisionError):
    """A child or a whole tree did not start; nothing of it is left. `child` names it, `__cause__` is the original."""

    def __init__(self, message: str, *, child: object = None, reason: object = None) -> None:
        super().__init__(message)
        self.child = child
        self.reason = reason

    @classmethod
    def of(cls, child: object, cause: BaseException | None, why: str = "") -> StartError:
        """The error for a child whose start ended in `cause`."""
        error = cls(f"child {show(child)} did not start: {why or type(cause).__name__}", child=child, reason=cause)
        error.__cause__ = cause
        return error

    @classmethod
    def wrap(cls, child: object, error: BaseException) -> BaseException:
        """An error as the starter gets it: ours as it is, anybody else's as the cause of a `StartError`."""
        return error if isinstance(error, SupervisionError) else cls.of(child, error)


class StartTimeout(StartError):
    """`on_start` took longer than `start_timeout`; the half-started child was killed."""


class TooManyAbandoned(StartError):
    """The runtime has abandoned as many hung threads as it may; nothing is started in their place."""


class NotFound(SupervisionError, LookupError):
    """The supervisor has no such child."""


class Running(SupervisionError):
    """The child runs (or is being started or stopped); only a child that is down can be restarted or deleted."""


class Restarting(SupervisionError):
    """The child waits for the next attempt of a failed restart."""


class AlreadyStarted(SupervisionError):
    """The id, or the registered name, belongs to a child that runs: `ref`."""

    def __init__(self, message: str, ref: Any = None) -> None:
        super().__init__(message)
        self.ref = ref


class AlreadyPresent(SupervisionError):
    """The id belongs to a child that is not running; use `restart_child` or `delete_child`."""


class MaxChildren(SupervisionError):
    """The dynamic supervisor is full."""


class ByRefOnly(SupervisionError, TypeError):
    """Children of a dynamic supervisor are addressed by ref, and cannot be restarted or deleted by id."""


class ShuttingDown(SupervisionError):
    """The supervisor is ending and starts nobody any more."""


def show(value: object) -> str:
    """A value for an error text: ids and words as they are, anything else by its type (arguments may be private)."""
    if isinstance(value, str | int | float | bool | Enum) or value is None:
        text = repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"
