"""Chat completions: `messages` with roles, text or parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
TOOL_REASONS: Final = frozenset({"tool_calls", "function_call"})


def heard(body: Body) -> Words | None:
    """The user's texts. An assistant's message at the very end is a beginning for the model to go on from."""
    messages = body.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    said: list[str] = []
    since = 0
    for number, message in enumerate(messages):
        role = part(message, "role")
        if role == "user":
            said.append(text_of(part(message, "content"), TEXT) or "")
        elif role == "assistant" and (number + 1 < len(messages) or part(message, "tool_calls")):
            since = len(said)
    return Words(tuple(said), since) if said else None


def placed(body: Body, system: str, beside: Sequence[str]) -> dict[str, Any]:
    """See `Protocol.placed`."""
    blocks = iter(beside)
    messages: list[Any] = []
    for message in body["messages"]:
        role = part(message, "role")
        if role == "user":
            messages.append(beside_it(message, next(blocks, ""), "text"))
        elif system and role in ("system", "developer") and isinstance(message, Mapping):
            content = message.get("content")
            inside = with_text(content, system, "text") if isinstance(content, list) else behind(content, system)
            messages.append({**message, "content": inside})
            system = ""
        else:
            messages.append(message)
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return {**body, "messages": messages}


def answer(reply: Any) -> Reply:
    """The first choice's."""
    choices = part(reply, "choices")
    if not choices:
        return Reply(None)
    choice = choices[0]
    message = part(choice, "message")
    text = part(message, "content") or part(message, "refusal")
    calls = part(message, "tool_calls") or part(message, "function_call")
    return Reply(text if isinstance(text, str) else None, bool(calls) or part(choice, "finish_reason") in TOOL_REASONS)


class ChatReader(Reader):
    """The chunks of the first choice."""

    def feed(self, event: Any) -> None:
        """See `Reader`."""
        if part(event, "error"):
            self.failed = True
        for choice in part(event, "choices") or ():
            if part(choice, "index"):
                continue
            delta = part(choice, "delta")
            self._add(part(delta, "content") or part(delta, "refusal"))
            if part(delta, "tool_calls") or part(delta, "function_call"):
                self.goes_on = True
            reason = part(choice, "finish_reason")
            if reason:
                self.complete = True
                self.goes_on = self.goes_on or reason in TOOL_REASONS
