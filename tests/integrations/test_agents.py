"""What the adapter of the OpenAI Agents SDK does beside the common behaviours: agents as tools, handoffs, guardrails,
approval, conversations that the model's server keeps, memory's tools, the program's own filter and hooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    OpenAIResponsesModel,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
)
from agents.run import CallModelData, ModelInputData

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from honcho_actors.integrations.agents import Remembering
from tests.integrations.agents_driver import LOOK_UP, QUIET, agent_of
from tests.integrations.driving import FOUND, STATIC, TOOL, with_a_tool
from tests.integrations.keeper import ANN, Held, House
from tests.integrations.looping import subagent_of
from tests.support.stub_model import Asked, Say, StubModel

ANN_TALKS = TurnRequest(session_key="garden", user="ann")
ASKED = "where is the hose?"
SHOWN = ["honcho_conclude", "honcho_context", "honcho_profile", "honcho_reasoning", "honcho_search"]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def stubbed(loop: asyncio.Runner, stub: StubModel) -> Iterator[OpenAIResponsesModel]:
    """The framework's own model class, at the loopback model."""
    client = openai.AsyncOpenAI(base_url=stub.url, api_key="sk-" + "stub" * 5, max_retries=0)
    yield OpenAIResponsesModel("stub", client)
    loop.run(client.close())


def answered(*pairs: tuple[str, str | None]) -> list[Held]:
    found = []
    for words, answer in pairs:
        found.append(Held("ann", words, answer is None))
        if answer is not None:
            found.append(Held("assistant", answer, False))
    return found


def calls(name: str, result: str = "Done.", **arguments: Any) -> Any:
    """A script: calls this tool once, then says what it came to."""

    def script(asked: Asked) -> Say:
        if any(one.get("type") == "function_call_output" for one in asked.items):
            return Say(result)
        return Say("Let me see.", call=(name, arguments))

    return script


def shown(asked: Asked) -> list[str]:
    return sorted(one["name"] for one in asked.body.get("tools", []))


def test_an_agent_that_is_called_as_a_tool_is_a_subagent(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    helper = Agent(name="helper", instructions="You look things up.", model=stubbed)
    tool = helper.as_tool("ask_helper", "Asks the helper.")
    model.script = lambda asked: (
        Say("In the shed.") if asked.system.startswith("You look") else calls("ask_helper", input="the hose")(asked)
    )
    runner = Remembering(home.memory, ANN_TALKS)
    result = loop.run(runner.run(agent_of(stubbed, tools=[tool]), ASKED, run_config=QUIET))
    first, inner, last = model.calls
    assert (ANN in first.system, ANN in inner.raw.decode(), ANN in last.system) == (True, False, True)
    assert home.holds("garden", answered((ASKED, result.final_output)))


def test_a_handoff_goes_on_in_the_same_turn(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    other = Agent(name="keeper", instructions="You keep the shed.", model=stubbed)
    model.script = lambda asked: (
        Say("Behind the door.") if asked.system.startswith("You keep") else Say("", call=("transfer_to_keeper", {}))
    )
    runner = Remembering(home.memory, ANN_TALKS)
    result = loop.run(runner.run(agent_of(stubbed, handoffs=[other]), ASKED, run_config=QUIET))
    first, second = model.calls
    assert result.last_agent is other
    assert first.system.removeprefix(STATIC) == second.system.removeprefix("You keep the shed.")
    assert ANN in second.system
    assert home.holds("garden", answered((ASKED, "Behind the door.")))


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_an_answer_that_a_guardrail_stopped_is_none(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel, streamed: bool
) -> None:
    def stop(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = agent_of(stubbed, output_guardrails=[OutputGuardrail(guardrail_function=stop)])
    runner = Remembering(home.memory, ANN_TALKS)

    async def main() -> None:
        if not streamed:
            await runner.run(agent, ASKED, run_config=QUIET)
            return
        async for _ in runner.run_streamed(agent, ASKED, run_config=QUIET).stream_events():
            pass

    with pytest.raises(OutputGuardrailTripwireTriggered):
        loop.run(main())
    assert home.holds("garden", answered((ASKED, None)))


def test_a_run_that_waits_for_approval_goes_on_in_the_same_turn(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    asking = FunctionTool(
        TOOL, "", {"type": "object"}, LOOK_UP.on_invoke_tool, strict_json_schema=False, needs_approval=True
    )
    agent = agent_of(stubbed, tools=[asking])
    model.script = with_a_tool
    runner = Remembering(home.memory, ANN_TALKS)

    async def main() -> str:
        result = await runner.run(agent, ASKED, run_config=QUIET)
        state = result.to_state()
        (waiting,) = result.interruptions
        state.approve(waiting)
        return str((await runner.run(agent, state, run_config=QUIET)).final_output)

    answer = loop.run(main())
    first, second = model.calls
    assert first.system == second.system
    assert home.holds("garden", answered((ASKED, answer)))


def test_what_the_models_server_keeps_is_sent_once(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    home.remote.answer = lambda query: "She waters at dawn."
    home.warm("garden", "ann")
    home.memory.refresh(ANN_TALKS)
    model.script = with_a_tool
    runner = Remembering(home.memory, ANN_TALKS)
    result = loop.run(runner.run(agent_of(stubbed), ASKED, run_config=QUIET, previous_response_id="resp_0"))
    first, second = model.calls
    assert first.items[0] == {"role": "user", "content": ASKED}
    assert second.users == []
    assert (ANN in first.system, first.system) == (True, second.system)
    assert home.holds("garden", answered((ASKED, result.final_output)))


def test_memorys_tools_are_offered_to_whoever_is_known_and_never_to_subagents(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    runner = Remembering(home.memory)
    helper = Agent(name="helper", instructions="You look things up.", model=stubbed, tools=runner.tools())
    agent = agent_of(stubbed, tools=[*runner.tools(), helper.as_tool("ask_helper", "Asks the helper.")])
    model.script = calls("honcho_profile")

    async def main() -> None:
        with talking(ANN_TALKS):
            await runner.run(agent, "who am I?", run_config=QUIET)
            model.script = lambda asked: (
                Say("Who?") if asked.system.startswith("You look") else calls("ask_helper", input="who?")(asked)
            )
            await runner.run(agent, "and really?", run_config=QUIET)
        model.script = lambda asked: Say("Nobody.")
        with subagent_of(ANN_TALKS):
            await runner.run(agent, "who is it?", run_config=QUIET)
        await runner.run(agent, "who is it?", run_config=QUIET)

    loop.run(main())
    assert [shown(one) for one in model.calls] == [
        ["ask_helper", *SHOWN],
        ["ask_helper", *SHOWN],
        ["ask_helper", *SHOWN],
        [],
        ["ask_helper", *SHOWN],
        ["ask_helper"],
        ["ask_helper"],
    ]
    assert "Name: Ann" in json.dumps(model.calls[1].items[-1])
    assert home.holds("garden", answered(("who am I?", "Done."), ("and really?", "Done.")))


def test_the_programs_own_filter_and_hooks_stay(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    seen: list[str] = []

    def shouted(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(data.model_data.input, (data.model_data.instructions or "").upper())

    class Noting(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            seen.append(system_prompt)

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            seen.append(output)

    config = RunConfig(tracing_disabled=True, call_model_input_filter=shouted)
    runner = Remembering(home.memory, ANN_TALKS)
    result = loop.run(runner.run(agent_of(stubbed), ASKED, run_config=config, hooks=Noting()))
    assert seen == [model.calls[0].system, result.final_output]
    assert seen[0].startswith(STATIC.upper())
    assert ANN in seen[0]


def test_the_frameworks_own_runner_takes_the_filter_and_the_hooks(
    home: House, model: StubModel, loop: asyncio.Runner, stubbed: OpenAIResponsesModel
) -> None:
    model.script = with_a_tool
    runner = Remembering(home.memory)
    config, hooks = runner.run_config(QUIET), runner.hooks()

    async def main() -> list[str]:
        with talking(ANN_TALKS):
            agent = agent_of(stubbed)
            result = await Runner.run(agent, ASKED, run_config=config, hooks=hooks)
            again: list[Any] = [*result.to_input_list(), {"role": "user", "content": "and the rake?"}]
            later = await Runner.run(agent, again, run_config=config, hooks=hooks)
        return [result.final_output, later.final_output]

    first, second = loop.run(main())
    assert FOUND in json.dumps(model.calls[1].items)
    assert all(one.system == model.calls[0].system and ANN in one.system for one in model.calls)
    assert home.holds("garden", answered((ASKED, first), ("and the rake?", second)))
