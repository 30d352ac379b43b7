"""What the drivers share whose program runs on an event loop: its conversation, and the loop with a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import openai

from honcho_actors import TurnRequest
from honcho_actors.integrations.who import subagent
from tests.integrations.driving import Chat, Driver, cancelled, spoken_by
from tests.support.stub_model import StubModel

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Seen = Callable[[str], None]
"""Is shown every piece of an answer; may raise `Left`."""

KEY = "sk-" + "stub" * 5


class Left(Exception):
    """The program has read enough."""


@contextmanager
def subagent_of(request: TurnRequest | None) -> Iterator[None]:
    with spoken_by(request), subagent():
        yield


class LoopChat(Chat):
    """A conversation of coroutines. A framework says how it does a turn, plain and streamed, and a subagent's."""

    def __init__(self, request: TurnRequest | None, run: Run) -> None:
        self._request = request
        self._run = run

    def say(self, text: str) -> str:
        return str(self._run(self._turn(text)))

    def stream(self, text: str) -> str:
        return str(self._run(self._streamed(text, lambda piece: None)))

    def leave(self, text: str) -> None:
        def enough(piece: str) -> None:
            if piece:
                raise Left

        async def leaving() -> None:
            try:
                await self._streamed(text, enough)
            except Left:
                return
            raise AssertionError("it was not left")

        self._run(leaving())

    def cancel(self, text: str, when: Callable[[], bool], *, stream: bool = False) -> None:
        work = self._streamed(text, lambda piece: None) if stream else self._turn(text)
        self._run(cancelled(work, when))

    def delegate(self, text: str) -> str:
        async def asked() -> str:
            with subagent_of(self._request):
                return await self._delegated(text)

        return str(self._run(asked()))

    async def _turn(self, text: str) -> str:
        raise NotImplementedError

    async def _streamed(self, text: str, seen: Seen) -> str:
        raise NotImplementedError

    async def _delegated(self, text: str) -> str:
        raise NotImplementedError


class LoopDriver(Driver):
    """Keeps one loop and one client for all its tests: a client's connections belong to a loop, and making one costs a
    TLS context."""

    _kept: tuple[Any, asyncio.Runner] | None = None

    def kept(self, model: StubModel, kind: type = openai.AsyncOpenAI) -> tuple[Any, asyncio.Runner]:
        """The client and the runner of the loop."""
        if self._kept is None:
            url = model.url if kind is openai.AsyncOpenAI else model.root
            self._kept = kind(base_url=url, api_key=KEY, max_retries=0), asyncio.Runner()
        return self._kept

    def close(self) -> None:
        if self._kept is not None:
            client, runner = self._kept
            runner.run(client.close())
            runner.close()
        self._kept = None
