"""Memory inside LangChain's agents (LangGraph): a middleware.

    from langchain.agents import create_agent
    from honcho_actors.integrations.langchain import MemoryMiddleware

    agent = create_agent(model, tools=[...], middleware=[MemoryMiddleware(memory)], checkpointer=saver)
    with talking(session_key="telegram:42", user="7654321"):
        agent.invoke({"messages": [{"role": "user", "content": "where were we?"}]}, config)

It stands round every model call: the stable block goes behind the system message, what moves behind the user's message
it was made for, in the request alone, so that state and checkpoints keep what was typed. The turn ends with the answer
that calls no tool, an error or a cancellation. Whatever runs inside a tool is a subagent's. `tools=True` offers
memory's tools, by recall mode and never to subagents. Sync, async, streamed. Extra: `langchain`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.protocols.shape import behind, text_of, with_text
from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current, talking
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from honcho_actors.runtime import Memory

needed("langchain", extra="langchain")

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse  # noqa: E402 - after those words
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402
from langchain_core.tools import BaseTool, StructuredTool  # noqa: E402
from langgraph.prebuilt.tool_node import ToolCallRequest  # noqa: E402
from langgraph.types import Command  # noqa: E402

Called = ToolMessage | Command[Any]
TEXT: Final = frozenset({"text"})

log = logging.getLogger("honcho_actors.integrations")


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """One for a runtime, in any number of agents, on any threads and event loops. Works for whoever `talking` names,
    else for `request`, else for nobody; then model calls are what they were."""

    def __init__(self, memory: Memory | Turns, request: TurnRequest | None = None, *, tools: bool = False) -> None:
        super().__init__()
        self._turns = memory if isinstance(memory, Turns) else Turns.of(memory)
        self._request = request
        self.tools: Sequence[BaseTool] = [self._tool(one) for one in self._schemas(None)] if tools else []
        self._ours = frozenset(one.name for one in self.tools)

    # -- model calls ---------------------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Called by the framework."""
        asked = self._asked(request)
        if asked is None:
            return handler(self._bare(request))
        who, said, since = asked
        turn = self._turns.meet(who, said, since)
        try:
            response = handler(self._remembered(request, turn, said))
        except BaseException:
            turn.finish(None)
            raise
        _answered(turn, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Called by the framework."""
        asked = self._asked(request)
        if asked is None:
            return await handler(self._bare(request))
        who, said, since = asked
        turn = await self._turns.ameet(who, said, since)
        try:
            response = await handler(self._remembered(request, turn, said))
        except BaseException:
            turn.finish(None)
            raise
        _answered(turn, response)
        return response

    # -- tools ---------------------------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Called]) -> Called:
        """Called by the framework."""
        try:
            with self._inside(request):
                result = handler(request)
        except BaseException as error:
            self._stopped(request, error)
            raise
        self._returned(request, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Called]]
    ) -> Called:
        """Called by the framework."""
        try:
            with self._inside(request):
                result = await handler(request)
        except BaseException as error:
            self._stopped(request, error)
            raise
        self._returned(request, result)
        return result

    # -- inside --------------------------------------------------------------------------------------------------------

    def _who(self) -> TurnRequest | None:
        return current(self._request)

    def _asked(self, request: ModelRequest[Any]) -> tuple[TurnRequest, list[str], int] | None:
        """Whose call it is, and what was said; None where there is nothing for memory to do."""
        who = self._who()
        if who is None or self._turns.talk(who) is None:
            return None
        said, since = _heard(request.messages)
        return (who, said, since) if said else None

    def _remembered(self, request: ModelRequest[Any], turn: OpenTurn, said: Sequence[str]) -> ModelRequest[Any]:
        try:
            changed: dict[str, Any] = {"messages": _placed(request.messages, turn.beside(said))}
            if turn.system:
                changed["system_message"] = _system(request.system_message, turn.system)
            if self._ours and not self._schemas(turn.request):
                changed["tools"] = self._without(request.tools)
            return request.override(**changed)
        except Exception as error:  # noqa: BLE001 - boundary: a call never fails because of memory
            log.warning("a model was asked without memory: %s", type(error).__name__)
            return request

    def _bare(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request without memory's tools: there is nobody whom they could be about."""
        return request.override(tools=self._without(request.tools)) if self._ours else request

    def _without(self, tools: Sequence[BaseTool | dict[str, Any]]) -> list[BaseTool | dict[str, Any]]:
        return [one for one in tools if not (isinstance(one, BaseTool) and one.name in self._ours)]

    def _inside(self, request: ToolCallRequest) -> AbstractContextManager[object]:
        """What a tool does is a subagent's, except for memory's own."""
        who = self._who()
        if who is None or request.tool_call["name"] in self._ours:
            return nullcontext()
        return talking(replace(who, scope="subagent"))

    def _stopped(self, request: ToolCallRequest, error: BaseException) -> None:
        """A run that is cancelled while a tool works has no answer. Other errors are the framework's: the run may go
        on."""
        if not isinstance(error, Exception) and (turn := self._of(request)) is not None:
            turn.finish(None)

    def _returned(self, request: ToolCallRequest, result: object) -> None:
        """What a tool returns directly ends the turn, where it was called alone."""
        if request.tool is None or not request.tool.return_direct or not isinstance(result, ToolMessage):
            return
        last = next((one for one in reversed(request.state["messages"]) if isinstance(one, AIMessage)), None)
        if last is None or len(last.tool_calls) != 1 or result.status != "success":
            return
        if (turn := self._of(request)) is not None:
            turn.finish(str(result.text))

    def _of(self, request: ToolCallRequest) -> OpenTurn | None:
        """The turn in which a tool was called."""
        who = self._who()
        state: Any = request.state
        if who is None or not isinstance(state, Mapping) or self._turns.talk(who) is None:
            return None
        said, _ = _heard(state.get("messages") or ())
        return self._turns.meet(who, said, len(said)) if said else None

    def _schemas(self, request: TurnRequest | None) -> list[dict[str, Any]]:
        return self._turns.memory.tool_schemas(request, style="mcp")

    def _tool(self, schema: Mapping[str, Any]) -> BaseTool:
        name, memory = schema["name"], self._turns.memory

        def call(**arguments: Any) -> str:
            return memory.call_tool(name, arguments, self._who()).text

        async def acall(**arguments: Any) -> str:
            return (await memory.acall_tool(name, arguments, self._who())).text

        return StructuredTool(
            name=name,
            description=schema["description"],
            args_schema=schema["inputSchema"],
            func=call,
            coroutine=acall,
        )


def _answered(turn: OpenTurn, response: Any) -> None:
    """The turn is over unless a tool is called."""
    try:
        response = getattr(response, "model_response", response)
        messages = getattr(response, "result", None) or [response]
        said = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
        structured = getattr(response, "structured_response", None)
        if said is None:
            turn.finish(None)
        elif not said.tool_calls:
            turn.finish(str(said.text))
        elif structured is not None:
            turn.finish(json.dumps(said.tool_calls[0]["args"], ensure_ascii=False))
    except Exception as error:  # noqa: BLE001 - boundary: an answer never gets lost because of memory
        log.warning("an answer could not be read: %s", type(error).__name__)


def _heard(messages: Sequence[AnyMessage]) -> tuple[list[str], int]:
    """What the user said, oldest first, and how much of it stands before the model's last words."""
    said: list[str] = []
    since = 0
    for message in messages:
        if isinstance(message, HumanMessage):
            said.append(text_of(message.content, TEXT) or "")
        elif isinstance(message, AIMessage):
            since = len(said)
    return said, since


def _placed(messages: Sequence[AnyMessage], beside: Sequence[str]) -> list[AnyMessage]:
    """The messages, those with a block as copies."""
    blocks = iter(beside)
    return [_with(one, next(blocks, "")) if isinstance(one, HumanMessage) else one for one in messages]


def _with(message: HumanMessage, block: str) -> HumanMessage:
    if not block:
        return message
    return message.model_copy(update={"content": with_text(message.content, block, "text")})


def _system(message: SystemMessage | None, block: str) -> SystemMessage:
    if message is None:
        return SystemMessage(content=block)
    content = message.content
    inside = with_text(content, block, "text") if isinstance(content, list) else behind(content, block)
    return message.model_copy(update={"content": inside})
