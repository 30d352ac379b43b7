"""Drivers of Pydantic AI, async and sync: its own model class for chat completions at the loopback model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_ai import Agent, AgentRunResultEvent, Tool
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    ModelMessage,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from honcho_actors import TurnRequest
from honcho_actors.integrations.pydantic_ai import MemoryCapability
from tests.integrations.driving import FOUND, SCHEMA, STATIC, TOOL, Chat, lacking, spoken_by
from tests.integrations.keeper import House
from tests.integrations.looping import LoopChat, LoopDriver, Run, Seen, subagent_of
from tests.support.stub_model import Asked, StubModel

NO_CANCELLATION = "`run_sync` blocks until the run has ended: it has no cancellation"
NO_STREAM = "`run_stream_sync` drives the event loop in the background while it is read; it is async there"


def look_up(what: str = "") -> str:
    """Looks a thing up."""
    return FOUND


LOOK_UP: Tool[Any] = Tool.from_schema(look_up, TOOL, "Looks a thing up.", dict(SCHEMA))


class PydanticChat(LoopChat):
    """The history is the program's, as the framework gave it back."""

    def __init__(self, agent: Agent[Any, str], request: TurnRequest | None, run: Run) -> None:
        super().__init__(request, run)
        self._agent = agent
        self._failed: str | None = None
        self.history: list[ModelMessage] = []

    def retry(self) -> str:
        assert self._failed is not None
        return self.say(self._failed)

    def transcript(self) -> list[str]:
        assert not any("recalled" in str(one) for one in self.history)
        parts = [part for message in self.history for part in message.parts]
        return [str(one.content) for one in parts if isinstance(one, UserPromptPart)]

    async def _turn(self, text: str) -> str:
        self._failed = text
        with spoken_by(self._request):
            result = await self._agent.run(text, message_history=self.history)
        self.history = result.all_messages()
        return result.output

    async def _delegated(self, text: str) -> str:
        return (await self._agent.run(text)).output

    async def _streamed(self, text: str, seen: Seen) -> str:
        whole = ""
        with spoken_by(self._request):
            async with self._agent.run_stream_events(text, message_history=self.history) as events:
                async for event in events:
                    if isinstance(event, AgentRunResultEvent):
                        self.history = event.result.all_messages()
                        continue
                    piece = ""
                    if isinstance(event, FunctionToolCallEvent):
                        whole = ""
                    elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                        piece = event.part.content
                    elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                        piece = event.delta.content_delta
                    whole += piece
                    seen(piece)
        return whole


class SyncChat(PydanticChat):
    def say(self, text: str) -> str:
        self._failed = text
        with spoken_by(self._request):
            result = self._agent.run_sync(text, message_history=self.history)
        self.history = result.all_messages()
        return result.output

    def stream(self, text: str) -> str:
        return self.say(text)

    def delegate(self, text: str) -> str:
        with subagent_of(self._request):
            return self._agent.run_sync(text).output


class PydanticDriver(LoopDriver):
    """`MemoryCapability` in an agent's capabilities."""

    def __init__(self, name: str, is_async: bool) -> None:
        self.name = name
        self._is_async = is_async
        if not is_async:
            self.cannot = lacking(stream=NO_STREAM, cancel=NO_CANCELLATION)

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        client, runner = self.kept(model)
        asked = OpenAIChatModel("stub", provider=OpenAIProvider(openai_client=client))
        agent = Agent(asked, instructions=STATIC, tools=[LOOK_UP], capabilities=[MemoryCapability(house.memory)])
        if self._is_async:
            yield PydanticChat(agent, request, runner.run)
        else:
            asyncio.set_event_loop(runner.get_loop())  # the loop that `run_sync` takes
            yield SyncChat(agent, request, runner.run)

    def system(self, asked: Asked) -> str:
        """The framework sends each of its instructions as a system message."""
        messages = asked.body["messages"]
        return "\n\n".join(one["content"] for one in messages if one["role"] in ("system", "developer"))


PYDANTIC = [PydanticDriver("pydantic-ai", True), PydanticDriver("pydantic-ai-sync", False)]
