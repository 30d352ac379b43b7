"""Is memory as good as it should be, and if not, why: one state machine over everything that can be seen from here.

Pure: signs and the time go in, the next state and what has changed come out. A cause begins as soon as its rule holds
and ends when it has not held for a while, longer each time that it comes back, so that whatever flaps neither hides nor
fills a log. It must never look anywhere itself: `watching` brings the signs, `telling` carries the changes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from honcho_actors.model import Cause

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limits:
    """Where fine ends. Seconds, turns, bytes."""

    failed_reads: int = 2
    """Base reads that failed in a row, no good one between them."""
    oldest: float = 900.0
    """Age of the oldest undelivered turn."""
    restarts: int = 3
    restarts_within: float = 60.0
    skipped: int = 10
    """Turns handed over of which none was taken."""
    served: int = 20
    """Turns served while none was ever handed over,"""
    served_for: float = 300.0
    """for so long."""
    free_bytes: int = 200_000_000
    clear_for: float = 2.0
    """A cause has to stay away so long to end; doubled for each time that it came back,"""
    clear_for_max: float = 300.0
    """up to this,"""
    forgiven_after: float = 600.0
    """and as at first when it has stayed away for this long."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What is seen at one moment. Counts are of this process and only grow."""

    off: bool = False
    """Memory is switched off or there is no server: nothing is expected of it."""
    read_only: bool = False
    breakers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Area of the server to closed, open, half_open."""
    failed_reads: int = 0
    """Base reads that failed since the last good one, and why the last of them did."""
    failed_why: str = ""
    waiting: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """Conversations whose delivery waits, by the word for why."""
    lost: tuple[str, ...] = ()
    """Sides of the tree that have given up, in words for people."""
    store: str = ""
    """Why the outbox can't be written, as a clause."""
    oldest: float | None = None
    restarts: int = 0
    served: int = 0
    taken: int = 0
    skipped: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    free_bytes: int | None = None


class Trouble(NamedTuple):
    """One cause that holds: what is seen, what to do about it, and since when (monotonic seconds)."""

    cause: Cause
    text: str
    fix: str
    since: float


class Change(NamedTuple):
    """A cause has begun or ended. `lasted`: for how long it held, 0 at its beginning."""

    trouble: Trouble
    began: bool
    lasted: float


class _Record(NamedTuple):
    """What is remembered of a cause that holds or held."""

    trouble: Trouble
    holds: bool
    seen: float
    """When its rule last held."""
    returns: int


@dataclass(frozen=True, slots=True)
class Health:
    """The state: the causes in force, gravest first, and what the rules remember."""

    troubles: tuple[Trouble, ...] = ()
    since: float | None = None
    """When it became degraded; None while all is well."""
    records: Mapping[Cause, _Record] = field(default_factory=lambda: _NOTHING)
    restarts: tuple[float, ...] = ()
    """The looks at which the count of restarts had grown: what falls and rises together is one."""
    restarts_seen: int = 0
    first_served: float | None = None
    looked_at: float = 0.0

    @property
    def causes(self) -> tuple[Cause, ...]:
        return tuple(one.cause for one in self.troubles)

    @property
    def sentence(self) -> str:
        """Every cause in one sentence; "" when all is well."""
        return "; ".join(one.text for one in self.troubles)


_ORDER: Final = tuple(Cause)


def step(health: Health, signs: Signs, now: float, limits: Limits | None = None) -> tuple[Health, tuple[Change, ...]]:
    """One look. The changes come in the order in which people should read them: what ended, then what began."""
    limits = limits or Limits()
    health = _remember(health, signs, now, limits)
    records = dict(health.records)
    ended: list[Change] = []
    began: list[Change] = []
    for cause in _ORDER:
        found = None if signs.off else _RULES[cause](signs, health, limits)
        record = records.get(cause)
        if found is not None:
            if record is not None and record.holds:
                records[cause] = _Record(
                    record.trouble._replace(text=found[0], fix=found[1]), True, now, record.returns
                )
                continue
            again = record is not None and now - record.seen < limits.forgiven_after
            trouble = Trouble(cause, *found, now)
            records[cause] = _Record(trouble, True, now, record.returns + 1 if again and record is not None else 0)
            began.append(Change(trouble, True, 0.0))
        elif record is not None and record.holds:
            quiet = min(limits.clear_for * 2.0**record.returns, limits.clear_for_max)
            if signs.off or now - record.seen >= quiet:
                records[cause] = record._replace(holds=False)
                ended.append(Change(record.trouble, False, now - record.trouble.since))
    troubles = tuple(records[cause].trouble for cause in _ORDER if cause in records and records[cause].holds)
    since = None if not troubles else now if health.since is None else health.since
    after = replace(health, troubles=troubles, since=since, records=MappingProxyType(records))
    return after, (*ended, *began)


def _remember(health: Health, signs: Signs, now: float, limits: Limits) -> Health:
    """What a rule needs of the past: when the restarts were, and since when turns are served."""
    restarts = tuple(at for at in health.restarts if now - at < limits.restarts_within)
    if signs.restarts > health.restarts_seen:
        restarts = (*restarts, now)
    first = now if health.first_served is None and signs.served else health.first_served
    return replace(health, restarts=restarts, restarts_seen=signs.restarts, first_served=first, looked_at=now)


# -- the rules: (text, fix), or None -----------------------------------------------------------------------------------

Found = tuple[str, str] | None


def _given_up(signs: Signs, health: Health, limits: Limits) -> Found:
    if not signs.lost:
        return None
    return f"{' and '.join(signs.lost)} gave up and will be tried again", "see `problems` and the log for why"


def _unauthorized(signs: Signs, health: Health, limits: Limits) -> Found:
    refused = signs.failed_reads > 0 and signs.failed_why == "unauthorized"
    if not refused and not signs.waiting.get("unauthorized"):
        return None
    return "the server rejects the key", "correct HONCHO_API_KEY or the key file; no restart is needed"


def _store(signs: Signs, health: Health, limits: Limits) -> Found:
    if not signs.store:
        return None
    return signs.store, "give this user a state directory that can be written and has room"


def _breaker_open(signs: Signs, health: Health, limits: Limits) -> Found:
    shut = [area for area, state in signs.breakers.items() if state != "closed"]
    if not shut:
        return None
    if all(signs.breakers[area] == "half_open" for area in shut):
        how = "has not been asked again since it failed repeatedly"
    else:
        how = "fails repeatedly and is left alone for a while"
    return (
        f"the server {how} ({', '.join(shut)})",
        "look at the server; `honcho-actors doctor` asks it once",
    )


def _refresh_failing(signs: Signs, health: Health, limits: Limits) -> Found:
    if signs.failed_reads < limits.failed_reads or signs.failed_why == "unauthorized":
        return None
    return f"memory could not be read {signs.failed_reads} times in a row ({signs.failed_why or 'unknown'})", (
        "`honcho-actors doctor` tells what the server says"
    )


def _outbox_stuck(signs: Signs, health: Health, limits: Limits) -> Found:
    if signs.oldest is None or signs.oldest <= limits.oldest or signs.read_only:
        return None
    why = ", ".join(f"{word}: {count}" for word, count in sorted(signs.waiting.items()) if word)
    text = f"the oldest undelivered turn has waited {signs.oldest / 60:.0f} minutes" + (f" ({why})" if why else "")
    return text, "mend the server; what is queued is delivered by itself then"


def _nothing_captured(signs: Signs, health: Health, limits: Limits) -> Found:
    if signs.taken or signs.read_only:
        return None
    skipped = sum(signs.skipped.values())
    if skipped >= limits.skipped:
        why = ", ".join(f"{word}: {count}" for word, count in sorted(signs.skipped.items()))
        return f"none of {skipped} turns that were handed over was taken ({why})", "docs/capture.md explains each word"
    served_for = 0.0 if health.first_served is None else health.looked_at - health.first_served
    if skipped == 0 and signs.served >= limits.served and served_for >= limits.served_for:
        return f"{signs.served} turns were served and none was ever handed over", "call `capture` after each turn"
    return None


def _restarts(signs: Signs, health: Health, limits: Limits) -> Found:
    if len(health.restarts) < limits.restarts:
        return None
    text = f"parts of the runtime died {len(health.restarts)} times within {limits.restarts_within:.0f} seconds"
    return text, "see the log for what died; `honcho-actors tree` shows where"


def _disk(signs: Signs, health: Health, limits: Limits) -> Found:
    if signs.free_bytes is None or signs.free_bytes >= limits.free_bytes:
        return None
    return f"{signs.free_bytes // 1_000_000} MB are left for the state directory", "make room, or set state_dir"


_RULES: Final[Mapping[Cause, Callable[[Signs, Health, Limits], Found]]] = {
    Cause.GIVEN_UP: _given_up,
    Cause.UNAUTHORIZED: _unauthorized,
    Cause.STORE: _store,
    Cause.BREAKER_OPEN: _breaker_open,
    Cause.REFRESH_FAILING: _refresh_failing,
    Cause.OUTBOX_STUCK: _outbox_stuck,
    Cause.NOTHING_CAPTURED: _nothing_captured,
    Cause.RESTARTS: _restarts,
    Cause.DISK: _disk,
}
