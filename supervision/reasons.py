"""Why an actor ended: a closed set of values, compared by value.

`Normal` and `Shutdown` are quiet: a transient child is not restarted after them. `Crashed` and `Killed` are not.
"""

from __future__ import annotations

from dataclasses import dataclass


class Reason:
    """Base of all exit reasons."""

    __slots__ = ()

    @property
    def quiet(self) -> bool:
        """True when the ending was asked for or expected: nothing to report, nothing for a transient child to retry."""
        return False


@dataclass(frozen=True, slots=True)
class Normal(Reason):
    """The actor ended by itself, its work done."""

    @property
    def quiet(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Shutdown(Reason):
    """The actor was asked to end. `detail` says more where the asker has more to say."""

    detail: object = None

    @property
    def quiet(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Crashed(Reason):
    """A hook or a handler raised `error`."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Killed(Reason):
    """Ended from outside without being asked: a task cancelled, a thread abandoned."""

    detail: object = None


@dataclass(frozen=True, slots=True)
class NoProcess(Reason):
    """There was nobody: the reason that a monitor on a dead ref gets at once."""
