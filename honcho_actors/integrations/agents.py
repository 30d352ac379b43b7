"""Memory inside the OpenAI Agents SDK: the runner, with an input filter and hooks.

    from agents import Agent
    from honcho_actors.integrations.agents import Remembering

    runner = Remembering(memory)
    with talking(session_key="telegram:42", user="7654321"):
        result = await runner.run(agent, "where were we?", session=session)

`run`, `run_sync` and `run_streamed` are `Runner`'s, with the same arguments. The filter puts the stable block behind
the instructions and what moves behind the user's message it was made for, in copies, so that sessions and results keep
what was typed. A run is one turn, over all its model calls, tools and handoffs; it ends with the run: by its final
output, or without an answer. An agent that is called as a tool is a subagent. Extra: `agents`.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
from asyncio import Task
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.protocols import RESPONSES
from honcho_actors.integrations.protocols.shape import part
from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from honcho_actors.runtime import Memory

needed("agents", extra="agents")

from agents import (  # noqa: E402 - after the words on how to install it
    Agent,
    FunctionTool,
    RunConfig,
    RunHooks,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    Tool,
    TResponseInputItem,
)
from agents.run import CallModelData, CallModelInputFilter, ModelInputData  # noqa: E402
from agents.tool_context import ToolContext  # noqa: E402

Input = str | list[TResponseInputItem] | RunState[Any]

log = logging.getLogger("honcho_actors.integrations")


class Remembering:
    """The runner, for a runtime: any number of agents, sessions, runs at once. Works for whoever `talking` names, else
    for `request`, else for nobody; then runs are what they were."""

    def __init__(self, memory: Memory | Turns, request: TurnRequest | None = None) -> None:
        self._turns = memory if isinstance(memory, Turns) else Turns.of(memory)
        self._request = request

    async def run(self, starting_agent: Agent[Any], input: Input, **options: Any) -> RunResult:
        """`Runner.run`."""
        run = _Run(options)
        try:
            result = await Runner.run(starting_agent, input, **self._given(run, options))
        except BaseException:
            run.end(None)
            raise
        run.ended(result)
        return result

    def run_sync(self, starting_agent: Agent[Any], input: Input, **options: Any) -> RunResult:
        """`Runner.run_sync`."""
        run = _Run(options)
        try:
            result = Runner.run_sync(starting_agent, input, **self._given(run, options))
        except BaseException:
            run.end(None)
            raise
        run.ended(result)
        return result

    def run_streamed(self, starting_agent: Agent[Any], input: Input, **options: Any) -> RunResultStreaming:
        """`Runner.run_streamed`. The turn ends when the run does; `result.cancel()` leaves it without an answer. Who
        only stops reading lets the run go on to its answer, as the framework does."""
        run = _Run(options)
        result = Runner.run_streamed(starting_agent, input, **self._given(run, options))
        task = result.run_loop_task
        assert task is not None

        def done(task: Task[Any]) -> None:
            if task.cancelled():
                run.end(None)
            else:
                run.ended(result)

        task.add_done_callback(done)
        return result

    def run_config(self, base: RunConfig | Mapping[str, Any] | None = None) -> RunConfig:
        """A configuration for `Runner` itself, with the filter behind the one that `base` has. Together with `hooks`;
        a run that fails or is cancelled is then found out at the conversation's next turn."""
        made = base if isinstance(base, RunConfig) else RunConfig(**dict(base or {}))
        earlier = made.call_model_input_filter
        return dataclasses.replace(made, call_model_input_filter=_Filter(self, earlier, None))

    def hooks(self, base: RunHooks[Any] | None = None) -> RunHooks[Any]:
        """Hooks for `Runner` itself, in front of those of `base`: they end the turn, and isolate agents that are called
        as tools."""
        return _Hooks(base, None)

    def tools(self) -> list[Tool]:
        """Memory's tools, for `Agent(tools=...)`: offered in the turns of somebody who is known, by recall mode, and
        never to subagents."""
        return [self._tool(one) for one in self._turns.memory.tool_schemas(style="openai-responses")]

    # -- inside --------------------------------------------------------------------------------------------------------

    def who(self, *, subagent: bool = False) -> TurnRequest | None:
        """Whose run this is, where it is asked."""
        request = current(self._request)
        return dataclasses.replace(request, scope="subagent") if request is not None and subagent else request

    def _given(self, run: _Run, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the filter and the hooks of this run. A mapping stays one: then the framework closes the
        provider of models that it makes."""
        config, hooks = options.get("run_config"), options.get("hooks")
        made: RunConfig | dict[str, Any]
        if isinstance(config, RunConfig):
            made = dataclasses.replace(
                config, call_model_input_filter=_Filter(self, config.call_model_input_filter, run)
            )
        else:
            made = dict(config or {})
            made["call_model_input_filter"] = _Filter(self, made.get("call_model_input_filter"), run)
        return {**options, "run_config": made, "hooks": _Hooks(hooks, run)}

    def _tool(self, schema: Mapping[str, Any]) -> FunctionTool:
        name, turns = schema["name"], self._turns

        def offered(context: Any, agent: Any) -> bool:
            request = self.who(subagent=isinstance(context, ToolContext))
            if request is None or turns.talk(request) is None:
                return False
            return bool(turns.memory.tool_schemas(request))

        async def call(context: ToolContext[Any], arguments: str) -> str:
            return (await turns.memory.acall_tool(name, arguments, self.who())).text

        return FunctionTool(
            name=name,
            description=schema["description"],
            params_json_schema=schema["parameters"],
            on_invoke_tool=call,
            strict_json_schema=False,
            is_enabled=offered,
        )

    async def remembered(self, run: _Run, request: TurnRequest, given: ModelInputData) -> ModelInputData:
        """What the model gets: with both blocks in their places."""
        body = {"instructions": given.instructions, "input": given.input, "previous_response_id": run.anchor}
        words = RESPONSES.heard(body)
        turn = run.turn
        if turn is None:
            if words is None or not (words.said or run.anchor):
                return given
            said, since, first = words
            turn = run.turn = await self._turns.ameet(request, said, since, first=first)
        if not turn.known:
            return given
        beside = turn.beside(words.said, words.first) if words is not None else ()
        if run.kept:
            return ModelInputData(_between(given.input, beside), _instructions(given, turn))
        made = RESPONSES.placed(body, turn.system, beside)
        return ModelInputData(made["input"], made["instructions"])


class _Run:
    """One run: its turn, and how it went."""

    __slots__ = ("anchor", "kept", "text", "turn")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        given = options or {}
        self.anchor = given.get("previous_response_id") or given.get("conversation_id")
        self.kept = bool(self.anchor or given.get("auto_previous_response_id"))
        """The model's server keeps what was said: items that were sent have to be known again by the framework."""
        self.turn: OpenTurn | None = None
        self.text: str | None = None
        """What the model said last, if that was an answer."""

    def ended(self, result: RunResult | RunResultStreaming) -> None:
        """The run came to its end. One that waits for approval goes on in another run, in the same turn."""
        if not result.interruptions:
            self.end(result.final_output)

    def end(self, output: object) -> None:
        """The turn is over, with this final output; None: there is none."""
        if self.turn is None:
            return
        if output is None or isinstance(output, str):
            self.turn.finish(output)
        else:
            self.turn.finish(self.text if self.text is not None else str(output))


_running: Final[ContextVar[_Run | None]] = ContextVar("honcho_agents_run", default=None)
"""The model call that hooks without a run of their own belong to: the filter ran before them in the same task."""


class _Filter:
    """`RunConfig.call_model_input_filter`."""

    def __init__(
        self, runner: Remembering, base: CallModelInputFilter | None, run: _Run | None, *, subagent: bool = False
    ) -> None:
        self._runner = runner
        self._base = base
        self._run = run
        self._subagent = subagent

    def isolated(self) -> _Filter:
        """For the agents that are called as tools."""
        return _Filter(self._runner, self._base, None, subagent=True)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        if self._base is not None:
            changed = self._base(data)
            given = await changed if inspect.isawaitable(changed) else changed
        run = self._run
        if run is None:
            run = _Run()
            _running.set(run)
        request = self._runner.who(subagent=self._subagent)
        if request is None:
            return given
        try:
            return await self._runner.remembered(run, request, given)
        except Exception as error:  # noqa: BLE001 - boundary: a run never fails because of memory
            log.warning("a model was asked without memory: %s", type(error).__name__)
            return given


class _Hooks(RunHooks[Any]):
    """`RunHooks`, in front of the program's own."""

    def __init__(self, base: RunHooks[Any] | None, run: _Run | None) -> None:
        self._base = base if base is not None else RunHooks[Any]()
        self._run = run

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        await self._base.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        run = self._run or _running.get()
        if run is not None:
            text, goes_on = RESPONSES.answer(response)
            run.text = None if goes_on else text
        await self._base.on_llm_end(context, agent, response)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._base.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        run = _running.get()
        if self._run is None and run is not None:
            run.end(output)
        await self._base.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        await self._base.on_handoff(context, from_agent, to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        config = context.run_config if isinstance(context, ToolContext) else None
        if config is not None and isinstance(config.call_model_input_filter, _Filter):
            isolated = config.call_model_input_filter.isolated()
            context.run_config = dataclasses.replace(config, call_model_input_filter=isolated)
        await self._base.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:
        await self._base.on_tool_end(context, agent, tool, result)


def _instructions(given: ModelInputData, turn: OpenTurn) -> str | None:
    made = RESPONSES.placed({"instructions": given.instructions, "input": None}, turn.system, ())
    text: str | None = made["instructions"]
    return text


def _between(items: Sequence[TResponseInputItem], beside: Sequence[str]) -> list[TResponseInputItem]:
    """The items as they are, each block as one more behind its message."""
    blocks = iter(beside)
    made: list[TResponseInputItem] = []
    for item in items:
        made.append(item)
        block = next(blocks, "") if part(item, "role") == "user" else ""
        if block:
            made.append({"role": "user", "content": block.lstrip("\n")})
    return made
