"""What a supervisor knows, as a value: its flags, its table of children, what is under way.

A `State` may be kept, compared, stepped twice, and read by any thread without asking the supervisor. Only
`supervision.core` changes one, through a `Turn`: the draft of one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any

from supervision.events import ChildInfo, ChildState, Counts, Effect, Event, Exit, Happening, Report
from supervision.persistent import Index, Table
from supervision.reasons import Reason
from supervision.spec import ChildSpec, Flags
from supervision.spec_errors import ByRefOnly, NotFound

AWAITING, STARTING, RUNNING = ChildState.AWAITING, ChildState.STARTING, ChildState.RUNNING
STOPPING, RESTARTING, DOWN = ChildState.STOPPING, ChildState.RESTARTING, ChildState.DOWN


class Phase(Enum):
    """Where the supervisor itself is in its life."""

    BOOTING = "booting"
    SERVING = "serving"
    ENDING = "ending"
    ENDED = "ended"


class Then(Enum):
    """What becomes of a child once it has been stopped."""

    AWAIT = "await"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Child:
    """One row of the child table. `exit` is set when the child is dead and its ending still waits behind a job;
    `overdue` when its start took too long and it was abandoned, and has not answered yet.
    """

    seq: int
    spec: ChildSpec
    state: ChildState = AWAITING
    generation: int = 0
    ref: Any = None
    again: bool = False
    fresh: bool = False
    overdue: bool = False
    then: Then = Then.KEEP
    exit: Reason | None = None
    starter: Any = None
    enders: tuple[Any, ...] = ()

    @property
    def live(self) -> bool:
        """True while the shell holds something for this child that has yet to answer."""
        return self.state in (STARTING, RUNNING, STOPPING)


@dataclass(frozen=True, slots=True)
class Job:
    """Children to stop, one after the other, then children to start, one after the other."""

    stop: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    stopped: int = 0
    started: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """A supervisor. Make it with `new`, change it with `step`, read it with the functions at the end of this file."""

    flags: Flags
    phase: Phase = Phase.BOOTING
    children: Table[Child] = Table()  # noqa: RUF009 (immutable)
    ids: Index = Index()  # noqa: RUF009 (immutable)
    refs: Index = Index()  # noqa: RUF009 (immutable)
    next_seq: int = 0
    live: int = 0
    incidents: tuple[float, ...] = ()
    job: Job | None = None
    deferred: tuple[Event, ...] = ()
    ending: Exit | None = None


_first = attrgetter(*State.__slots__[:6])
_second = attrgetter(*State.__slots__[6:])


class Turn:
    """One step being worked out: a draft of the state, and the effects so far."""

    __slots__ = (*State.__slots__, "out")

    flags: Flags
    phase: Phase
    children: Table[Child]
    ids: Index
    refs: Index
    next_seq: int
    live: int
    incidents: tuple[float, ...]
    job: Job | None
    deferred: tuple[Event, ...]
    ending: Exit | None
    out: list[Effect]

    def __init__(self, state: State) -> None:
        self.flags, self.phase, self.children, self.ids, self.refs, self.next_seq = _first(state)
        self.live, self.incidents, self.job, self.deferred, self.ending = _second(state)
        self.out = []

    def state(self) -> State:
        return State(*_first(self), *_second(self))

    # --- the child table ---

    def add(self, spec: ChildSpec, starter: Any = None, *, fresh: bool = False) -> Child:
        child = Child(self.next_seq, spec, starter=starter, fresh=fresh)
        self.next_seq += 1
        self.children = self.children.put(child.seq, child)
        if not self.flags.dynamic:
            self.ids = self.ids.put(spec.id, child.seq)
        return child

    def put(self, old: Child, **changes: Any) -> Child:
        child = _changed(old, changes)
        self.live += child.live - old.live
        self.children = self.children.put(child.seq, child)
        if old.ref is not child.ref:
            if old.ref is not None:
                self.refs = self.refs.drop(old.ref)
            if child.ref is not None:
                self.refs = self.refs.put(child.ref, child.seq)
        return child

    def drop(self, child: Child) -> None:
        self.live -= child.live
        self.children = self.children.drop(child.seq)
        if child.ref is not None:
            self.refs = self.refs.drop(child.ref)
        if not self.flags.dynamic:
            self.ids = self.ids.drop(child.spec.id)

    def fenced(self, seq: int, generation: int) -> Child | None:
        """The child, if this is its present life."""
        child = self.children.get(seq)
        return child if child is not None and child.generation == generation else None

    def find(self, target: Any, by_ref: bool = False) -> Child | None:
        seq = self.refs.get(target) if by_ref else self.ids.get(target)
        return None if seq is None else self.children.get(seq)

    def report(self, what: Happening, child: Child, reason: Reason | None = None) -> None:
        self.out.append(Report(what, child.spec.id, child.generation, reason))


def _changed(child: Child, changes: dict[str, Any]) -> Child:
    """As `dataclasses.replace`, which asks every class again what its fields are."""
    made = object.__new__(Child)
    for slot in Child.__slots__:
        object.__setattr__(made, slot, changes[slot] if slot in changes else getattr(child, slot))
    return made


# --- reading a state (from any thread) --------------------------------------------------------------------------------


def which_children(state: State) -> tuple[ChildInfo, ...]:
    """Every child, newest first."""
    return tuple(_info(child) for child in reversed(state.children))


def which_child(state: State, target: Any, *, by_ref: bool = False) -> ChildInfo:
    """One child, by id or by ref; `NotFound`."""
    return _info(_lookup(state, target, by_ref))


def get_childspec(state: State, target: Any, *, by_ref: bool = False) -> ChildSpec:
    """The spec that a child was started from (of a temporary one: without its arguments); `NotFound`."""
    return _lookup(state, target, by_ref).spec


def count_children(state: State) -> Counts:
    """How many children there are; one that is restarting counts by its kind, but is not active."""
    active = supervisors = 0
    for child in state.children.values():
        active += child.state in (RUNNING, STOPPING) and child.ref is not None
        supervisors += child.spec.kind == "supervisor"
    return Counts(len(state.children), active, supervisors, len(state.children) - supervisors)


def _lookup(state: State, target: Any, by_ref: bool) -> Child:
    if state.flags.dynamic and not by_ref:
        raise ByRefOnly("children of a dynamic supervisor are addressed by ref")
    seq = state.refs.get(target) if by_ref else state.ids.get(target)
    child = None if seq is None else state.children.get(seq)
    if child is None:
        raise NotFound("no child has this id or ref")
    return child


def _info(child: Child) -> ChildInfo:
    return ChildInfo(child.spec.id, child.ref, child.spec.kind, child.state, child.generation)
