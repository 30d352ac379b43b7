"""What a tool answers: text for the model, details for the host, and an error out of a closed vocabulary.

*Nothing found*, *failed*, *refused* and *withheld* are four different answers, in words and in `outcome`. No answer
repeats what a model sent, what a server said of an error, or what an exception held; whatever was recalled stands
inside the fence. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn

from honcho_actors.honcho.outcomes import Failure, FailureKind
from honcho_actors.privacy import fence
from honcho_actors.sessions.block import TITLES
from honcho_actors.sessions.budget import cut_chars


class Outcome(StrEnum):
    """Which of the answers it is. Closed: the label of `tool_calls_total`."""

    OK = "ok"
    NOTHING_FOUND = "nothing_found"
    FAILED = "failed"
    REFUSED = "refused"
    WITHHELD = "withheld"
    READ_ONLY = "read_only"


class ToolError(StrEnum):
    """Why there is no ordinary answer. Closed."""

    OFF = "off"
    NOT_CONFIGURED = "not_configured"
    CONTEXT_MODE = "context_mode"
    SUBAGENT = "subagent"
    SHARED_AUDIENCE = "shared_audience"
    NO_SESSION = "no_session"
    NO_IDENTITY = "no_identity"
    BAD_ARGUMENT = "bad_argument"
    NOT_ALLOWED = "not_allowed"
    EVENT_LOOP = "event_loop"
    UNKNOWN_TOOL = "unknown_tool"
    READ_ONLY = "read_only"
    BUDGET = "budget"
    WITHHELD = "withheld"
    NOT_FOUND = "not_found"
    UNAUTHORIZED = "unauthorized"
    SERVER_ERROR = "server_error"
    BAD_REPLY = "bad_reply"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    RATE_LIMITED = "rate_limited"
    BREAKER_OPEN = "breaker_open"
    UNKNOWN_OUTCOME = "unknown_outcome"
    NOT_VERIFIED = "not_verified"
    INTERNAL = "internal"


_REFUSED: Final = frozenset(
    {
        ToolError.NOT_CONFIGURED,
        ToolError.CONTEXT_MODE,
        ToolError.SUBAGENT,
        ToolError.SHARED_AUDIENCE,
        ToolError.NO_SESSION,
        ToolError.NO_IDENTITY,
        ToolError.BAD_ARGUMENT,
        ToolError.NOT_ALLOWED,
        ToolError.EVENT_LOOP,
        ToolError.UNKNOWN_TOOL,
        ToolError.BUDGET,
    }
)


class Details(dict[str, Any]):
    """A mapping that `json` writes and nobody changes; what is nested in it is the same, lists as tuples."""

    def _fixed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the details of an answer are read-only")

    def __reduce__(self) -> tuple[type[Details], tuple[dict[str, Any]]]:
        return Details, (dict(self),)

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _fixed


def _fixed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Details({str(name): _fixed(one) for name, one in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_fixed(one) for one in value)
    return value


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`text` is for the model; `details` is JSON-able and read-only; `error` is None for an answer and for *nothing
    found*.
    """

    text: str
    details: Mapping[str, Any] = field(default_factory=Details)
    error: ToolError | None = None

    @property
    def outcome(self) -> Outcome:
        """Which of the answers this is."""
        error = self.error
        if error is None:
            return Outcome.NOTHING_FOUND if self.details.get("outcome") == Outcome.NOTHING_FOUND else Outcome.OK
        if error is ToolError.NOT_FOUND:
            return Outcome.NOTHING_FOUND
        if error is ToolError.WITHHELD:
            return Outcome.WITHHELD
        if error is ToolError.READ_ONLY:
            return Outcome.READ_ONLY
        return Outcome.REFUSED if error in _REFUSED else Outcome.FAILED


def answered(text: str, **details: Any) -> ToolResult:
    """An ordinary answer."""
    return ToolResult(text, _fixed({"outcome": str(Outcome.OK), **details}))


def recalled(head: str, body: str, tail: str = "", **details: Any) -> ToolResult:
    """An ordinary answer that holds recalled text: `body` goes inside the fence, `head` and `tail` are our words."""
    text = "\n\n".join(part for part in (head, fence.enclose(body), tail) if part)
    return answered(text, **details)


def nothing(text: str, **details: Any) -> ToolResult:
    """The server was asked, answered, and had nothing."""
    return ToolResult(text, _fixed({"outcome": str(Outcome.NOTHING_FOUND), **details}))


def refusal(error: ToolError, text: str, **details: Any) -> ToolResult:
    """No answer, with its word. `details` gets the outcome and the error as words."""
    outcome = ToolResult("", error=error).outcome
    return ToolResult(text, _fixed({"outcome": str(outcome), "error": str(error), **details}), error)


def withheld(parameter: str) -> ToolResult:
    """What would have left looks like a credential; nothing was sent."""
    return refusal(
        ToolError.WITHHELD,
        f"Withheld: `{parameter}` looks as if it holds a password, key or other credential, so the call was refused "
        "and nothing was sent. Leave the credential out and call again.",
        parameter=parameter,
    )


_FAILED: Final[Mapping[FailureKind, tuple[ToolError, str]]] = {
    FailureKind.NOTHING_KNOWN: (ToolError.NOT_FOUND, "the memory server does not know this person yet"),
    FailureKind.NOT_CONFIGURED: (ToolError.NOT_CONFIGURED, "no usable memory server is configured"),
    FailureKind.UNAUTHORIZED: (ToolError.UNAUTHORIZED, "the memory server did not accept the configured key"),
    FailureKind.REFUSED: (ToolError.SERVER_ERROR, "the memory server answered with an error"),
    FailureKind.BAD_REPLY: (ToolError.BAD_REPLY, "the memory server sent an answer that cannot be read"),
    FailureKind.TRANSPORT: (ToolError.UNREACHABLE, "the memory server could not be reached"),
    FailureKind.TIMED_OUT: (ToolError.TIMED_OUT, "the memory server did not answer in time"),
    FailureKind.UNKNOWN_OUTCOME: (ToolError.UNKNOWN_OUTCOME, "the memory server gave no true answer to the write"),
    FailureKind.RATE_LIMITED: (ToolError.RATE_LIMITED, "the memory server asks for fewer requests"),
    FailureKind.BREAKER_OPEN: (ToolError.BREAKER_OPEN, "the memory server failed repeatedly and is left alone a while"),
}
READ_FAILED: Final = "This says nothing about what is remembered; do not report it as nothing found."
WRITE_FAILED: Final = "Do not tell the user that it was stored."
WRITE_UNSURE: Final = (
    "Whether it was done is not known. Read it back before trying again, and do not tell the user that it was stored."
)


def failed(failure: Failure, *, write: bool = False) -> ToolResult:
    """A failure of the client, without a word of what the server said."""
    error, why = _FAILED[failure.kind]
    if not write:
        after = READ_FAILED
    elif failure.bytes_sent and error in (ToolError.UNKNOWN_OUTCOME, ToolError.TIMED_OUT, ToolError.UNREACHABLE):
        after = WRITE_UNSURE
    else:
        after = WRITE_FAILED
    more = {} if failure.status is None else {"status": failure.status}
    return refusal(error, f"Failed: {why}. {after}", **more)


def timed_out(*, write: bool) -> ToolResult:
    """The tool's own time is over."""
    after = WRITE_UNSURE if write else READ_FAILED
    return refusal(ToolError.TIMED_OUT, f"Failed: the memory server did not answer in time. {after}")


def missing(failure: Failure) -> bool:
    """Whether a 404 speaks of what was asked for, not of a route that is not there."""
    return failure.absent


def excerpt(text: str, limit: int) -> str:
    """Recalled text as it may stand inside the fence, at most `limit` characters, cut after a whole word."""
    clean = fence.neutral(text, TITLES)
    return cut_chars(clean, limit) or clean[:limit]


def numbered(rows: Iterable[tuple[str, str]]) -> str:
    """Hits under their labels, in order."""
    return "\n\n".join(f"{number}. {label}\n{text}" for number, (label, text) in enumerate(rows, 1))
