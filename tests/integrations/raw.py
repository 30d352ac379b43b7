"""Drivers of the raw clients: openai (chat completions, responses) and anthropic, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from honcho_actors import TurnRequest
from honcho_actors.integrations.anthropic import remember as remember_anthropic
from honcho_actors.integrations.openai import remember as remember_openai
from tests.integrations.driving import (
    FOUND,
    NO_CANCELLATION,
    SCHEMA,
    STATIC,
    TOOL,
    Chat,
    Driver,
    lacking,
    run_sync,
    spoken_by,
)
from tests.integrations.keeper import House
from tests.integrations.looping import KEY, LoopChat, Run, Seen, subagent_of
from tests.support.stub_model import StubModel


class Wire:
    """One protocol: how its conversation is written down and asked. Knows nothing of the adapters."""

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    async def ask(self, client: Any, history: list[Any], stream: bool) -> Any:
        raise NotImplementedError

    async def read(self, reply: Any, stream: bool, seen: Callable[[str], None]) -> tuple[str, list[Any], list[Any]]:
        """The text, what the model said as items of the history, and the results of the tools that it called."""
        raise NotImplementedError


async def held(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def events(stream: Any) -> AsyncIterator[Any]:
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class ChatWire(Wire):
    async def ask(self, client: Any, history: list[Any], stream: bool) -> Any:
        tools = [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}]
        messages = [{"role": "system", "content": STATIC}, *history]
        made = client.chat.completions.create(model="stub", messages=messages, tools=tools, stream=stream)
        return await held(made)

    async def read(self, reply: Any, stream: bool, seen: Callable[[str], None]) -> tuple[str, list[Any], list[Any]]:
        if stream:
            text, calls = "", []
            async for chunk in events(reply):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    seen(choice.delta.content or "")
                    calls += [(one.id, one.function) for one in choice.delta.tool_calls or ()]
        else:
            message = reply.choices[0].message
            text, calls = message.content or "", [(one.id, one.function) for one in message.tool_calls or ()]
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            said["tool_calls"] = [
                {"id": key, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
                for key, one in calls
            ]
        return text, [said], [{"role": "tool", "tool_call_id": key, "content": FOUND} for key, _ in calls]


class ResponsesWire(Wire):
    async def ask(self, client: Any, history: list[Any], stream: bool) -> Any:
        tools = [{"type": "function", "name": TOOL, "parameters": SCHEMA, "strict": False}]
        made = client.responses.create(
            model="stub", instructions=STATIC, input=history, tools=tools, stream=stream, store=False
        )
        return await held(made)

    async def read(self, reply: Any, stream: bool, seen: Callable[[str], None]) -> tuple[str, list[Any], list[Any]]:
        if stream:
            async for event in events(reply):
                if event.type == "response.output_text.delta":
                    seen(event.delta)
                if event.type == "response.completed":
                    reply = event.response
        results = [
            {"type": "function_call_output", "call_id": one.call_id, "output": FOUND}
            for one in reply.output
            if one.type == "function_call"
        ]
        return reply.output_text, [one.model_dump(exclude_none=True) for one in reply.output], results


class MessagesWire(Wire):
    async def ask(self, client: Any, history: list[Any], stream: bool) -> Any:
        tools = [{"name": TOOL, "input_schema": SCHEMA}]
        made = client.messages.create(
            model="stub", max_tokens=99, system=STATIC, messages=history, tools=tools, stream=stream
        )
        return await held(made)

    async def read(self, reply: Any, stream: bool, seen: Callable[[str], None]) -> tuple[str, list[Any], list[Any]]:
        content: list[Any] = []
        if stream:
            given = ""
            async for event in events(reply):
                if event.type == "content_block_start":
                    content.append(event.content_block.model_dump(exclude_none=True))
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    content[-1]["text"] += event.delta.text
                    seen(event.delta.text)
                elif event.type == "content_block_delta":
                    given += event.delta.partial_json
                    content[-1]["input"] = json.loads(given)
        else:
            content = [one.model_dump(exclude_none=True) for one in reply.content]
        text = "".join(one["text"] for one in content if one["type"] == "text")
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": FOUND}
            for one in content
            if one["type"] == "tool_use"
        ]
        after = [{"role": "user", "content": results}] if results else []
        return text, [{"role": "assistant", "content": content}], after


class RawChat(LoopChat):
    def __init__(self, wire: Wire, client: Any, request: TurnRequest | None, run: Run) -> None:
        super().__init__(request, run)
        self._wire = wire
        self._client = client
        self.history: list[Any] = []

    def retry(self) -> str:
        return str(self._run(self._asked_for(None, False, lambda piece: None)))

    def delegate(self, text: str) -> str:
        with subagent_of(self._request):
            reply = self._run(self._asked([self._wire.user(text)], False, lambda piece: None))
            return str(reply[0])

    def transcript(self) -> list[str]:
        return [one["content"] for one in self.history if one.get("role") == "user" and isinstance(one["content"], str)]

    async def _turn(self, text: str) -> str:
        return await self._asked_for(text, False, lambda piece: None)

    async def _streamed(self, text: str, seen: Seen) -> str:
        return await self._asked_for(text, True, seen)

    async def _asked_for(self, text: str | None, stream: bool, seen: Seen) -> str:
        with spoken_by(self._request):
            if text is not None:
                self.history.append(self._wire.user(text))
            while True:
                answer, said, results = await self._asked(self.history, stream, seen)
                self.history += [*said, *results]
                if not results:
                    return answer

    async def _asked(
        self, history: list[Any], stream: bool, seen: Callable[[str], None]
    ) -> tuple[str, list[Any], list[Any]]:
        reply = await self._wire.ask(self._client, history, stream)
        if not stream:
            return await self._wire.read(reply, stream, seen)
        try:
            return await self._wire.read(reply, stream, seen)
        finally:
            await held(reply.close())


class RawDriver(Driver):
    """A client of openai or anthropic, in one protocol."""

    def __init__(self, name: str, wire: Wire, kind: type, is_async: bool) -> None:
        self.name = name
        self._wire = wire
        self._kind = kind
        self._is_async = is_async
        self._client: Any = None
        self._runner: asyncio.Runner | None = None
        if not is_async:
            self.cannot = lacking(cancel=NO_CANCELLATION)

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        is_openai = self._kind in (openai.OpenAI, openai.AsyncOpenAI)
        plain = self.client(model.url if is_openai else model.root)
        remembering: Any = (remember_openai if is_openai else remember_anthropic)(plain, house.memory)
        yield RawChat(self._wire, remembering, request, self.runner().run if self._is_async else run_sync)

    def client(self, url: str) -> Any:
        """One for all tests: making one costs a TLS context."""
        if self._client is None:
            self._client = self._kind(base_url=url, api_key=KEY, max_retries=0)
        return self._client

    def runner(self) -> asyncio.Runner:
        """One loop for all tests: the client's connections belong to it."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    def close(self) -> None:
        if self._client is not None:
            if self._runner is not None:
                self._runner.run(self._client.close())
                self._runner.close()
            else:
                self._client.close()
        self._client = self._runner = None


RAW = [
    RawDriver("openai-chat", ChatWire(), openai.OpenAI, False),
    RawDriver("openai-chat-async", ChatWire(), openai.AsyncOpenAI, True),
    RawDriver("openai-responses", ResponsesWire(), openai.OpenAI, False),
    RawDriver("openai-responses-async", ResponsesWire(), openai.AsyncOpenAI, True),
    RawDriver("anthropic", MessagesWire(), anthropic.Anthropic, False),
    RawDriver("anthropic-async", MessagesWire(), anthropic.AsyncAnthropic, True),
]
