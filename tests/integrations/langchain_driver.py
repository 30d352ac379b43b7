"""Drivers of LangChain's agents, sync and async: a chat model of the test's own at the loopback model, checkpointed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import openai
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from honcho_actors import TurnRequest
from honcho_actors.integrations.langchain import MemoryMiddleware
from tests.integrations.driving import FOUND, NO_CANCELLATION, SCHEMA, STATIC, TOOL, Chat, lacking, spoken_by
from tests.integrations.keeper import House
from tests.integrations.looping import KEY, LoopChat, LoopDriver, Run, Seen, subagent_of
from tests.support.stub_model import StubModel

NO_LEAVING = "closing the generator of `stream` waits until the model has said everything, so there is an answer"


class StubChat(BaseChatModel):
    """Chat completions at the loopback model: LangChain's own class for it is another package."""

    plain: Any
    later: Any

    @property
    def _llm_type(self) -> str:
        return "stub"

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools])

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
        return result(self.plain.chat.completions.create(**body(messages, more)))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Any:
        return result(await self.later.chat.completions.create(**body(messages, more)))

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[ChatGenerationChunk]:
        with self.plain.chat.completions.create(**body(messages, more), stream=True) as stream:
            for one in stream:
                yield chunk(one)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with await self.later.chat.completions.create(**body(messages, more), stream=True) as stream:
            async for one in stream:
                yield chunk(one)


def body(messages: list[BaseMessage], more: Mapping[str, Any]) -> dict[str, Any]:
    tools = {"tools": more["tools"]} if more.get("tools") else {}
    return {"model": "stub", "messages": convert_to_openai_messages(messages), **tools}


def result(reply: Any) -> ChatResult:
    said = reply.choices[0].message
    calls = [
        {"id": one.id, "name": one.function.name, "args": json.loads(one.function.arguments)}
        for one in said.tool_calls or ()
    ]
    return ChatResult(generations=[ChatGeneration(message=AIMessage(said.content or "", tool_calls=calls))])


def chunk(one: Any) -> ChatGenerationChunk:
    delta = one.choices[0].delta if one.choices else None
    calls: list[Any] = [
        {"id": call.id, "name": call.function.name, "args": call.function.arguments, "index": call.index}
        for call in (delta.tool_calls if delta is not None else None) or ()
    ]
    content = (delta.content if delta is not None else None) or ""
    return ChatGenerationChunk(message=AIMessageChunk(content=content, tool_call_chunks=calls))


def look_up(what: str = "") -> str:
    """Looks a thing up."""
    return FOUND


async def alook_up(what: str = "") -> str:
    """Looks a thing up."""
    return FOUND


LOOK_UP = StructuredTool(
    name=TOOL, description="Looks a thing up.", args_schema=dict(SCHEMA), func=look_up, coroutine=alook_up
)


class AgentChat(Chat):
    """A thread of a checkpointer."""

    def __init__(self, agent: Any, request: TurnRequest | None) -> None:
        self._agent = agent
        self._request = request
        self._config = {"configurable": {"thread_id": "chat"}}

    def transcript(self) -> list[str]:
        kept = self._agent.get_state(self._config).values["messages"]
        return [str(one.content) for one in kept if isinstance(one, HumanMessage)]


class SyncChat(AgentChat):
    def say(self, text: str) -> str:
        return self._asked(given(text))

    def retry(self) -> str:
        return self._asked(None)

    def stream(self, text: str) -> str:
        whole = ""
        with spoken_by(self._request):
            for piece, _ in self._agent.stream(given(text), self._config, stream_mode="messages"):
                whole = streamed(whole, piece)
        return whole

    def delegate(self, text: str) -> str:
        with subagent_of(self._request):
            found = self._agent.invoke(given(text), {"configurable": {"thread_id": "other"}})
            return str(found["messages"][-1].text)

    def _asked(self, what: Any) -> str:
        with spoken_by(self._request):
            return str(self._agent.invoke(what, self._config)["messages"][-1].text)


class AsyncChat(AgentChat, LoopChat):
    def __init__(self, agent: Any, request: TurnRequest | None, run: Run) -> None:
        AgentChat.__init__(self, agent, request)
        LoopChat.__init__(self, request, run)

    def retry(self) -> str:
        return str(self._run(self._asked(None)))

    async def _turn(self, text: str) -> str:
        return await self._asked(given(text))

    async def _delegated(self, text: str) -> str:
        found = await self._agent.ainvoke(given(text), {"configurable": {"thread_id": "other"}})
        return str(found["messages"][-1].text)

    async def _asked(self, what: Any) -> str:
        with spoken_by(self._request):
            return str((await self._agent.ainvoke(what, self._config))["messages"][-1].text)

    async def _streamed(self, text: str, seen: Seen) -> str:
        whole = ""
        with spoken_by(self._request):
            stream = self._agent.astream(given(text), self._config, stream_mode="messages")
            try:
                async for piece, _ in stream:
                    whole = streamed(whole, piece)
                    seen(str(piece.text))
            finally:
                await stream.aclose()
        return whole


def given(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def streamed(whole: str, piece: Any) -> str:
    """What was streamed since the last tool."""
    if not isinstance(piece, AIMessageChunk) or piece.tool_call_chunks:
        return ""
    return whole + str(piece.text)


class LangChainDriver(LoopDriver):
    """`MemoryMiddleware` in an agent's middleware."""

    def __init__(self, name: str, is_async: bool) -> None:
        self.name = name
        self._is_async = is_async
        self._plain: openai.OpenAI | None = None
        if not is_async:
            self.cannot = lacking(leaving=NO_LEAVING, cancel=NO_CANCELLATION)

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        later, runner = self.kept(model)
        if self._plain is None:
            self._plain = openai.OpenAI(base_url=model.url, api_key=KEY, max_retries=0)
        agent = create_agent(
            StubChat(plain=self._plain, later=later),
            tools=[LOOK_UP],
            system_prompt=STATIC,
            middleware=[MemoryMiddleware(house.memory)],
            checkpointer=InMemorySaver(),
        )
        yield AsyncChat(agent, request, runner.run) if self._is_async else SyncChat(agent, request)

    def close(self) -> None:
        super().close()
        if self._plain is not None:
            self._plain.close()
        self._plain = None


LANGCHAIN = [LangChainDriver("langchain", False), LangChainDriver("langchain-async", True)]
