"""Messages (Anthropic): `system` beside `messages`; a tool's result comes in a user's message."""

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
    text_of,
    with_text,
)

TEXT: Final = frozenset({"text"})
GOES_ON: Final = frozenset({"tool_use", "pause_turn"})


def heard(body: Body) -> Words | None:
    """The user's texts. A user's message that holds tools' results and no text is none of the person's. An assistant's
    message at the very end is a beginning for the model to go on from."""
    messages = body.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    said: list[str] = []
    since = 0
    for number, message in enumerate(messages):
        role = part(message, "role")
        if role == "user" and _is_said(message):
            said.append(text_of(part(message, "content"), TEXT) or "")
        elif role == "assistant" and number + 1 < len(messages):
            since = len(said)
    return Words(tuple(said), since) if said else None


def placed(body: Body, system: str, beside: Sequence[str]) -> dict[str, Any]:
    """See `Protocol.placed`. Breakpoints of the prompt cache stay where the caller put them."""
    made = dict(body)
    if system:
        given = body.get("system")
        made["system"] = with_text(given, system, "text") if isinstance(given, list) else behind(given, system)
    blocks = iter(beside)
    made["messages"] = [
        beside_it(message, next(blocks, ""), "text")
        if part(message, "role") == "user" and _is_said(message)
        else message
        for message in body["messages"]
    ]
    return made


def answer(reply: Any) -> Reply:
    """The text of all text blocks."""
    pieces = [part(one, "text") for one in part(reply, "content") or () if part(one, "type") == "text"]
    text = "".join(one for one in pieces if isinstance(one, str))
    return Reply(text or None, part(reply, "stop_reason") in GOES_ON)


class MessagesReader(Reader):
    """The text deltas, up to the stop reason."""

    def feed(self, event: Any) -> None:
        """See `Reader`."""
        kind = part(event, "type")
        if kind == "content_block_delta":
            self._add(part(part(event, "delta"), "text"))
        elif kind == "content_block_start":
            self._add(part(part(event, "content_block"), "text"))
        elif kind == "message_delta":
            reason = part(part(event, "delta"), "stop_reason")
            if reason:
                self.goes_on = reason in GOES_ON
        elif kind == "message_stop":
            self.complete = True
        elif kind == "error":
            self.failed = True

    def reply(self) -> Reply:
        """See `Reader`. Without its last event a stream was cut."""
        return super().reply() if self.complete else Reply(None)


def _is_said(message: Any) -> bool:
    content = part(message, "content")
    if not isinstance(content, list):
        return True
    kinds = {part(one, "type") for one in content}
    return "tool_result" not in kinds or "text" in kinds
