"""The words that every room shares: what a turn asks, what it gets, what is said, where it belongs.

Plain immutable data, no behaviour and no imports of ours: every layer may use it. Durations are seconds as floats;
`turn` counts are substantive turns of one conversation. A caller can never change what is cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Scope = Literal["main", "subagent"]
Audience = Literal["private", "shared"]

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Placement(StrEnum):
    """Where a section belongs in a prompt: the byte-stable system half, or beside the user's message."""

    SYSTEM = "system"
    USER_MESSAGE = "user_message"


class State(StrEnum):
    """How a turn was served."""

    WARM = "warm"
    RESTORED = "restored"
    COLD = "cold"
    OFF = "off"


class Reason(StrEnum):
    """Why a context is what it is, above all why it is empty. Closed: metrics, `status` and docs use these words."""

    HIT = "hit"
    """A ready block was served."""
    FILLED = "filled"
    """A cold turn waited and its base layer landed inside the grant."""
    NOTHING_KNOWN = "nothing_known"
    """The server was read and knows nothing of this person yet."""
    DEADLINE = "deadline"
    """The grant was used up before the base layer landed; the load goes on for the next turn."""
    LOADING = "loading"
    """A load runs, and this turn was not one that waits for it (a trivial message, a grant of zero)."""
    NOT_CONFIGURED = "not_configured"
    DISABLED = "disabled"
    TOOLS_MODE = "tools_mode"
    SUBAGENT = "subagent"
    NO_IDENTITY = "no_identity"
    SHARED_AUDIENCE = "shared_audience"
    BREAKER_OPEN = "breaker_open"
    UNAUTHORIZED = "unauthorized"
    SERVER_ERROR = "server_error"
    """The base layer was asked for and failed: refused, bad reply, transport, time-out of the request itself."""
    WORKER_DIED = "worker_died"
    OVERLOADED = "overloaded"
    EVENT_LOOP = "event_loop"
    """The sync form was called on a thread that runs an event loop: it serves what is there and never waits."""
    BUDGET = "budget"
    """`context_tokens` leaves no room for a block."""
    GIVEN_UP = "given_up"
    """The side of the tree that loads memory has given up; it is tried again after a while."""
    CLOSED = "closed"


class Cause(StrEnum):
    """Why memory is worse than it should be. Closed: status, the metric `degraded`, every block and the logs use these
    words; gravest first."""

    GIVEN_UP = "given_up"
    """A side of the tree has given up; it is tried again by itself."""
    UNAUTHORIZED = "unauthorized"
    """The server rejects the key."""
    STORE = "store"
    """The outbox can't be written: turns are not captured."""
    BREAKER_OPEN = "breaker_open"
    """A part of the server failed so often that it is left alone for a while."""
    REFRESH_FAILING = "refresh_failing"
    """Memory could not be read, several times in a row."""
    OUTBOX_STUCK = "outbox_stuck"
    """Something accepted has waited too long for its delivery."""
    NOTHING_CAPTURED = "nothing_captured"
    """Turns were served, or handed over, and none was ever taken."""
    RESTARTS = "restarts"
    """Parts of the runtime die again and again."""
    DISK = "disk"
    """The disk of the state directory is nearly full."""


class ReceiptState(StrEnum):
    PENDING = "pending"
    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    SET_ASIDE = "set_aside"
    EXPIRED = "expired"
    SKIPPED = "skipped"


FINAL_STATES = frozenset({ReceiptState.DELIVERED, ReceiptState.SET_ASIDE, ReceiptState.EXPIRED, ReceiptState.SKIPPED})


class SkipReason(StrEnum):
    """Why a turn was not captured. Closed."""

    DISABLED = "disabled"
    READ_ONLY = "read_only"
    OPTED_OUT = "opted_out"
    NOT_INTERACTIVE = "not_interactive"
    EPHEMERAL = "ephemeral"
    SYNTHETIC = "synthetic"
    SUBAGENT = "subagent"
    NO_IDENTITY = "no_identity"
    NO_SESSION = "no_session"
    BLANK = "blank"
    WITHHELD = "withheld"
    TOO_LARGE = "too_large"
    """More than eight million characters."""
    OVERLOADED = "overloaded"
    STORE_FAILED = "store_failed"
    GIVEN_UP = "given_up"
    CLOSED = "closed"


class Realm(NamedTuple):
    """Where memory lives. First part of every key, so that a changed server, workspace or partition shares nothing.

    `server` is a digest of the normalised base URL (16 hex digits; `settings.server_id`), `workspace` the remote name,
    `partition` the host's own opaque boundary, empty today.
    """

    server: str
    workspace: str
    partition: str = ""


class PersonKey(NamedTuple):
    """One collection of memory: what `observer` knows of `observed` (remote peer ids)."""

    realm: Realm
    observer: str
    observed: str


class SessionKey(NamedTuple):
    """One conversation of one person. `key` is the caller's own, unsanitised; `user` the remote peer id."""

    realm: Realm
    key: str
    user: str
    audience: Audience = "private"


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a turn tells of itself. The conversation is the first non-blank of session_key, session_id, cwd.

    `user` is what the caller's *trusted* code says; a name that came in a message or a header is not one.
    """

    session_key: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    user: str | None = None
    query: str | None = None
    scope: Scope = "main"
    audience: Audience = "private"
    partition: str = ""
    automated: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said in one turn: user texts in admission order, then the answer. `answer=None`: an unanswered run.

    `turn_id` makes the capture once-only: two captures under one id are one batch. `at` is the time of the first user
    text (aware; a naive one is taken as UTC); without it the time of the call.
    """

    session_key: str
    user: str | None = None
    prompt: str | tuple[str, ...] = ""
    answer: str | None = None
    turn_id: str | None = None
    at: datetime | None = None
    scope: Scope = "main"
    audience: Audience = "private"
    partition: str = ""
    interactive: bool = True
    ephemeral: bool = False
    synthetic: bool = False
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Section:
    """One titled piece of recalled text. `age` in seconds at the time of serving; `made_for_turn` is the turn count."""

    title: str
    body: str
    placement: Placement
    age: float | None = None
    made_for_turn: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a turn gets. `waited` in seconds; `age` of the base layer in seconds, None when there is none.

    `system` and `user_message` are the two placements as ready text, "" when there is nothing for them.
    """

    sections: tuple[Section, ...] = ()
    state: State = State.OFF
    reason: Reason = Reason.DISABLED
    waited: float = 0.0
    age: float | None = None
    system: str = ""
    user_message: str = ""

    @property
    def degraded(self) -> tuple[Cause, ...]:
        """Why memory was worse than it should be when this was served, gravest first; empty when all was well. At most
        two seconds behind."""
        return ()

    def beside(self, causes: tuple[Cause, ...]) -> Context:
        """The same answer, given while memory was degraded."""
        return DegradedContext(
            self.sections, self.state, self.reason, self.waited, self.age, self.system, self.user_message, causes
        )


@dataclass(frozen=True, slots=True)
class DegradedContext(Context):
    """A class of its own, so that a turn of a healthy runtime pays nothing for it."""

    degraded: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One search hit. `scope` and `key` are those that were asked for and really searched, never relabelled."""

    id: str
    text: str
    peer: str
    session: str | None
    created_at: datetime | None
    scope: str
    key: str | None
    provider: str = ""
    """Who gave it, by the name under which it is registered with a host; "" without a host's registry."""
