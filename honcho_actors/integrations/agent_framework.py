"""Memory inside Microsoft's Agent Framework: a context provider.

    from agent_framework import Agent
    from honcho_actors.integrations.agent_framework import MemoryProvider

    agent = Agent(client=client, instructions="...", context_providers=[MemoryProvider(memory)])
    with talking(session_key="telegram:42", user="7654321"):
        await agent.run("where were we?", session=session)

For each run the provider adds a middleware that sits before every model call of it: the stable block goes behind the
instructions, what moves behind the user's message it was made for, in copies, so that the session keeps what was typed.
The turn ends with the model's answer, its error, or the run's cancellation. `tools=True` offers memory's tools, by
recall mode and never to subagents. Extra: `agent-framework`.
"""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.protocols.shape import behind
from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from agent_framework import ChatContext, ChatResponse, ChatResponseUpdate, FunctionInvocationContext, Message

    from honcho_actors.runtime import Memory

needed("agent_framework", extra="agent-framework")

from agent_framework import (  # noqa: E402 - after the words on how to install it
    ChatMiddleware,
    Content,
    ContextProvider,
    FunctionMiddleware,
    FunctionTool,
)


class MemoryProvider(ContextProvider):
    """One for a runtime: `context_providers=[MemoryProvider(memory)]`. Works for whoever `talking` names, else for
    `request`, else for nobody; then nothing is added. Any number of agents, sessions and event loops."""

    def __init__(
        self,
        memory: Memory | Turns,
        request: TurnRequest | None = None,
        *,
        tools: bool = False,
        source_id: str = "honcho_actors",
    ) -> None:
        super().__init__(source_id)
        self._turns = memory if isinstance(memory, Turns) else Turns.of(memory)
        self._request = request
        self._tools = tools

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Called by the framework."""
        request = current(self._request)
        if request is None or self._turns.talk(request) is None:
            return
        calls = _Calls(self._turns, request)
        context.extend_middleware(self.source_id, [calls, _Tools(calls)])
        if self._tools:
            context.extend_tools(self.source_id, memory_tools(self._turns.memory, request))


def memory_tools(memory: Memory, request: TurnRequest) -> list[FunctionTool]:
    """Memory's tools for this conversation as the framework's; none in `context` mode and none for subagents."""
    return [_tool(memory, request, one) for one in memory.tool_schemas(request, style="mcp")]


def _tool(memory: Memory, request: TurnRequest, schema: dict[str, Any]) -> FunctionTool:
    name = schema["name"]

    async def call(**arguments: Any) -> str:
        return (await memory.acall_tool(name, arguments, request)).text

    return FunctionTool(name=name, description=schema["description"], func=call, input_model=schema["inputSchema"])


class _Calls(ChatMiddleware):
    """The model calls of one run."""

    def __init__(self, turns: Turns, request: TurnRequest) -> None:
        self._turns = turns
        self._request = request
        self.turn: OpenTurn | None = None

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Called by the framework."""
        said, since = _heard(context.messages)
        if not said:
            await call_next()
            return
        turn = self.turn = await self._turns.ameet(self._request, said, since)
        try:
            options = dict(context.options or {})
            if turn.system:
                options["instructions"] = behind(options.get("instructions"), turn.system)
            context.options = options
            context.messages = _placed(context.messages, turn.beside(said))
            if context.stream:
                _listen(context, turn)
            await call_next()
            if not context.stream:
                _answered(turn, context.result)
        except BaseException:
            turn.finish(None)
            raise


class _Tools(FunctionMiddleware):
    """A run that is cancelled while a tool works has no answer."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Called by the framework."""
        try:
            await call_next()
        except asyncio.CancelledError:
            if self._calls.turn is not None:
                self._calls.turn.finish(None)
            raise


def _listen(context: ChatContext, turn: OpenTurn) -> None:
    """Ends the turn with the stream: by its answer where it came to its end, else without one."""
    done = False

    def update(one: ChatResponseUpdate) -> ChatResponseUpdate:
        nonlocal done
        done = done or one.finish_reason is not None
        return one

    def cleanup() -> None:
        if not done and sys.exc_info()[0] is not StopAsyncIteration:
            turn.finish(None)

    def result(response: ChatResponse[Any]) -> ChatResponse[Any]:
        _answered(turn, response)
        return response

    context.stream_transform_hooks = [*context.stream_transform_hooks, update]
    context.stream_cleanup_hooks = [*context.stream_cleanup_hooks, cleanup]
    context.stream_result_hooks = [*context.stream_result_hooks, result]


def _answered(turn: OpenTurn, response: Any) -> None:
    """The turn is over unless a tool is called."""
    messages = response.messages if response is not None else ()
    if any(one.type == "function_call" for message in messages for one in message.contents):
        return
    turn.finish(response.text if response is not None else None)


def _heard(messages: Sequence[Message]) -> tuple[list[str], int]:
    """What the user said, oldest first, and how much of it stands before the model's last words."""
    said: list[str] = []
    since = 0
    for message in messages:
        if message.role == "user":
            said.append(message.text)
        elif message.role == "assistant":
            since = len(said)
    return said, since


def _placed(messages: Sequence[Message], beside: Sequence[str]) -> list[Message]:
    """The messages, those with a block as copies."""
    blocks = iter(beside)
    return [_with(one, next(blocks, "")) if one.role == "user" else one for one in messages]


def _with(message: Message, block: str) -> Message:
    if not block:
        return message
    made = copy.copy(message)
    last = message.contents[-1] if message.contents else None
    if last is not None and last.type == "text":
        made.contents = [*message.contents[:-1], Content.from_text((last.text or "") + block)]
    else:
        made.contents = [*message.contents, Content.from_text(block.lstrip("\n"))]
    return made
