"""Responses: `instructions` and `input`, a text or items; the server may keep what was said before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from honcho_actors.integrations.protocols.shape import (
    Body,
    Reader,
    Reply,
    Words,
    behind,
    beside_it,
    part,
    place_of,
    text_of,
)

TEXT: Final = frozenset({"input_text", "text"})
SERVER_CALLS: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the model's own server carries out: the turn does not wait for the client."""


def heard(body: Body) -> Words | None:
    """The user's texts. With `previous_response_id` or a `conversation` they are the new ones alone; None when there is
    no input at all."""
    given = body.get("input")
    anchor = body.get("previous_response_id") or body.get("conversation")
    first = place_of(anchor) if anchor else 0
    if isinstance(given, str):
        return Words((given,), 0, first)
    if not isinstance(given, list | tuple):
        return None
    said: list[str] = []
    since = 0
    for item in given:
        role = part(item, "role")
        if role == "user":
            said.append(text_of(part(item, "content"), TEXT) or "")
        elif role == "assistant" or (role is None and _by_model(part(item, "type"))):
            since = len(said)
    return Words(tuple(said), since, first) if said or anchor else None


def placed(body: Body, system: str, beside: Sequence[str]) -> dict[str, Any]:
    """See `Protocol.placed`. The stable block goes into `instructions`, which the server never keeps."""
    made = dict(body)
    if system:
        made["instructions"] = behind(body.get("instructions"), system)
    given = body.get("input")
    if isinstance(given, str):
        made["input"] = given + (beside[0] if beside else "")
    elif isinstance(given, list | tuple):
        blocks = iter(beside)
        made["input"] = [
            beside_it(item, next(blocks, ""), "input_text") if part(item, "role") == "user" else item for item in given
        ]
    return made


def answer(reply: Any) -> Reply:
    """The text of all messages; none of a response that failed or is not there yet."""
    if part(reply, "status") in ("failed", "cancelled", "queued", "in_progress"):
        return Reply(None, part(reply, "status") in ("queued", "in_progress"))
    texts: list[str] = []
    goes_on = False
    for item in part(reply, "output") or ():
        kind = part(item, "type")
        if kind == "message":
            pieces = [part(one, "text") or part(one, "refusal") for one in part(item, "content") or ()]
            texts.append("".join(one for one in pieces if isinstance(one, str)))
        elif isinstance(kind, str) and kind not in SERVER_CALLS and kind.endswith(("_call", "_approval_request")):
            goes_on = True
    return Reply("\n\n".join(one for one in texts if one) or None, goes_on)


class ResponsesReader(Reader):
    """The last event holds the whole response."""

    def __init__(self) -> None:
        super().__init__()
        self._reply = Reply(None)

    def feed(self, event: Any) -> None:
        """See `Reader`."""
        kind = part(event, "type")
        if kind in ("response.completed", "response.incomplete"):
            self._reply = answer(part(event, "response"))
            self.complete, self.goes_on = True, self._reply.goes_on
        elif kind in ("response.failed", "error"):
            self.failed = True
        elif kind == "response.output_text.delta":
            self._tell(part(event, "delta"))

    def reply(self) -> Reply:
        """See `Reader`. Without its last event a stream was cut."""
        return Reply(None) if self.failed else self._reply


def _by_model(kind: object) -> bool:
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith("_call"))
