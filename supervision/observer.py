"""What a runtime tells of itself, to one `Observer` that its owner passes in.

An event carries names, numbers, reasons and classes of errors; never a message, an argument or a reply. An observer
is called on whatever thread the thing happened: it must be short, must not block, and what it raises is logged and
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supervision.boundary import guarded
from supervision.events import Report

__all__ = [
    "AbandonedEnded",
    "ActorAbandoned",
    "ActorCrashed",
    "Event",
    "HookFailed",
    "LateResult",
    "LoopAbandoned",
    "Observer",
    "Reporter",
    "SupervisorReport",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of everything that is observed. `actor` is the label `tree/child#generation`."""

    actor: str


@dataclass(frozen=True, slots=True)
class ActorCrashed(Event):
    """A hook or a handler raised."""

    error: str


@dataclass(frozen=True, slots=True)
class ActorAbandoned(Event):
    """A hung actor was given up; `abandoned` are now waiting to end."""

    abandoned: int


@dataclass(frozen=True, slots=True)
class AbandonedEnded(Event):
    """An abandoned actor has ended by itself after all."""

    abandoned: int


@dataclass(frozen=True, slots=True)
class LateResult(Event):
    """Something that an abandoned actor sent was dropped."""


@dataclass(frozen=True, slots=True)
class LoopAbandoned(Event):
    """An event loop did not answer its heartbeat; it was given up with `actors` actors on it, and is replaced on
    demand.
    """

    actors: int


@dataclass(frozen=True, slots=True)
class SupervisorReport(Event):
    """What the supervisor `actor` did: `report.what`, `child_id`, `generation`, `reason`."""

    report: Report


@dataclass(frozen=True, slots=True)
class HookFailed(Event):
    """A hook that may not change what happens (`on_stop`, `on_failure`, a callback) raised."""

    hook: str
    error: str


class Observer:
    """Base class: every event goes to `observe`; override it. By default nothing is done."""

    def observe(self, event: Any) -> None:
        """One thing happened: an `Event` of this module or a report of a supervisor."""


class Reporter:
    """Hands events to an observer and never lets it hurt the runtime."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    def __call__(self, event: Any) -> None:
        if self._observer is not None:
            guarded("an observer", self._observer.observe, event)
