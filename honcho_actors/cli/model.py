"""The model that `chat` talks to: any endpoint of the three protocols, over plain HTTP, its answer as it comes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from honcho_actors.integrations.protocols import CHAT, MESSAGES, RESPONSES, Protocol
from honcho_actors.integrations.sse import Events

MODEL_TIMEOUT: Final = 120.0
MAX_TOKENS: Final = 4096
"""Of an answer, where the protocol demands a number."""


class ModelFailed(RuntimeError):
    """The model gave no answer; the text is one clause."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of asking, and the environment's names for it."""

    protocol: Protocol
    path: str
    family: str
    url: str


KINDS: Final = {
    "chat": Kind(CHAT, "/chat/completions", "OPENAI", "https://api.openai.com/v1"),
    "responses": Kind(RESPONSES, "/responses", "OPENAI", "https://api.openai.com/v1"),
    "messages": Kind(MESSAGES, "/v1/messages", "ANTHROPIC", "https://api.anthropic.com"),
}


@dataclass(frozen=True, slots=True)
class Model:
    """An endpoint."""

    kind: Kind
    url: str
    name: str
    key: str = field(repr=False)

    @classmethod
    def configured(cls, name: str | None, protocol: str | None = None) -> Model | None:
        """From the environment; None when neither an address nor a key, or no name, is set. Without `protocol`: chat
        completions, or messages where only those are set up."""
        for one in [protocol] if protocol else ["chat", "messages"]:
            kind = KINDS[one]
            url, key, model = (_set(f"{kind.family}_{part}") for part in ("BASE_URL", "API_KEY", "MODEL"))
            if (url or key) and (name or model):
                return cls(kind, (url or kind.url).rstrip("/"), name or model, key)
        return None

    def answer(self, system: str, messages: list[dict[str, str]], piece: Callable[[str], object]) -> str:
        """The model's answer; `piece` gets it as it comes. Raises `ModelFailed`."""
        reader = self.kind.protocol.reader()
        reader.on_text = piece
        try:
            with httpx.stream(
                "POST",
                self.url + self.kind.path,
                json=self._body(system, messages),
                headers=self._headers(),
                timeout=MODEL_TIMEOUT,
            ) as reply:
                reply.raise_for_status()
                if reply.headers.get("content-type", "").startswith("text/event-stream"):
                    events = Events()
                    for data in reply.iter_bytes():
                        for event in events.feed(data):
                            reader.feed(event)
                    found = reader.reply()
                else:
                    found = self.kind.protocol.answer(json.loads(reply.read()))
                    piece(found.text or "")
        except httpx.HTTPStatusError as error:
            raise ModelFailed(f"it answered with status {error.response.status_code}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelFailed(f"it could not be reached ({type(error).__name__})") from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise ModelFailed(f"its answer is none of {self.kind.protocol.name}") from None
        if not found.text:
            raise ModelFailed("its answer holds no text")
        return found.text

    def _body(self, system: str, messages: list[dict[str, str]]) -> dict[str, Any]:
        made: dict[str, Any] = {"model": self.name, "stream": True}
        if self.kind.protocol is RESPONSES:
            return {**made, "instructions": system, "input": messages, "store": False}
        if self.kind.protocol is MESSAGES:
            return {**made, "system": system, "messages": messages, "max_tokens": MAX_TOKENS}
        return {**made, "messages": [{"role": "system", "content": system}, *messages]}

    def _headers(self) -> dict[str, str]:
        if self.kind.protocol is MESSAGES:
            return {"anthropic-version": "2023-06-01", **({"x-api-key": self.key} if self.key else {})}
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


def _set(name: str) -> str:
    return os.environ.get(name, "").strip()
