"""The host's context registry: asks every contributor at once, grants each a deadline, waits for all together.

Promises: `collect` returns within the shared planning time plus the longest grant, never a sum over contributors; it
never raises; one contributor's lateness, failure or bad answer costs the others nothing; sections are bounded in number
and bytes. A contributor registered `inline` is trusted to plan and begin without blocking and runs on the caller's own
thread; any other gets a thread of the registry's. On a thread that runs an event loop the sync form waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from honcho_actors.host.lane import Lane
from honcho_actors.host.members import placed, without
from honcho_actors.host.plan import Contributor, Plan
from honcho_actors.host.sections import MAX_BYTES, MAX_SECTIONS, taken
from honcho_actors.model import Context, Placement, Reason, Section, TurnRequest
from supervision import Clock, Waiter
from supervision.logged import unsaid

DEFAULT_TIMEOUT = 0.25
MAX_TIMEOUT = 3.0
PLAN_TIMEOUT = 0.05
"""Shared by all contributors that are not inline: how long their plans may take together."""

_log = logging.getLogger("honcho_actors.host")


class OutcomeState(StrEnum):
    """What became of one contributor in one collection. Closed."""

    OK = "ok"
    NOTHING = "nothing"
    LATE = "late"
    FAILED = "failed"
    BAD_SHAPE = "bad_shape"
    BUSY = "busy"
    """Its thread is still held by an earlier call, or was not free in time."""
    EVENT_LOOP = "event_loop"
    """It would have had to be waited for, on a thread that runs an event loop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One contributor's part. `granted` in seconds from the start; `taken` and `dropped` count sections.

    `ours`: it answered with a Context, whose texts are neutral, labelled and fenced; `reason` is that Context's.
    """

    name: str
    state: OutcomeState
    granted: float = 0.0
    dropped: int = 0
    taken: int = 0
    ours: bool = False
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """All sections in order of registration, and what became of each contributor."""

    sections: tuple[Section, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    def parts(self) -> Iterator[tuple[Outcome, tuple[Section, ...]]]:
        """Each contributor's outcome with the sections that it gave; sections of nobody come last, under a blank
        name."""
        at = 0
        for one in self.outcomes:
            yield one, self.sections[at : at + one.taken]
            at += one.taken
        if at < len(self.sections):
            yield Outcome("", OutcomeState.OK, taken=len(self.sections) - at), self.sections[at:]

    def split(self) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
        """The system sections and the user-message sections."""
        return (
            tuple(one for one in self.sections if one.placement == Placement.SYSTEM),
            tuple(one for one in self.sections if one.placement == Placement.USER_MESSAGE),
        )


class _Registered:
    __slots__ = ("contributor", "inline", "lane", "name", "warned")

    def __init__(self, name: str, contributor: Contributor, inline: bool) -> None:
        self.name = name
        self.contributor = contributor
        self.inline = inline
        self.lane = Lane(name)
        self.warned = False
        """It was complained of, and has done nothing right since: the next complaint is no news."""


class _Asked:
    """One contributor in one collection, while it runs."""

    __slots__ = ("answer", "deadline", "granted", "on_lane", "one", "plan", "state", "step")

    def __init__(self, one: _Registered) -> None:
        self.one = one
        self.plan: Any = None
        self.step: Waiter[Any] | None = None
        self.state = OutcomeState.OK
        self.deadline = 0.0
        self.granted = 0.0
        self.answer: Any = None
        self.on_lane = False


class ContextRegistry:
    """Where satellites register and a host collects. Any thread, any number of event loops. Limits in seconds and
    bytes."""

    def __init__(
        self,
        default_timeout: float = DEFAULT_TIMEOUT,
        max_timeout: float = MAX_TIMEOUT,
        max_sections: int = MAX_SECTIONS,
        max_bytes: int = MAX_BYTES,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.default_timeout = default_timeout
        self.max_timeout = max_timeout
        self.max_sections = max_sections
        self.max_bytes = max_bytes
        self._clock = clock or Clock()
        self._members: tuple[_Registered, ...] = ()

    def register(self, name: str, contributor: Contributor, inline: bool = False) -> None:
        """Adds a contributor, or replaces the one of this name in its place. `inline`: its `plan` and `run` never
        block."""
        new = _Registered(name, contributor, inline)
        self._members = placed(self._members, new)

    def unregister(self, name: str) -> None:
        """Takes a contributor out; no error when there is none."""
        self._members = without(self._members, name)

    @property
    def names(self) -> tuple[str, ...]:
        """Who is registered, in order."""
        return tuple(one.name for one in self._members)

    def collect(self, request: TurnRequest, ceiling: float | None = None) -> Collected:
        """Everyone's sections for this turn. `ceiling` in seconds bounds each grant further. Blocks at most that
        long."""
        on_loop = _running_loop()
        start = self._clock.now()
        asked = self._planned_inline(request)
        foreign = [] if on_loop else self._start_plans(asked, request)
        self._refuse_on_loop(asked, on_loop)
        until = start + PLAN_TIMEOUT
        for one in foreign:
            self._take_plan(one, _wait(one.step, until, self._clock))
        waiting = self._run(asked, start, ceiling, on_loop)
        for one in sorted(waiting, key=_by_deadline):
            while one.step is not None:
                _take(one, _wait(one.step, one.deadline, self._clock))
        return self._collected(asked)

    async def acollect(self, request: TurnRequest, ceiling: float | None = None) -> Collected:
        """As `collect`, without ever holding up the event loop."""
        start = self._clock.now()
        asked = self._planned_inline(request)
        foreign = self._start_plans(asked, request)
        until = start + PLAN_TIMEOUT
        for one in foreign:
            self._take_plan(one, await _await(one.step, until, self._clock))
        waiting = self._run(asked, start, ceiling, False)
        for one in sorted(waiting, key=_by_deadline):
            while one.step is not None:
                _take(one, await _await(one.step, one.deadline, self._clock))
        return self._collected(asked)

    def _planned_inline(self, request: TurnRequest) -> list[_Asked]:
        asked = [_Asked(one) for one in self._members]
        for one in asked:
            if one.one.inline:
                try:
                    one.plan = one.one.contributor.plan(request)
                except Exception:  # noqa: BLE001 boundary: a contributor's failure costs only itself
                    _failed(one, "plan")
        return asked

    def _start_plans(self, asked: list[_Asked], request: TurnRequest) -> list[_Asked]:
        started = []
        for one in asked:
            if one.one.inline:
                continue
            contributor = one.one.contributor
            one.step = one.one.lane.submit(lambda contributor=contributor: contributor.plan(request))  # type: ignore[misc]
            if one.step is None:
                one.state = OutcomeState.BUSY
            else:
                started.append(one)
        return started

    @staticmethod
    def _refuse_on_loop(asked: list[_Asked], on_loop: bool) -> None:
        for one in asked:
            if on_loop and not one.one.inline:
                one.state = OutcomeState.EVENT_LOOP

    @staticmethod
    def _take_plan(one: _Asked, value: Any) -> None:
        if value is None:
            one.state = OutcomeState.BUSY
            if one.step is not None:
                one.one.lane.give_up(one.step)
        elif value[0]:
            one.plan = value[1]
        else:
            _failed(one, "plan", value[1])
        one.step = None

    def _run(self, asked: list[_Asked], start: float, ceiling: float | None, on_loop: bool) -> list[_Asked]:
        """Grants, begins everyone, and gives those that have to be waited for."""
        waiting = []
        for one in asked:
            if one.state is not OutcomeState.OK:
                continue
            plan = one.plan
            if plan is None:
                one.state = OutcomeState.NOTHING
                continue
            if not isinstance(plan, Plan):
                one.state = OutcomeState.BAD_SHAPE
                _complain(one, "no_plan", "its plan is no Plan")
                continue
            one.granted = 0.0 if on_loop else self._granted(plan.wants, ceiling)
            one.deadline = start + one.granted
            if one.one.inline:
                try:
                    answer = plan.run(one.deadline)
                except Exception:  # noqa: BLE001 boundary: a contributor's failure costs only itself
                    _failed(one, "run")
                    continue
                if isinstance(answer, Waiter):
                    one.step = answer
                else:
                    one.answer = answer
                    continue
            else:
                run, deadline = plan.run, one.deadline
                one.step = one.one.lane.submit(lambda run=run, deadline=deadline: run(deadline))  # type: ignore[misc]
                if one.step is None:
                    one.state = OutcomeState.BUSY
                    continue
                one.on_lane = True
            waiting.append(one)
        return waiting

    def _granted(self, wants: object, ceiling: float | None) -> float:
        """Seconds for one contributor: what it wants, in its bounds. What makes no sense counts as the default."""
        bounds = [_seconds(wants, self.default_timeout), self.max_timeout]
        if ceiling is not None:
            bounds.append(_seconds(ceiling, self.default_timeout))
        return min(bounds)

    def _collected(self, asked: list[_Asked]) -> Collected:
        sections: tuple[Section, ...] = ()
        outcomes = []
        for one in asked:
            state, dropped, count, reason = one.state, 0, 0, None
            if state is OutcomeState.OK:
                kept, dropped, shaped = taken(one.answer, self.max_sections, self.max_bytes)
                sections += kept
                count = len(kept)
                if isinstance(one.answer, Context):
                    reason = one.answer.reason
                if not shaped:
                    state = OutcomeState.BAD_SHAPE
                elif not kept and not dropped:
                    state = OutcomeState.NOTHING
                if dropped or not shaped:
                    _complain(one, "sections_not_taken", f"{dropped} sections were not taken")
                else:
                    one.one.warned = False
            ours = reason is not None
            outcomes.append(Outcome(one.one.name, state, one.granted, dropped, count, ours, reason))
        return Collected(sections, tuple(outcomes))


def _by_deadline(one: _Asked) -> float:
    return one.deadline


def _take(one: _Asked, value: Any) -> None:
    """Ends a step: with an answer, with a further waiter that a lane's call gave, or with nothing in time."""
    step, one.step = one.step, None
    if one.on_lane:
        one.on_lane = False
        if value is None:
            _late(one)
            if step is not None:
                one.one.lane.give_up(step)
        elif not value[0]:
            _failed(one, "run", value[1])
        elif isinstance(value[1], Waiter):
            one.step = value[1]
        else:
            one.answer = value[1]
    elif value is None and step is not None and not step.resolved:
        _late(one)
    else:
        one.answer = value


def _late(one: _Asked) -> None:
    one.state = OutcomeState.LATE
    extra = {"event": "contributor_late", "contributor": one.one.name}
    _log.debug("contributor %s was late", one.one.name, extra=extra)


def _failed(one: _Asked, step: str, error: BaseException | None = None) -> None:
    one.state = OutcomeState.FAILED
    _complain(one, "contributor_failed", f"it failed in {step}", unsaid(error))


def _complain(one: _Asked, event: str, text: str, error: BaseException | None = None) -> None:
    """A warning, once until the contributor has done something right: it is asked at every turn."""
    level = logging.DEBUG if one.one.warned else logging.WARNING
    one.one.warned = True
    extra = {"event": event, "contributor": one.one.name}
    _log.log(level, "contributor %s: %s", one.one.name, text, exc_info=error, extra=extra)


def _wait(step: Waiter[Any] | None, deadline: float, clock: Clock) -> Any:
    """The value of a waiter, or None at the deadline. Blocks this thread."""
    if step is None:
        return None
    if not step.resolved:
        clock.block(step, deadline if step.deadline is None else min(deadline, step.deadline))
    return step.value if step.resolved else None


async def _await(step: Waiter[Any] | None, deadline: float, clock: Clock) -> Any:
    """As `_wait`, on an event loop. Abandoning the wait takes nothing from the waiter's other readers."""
    if step is None:
        return None
    if not step.resolved:
        try:
            async with asyncio.timeout(max(0.0, deadline - clock.now())):
                await step
        except TimeoutError:
            pass
    return step.value if step.resolved else None


def _seconds(value: object, default: float) -> float:
    """A span of time as given, or the default: not a number, NaN, zero or less is no span."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return default
    return float(value)


def _running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
