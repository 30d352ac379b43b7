"""The driver of Microsoft's Agent Framework: its agent over a chat client that asks the loopback model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import openai
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
    prepend_instructions_to_messages,
)

from honcho_actors import TurnRequest
from honcho_actors.integrations.agent_framework import MemoryProvider
from tests.integrations.driving import FOUND, SCHEMA, STATIC, TOOL, Chat, spoken_by
from tests.integrations.keeper import House
from tests.integrations.looping import LoopChat, LoopDriver, Run, Seen
from tests.support.stub_model import StubModel


class StubClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Chat completions at the loopback model, in the layers that the framework's own clients have."""

    OTEL_PROVIDER_NAME = "stub"

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        super().__init__()
        self._openai = client

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Any:
        whole = prepend_instructions_to_messages(list(messages), options.get("instructions"))
        body: dict[str, Any] = {"model": "stub", "messages": [one for each in whole for one in wire(each)]}
        tools = [one for one in options.get("tools") or () if isinstance(one, FunctionTool)]
        if tools:
            body["tools"] = [one.to_json_schema_spec() for one in tools]
        return (
            ResponseStream(self._streamed(body), finalizer=ChatResponse.from_updates) if stream else self._asked(body)
        )

    async def _asked(self, body: dict[str, Any]) -> ChatResponse[Any]:
        reply = await self._openai.chat.completions.create(**body)
        said = reply.choices[0].message
        contents = [Content.from_text(said.content)] if said.content else []
        for one in said.tool_calls or ():
            assert one.type == "function"
            contents.append(Content.from_function_call(one.id, one.function.name, arguments=one.function.arguments))
        return ChatResponse(messages=[Message(role="assistant", contents=contents)], finish_reason="stop")

    async def _streamed(self, body: dict[str, Any]) -> AsyncIterable[ChatResponseUpdate]:
        stream = await self._openai.chat.completions.create(**body, stream=True)
        try:
            async for chunk in stream:
                for choice in chunk.choices:
                    contents = [Content.from_text(choice.delta.content)] if choice.delta.content else []
                    for one in choice.delta.tool_calls or ():
                        assert one.function is not None
                        contents.append(
                            Content.from_function_call(
                                one.id or "", one.function.name or "", arguments=one.function.arguments
                            )
                        )
                    yield ChatResponseUpdate(
                        contents=contents, role="assistant", finish_reason="stop" if choice.finish_reason else None
                    )
        finally:
            await stream.close()


def wire(message: Message) -> list[dict[str, Any]]:
    """A message as chat completions have it."""
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": one.call_id, "content": str(one.result)}
            for one in message.contents
            if one.type == "function_result"
        ]
    made: dict[str, Any] = {"role": str(message.role), "content": message.text}
    calls = [one for one in message.contents if one.type == "function_call"]
    if calls:
        made["tool_calls"] = [
            {
                "id": one.call_id,
                "type": "function",
                "function": {
                    "name": one.name,
                    "arguments": one.arguments if isinstance(one.arguments, str) else json.dumps(one.arguments),
                },
            }
            for one in calls
        ]
    return [made]


def look_up(what: str = "") -> str:
    """Looks a thing up."""
    return FOUND


class FrameworkChat(LoopChat):
    def __init__(self, agent: Agent[Any], request: TurnRequest | None, run: Run) -> None:
        super().__init__(request, run)
        self._agent = agent
        self._last = ""
        self.session: AgentSession = agent.create_session()

    def retry(self) -> str:
        return self.say(self._last)

    def transcript(self) -> list[str]:
        kept = self.session.state["in_memory"]["messages"]
        return [one.text for one in kept if one.role == "user"]

    async def _turn(self, text: str) -> str:
        self._last = text
        with spoken_by(self._request):
            return (await self._agent.run(text, session=self.session)).messages[-1].text

    async def _delegated(self, text: str) -> str:
        return (await self._agent.run(text, session=self._agent.create_session())).text

    async def _streamed(self, text: str, seen: Seen) -> str:
        whole = ""
        with spoken_by(self._request):
            async with self._agent.run(text, session=self.session, stream=True) as stream:
                async for update in stream:
                    if any(one.type == "function_call" for one in update.contents):
                        whole = ""
                    else:
                        whole += update.text
                    seen(update.text)
        return whole


class FrameworkDriver(LoopDriver):
    """`MemoryProvider` in an agent's context providers."""

    name = "agent-framework"

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        client, runner = self.kept(model)
        agent = Agent(
            client=StubClient(client),
            instructions=STATIC,
            tools=[FunctionTool(name=TOOL, description="Looks a thing up.", func=look_up, input_model=SCHEMA)],
            context_providers=[MemoryProvider(house.memory)],
        )
        yield FrameworkChat(agent, request, runner.run)


AGENT_FRAMEWORK = [FrameworkDriver()]
