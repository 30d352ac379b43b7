"""One breaker for each part of the server: leaves alone what keeps failing, and asks with one probe whether it is
back.

Pure: the time is an argument (monotonic seconds), so tests drive it by hand and nothing here locks. One loop thread
uses it. Only what blames the server counts: no reply, a 5xx, a reply that is not Honcho's, 429. An answer that says
no does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class Area(StrEnum):
    """The parts of the server that fail apart from each other. Closed; the label `endpoint` of the metrics."""

    READ = "read"
    """Context, card, lists: the database alone."""
    CHAT = "chat"
    """The dialectic: needs the server's model."""
    SEARCH = "search"
    """Search and conclusions: needs the server's embeddings."""
    WRITE = "write"
    """Messages, members, sessions, cards."""
    HEALTH = "health"
    """Diagnostics: counted, and never refused, so that `ping` always asks."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Permit(Enum):
    """What an admitted call is to the breaker; handed back with its result."""

    ORDINARY = auto()
    PROBE = auto()


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """`failures` in a row open it for `open_for` seconds; each failed probe doubles that, up to `open_max`."""

    failures: int = 5
    open_for: float = 2.0
    open_max: float = 60.0
    probe_lease: float = 60.0
    """A probe that never reports (its caller was killed) is given up after this, and another one may go."""


class Breaker:
    """`admit` before a call, `record` or `forget` after it: exactly one of the two for every call that was admitted."""

    __slots__ = ("_failures", "_jitter", "_open_for", "_policy", "_probe_since", "_until", "opened")

    def __init__(self, policy: BreakerPolicy | None = None, jitter: Callable[[], float] = random.random) -> None:
        self._policy = policy or BreakerPolicy()
        self._jitter = jitter
        self._failures = 0
        self._until: float | None = None
        self._open_for = self._policy.open_for
        self._probe_since: float | None = None
        self.opened = 0
        """How often it opened, for status."""

    def state(self, now: float) -> BreakerState:
        if self._until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._until else BreakerState.HALF_OPEN

    def retry_in(self, now: float) -> float:
        """Seconds until a probe may go; 0.0 when one may go now."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def admit(self, now: float) -> Permit | None:
        """None: do not go. In half-open state exactly one call is let through, as the probe."""
        if self._until is None:
            return Permit.ORDINARY
        if now < self._until:
            return None
        if self._probe_since is not None and now - self._probe_since < self._policy.probe_lease:
            return None
        self._probe_since = now
        return Permit.PROBE

    def record(self, permit: Permit, now: float, good: bool, retry_after: float | None = None) -> None:
        """What an admitted call came to. `retry_after`: the server's own wish, which can lengthen an open interval.

        While it is open or half open only the probe decides: calls from before it opened say nothing of now.
        """
        if permit is Permit.ORDINARY and self._until is not None:
            return
        if good:
            self._failures = 0
            self._until = None
            self._probe_since = None
            self._open_for = self._policy.open_for
            return
        self._failures += 1
        if permit is Permit.PROBE:
            self._open_for = min(self._open_for * 2, self._policy.open_max)
        elif self._failures < self._policy.failures:
            return
        wait = self._open_for * (0.75 + 0.5 * self._jitter())
        if retry_after is not None:
            wait = max(wait, min(retry_after, self._policy.open_max))
        self._until = now + wait
        self._probe_since = None
        self.opened += 1

    def forget(self, permit: Permit) -> None:
        """An admitted call ended without saying anything about the server: cancelled, or never sent."""
        if permit is Permit.PROBE:
            self._probe_since = None


class Breakers:
    """One breaker an area."""

    def __init__(self, policy: BreakerPolicy | None = None, jitter: Callable[[], float] = random.random) -> None:
        self._policy, self._jitter = policy, jitter
        self.renew()

    def renew(self) -> None:
        """Another server: nothing is known of it. Calls that are under way report to the breakers that let them go."""
        self._all = {area: Breaker(self._policy, self._jitter) for area in Area}

    def __getitem__(self, area: Area) -> Breaker:
        return self._all[area]

    def states(self, now: float) -> dict[str, str]:
        return {area.value: breaker.state(now).value for area, breaker in self._all.items()}
