"""What a reply to a delivery means: the policy of exactly-once, as functions of values alone.

`after_post` reads the outcome of one POST of a group of messages, `after_look` what the server showed when it was asked
for a group whose fate is unknown, `after_establish` the outcome of establishing a conversation. Each gives one verdict;
the worker carries it out. Nothing here knows a socket, a database or a clock.

The rules: what certainly did not reach the server is simply due again. What may have reached it is *unknown*: looked
for at once, and resent only when a look that began after the settle time found nothing. What the server refuses (400,
413, 422) is halved until the bad message stands alone, and that one is set aside; a 500 is unknown first, then halved
too, and set aside when it comes twice for one message alone. 404 establishes once more. 401 and 403 wait for a key.
Everything else waits its turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from honcho_actors.honcho.outcomes import Failure, FailureKind

GROUP = 100
"""Messages in one request: the server's own limit."""

LONE_ERRORS = 2
"""How often a server may answer 500 to one message alone before that message is set aside."""


class Act(StrEnum):
    """What the worker does next with the group that it sent. Closed."""

    DELIVERED = "delivered"
    RETRY = "retry"
    """Certainly not stored: back to accepted, after the schedule's delay."""
    PAUSE = "pause"
    """Nothing can be sent now (no key, no endpoint, refused key): back to accepted, without counting an attempt."""
    SPLIT = "split"
    """Certainly not stored, because of something in it: back to accepted, the next group is half as large."""
    SET_ASIDE = "set_aside"
    """The one message of the group is the bad one."""
    ESTABLISH = "establish"
    """The conversation is not there: back to accepted, establish once more, send again."""
    LOOK = "look"
    """It may have been stored, now or later."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One decision. `reason` is from a closed set (a failure kind, or `status_NNN`); `retry_after` in seconds."""

    act: Act
    reason: str = ""
    retry_after: float | None = None
    strike: bool = False
    """The server answered 500: counts against the messages of this group."""


_NOT_SENT = frozenset({FailureKind.NOT_CONFIGURED, FailureKind.BREAKER_OPEN})
_POISON = frozenset({400, 413, 422})


def reason_of(failure: Failure) -> str:
    """The failure in a word that may be stored, shown and counted."""
    if failure.kind is FailureKind.REFUSED and failure.status is not None:
        return f"status_{failure.status}"
    return failure.kind.value


def after_post(failure: Failure | None, *, size: int, established_again: bool) -> Verdict:
    """What follows from one POST of `size` messages. `established_again`: a 404 was already answered by
    establishing."""
    if failure is None:
        return Verdict(Act.DELIVERED)
    reason = reason_of(failure)
    kind, status = failure.kind, failure.status
    if kind in _NOT_SENT:
        return Verdict(Act.PAUSE, reason, failure.retry_after)
    if kind is FailureKind.UNAUTHORIZED:
        return Verdict(Act.PAUSE, reason, failure.retry_after)
    if kind is FailureKind.RATE_LIMITED:
        return Verdict(Act.RETRY, reason, failure.retry_after)
    if kind is FailureKind.NOTHING_KNOWN or status == 404:
        return Verdict(Act.RETRY if established_again else Act.ESTABLISH, "status_404")
    if kind is FailureKind.REFUSED and status is not None and status in _POISON:
        return Verdict(Act.SET_ASIDE if size == 1 else Act.SPLIT, reason)
    if kind is FailureKind.REFUSED and status is None:
        return Verdict(Act.SET_ASIDE if size == 1 else Act.SPLIT, reason)
    if kind is FailureKind.REFUSED and status is not None and status < 500:
        return Verdict(Act.RETRY, reason, failure.retry_after)
    if not failure.bytes_sent:
        return Verdict(Act.RETRY, reason, failure.retry_after)
    return Verdict(Act.LOOK, reason, failure.retry_after, strike=status == 500)


def after_establish(failure: Failure | None) -> Verdict:
    """What follows from establishing a conversation. It may be repeated freely: get-or-create is idempotent."""
    if failure is None:
        return Verdict(Act.DELIVERED)
    reason = reason_of(failure)
    if failure.kind in _NOT_SENT or failure.kind is FailureKind.UNAUTHORIZED:
        return Verdict(Act.PAUSE, reason, failure.retry_after)
    return Verdict(Act.RETRY, reason, failure.retry_after)


class Found(StrEnum):
    """What a look at the server came to. Closed: the words of `reconciliations_total`."""

    FOUND = "found"
    PARTIAL = "partial"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Settled:
    """What follows from a look. `wait` in seconds before the next look; `resend` when nothing can still arrive."""

    present: frozenset[int] = frozenset()
    """Places in the group (0-based) that the server has."""
    resend: bool = False
    wait: float = 0.0
    doubled: int = 0
    """Copies beyond the first."""


def after_look(expected: int, seen: list[int], *, elapsed: float | None, settle: float) -> Settled:
    """What follows when a look that began `elapsed` seconds after the connection was gone showed these places.

    `seen` holds one entry for each copy. `elapsed=None`: nobody knows since when, so the waiting begins now.
    """
    present = frozenset(place for place in seen if 0 <= place < expected)
    doubled = len(seen) - len(present)
    if len(present) == expected:
        return Settled(present, doubled=doubled)
    if elapsed is not None and elapsed >= settle:
        return Settled(present, resend=True, doubled=doubled)
    return Settled(present, wait=settle - (elapsed or 0.0), doubled=doubled)


def after_strike(*, size: int, strikes: int) -> Verdict:
    """A group that was answered with 500 and is known to be absent: halve it; set a lone message aside at its
    second."""
    if size == 1:
        return Verdict(Act.SET_ASIDE if strikes >= LONE_ERRORS else Act.RETRY, "status_500")
    return Verdict(Act.SPLIT, "status_500")


def next_size(size: int, verdict: Verdict) -> int:
    """How many messages the next group of this conversation may have: halved by poison, doubled again by success."""
    if verdict.act is Act.SPLIT:
        return max(1, size // 2)
    if verdict.act in (Act.DELIVERED, Act.SET_ASIDE):
        return min(GROUP, max(2, size * 2))
    return size
