"""The supervisor as a pure function: `step(state, event) -> (state, effects)`.

No thread, no clock, no Pykka: time comes in with events, everything that must be done goes out as effects
(`supervision.events` has both, and what the shell promises in return). A state is a value: it may be kept, compared,
stepped twice, and read by any thread (`which_children`, `count_children`, ...) without asking the supervisor.

What takes several steps is a `Job`: children to stop, in order, then children to start, in order. Whatever would get
in its way (a child that dies meanwhile, a request to start another) is deferred until it is done, as Erlang's mailbox
would; what must not wait (terminate, stop, all reading) is served in between. One_for_one and dynamic supervisors
restart children independently and need a job only to boot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from supervision import policy
from supervision.events import (
    Boot,
    DeleteChild,
    Effect,
    Event,
    Exit,
    Exited,
    Expired,
    Ignored,
    Kill,
    Refuse,
    Reply,
    RestartChild,
    Retry,
    SetMaxChildren,
    StartChild,
    Started,
    StartFailed,
    Stop,
    TerminateChild,
)
from supervision.policy import AUTO_SHUTDOWN, GAVE_UP, restarts
from supervision.spec import (
    Strategy,
    TreeSpec,
)
from supervision.spec_errors import (
    AlreadyPresent,
    AlreadyStarted,
    ByRefOnly,
    MaxChildren,
    NotFound,
    Restarting,
    Running,
    ShuttingDown,
    StartError,
)
from supervision.state import (
    AWAITING,
    RESTARTING,
    Child,
    Job,
    Phase,
    State,
    Turn,
    count_children,
    get_childspec,
    which_child,
    which_children,
)

__all__ = [
    "AUTO_SHUTDOWN",
    "GAVE_UP",
    "State",
    "count_children",
    "get_childspec",
    "new",
    "restarts",
    "step",
    "which_child",
    "which_children",
]


def new(tree: TreeSpec) -> State:
    """The state of a supervisor before `Boot`."""
    turn = Turn(State(tree.flags))
    for spec in tree.children:
        turn.add(spec)
    return turn.state()


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """The supervisor after the event, and what the shell has to do about it."""
    turn = Turn(state)
    _handle(turn, event)
    while turn.deferred and turn.job is None and turn.phase is Phase.SERVING:
        event, turn.deferred = turn.deferred[0], turn.deferred[1:]
        _handle(turn, event)
    return turn.state(), tuple(turn.out)


# --- requests ---------------------------------------------------------------------------------------------------------


def _start_child(turn: Turn, event: StartChild) -> None:
    if turn.job is not None:
        turn.deferred += (event,)
        return
    if turn.flags.dynamic:
        if len(turn.children) >= turn.flags.max_children:
            text = f"{len(turn.children)} of {turn.flags.max_children} children"
            turn.out.append(Refuse(event.reply, MaxChildren(text)))
            return
    elif (known := turn.find(event.spec.id)) is not None:
        text = f"child {known.spec.id!r} exists and is {known.state}"
        taken = AlreadyStarted(text, known.ref) if known.live else AlreadyPresent(text)
        turn.out.append(Refuse(event.reply, taken))
        return
    _begin(turn, turn.add(event.spec, event.reply, fresh=True))


def _restart_child(turn: Turn, event: RestartChild) -> None:
    child = _at_rest(turn, event)
    if child is None:
        return
    if turn.job is not None:
        turn.deferred += (event,)
        return
    _begin(turn, turn.put(child, starter=event.reply, again=False, state=AWAITING))


def _begin(turn: Turn, child: Child) -> None:
    """Starts a child on request. Where children depend on each other's order, that is a job like any other."""
    if turn.flags.strategy is Strategy.ONE_FOR_ONE:
        policy.spawn(turn, child)
    else:
        turn.job = Job(start=(child.seq,))
        policy.advance(turn)


def _delete_child(turn: Turn, event: DeleteChild) -> None:
    child = _at_rest(turn, event)
    if child is not None:
        turn.drop(child)
        turn.out.append(Reply(event.reply))


def _at_rest(turn: Turn, event: RestartChild | DeleteChild) -> Child | None:
    """The child, if it is down; else the caller has been refused."""
    if turn.flags.dynamic:
        turn.out.append(Refuse(event.reply, ByRefOnly("a dynamic supervisor neither restarts nor deletes a child")))
        return None
    child = turn.find(event.target)
    if child is None:
        turn.out.append(Refuse(event.reply, NotFound("no child has this id")))
    elif child.live:
        turn.out.append(Refuse(event.reply, Running(f"child {child.spec.id!r} is {child.state}")))
    elif child.state in (RESTARTING, AWAITING):
        turn.out.append(Refuse(event.reply, Restarting(f"child {child.spec.id!r} is {child.state}")))
    else:
        return child
    return None


def _terminate_child(turn: Turn, event: TerminateChild) -> None:
    if turn.flags.dynamic and not event.by_ref:
        turn.out.append(Refuse(event.reply, ByRefOnly("children of a dynamic supervisor are addressed by ref")))
        return
    child = turn.find(event.target, event.by_ref)
    if child is None and event.by_ref and not event.alive:
        turn.out.append(Reply(event.reply))
    elif child is None:
        turn.out.append(Refuse(event.reply, NotFound("no child has this id or ref")))
    elif child.live:
        then = policy.outcome(turn, child)
        policy.stop_child(turn, turn.put(child, enders=(*child.enders, event.reply)), then)
        policy.advance(turn)
    else:
        policy.settle(turn, turn.put(child, enders=(event.reply,)), policy.outcome(turn, child))
        policy.advance(turn)


def _set_max_children(turn: Turn, event: SetMaxChildren) -> None:
    turn.flags = replace(turn.flags, max_children=event.max_children)
    turn.out.append(Reply(event.reply))


def _boot(turn: Turn) -> None:
    turn.job = Job(start=tuple(child.seq for child in turn.children.values()))
    policy.advance(turn)


def _refuse_late(turn: Turn, event: Event) -> bool:
    """Whether an ending supervisor has no more use for the event."""
    if turn.phase is Phase.ENDED or (
        turn.phase is Phase.ENDING and isinstance(event, StartChild | RestartChild | SetMaxChildren)
    ):
        reply = getattr(event, "reply", None)
        if reply is not None:
            turn.out.append(Refuse(reply, ShuttingDown("the supervisor is ending")))
        return True
    return False


_HANDLERS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    Boot: lambda turn, event: _boot(turn),
    Started: policy.started,
    Ignored: policy.ignored,
    StartFailed: policy.start_failed,
    Exited: policy.exited,
    Retry: policy.retry,
    Expired: policy.expired,
    StartChild: _start_child,
    TerminateChild: _terminate_child,
    RestartChild: _restart_child,
    DeleteChild: _delete_child,
    SetMaxChildren: _set_max_children,
    Stop: lambda turn, event: policy.end(turn, _exit_of(turn, event)),
    Kill: lambda turn, event: policy.kill(turn),
}


def _exit_of(turn: Turn, event: Stop) -> Exit:
    if turn.phase is Phase.BOOTING:
        return Exit(event.reason, StartError("the supervisor was stopped while it started", reason=event.reason))
    return Exit(event.reason)


def _handle(turn: Turn, event: Event) -> None:
    if not _refuse_late(turn, event):
        _HANDLERS[type(event)](turn, event)
