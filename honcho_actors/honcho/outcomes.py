"""What a call to Honcho can come to: a value, or one failure out of a closed vocabulary. Nothing here raises.

Every operation of the client returns an `Outcome`. The kinds are the words of metrics, status and docs; a caller
decides by `kind`, never by text. `Failure.detail` has been scrubbed, then cut: it may be shown to an operator, never
to a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class FailureKind(StrEnum):
    """Why there is no value. Closed."""

    NOTHING_KNOWN = "nothing_known"
    """The server was read and does not know this peer: an answer, and an empty one."""
    NOT_CONFIGURED = "not_configured"
    """No usable endpoint: none set, a key that no header can carry, or plain http to a public host."""
    UNAUTHORIZED = "unauthorized"
    """401 or 403, also after the key was read again."""
    REFUSED = "refused"
    """The server understood and said no (4xx), or said that it failed (5xx); or the client refused what the server
    would choke on.
    """
    BAD_REPLY = "bad_reply"
    """Something answered that does not speak Honcho: not JSON, wrong shape, too long, too deep, a redirect."""
    TRANSPORT = "transport"
    """No reply: refused, reset, cut, name not found, TLS."""
    TIMED_OUT = "timed_out"
    """The call's deadline passed: in the queue, on the way, or in the reply."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """A write went out whole and no true reply came back: it may have been stored, or may yet be. Never resend
    blindly.
    """
    RATE_LIMITED = "rate_limited"
    """429, or the queue in front of the network is full."""
    BREAKER_OPEN = "breaker_open"
    """Not sent: this part of the server failed again and again, and is left alone for a while."""


@dataclass(frozen=True, slots=True)
class Ok(Generic[T_co]):
    """A value. `status` is the HTTP status (201 created, 200 existed)."""

    value: T_co
    status: int = 200

    @property
    def ok(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Failure:
    """No value. `retry_after` in seconds, clamped, when the server named one.

    `bytes_sent` is False only when it is certain that the request did not go out whole, so that the server cannot have
    acted on it. `done` counts the messages of one call that earlier parts of it had already stored.
    """

    kind: FailureKind
    op: str
    status: int | None = None
    detail: str = ""
    retry_after: float | None = None
    bytes_sent: bool = True
    done: int = 0

    @property
    def ok(self) -> bool:
        return False

    @property
    def absent(self) -> bool:
        """Whether the server says that what was asked for is not there. A 404 of a route that does not exist, or of
        something in between (a page, a gateway whose server is being restarted), says nothing of it.
        """
        return self.kind is FailureKind.REFUSED and self.status == 404 and self.detail not in ("", "Not Found")


Outcome = Ok[T_co] | Failure
"""`isinstance(outcome, Ok)` narrows; `outcome.ok` is the short form."""


class Priority(IntEnum):
    """Who goes first when slots are short. Inside one priority the earlier deadline goes first."""

    COLD = 0
    """Somebody waits for this reply right now: a cold turn, a tool call."""
    REFRESH = 1
    """A ready block is being renewed."""
    DELIVERY = 2
    """What was captured is being delivered; nobody waits."""
    BACKGROUND = 3
    """Whatever may wait: sweeps, comparisons, imports."""


@dataclass(frozen=True, slots=True)
class Call:
    """The frame of one call. `deadline` is absolute, in the running loop's `time()` (the monotonic clock on a real
    loop).
    """

    deadline: float
    priority: Priority = Priority.REFRESH
    due: float | None = None
    """When somebody's patience ends, who waits for it: the earliest goes first among calls of one priority. By default
    the deadline."""
    wanted: Callable[[], bool] | None = None
    """Asked when the call's turn has come, before a byte leaves: it may have stood in line for long. False: it is not
    made, and fails as `not_configured`."""
