"""The words between a supervisor's pure core and the shell around it: events in, effects out.

The shell's side of the bargain:

- effects are carried out in their order, and carrying one out never blocks and never calls back into `step`;
- each `Spawn` is answered by exactly one of `Started`, `Ignored`, `StartFailed`; each `Started` is followed, once, by
  `Exited`. A child that is asked to stop or abandoned before it has started answers with any one of the four;
- `Abandon` always leads to an answer, soon: the core waits for it, but never for code that hangs;
- `TryAgain` becomes the event `Retry` by way of the supervisor's own mailbox, behind what is already in it;
- `Arm` becomes `Expired` when the seconds are over, unless `Disarm` came first (a late one is harmless: it is fenced);
- after `Exit` there are no more effects but refusals.

A child is known by its `seq` (unchanged while its spec lives) and its `generation` (one per start): what carries an old
generation is ignored. `at` is the monotonic time of the event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from supervision.reasons import Reason, Shutdown
from supervision.spec import ChildSpec, Kind

# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Boot:
    """Start the initial children. Answered by `Ready`, or by `Exit` with an error."""


@dataclass(frozen=True, slots=True)
class Started:
    """The child's `on_start` is through. `info` is what it gave to `started(info)`."""

    seq: int
    generation: int
    ref: Any
    info: Any = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The child's `on_start` returned IGNORE; it has ended."""

    seq: int
    generation: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The child did not start. `fatal`: the runtime refuses to start it at all, so trying again is senseless."""

    seq: int
    generation: int
    error: BaseException
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Exited:
    """A child that had started has ended."""

    seq: int
    generation: int
    reason: Reason
    at: float


@dataclass(frozen=True, slots=True)
class Retry:
    """The next attempt at a restart that failed; the tag is (seq, generation) of the failed one."""

    seq: int
    generation: int
    at: float


Purpose = Literal["start", "stop"]


class Token(NamedTuple):
    """Names one timer of one life of one child."""

    seq: int
    generation: int
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Expired:
    """The time of an `Arm` is over."""

    token: Token


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start one more child. Replies `ChildStarted` or IGNORE. The spec has passed `check_child`."""

    reply: Any
    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class TerminateChild:
    """Stop a child, by id or (`by_ref`) by ref. Replies None when it is gone. `alive`: whether the ref lives."""

    reply: Any
    target: Any
    by_ref: bool = False
    alive: bool = True


@dataclass(frozen=True, slots=True)
class RestartChild:
    """Start a child that is down. Replies as `StartChild` does."""

    reply: Any
    target: Any


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Forget a child that is down. Replies None."""

    reply: Any
    target: Any


@dataclass(frozen=True, slots=True)
class SetMaxChildren:
    """Change the limit of a dynamic supervisor; those that run are kept. Replies None. The value has been checked."""

    reply: Any
    max_children: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End: stop the children, then `Exit(reason)`."""

    reason: Reason = field(default_factory=Shutdown)


@dataclass(frozen=True, slots=True)
class Kill:
    """End now: abandon every child at once, and `Exit(Killed())` when they have answered."""


Event = (
    Boot
    | Started
    | Ignored
    | StartFailed
    | Exited
    | Retry
    | Expired
    | StartChild
    | TerminateChild
    | RestartChild
    | DeleteChild
    | SetMaxChildren
    | Stop
    | Kill
)

# --- effects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a child: `spec.actor_class(*args, **spec.kwargs)`. `again`: this is an automatic restart. `starter`: the
    `reply` of the request that led to it, if one did.
    """

    seq: int
    generation: int
    spec: ChildSpec
    args: tuple[Any, ...] = field(repr=False)
    again: bool = False
    starter: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AskStop:
    """Ask the child to end with `Shutdown`; it may still be starting."""

    seq: int
    generation: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Kill the child now: cancel its task, or abandon its thread."""

    seq: int
    generation: int


@dataclass(frozen=True, slots=True)
class Arm:
    """Tell `Expired(token)` after so many seconds."""

    token: Token
    seconds: float


@dataclass(frozen=True, slots=True)
class Disarm:
    """Forget the timer."""

    token: Token


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Send yourself `Retry` with this tag."""

    seq: int
    generation: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request with a value."""

    to: Any
    value: Any = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer a request with an error."""

    to: Any
    error: BaseException


@dataclass(frozen=True, slots=True)
class Ready:
    """The initial children have started."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The supervisor has ended; no child is left. `error`: it never became ready."""

    reason: Reason
    error: BaseException | None = None


class Happening(StrEnum):
    """What a `Report` is about. Closed: observers and metrics use these words."""

    STARTED = "started"
    RESTARTED = "restarted"
    START_FAILED = "start_failed"
    EXITED = "exited"
    """A child ended by itself."""
    STOPPED = "stopped"
    """A child that was asked to stop ended with another reason than it was given."""
    ABANDONED = "abandoned"
    """A child did not end within its budget."""
    GAVE_UP = "gave_up"
    AUTO_SHUTDOWN = "auto_shutdown"


@dataclass(frozen=True, slots=True)
class Report:
    """Something an observer may want to know. It carries names and reasons, never arguments or messages."""

    what: Happening
    child_id: object
    generation: int
    reason: Reason | None = None


Effect = Spawn | AskStop | Abandon | Arm | Disarm | TryAgain | Reply | Refuse | Ready | Exit | Report

# --- answers ----------------------------------------------------------------------------------------------------------


class ChildState(StrEnum):
    """Where a child is in its life."""

    AWAITING = "awaiting"
    """Its turn in a start or a group restart has not come yet."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    """Its restart failed; the next attempt is on its way."""
    DOWN = "down"
    """Known, and not running."""


class ChildStarted(NamedTuple):
    """What starting a child gives."""

    ref: Any
    info: Any = None


class ChildInfo(NamedTuple):
    """One row of `which_children`. `ref` is None unless the child runs."""

    id: object
    ref: Any
    kind: Kind
    state: ChildState
    generation: int


class Counts(NamedTuple):
    """How many children: known, running, and by kind (of those known)."""

    specs: int
    active: int
    supervisors: int
    workers: int
