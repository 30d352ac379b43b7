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

from supervision.events import (
    Abandon,
    Arm,
    AskStop,
    Boot,
    ChildStarted,
    DeleteChild,
    Disarm,
    Effect,
    Event,
    Exit,
    Exited,
    Expired,
    Happening,
    Ignored,
    Kill,
    Ready,
    Refuse,
    Reply,
    RestartChild,
    Retry,
    SetMaxChildren,
    Spawn,
    StartChild,
    Started,
    StartFailed,
    Stop,
    TerminateChild,
    Token,
    TryAgain,
)
from supervision.reasons import Crashed, Killed, Normal, Reason, Shutdown
from supervision.spec import (
    BRUTAL_KILL,
    IGNORE,
    INFINITY,
    AutoShutdown,
    Restart,
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
    StartTimeout,
)
from supervision.state import (
    AWAITING,
    DOWN,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPING,
    Child,
    Job,
    Phase,
    State,
    Then,
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

GAVE_UP: Final = "restart intensity reached"
"""The detail of the `Shutdown` with which a supervisor ends that has given up."""
AUTO_SHUTDOWN: Final = "auto_shutdown"
"""The detail of the `Shutdown` with which a supervisor ends after its significant children."""


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


def restarts(restart: Restart, reason: Reason) -> bool:
    """Whether a child of this type is restarted after this ending."""
    if restart is Restart.PERMANENT:
        return True
    return restart is Restart.TRANSIENT and not reason.quiet


# --- starting ---------------------------------------------------------------------------------------------------------


def _spawn(turn: Turn, child: Child) -> None:
    spec = child.spec
    # A temporary child is never started again: its arguments are not worth keeping alive.
    kept = spec.without_arguments() if spec.restart is Restart.TEMPORARY else spec
    child = turn.put(child, state=STARTING, spec=kept, generation=child.generation + 1, exit=None)
    args = turn.flags.extra_args + spec.args
    if spec.start_timeout != INFINITY:
        turn.out.append(Arm(Token(child.seq, child.generation, "start"), spec.start_timeout))
    turn.out.append(Spawn(child.seq, child.generation, spec, args, child.again))


def _disarm_start(turn: Turn, child: Child) -> None:
    if child.spec.start_timeout != INFINITY:
        turn.out.append(Disarm(Token(child.seq, child.generation, "start")))


def _started(turn: Turn, event: Started) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        turn.put(child, ref=event.ref)
    elif child.state is STARTING:
        _disarm_start(turn, child)
        turn.report(Happening.RESTARTED if child.again else Happening.STARTED, child)
        if child.starter is not None:
            turn.out.append(Reply(child.starter, ChildStarted(event.ref, event.info)))
        turn.put(child, state=RUNNING, ref=event.ref, starter=None, fresh=False)
        _advance(turn)


def _ignored(turn: Turn, event: Ignored) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        _gone(turn, child, None)
    elif child.state is STARTING:
        _disarm_start(turn, child)
        if child.starter is not None:
            turn.out.append(Reply(child.starter, IGNORE))
        if turn.flags.dynamic or child.spec.restart is Restart.TEMPORARY:
            turn.drop(child)
        else:
            turn.put(child, state=DOWN, starter=None, fresh=False)
        _advance(turn)


def _start_failed(turn: Turn, event: StartFailed) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        _gone(turn, child, None)
    elif child.state is STARTING:
        _disarm_start(turn, child)
        _not_started(turn, child, event.error, event.fatal)


def _not_started(turn: Turn, child: Child, error: BaseException, fatal: bool = False) -> None:
    turn.report(Happening.START_FAILED, child, Crashed(error))
    if child.starter is not None:
        turn.out.append(Refuse(child.starter, _start_error(child, error)))
        if child.fresh or turn.flags.dynamic or child.spec.restart is Restart.TEMPORARY:
            turn.drop(child)
        else:
            turn.put(child, state=DOWN, starter=None)
        _advance(turn)
    elif turn.phase is Phase.ENDING:
        turn.put(child, state=DOWN)
        _advance(turn)
    elif turn.phase is Phase.BOOTING:
        turn.put(child, state=DOWN)
        failed = _start_error(child, error)
        _end(turn, Exit(Shutdown(failed), failed))
    elif fatal:
        turn.report(Happening.GAVE_UP, child)
        turn.put(child, state=DOWN)
        _end(turn, Exit(Shutdown(GAVE_UP)))
    else:
        # Not a loop: the retry comes back through the mailbox, so that whatever is in it is served before.
        turn.put(child, state=RESTARTING)
        turn.out.append(TryAgain(child.seq, child.generation))
        if turn.job is not None:
            _leave(turn, turn.job)
        _advance(turn)


def _leave(turn: Turn, job: Job) -> None:
    """Gives a job up: those whose turn has not come stay down until the retry."""
    turn.job = None
    for seq in job.start[job.started :]:
        child = turn.children.get(seq)
        if child is not None and child.state is AWAITING:
            turn.put(child, state=DOWN)


def _start_error(child: Child, error: BaseException) -> BaseException:
    # A taken name is the answer itself, not a failure of the child.
    if isinstance(error, AlreadyStarted):
        return error
    if isinstance(error, StartTimeout) and error.child == child.spec.id:
        return error
    return StartError.of(child.spec.id, error)


# --- stopping ---------------------------------------------------------------------------------------------------------


def _stop(turn: Turn, child: Child, then: Then) -> None:
    """Begins to stop a live child, by its own budget."""
    if child.state is STOPPING:
        turn.put(child, then=then)
    elif child.exit is not None:
        _settle(turn, child, then)
    else:
        if child.state is STARTING:
            _disarm_start(turn, child)
        child = turn.put(child, state=STOPPING, then=then)
        if child.spec.shutdown is BRUTAL_KILL:
            turn.out.append(Abandon(child.seq, child.generation))
            return
        if child.spec.shutdown != INFINITY:
            assert isinstance(child.spec.shutdown, int | float)
            turn.out.append(Arm(Token(child.seq, child.generation, "stop"), child.spec.shutdown))
        turn.out.append(AskStop(child.seq, child.generation))


def _gone(turn: Turn, child: Child, reason: Reason | None) -> None:
    """A child that was being stopped has answered; `reason` is None if it never ran."""
    budget = child.spec.shutdown
    if budget is not BRUTAL_KILL:
        if budget != INFINITY:
            turn.out.append(Disarm(Token(child.seq, child.generation, "stop")))
        if reason is not None and _deviates(child, reason):
            turn.report(Happening.STOPPED, child, reason)
    _settle(turn, child, child.then)
    _advance(turn)


def _deviates(child: Child, reason: Reason) -> bool:
    """Whether the ending of a stopped child is worth a report: a permanent one has no business ending normally."""
    if isinstance(reason, Normal):
        return child.spec.restart is Restart.PERMANENT
    return not reason.quiet


def _settle(turn: Turn, child: Child, then: Then) -> None:
    """The child is not running; it becomes what it was to become, and everyone who waited for that is told."""
    if child.starter is not None:
        turn.out.append(Refuse(child.starter, StartError.of(child.spec.id, None, "stopped while starting")))
    turn.out.extend(Reply(ender) for ender in child.enders)
    if then is Then.DROP:
        turn.drop(child)
    else:
        state = AWAITING if then is Then.AWAIT else DOWN
        turn.put(child, state=state, ref=None, exit=None, starter=None, enders=(), again=then is Then.AWAIT)


def _outcome(turn: Turn, child: Child) -> Then:
    """What becomes of a child that is stopped for its own sake."""
    if turn.flags.dynamic or child.fresh or child.spec.restart is Restart.TEMPORARY:
        return Then.DROP
    return Then.KEEP


def _expired(turn: Turn, event: Expired) -> None:
    seq, generation, purpose = event.token
    child = turn.fenced(seq, generation)
    if child is None:
        return
    if purpose == "start" and child.state is STARTING:
        turn.out.append(Abandon(seq, generation))
        seconds = child.spec.start_timeout
        text = f"child {child.spec.id!r} did not start within {seconds} s"
        _not_started(turn, child, StartTimeout(text, child=child.spec.id))
    elif purpose == "stop" and child.state is STOPPING:
        turn.report(Happening.ABANDONED, child)
        turn.out.append(Abandon(seq, generation))


# --- a child ends by itself -------------------------------------------------------------------------------------------


def _exited(turn: Turn, event: Exited) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        _gone(turn, child, event.reason)
    elif child.state is STARTING:
        _start_failed(turn, StartFailed(event.seq, event.generation, StartError.of(child.spec.id, None, "ended")))
    elif child.state is RUNNING and turn.job is not None:
        turn.put(child, exit=event.reason)
        turn.deferred += (event,)
    elif child.state is RUNNING:
        turn.report(Happening.EXITED, child, event.reason)
        child = turn.put(child, state=DOWN, ref=None, exit=None)
        if restarts(child.spec.restart, event.reason):
            _incident(turn, child, event.at)
        else:
            _ended_for_good(turn, child)


def _ended_for_good(turn: Turn, child: Child) -> None:
    if _outcome(turn, child) is Then.DROP:
        turn.drop(child)
    if not child.spec.significant or turn.flags.auto_shutdown is AutoShutdown.NEVER:
        return
    if turn.flags.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and any(
        other.spec.significant and other.state is not DOWN for other in turn.children.values()
    ):
        return
    turn.report(Happening.AUTO_SHUTDOWN, child)
    _end(turn, Exit(Shutdown(AUTO_SHUTDOWN)))


def _retry(turn: Turn, event: Retry) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None or child.state is not RESTARTING:
        return
    if turn.job is not None:
        turn.deferred += (event,)
    else:
        _incident(turn, child, event.at)


def _incident(turn: Turn, child: Child, at: float) -> None:
    """Restarts the child and whom the strategy names, or gives up: one incident counts once, whoever it takes along."""
    turn.incidents = (*(seen for seen in turn.incidents if at - seen <= turn.flags.period), at)
    if len(turn.incidents) > turn.flags.intensity:
        turn.report(Happening.GAVE_UP, child)
        turn.put(child, state=DOWN)
        _end(turn, Exit(Shutdown(GAVE_UP)))
    elif turn.flags.strategy is Strategy.ONE_FOR_ONE:
        _spawn(turn, turn.put(child, again=True))
    else:
        everyone = turn.flags.strategy is Strategy.ONE_FOR_ALL
        turn.put(child, state=AWAITING, again=True)
        group = [one for one in turn.children.values() if everyone or one.seq >= child.seq]
        for one in group:
            if not one.live and one.seq != child.seq:
                turn.put(one, state=AWAITING, again=True)
        alive = tuple(one.seq for one in reversed(group) if one.live)
        turn.job = Job(stop=alive, start=tuple(one.seq for one in group))
        _advance(turn)


# --- jobs -------------------------------------------------------------------------------------------------------------


def _advance(turn: Turn) -> None:
    """Takes the job as far as it goes now."""
    while turn.job is not None:
        job = turn.job
        if job.stopped < len(job.stop):
            child = turn.children.get(job.stop[job.stopped])
            if child is not None and child.live:
                if child.state is not STOPPING:
                    _stop(turn, child, _group_outcome(turn, child))
                    continue
                return
            turn.job = replace(job, stopped=job.stopped + 1)
        elif job.started < len(job.start):
            child = turn.children.get(job.start[job.started])
            if child is not None and child.state is AWAITING:
                _spawn(turn, child)
            if child is not None and child.state in (AWAITING, STARTING):
                return
            turn.job = replace(job, started=job.started + 1)
        else:
            turn.job = None
            if turn.phase is Phase.BOOTING:
                turn.phase = Phase.SERVING
                turn.out.append(Ready())
    if turn.phase is Phase.ENDING and turn.live == 0 and turn.ending is not None:
        turn.phase = Phase.ENDED
        turn.out.append(turn.ending)


def _group_outcome(turn: Turn, child: Child) -> Then:
    """What becomes of a child that is stopped with its group: a temporary one is never started again."""
    if child.spec.restart is Restart.TEMPORARY:
        return Then.DROP
    return Then.KEEP if turn.phase is Phase.ENDING else Then.AWAIT


# --- the supervisor ends ----------------------------------------------------------------------------------------------


def _end(turn: Turn, ending: Exit) -> None:
    """Stops everyone: a dynamic supervisor all at once, any other one by one in reverse start order."""
    if turn.phase in (Phase.ENDING, Phase.ENDED):
        return
    turn.phase, turn.ending, turn.job = Phase.ENDING, ending, None
    refused, turn.deferred = turn.deferred, ()
    for event in refused:
        if isinstance(event, StartChild | RestartChild):
            turn.out.append(Refuse(event.reply, ShuttingDown("the supervisor is ending")))
    living: list[int] = []
    for child in tuple(reversed(turn.children)):
        if not child.live:
            _settle(turn, child, Then.KEEP)
        elif child.exit is not None:
            _settle(turn, child, _outcome(turn, child))
        elif turn.flags.dynamic:
            _stop(turn, child, Then.DROP)
        else:
            living.append(child.seq)
            if child.state is STOPPING:
                turn.put(child, then=_group_outcome(turn, child))
    turn.job = Job(stop=tuple(living))
    _advance(turn)


def _kill(turn: Turn) -> None:
    """Abandons everyone at once; the supervisor has ended when the last has answered, so that nobody outlives it."""
    refused, turn.deferred, turn.job = turn.deferred, (), None
    for event in refused:
        if isinstance(event, StartChild | RestartChild):
            turn.out.append(Refuse(event.reply, ShuttingDown("the supervisor was killed")))
    booting = turn.phase is Phase.BOOTING or (turn.ending is not None and turn.ending.error is not None)
    error = StartError("the supervisor was killed while it started", reason=Killed()) if booting else None
    turn.phase, turn.ending = Phase.ENDING, Exit(Killed(), error)
    for child in tuple(reversed(turn.children)):
        if child.live and child.exit is None:
            turn.put(child, state=STOPPING, then=Then.KEEP)
            turn.out.append(Abandon(child.seq, child.generation))
        else:
            _settle(turn, child, Then.KEEP)
    _advance(turn)


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
        _spawn(turn, child)
    else:
        turn.job = Job(start=(child.seq,))
        _advance(turn)


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
        then = _outcome(turn, child)
        _stop(turn, turn.put(child, enders=(*child.enders, event.reply)), then)
        _advance(turn)
    else:
        _settle(turn, turn.put(child, enders=(event.reply,)), _outcome(turn, child))
        _advance(turn)


def _set_max_children(turn: Turn, event: SetMaxChildren) -> None:
    turn.flags = replace(turn.flags, max_children=event.max_children)
    turn.out.append(Reply(event.reply))


def _boot(turn: Turn) -> None:
    turn.job = Job(start=tuple(child.seq for child in turn.children.values()))
    _advance(turn)


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
    Started: _started,
    Ignored: _ignored,
    StartFailed: _start_failed,
    Exited: _exited,
    Retry: _retry,
    Expired: _expired,
    StartChild: _start_child,
    TerminateChild: _terminate_child,
    RestartChild: _restart_child,
    DeleteChild: _delete_child,
    SetMaxChildren: _set_max_children,
    Stop: lambda turn, event: _end(turn, _exit_of(turn, event)),
    Kill: lambda turn, event: _kill(turn),
}


def _exit_of(turn: Turn, event: Stop) -> Exit:
    if turn.phase is Phase.BOOTING:
        return Exit(event.reason, StartError("the supervisor was stopped while it started", reason=event.reason))
    return Exit(event.reason)


def _handle(turn: Turn, event: Event) -> None:
    if not _refuse_late(turn, event):
        _HANDLERS[type(event)](turn, event)
