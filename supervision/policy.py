"""The policy of a supervisor: starting, stopping, restarting, giving up; each function changes the draft of one step.

It reads like the manual: `restarts` is the table of restart types, `incident` the intensity and the strategies,
`advance` the order of things, `end` and `kill` the two ways out. `supervision.core` decides which one an event needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from supervision.events import (
    Abandon,
    Arm,
    AskStop,
    ChildStarted,
    Disarm,
    Exit,
    Exited,
    Expired,
    Happening,
    Ignored,
    Ready,
    Refuse,
    Reply,
    RestartChild,
    Retry,
    Spawn,
    StartChild,
    Started,
    StartFailed,
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
)
from supervision.spec_errors import (
    AlreadyStarted,
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
    Then,
    Turn,
)

GAVE_UP: Final = "restart intensity reached"
"""The detail of the `Shutdown` with which a supervisor ends that has given up."""
AUTO_SHUTDOWN: Final = "auto_shutdown"
"""The detail of the `Shutdown` with which a supervisor ends after its significant children."""


def restarts(restart: Restart, reason: Reason) -> bool:
    """Whether a child of this type is restarted after this ending."""
    if restart is Restart.PERMANENT:
        return True
    return restart is Restart.TRANSIENT and not reason.quiet


# --- starting ---------------------------------------------------------------------------------------------------------


def spawn(turn: Turn, child: Child) -> None:
    spec = child.spec
    # A temporary child is never started again: its arguments are not worth keeping alive.
    kept = spec.without_arguments() if spec.restart is Restart.TEMPORARY else spec
    child = turn.put(child, state=STARTING, spec=kept, generation=child.generation + 1, exit=None, overdue=False)
    args = turn.flags.extra_args + spec.args
    if spec.start_timeout != INFINITY:
        turn.out.append(Arm(Token(child.seq, child.generation, "start"), spec.start_timeout))
    turn.out.append(Spawn(child.seq, child.generation, spec, args, child.again, child.starter))


def disarm_start(turn: Turn, child: Child) -> None:
    if child.spec.start_timeout != INFINITY:
        turn.out.append(Disarm(Token(child.seq, child.generation, "start")))


def started(turn: Turn, event: Started) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        turn.put(child, ref=event.ref)
    elif child.state is STARTING and not child.overdue:
        disarm_start(turn, child)
        turn.report(Happening.RESTARTED if child.again else Happening.STARTED, child)
        if child.starter is not None:
            turn.out.append(Reply(child.starter, ChildStarted(event.ref, event.info)))
        turn.put(child, state=RUNNING, ref=event.ref, starter=None, fresh=False)
        advance(turn)


def ignored(turn: Turn, event: Ignored) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        gone(turn, child, None)
    elif child.state is STARTING:
        disarm_start(turn, child)
        if child.starter is not None:
            turn.out.append(Reply(child.starter, IGNORE))
        if turn.flags.dynamic or child.spec.restart is Restart.TEMPORARY:
            turn.drop(child)
        else:
            turn.put(child, state=DOWN, starter=None, fresh=False)
        advance(turn)


def start_failed(turn: Turn, event: StartFailed) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        gone(turn, child, None)
    elif child.state is STARTING:
        disarm_start(turn, child)
        not_started(turn, child, too_late(child) if child.overdue else event.error, event.fatal)


def too_late(child: Child) -> StartTimeout:
    text = f"child {child.spec.id!r} did not start within {child.spec.start_timeout} s"
    return StartTimeout(text, child=child.spec.id)


def not_started(turn: Turn, child: Child, error: BaseException, fatal: bool = False) -> None:
    turn.report(Happening.START_FAILED, child, Crashed(error))
    if child.starter is not None:
        turn.out.append(Refuse(child.starter, start_error(child, error)))
        if child.fresh or turn.flags.dynamic or child.spec.restart is Restart.TEMPORARY:
            turn.drop(child)
        else:
            turn.put(child, state=DOWN, starter=None)
        advance(turn)
    elif turn.phase is Phase.ENDING:
        turn.put(child, state=DOWN)
        advance(turn)
    elif turn.phase is Phase.BOOTING:
        turn.put(child, state=DOWN)
        failed = start_error(child, error)
        end(turn, Exit(Shutdown(failed), failed))
    elif fatal:
        turn.report(Happening.GAVE_UP, child)
        turn.put(child, state=DOWN)
        end(turn, Exit(Shutdown(GAVE_UP)))
    else:
        # Not a loop: the retry comes back through the mailbox, so that whatever is in it is served before.
        turn.put(child, state=RESTARTING)
        turn.out.append(TryAgain(child.seq, child.generation))
        if turn.job is not None:
            leave(turn, turn.job)
        advance(turn)


def leave(turn: Turn, job: Job) -> None:
    """Gives a job up: those whose turn has not come stay down until the retry."""
    turn.job = None
    for seq in job.start[job.started :]:
        child = turn.children.get(seq)
        if child is not None and child.state is AWAITING:
            turn.put(child, state=DOWN)


def start_error(child: Child, error: BaseException) -> BaseException:
    # A taken name is the answer itself, not a failure of the child.
    if isinstance(error, AlreadyStarted):
        return error
    if isinstance(error, StartTimeout) and error.child == child.spec.id:
        return error
    return StartError.of(child.spec.id, error)


# --- stopping ---------------------------------------------------------------------------------------------------------


def stop_child(turn: Turn, child: Child, then: Then) -> None:
    """Begins to stop a live child, by its own budget."""
    if child.state is STOPPING:
        turn.put(child, then=then)
    elif child.exit is not None:
        settle(turn, child, then)
    else:
        if child.state is STARTING:
            disarm_start(turn, child)
        child = turn.put(child, state=STOPPING, then=then)
        if child.spec.shutdown is BRUTAL_KILL:
            turn.out.append(Abandon(child.seq, child.generation))
            return
        if child.spec.shutdown != INFINITY:
            assert isinstance(child.spec.shutdown, int | float)
            turn.out.append(Arm(Token(child.seq, child.generation, "stop"), child.spec.shutdown))
        turn.out.append(AskStop(child.seq, child.generation))


def gone(turn: Turn, child: Child, reason: Reason | None) -> None:
    """A child that was being stopped has answered; `reason` is None if it never ran."""
    budget = child.spec.shutdown
    if budget is not BRUTAL_KILL:
        if budget != INFINITY:
            turn.out.append(Disarm(Token(child.seq, child.generation, "stop")))
        if reason is not None and deviates(child, reason):
            turn.report(Happening.STOPPED, child, reason)
    settle(turn, child, child.then)
    advance(turn)


def deviates(child: Child, reason: Reason) -> bool:
    """Whether the ending of a stopped child is worth a report: a permanent one has no business ending normally."""
    if isinstance(reason, Normal):
        return child.spec.restart is Restart.PERMANENT
    return not reason.quiet


def settle(turn: Turn, child: Child, then: Then) -> None:
    """The child is not running; it becomes what it was to become, and everyone who waited for that is told."""
    if child.starter is not None:
        turn.out.append(Refuse(child.starter, StartError.of(child.spec.id, None, "stopped while starting")))
    turn.out.extend(Reply(ender) for ender in child.enders)
    if then is Then.DROP:
        turn.drop(child)
    else:
        state = AWAITING if then is Then.AWAIT else DOWN
        turn.put(child, state=state, ref=None, exit=None, starter=None, enders=(), again=then is Then.AWAIT)


def outcome(turn: Turn, child: Child) -> Then:
    """What becomes of a child that is stopped for its own sake."""
    if turn.flags.dynamic or child.fresh or child.spec.restart is Restart.TEMPORARY:
        return Then.DROP
    return Then.KEEP


def expired(turn: Turn, event: Expired) -> None:
    seq, generation, purpose = event.token
    child = turn.fenced(seq, generation)
    if child is None:
        return
    if purpose == "start" and child.state is STARTING:
        # It may have a name, and be closing what it holds: whoever comes after it waits until it has answered.
        turn.put(child, overdue=True)
        turn.out.append(Abandon(seq, generation))
    elif purpose == "stop" and child.state is STOPPING:
        turn.report(Happening.ABANDONED, child)
        turn.out.append(Abandon(seq, generation))


# --- a child ends by itself -------------------------------------------------------------------------------------------


def exited(turn: Turn, event: Exited) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None:
        return
    if child.state is STOPPING:
        gone(turn, child, event.reason)
    elif child.state is STARTING:
        start_failed(turn, StartFailed(event.seq, event.generation, StartError.of(child.spec.id, None, "ended")))
    elif child.state is RUNNING and turn.job is not None:
        turn.put(child, exit=event.reason)
        turn.deferred += (event,)
    elif child.state is RUNNING:
        turn.report(Happening.EXITED, child, event.reason)
        child = turn.put(child, state=DOWN, ref=None, exit=None)
        if restarts(child.spec.restart, event.reason):
            incident(turn, child, event.at)
        else:
            ended_for_good(turn, child)


def ended_for_good(turn: Turn, child: Child) -> None:
    if outcome(turn, child) is Then.DROP:
        turn.drop(child)
    if not child.spec.significant or turn.flags.auto_shutdown is AutoShutdown.NEVER:
        return
    if turn.flags.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and any(
        other.spec.significant and other.state is not DOWN for other in turn.children.values()
    ):
        return
    turn.report(Happening.AUTO_SHUTDOWN, child)
    end(turn, Exit(Shutdown(AUTO_SHUTDOWN)))


def retry(turn: Turn, event: Retry) -> None:
    child = turn.fenced(event.seq, event.generation)
    if child is None or child.state is not RESTARTING:
        return
    if turn.job is not None:
        turn.deferred += (event,)
    else:
        incident(turn, child, event.at)


def incident(turn: Turn, child: Child, at: float) -> None:
    """Restarts the child and whom the strategy names, or gives up: one incident counts once, whoever it takes along."""
    turn.incidents = (*(seen for seen in turn.incidents if at - seen <= turn.flags.period), at)
    if len(turn.incidents) > turn.flags.intensity:
        turn.report(Happening.GAVE_UP, child)
        turn.put(child, state=DOWN)
        end(turn, Exit(Shutdown(GAVE_UP)))
    elif turn.flags.strategy is Strategy.ONE_FOR_ONE:
        spawn(turn, turn.put(child, again=True))
    else:
        everyone = turn.flags.strategy is Strategy.ONE_FOR_ALL
        turn.put(child, state=AWAITING, again=True)
        group = [one for one in turn.children.values() if everyone or one.seq >= child.seq]
        for one in group:
            if not one.live and one.seq != child.seq:
                turn.put(one, state=AWAITING, again=True)
        alive = tuple(one.seq for one in reversed(group) if one.live)
        turn.job = Job(stop=alive, start=tuple(one.seq for one in group))
        advance(turn)


# --- jobs -------------------------------------------------------------------------------------------------------------


def advance(turn: Turn) -> None:
    """Takes the job as far as it goes now."""
    while turn.job is not None:
        job = turn.job
        if job.stopped < len(job.stop):
            child = turn.children.get(job.stop[job.stopped])
            if child is not None and child.live:
                if child.state is not STOPPING:
                    stop_child(turn, child, group_outcome(turn, child))
                    continue
                return
            turn.job = replace(job, stopped=job.stopped + 1)
        elif job.started < len(job.start):
            child = turn.children.get(job.start[job.started])
            if child is not None and child.state is AWAITING:
                spawn(turn, child)
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


def group_outcome(turn: Turn, child: Child) -> Then:
    """What becomes of a child that is stopped with its group: a temporary one is never started again."""
    if child.spec.restart is Restart.TEMPORARY:
        return Then.DROP
    return Then.KEEP if turn.phase is Phase.ENDING else Then.AWAIT


# --- the supervisor ends ----------------------------------------------------------------------------------------------


def end(turn: Turn, ending: Exit) -> None:
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
            settle(turn, child, Then.KEEP)
        elif child.exit is not None:
            settle(turn, child, outcome(turn, child))
        elif turn.flags.dynamic:
            stop_child(turn, child, Then.DROP)
        else:
            living.append(child.seq)
            if child.state is STOPPING:
                turn.put(child, then=group_outcome(turn, child))
    turn.job = Job(stop=tuple(living))
    advance(turn)


def kill(turn: Turn) -> None:
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
            settle(turn, child, Then.KEEP)
    advance(turn)
