"""The three protocols that models are asked in: where a person's words stand, where blocks go, what the answer is.

Pure functions over a request's body (plain data) and over replies (plain data or an SDK's objects). Nothing is
validated and nothing is converted: what is not understood is left as it is, and a body that is no conversation is
`None`, to be passed on untouched.
"""

from __future__ import annotations

from typing import Final

from honcho_actors.integrations.protocols import chat, messages, responses
from honcho_actors.integrations.protocols.shape import Body, Protocol, Reader, Reply, Words

CHAT: Final = Protocol("chat completions", chat.heard, chat.placed, chat.answer, chat.ChatReader)
RESPONSES: Final = Protocol("responses", responses.heard, responses.placed, responses.answer, responses.ResponsesReader)
MESSAGES: Final = Protocol("messages", messages.heard, messages.placed, messages.answer, messages.MessagesReader)

__all__ = ["CHAT", "MESSAGES", "RESPONSES", "Body", "Protocol", "Reader", "Reply", "Words", "by_path"]


def by_path(path: str) -> Protocol | None:
    """The protocol of an endpoint's path, by how it ends; None for every other path."""
    end = path.split("?", 1)[0].rstrip("/")
    if end.endswith("/chat/completions"):
        return CHAT
    if end.endswith("/responses"):
        return RESPONSES
    if end.endswith("/messages") and "/threads/" not in end:
        return MESSAGES
    return None
