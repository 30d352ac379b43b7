"""The drivers that go through the proxy with the real clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from honcho_actors import TurnRequest
from tests.integrations.driving import Chat, Driver
from tests.integrations.keeper import House
from tests.integrations.looping import LoopDriver
from tests.integrations.raw import ChatWire, MessagesWire, RawChat, ResponsesWire, Wire
from tests.integrations.running import Running
from tests.support.stub_model import StubModel


def headers(request: TurnRequest | None) -> dict[str, str]:
    """What a program sends to say who is talking."""
    if request is None:
        return {}
    return {"x-honcho-session": request.session_key or "", "x-honcho-user": request.user or ""}


class ProxyChat(RawChat):
    """A raw client that knows nothing of memory, and sends two headers."""

    def __init__(self, wire: Wire, client: Any, request: TurnRequest | None, runner: asyncio.Runner) -> None:
        super().__init__(wire, client, None, runner.run)
        self._named = headers(request)
        self._plain = client
        self._client = client.with_options(default_headers=self._named)

    def delegate(self, text: str) -> str:
        self._client = self._plain.with_options(default_headers={**self._named, "x-honcho-scope": "subagent"})
        try:
            return super().delegate(text)
        finally:
            self._client = self._plain.with_options(default_headers=self._named)


class ProxyDriver(LoopDriver):
    """One protocol through the proxy, with the protocol's own client."""

    def __init__(self, name: str, wire: Wire, kind: type, cannot: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.cannot = cannot or {}
        self._wire = wire
        self._kind = kind

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        with Running(house.memory, model.root) as proxy:
            client, runner = self.kept(model, self._kind)
            url = proxy.url if self._kind is openai.AsyncOpenAI else proxy.root
            yield ProxyChat(self._wire, client.with_options(base_url=url), request, runner)


PROXY: list[Driver] = [
    ProxyDriver("proxy-chat", ChatWire(), openai.AsyncOpenAI),
    ProxyDriver("proxy-responses", ResponsesWire(), openai.AsyncOpenAI),
    ProxyDriver("proxy-messages", MessagesWire(), anthropic.AsyncAnthropic),
]
