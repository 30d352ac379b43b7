"""What a RefreshWorker is told to do and what it tells back. One layer of one conversation or person each.

A job's number carries the manager's generation, so that whatever comes back to a later manager, or to an entry that has
been given up, is known to be late and is dropped. Durations in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from honcho_actors.honcho.outcomes import FailureKind
from honcho_actors.model import Reason
from honcho_actors.sessions.table import Key

MAX_JOB_SECONDS = 600.0
"""No job lives longer, whatever the settings say."""

GRACE_SECONDS = 2.0
"""After its own deadline a worker has this long to report before it is killed."""


class Layer(StrEnum):
    BASE = "base"
    SUMMARY = "summary"
    DIALECTIC = "dialectic"


@dataclass(frozen=True, slots=True)
class BaseJob:
    """Read a person's part, and the conversation's summary with it: one request. `session` "": the person's alone."""

    number: int
    key: Key
    workspace: str
    session: str
    peer: str
    max_conclusions: int
    tokens: int
    summary: bool
    seconds: float
    cold: bool = False
    due: float | None = None
    """When the turn that waits for it goes on without it."""
    layer: Layer = Layer.BASE


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """Read a conversation's summary alone: the person's part comes from another conversation's flight."""

    number: int
    key: Key
    workspace: str
    session: str
    peer: str
    seconds: float
    layer: Layer = Layer.SUMMARY


@dataclass(frozen=True, slots=True)
class DialecticJob:
    """Ask the person's own peer. `session` is None while the server is not known to have it. `depth` passes at most."""

    number: int
    key: Key
    workspace: str
    session: str | None
    peer: str
    message: str
    cold: bool
    level: str
    depth: int
    max_chars: int
    turn: int
    seconds: float
    layer: Layer = Layer.DIALECTIC


Job = BaseJob | SummaryJob | DialecticJob


@dataclass(frozen=True, slots=True)
class Done:
    """A job has ended. `failure` is None when it read what it was to read.

    `known` is False when the server has never heard of the person. `summary` is None when none was read. `calls`
    counts the billed calls of a dialectic job.
    """

    number: int
    failure: FailureKind | None = None
    known: bool = True
    representation: str = ""
    card: tuple[str, ...] = ()
    summary: str | None = None
    answer: str = ""
    calls: int = 0
    worker: Any = None
    """The worker, if it stays for the next in line."""
    exemplar: dict[str, str] | None = None
    """Where the host's tracing has this job; None where it has not."""


REASONS: dict[FailureKind, Reason] = {
    FailureKind.NOT_CONFIGURED: Reason.NOT_CONFIGURED,
    FailureKind.UNAUTHORIZED: Reason.UNAUTHORIZED,
    FailureKind.BREAKER_OPEN: Reason.BREAKER_OPEN,
    FailureKind.RATE_LIMITED: Reason.OVERLOADED,
}
"""What a failed base layer means for a turn; any other kind is a server error."""

OUTCOMES: dict[FailureKind, str] = {
    FailureKind.NOT_CONFIGURED: "not_configured",
    FailureKind.UNAUTHORIZED: "unauthorized",
    FailureKind.BREAKER_OPEN: "breaker_open",
    FailureKind.RATE_LIMITED: "rate_limited",
    FailureKind.TIMED_OUT: "timed_out",
}
"""The metric's words; any other kind is `failed`."""
