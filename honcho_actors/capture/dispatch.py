"""Which conversation is delivered when: the sweeper's policy as a pure function.

`step(state, event) -> (state, effects)`. One worker for a conversation at most; a bounded number of workers at once;
what waits does so in order of arrival; what has to wait for its time is woken by a timer. Work that arrives while a
worker is ending starts the next one. The first success after failures wakes everything that waits for a server to come
back.

The state is mutated in place and belongs to one actor; the function is pure in every other respect.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

REMEMBERED = 10_000
"""Conversations that wait in memory, for a place or for a time; the others are read from the outbox again."""


@dataclass(frozen=True, slots=True)
class Work:
    """This conversation has something to deliver."""

    conversation: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker of this conversation ended. `again` in seconds: None, nothing is left; 0, at once.

    `waits_for_server`: it waits because of something that would be the same for every conversation. `succeeded`: it
    delivered something.
    """

    conversation: int
    again: float | None = None
    waits_for_server: bool = False
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The timer of this conversation fired."""

    conversation: int


@dataclass(frozen=True, slots=True)
class WakeAll:
    """Everything that waits is tried now (a flush, a key that appeared, a sweep)."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Read-only began or ended: nothing is started while it is up."""

    up: bool


@dataclass(frozen=True, slots=True)
class Room:
    """So many workers may run at once from now on."""

    limit: int


Event = Work | Ended | Due | WakeAll | Fence | Room


@dataclass(frozen=True, slots=True)
class Start:
    conversation: int


@dataclass(frozen=True, slots=True)
class WakeAfter:
    conversation: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CancelWake:
    conversation: int


@dataclass(frozen=True, slots=True)
class ReadMore:
    """The waiting list ran over: read from the outbox what else has work."""


Effect = Start | WakeAfter | CancelWake | ReadMore


@dataclass(slots=True)
class State:
    """Who is delivered now, who waits for a place, who for a time."""

    limit: int
    running: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    """Running, and given new work meanwhile."""
    waiting: OrderedDict[int, None] = field(default_factory=OrderedDict)
    timed: dict[int, bool] = field(default_factory=dict)
    """Waiting for its time; True: for the server to come back."""
    fenced: bool = False
    overflowed: bool = False

    def is_idle(self) -> bool:
        """Nothing runs and nothing waits for a place."""
        return not (self.running or self.waiting or self.again or self.overflowed)


def step(state: State, event: Event) -> list[Effect]:
    """What follows from one event; `state` is brought up to date."""
    effects: list[Effect] = []
    match event:
        case Work(conversation):
            if conversation in state.running:
                state.again.add(conversation)
            elif conversation not in state.timed:
                _queue(state, conversation)
        case Due(conversation):
            if state.timed.pop(conversation, None) is not None:
                _queue(state, conversation)
        case Ended(conversation):
            _ended(state, event, effects)
        case WakeAll():
            _wake(state, list(state.timed), effects)
        case Room(limit):
            state.limit = limit
        case Fence(up):
            state.fenced = up
            if not up:
                _wake(state, list(state.timed), effects)
    _fill(state, effects)
    return effects


def _ended(state: State, event: Ended, effects: list[Effect]) -> None:
    conversation = event.conversation
    state.running.discard(conversation)
    newer = conversation in state.again
    state.again.discard(conversation)
    if event.again is not None and event.again > 0:
        if len(state.timed) < REMEMBERED:
            state.timed[conversation] = event.waits_for_server
            effects.append(WakeAfter(conversation, event.again))
        else:
            state.overflowed = True  # its time stands in the outbox, from where it is read again
    elif event.again is not None or newer:
        _queue(state, conversation)
    if event.succeeded:
        _wake(state, [waiter for waiter, for_server in state.timed.items() if for_server], effects)


def _wake(state: State, conversations: list[int], effects: list[Effect]) -> None:
    for conversation in conversations:
        del state.timed[conversation]
        effects.append(CancelWake(conversation))
        _queue(state, conversation)


def _queue(state: State, conversation: int) -> None:
    if conversation in state.waiting:
        return
    if len(state.waiting) >= REMEMBERED:
        state.overflowed = True
        return
    state.waiting[conversation] = None


def _fill(state: State, effects: list[Effect]) -> None:
    while not state.fenced and state.waiting and len(state.running) < state.limit:
        conversation, _ = state.waiting.popitem(last=False)
        state.running.add(conversation)
        effects.append(Start(conversation))
    if state.overflowed and not state.waiting and not state.fenced:
        state.overflowed = False
        effects.append(ReadMore())
