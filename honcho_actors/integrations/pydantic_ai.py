"""Memory inside Pydantic AI: a capability.

    from pydantic_ai import Agent
    from honcho_actors.integrations.pydantic_ai import MemoryCapability

    agent = Agent(model, instructions="...", capabilities=[MemoryCapability(memory)])
    with talking(session_key="telegram:42", user="7654321"):
        result = await agent.run("where were we?", message_history=history)

Before each attempt at a model request the stable block goes behind the instructions, and what moves behind the user's
message it was made for, in copies: the history that the framework gives back keeps what was typed and the
instructions that were yours. A run is one turn; it ends with the run's output, or without an answer. Whatever runs
inside a tool is a subagent's. `tools=True` offers memory's tools, by recall mode and never to subagents.
Extra: `pydantic-ai`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.protocols.shape import behind
from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current, talking
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import WrapRunHandler, WrapToolExecuteHandler
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from honcho_actors.runtime import Memory

needed("pydantic_ai", extra="pydantic-ai")

from pydantic_ai import (  # noqa: E402 - after the words on how to install it
    DeferredToolRequests,
    FunctionToolset,
    RunContext,
    Tool,
    ToolDefinition,
)
from pydantic_ai.capabilities import AbstractCapability  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextContent,
    UserPromptPart,
)
from pydantic_core import to_json  # noqa: E402

log = logging.getLogger("honcho_actors.integrations")


class MemoryCapability(AbstractCapability[Any]):
    """One for a runtime, in any number of agents. Works for whoever `talking` names, else for `request`, else for
    nobody; then requests are what they were."""

    def __init__(self, memory: Memory | Turns, request: TurnRequest | None = None, *, tools: bool = False) -> None:
        super().__init__()
        self._turns = memory if isinstance(memory, Turns) else Turns.of(memory)
        self._request = request
        schemas = self._turns.memory.tool_schemas(style="mcp") if tools else []
        self._ours = {one["name"]: one for one in schemas}
        self._turn: OpenTurn | None = None

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Called by the framework: a run has its own turn."""
        made = copy.copy(self)
        made._turn = None
        return made

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Called by the framework."""
        try:
            result = await handler()
        except BaseException:
            self._end(None)
            raise
        if not isinstance(result.output, DeferredToolRequests):  # that run goes on in another one, in the same turn
            self._end(_text(result.output))
        return result

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Called by the framework. What is changed here is in the request alone."""
        who = self._who()
        if who is None or self._turns.talk(who) is None:
            return request_context
        said, since = _heard(request_context.messages)
        if self._turn is None:
            if not said:
                return request_context
            self._turn = await self._turns.ameet(who, said, since)
        try:
            return _remembered(request_context, self._turn, said)
        except Exception as error:  # noqa: BLE001 - boundary: a run never fails because of memory
            log.warning("a model was asked without memory: %s", type(error).__name__)
            return request_context

    # -- tools ---------------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Called by the framework."""
        return FunctionToolset([self._tool(name) for name in self._ours]) if self._ours else None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Called by the framework."""
        with self._inside(call.tool_name):
            return await handler(args)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _who(self) -> TurnRequest | None:
        return current(self._request)

    def _end(self, answer: str | None) -> None:
        if self._turn is not None:
            self._turn.finish(answer)

    def _inside(self, tool: str) -> AbstractContextManager[object]:
        """What a tool does is a subagent's, except for memory's own."""
        who = self._who()
        return nullcontext() if who is None or tool in self._ours else talking(replace(who, scope="subagent"))

    def _tool(self, name: str) -> Tool[Any]:
        schema, memory = self._ours[name], self._turns.memory

        async def call(**arguments: Any) -> str:
            return (await memory.acall_tool(name, arguments, self._who())).text

        async def offered(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
            who = self._who()
            if who is None or self._turns.talk(who) is None or not memory.tool_schemas(who):
                return None
            return definition

        made: Tool[Any] = Tool.from_schema(call, name, schema["description"], schema["inputSchema"])
        made.prepare = offered
        return made


def _remembered(context: ModelRequestContext, turn: OpenTurn, said: Sequence[str]) -> ModelRequestContext:
    parameters = context.model_request_parameters
    if turn.system:
        parts = _instructed(parameters.instruction_parts or (), turn.system, _has_cache_points(context))
        parameters = replace(parameters, instruction_parts=parts)
    messages = _placed(context.messages, turn.beside(said))
    return replace(context, messages=messages, model_request_parameters=parameters)


def _instructed(parts: Sequence[InstructionPart], block: str, apart: bool) -> list[InstructionPart]:
    """The instructions with a block behind them: in the last one, since some models take one system message alone, or
    as a part of its own where cache points are to stay behind what is literal."""
    last = parts[-1] if parts else None
    if apart or last is None or last.dynamic or last.on_change != "rewrite":
        return [*parts, InstructionPart(block, dynamic=True)]
    return [*parts[:-1], replace(last, content=behind(last.content, block))]


def _has_cache_points(context: ModelRequestContext) -> bool:
    """Whether the program asks for a cache point behind the instructions: `anthropic_cache_instructions` and others."""
    both = (context.model.settings or {}, context.model_settings or {})
    return any(value and name.endswith("_cache_instructions") for one in both for name, value in one.items())


def _heard(messages: Sequence[ModelMessage]) -> tuple[list[str], int]:
    """What the user said, oldest first, and how much of it stands before the model's last words."""
    said: list[str] = []
    since = 0
    for message in messages:
        if isinstance(message, ModelResponse):
            since = len(said)
        else:
            said += [_words(one) for one in message.parts if isinstance(one, UserPromptPart)]
    return said, since


def _words(prompt: UserPromptPart) -> str:
    content = prompt.content
    if isinstance(content, str):
        return content
    texts = [one.content if isinstance(one, TextContent) else one for one in content]
    return "\n".join(one for one in texts if isinstance(one, str))


def _placed(messages: Sequence[ModelMessage], beside: Sequence[str]) -> list[ModelMessage]:
    """The messages, those with a block as copies."""
    blocks = iter(beside)
    made: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            parts = [_with(one, next(blocks, "")) if isinstance(one, UserPromptPart) else one for one in message.parts]
            if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
                message = replace(message, parts=parts)
        made.append(message)
    return made


def _with(prompt: UserPromptPart, block: str) -> UserPromptPart:
    if not block:
        return prompt
    content = prompt.content
    return replace(prompt, content=content + block if isinstance(content, str) else [*content, block.lstrip("\n")])


def _text(output: object) -> str | None:
    """A run's output as text: structured ones as JSON."""
    if output is None or isinstance(output, str):
        return output
    return to_json(output, fallback=str).decode()
