"""The proxy on a thread of its own, and the drivers that go through it with the real clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from honcho_actors import Memory, TurnRequest
from honcho_actors.integrations.proxy import Naming, Upstream
from honcho_actors.integrations.proxy.serving import running
from tests.integrations.driving import Chat, Driver
from tests.integrations.keeper import House
from tests.integrations.raw import ChatWire, MessagesWire, RawChat, ResponsesWire, Wire
from tests.support.stub_model import StubModel


class Running:
    """`with Running(memory, upstream_url) as proxy`: `proxy.root`, `proxy.url` (with `/v1`), `proxy.upstream`."""

    def __init__(self, memory: Memory, upstream: str, naming: Naming | None = None) -> None:
        self.upstream = Upstream(upstream)
        self._running = running(memory, self.upstream, naming or Naming())

    def __enter__(self) -> Running:
        self.root = self._running.__enter__()
        self.url = self.root + "/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)


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


class ProxyDriver(Driver):
    """One protocol through the proxy, with the protocol's own client."""

    def __init__(self, name: str, wire: Wire, kind: type, cannot: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.cannot = cannot or {}
        self._wire = wire
        self._kind = kind

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        with Running(house.memory, model.root) as proxy, asyncio.Runner() as runner:
            url = proxy.url if self._kind is openai.AsyncOpenAI else proxy.root
            client: Any = self._kind(base_url=url, api_key="sk-" + "stub" * 5, max_retries=0)
            try:
                yield ProxyChat(self._wire, client, request, runner)
            finally:
                runner.run(client.close())


PROXY: list[Driver] = [
    ProxyDriver("proxy-chat", ChatWire(), openai.AsyncOpenAI),
    ProxyDriver("proxy-responses", ResponsesWire(), openai.AsyncOpenAI),
    ProxyDriver("proxy-messages", MessagesWire(), anthropic.AsyncAnthropic),
]
