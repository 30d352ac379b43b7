"""What the capability for Pydantic AI does beside the common behaviours: agents in tools, memory's tools, structured
outputs, calls that wait for approval, what the framework keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ImageUrl, Tool
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from honcho_actors.integrations.pydantic_ai import MemoryCapability
from tests.integrations.driving import FOUND, SCHEMA, STATIC, TOOL, with_a_tool
from tests.integrations.keeper import ANN, Held, House, settled
from tests.integrations.looping import Left, subagent_of
from tests.integrations.pydantic_driver import LOOK_UP
from tests.support.stub_model import Asked, Say, StubModel

ANN_TALKS = TurnRequest(session_key="garden", user="ann")
ASKED = "where is the hose?"
SHOWN = ["honcho_conclude", "honcho_context", "honcho_profile", "honcho_reasoning", "honcho_search"]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def asked_model(loop: asyncio.Runner, stub: StubModel) -> Iterator[OpenAIChatModel]:
    """The framework's own model class, at the loopback model."""
    client = openai.AsyncOpenAI(base_url=stub.url, api_key="sk-" + "stub" * 5, max_retries=0)
    yield OpenAIChatModel("stub", provider=OpenAIProvider(openai_client=client))
    loop.run(client.close())


def answered(*pairs: tuple[str, str | None]) -> list[Held]:
    found = []
    for words, answer in pairs:
        found.append(Held("ann", words, answer is None))
        if answer is not None:
            found.append(Held("assistant", answer, False))
    return found


def shown(asked: Asked) -> list[str]:
    return sorted(one["function"]["name"] for one in asked.body.get("tools", []))


@pytest.mark.parametrize("bound", [False, True], ids=["talking", "bound"])
def test_an_agent_inside_a_tool_is_a_subagent(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel, bound: bool
) -> None:
    memory = MemoryCapability(home.memory, ANN_TALKS if bound else None)
    inner = Agent(asked_model, instructions="You look things up.", capabilities=[memory])

    async def ask(what: str = "") -> str:
        return (await inner.run(what)).output

    tool: Tool[Any] = Tool.from_schema(ask, TOOL, "Asks.", dict(SCHEMA))
    agent = Agent(asked_model, instructions=STATIC, tools=[tool], capabilities=[memory])
    model.script = lambda asked: Say(FOUND) if asked.system.startswith("You look") else with_a_tool(asked)

    async def main() -> str:
        if bound:
            return (await agent.run(ASKED)).output
        with talking(ANN_TALKS):
            return (await agent.run(ASKED)).output

    answer = loop.run(main())
    assert [ANN in one.raw.decode() for one in model.calls] == [True, False, True]
    assert home.holds("garden", answered((ASKED, answer)))


def test_memorys_tools_are_offered_and_answer_and_subagents_get_none(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    def script(asked: Asked) -> Say:
        if asked.items[-1]["role"] == "tool":
            return Say("You are Ann.")
        return Say("", call=("honcho_profile", {}))

    agent = Agent(asked_model, tools=[LOOK_UP], capabilities=[MemoryCapability(home.memory, tools=True)])
    model.script = script

    async def main() -> None:
        with talking(ANN_TALKS):
            await agent.run("who am I?")
        model.script = lambda asked: Say("Nobody.")
        with subagent_of(ANN_TALKS):
            await agent.run("who is it?")
        await agent.run("who is it?")

    loop.run(main())
    assert [shown(one) for one in model.calls] == [[*SHOWN, TOOL]] * 2 + [[TOOL]] * 2
    assert "Name: Ann" in json.dumps(model.calls[1].items[-1])
    assert home.holds("garden", answered(("who am I?", "You are Ann.")))


class Place(BaseModel):
    """Where a thing is."""

    room: str


def test_a_structured_output_is_captured_as_json(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    agent = Agent(asked_model, output_type=Place, capabilities=[MemoryCapability(home.memory, ANN_TALKS)])
    model.script = lambda asked: Say("", call=("final_result", {"room": "shed"}))
    assert loop.run(agent.run(ASKED)).output == Place(room="shed")
    assert home.holds("garden", answered((ASKED, '{"room":"shed"}')))


def test_a_run_that_waits_for_approval_goes_on_in_the_same_turn(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    def look(what: str = "") -> str:
        return FOUND

    tool: Tool[Any] = Tool(look, name=TOOL, requires_approval=True)
    agent = Agent(
        asked_model,
        output_type=[str, DeferredToolRequests],
        tools=[tool],
        capabilities=[MemoryCapability(home.memory, ANN_TALKS)],
    )
    model.script = with_a_tool

    async def main() -> Any:
        waiting = await agent.run(ASKED)
        assert isinstance(waiting.output, DeferredToolRequests)
        approved = DeferredToolResults(approvals={one.tool_call_id: True for one in waiting.output.approvals})
        return (await agent.run(message_history=waiting.all_messages(), deferred_tool_results=approved)).output

    answer = loop.run(main())
    first, second = model.calls
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert home.holds("garden", answered((ASKED, answer)))


def test_what_the_framework_keeps_holds_neither_block(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    home.remote.answer = lambda query: "She waters at dawn."
    agent = Agent(asked_model, instructions=STATIC, capabilities=[MemoryCapability(home.memory, ANN_TALKS)])
    picture = ImageUrl("http://127.0.0.1:9/hose.png", media_type="image/png")

    async def main() -> list[Any]:
        history: list[Any] = []
        for number in range(3):
            result = await agent.run([f"{ASKED} ({number})", picture], message_history=history)
            history = result.all_messages()
            await asyncio.to_thread(settled, home)
        return history

    kept = loop.run(main())
    requests = [one for one in kept if isinstance(one, ModelRequest)]
    assert [one.instructions for one in requests] == [STATIC] * 3
    assert "dawn" in model.calls[-1].raw.decode()
    assert ANN in model.calls[-1].raw.decode()
    assert not any(word in str(kept) for word in ("dawn", ANN))
    assert [one.text for one in home.said("garden") if one.peer == "ann"] == [f"{ASKED} ({n})" for n in range(3)]


@pytest.mark.parametrize("settings", [{}, {"bedrock_cache_instructions": True}], ids=["plain", "cache-points"])
def test_what_is_known_is_in_the_one_system_message_unless_cache_points_are_asked_for(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel, settings: Any
) -> None:
    agent = Agent(asked_model, instructions=STATIC, capabilities=[MemoryCapability(home.memory, ANN_TALKS)])
    loop.run(agent.run(ASKED, model_settings=settings))
    systems = [one["content"] for one in model.calls[-1].body["messages"] if one["role"] == "system"]
    assert systems[0].startswith(STATIC)
    assert ANN in systems[-1]
    assert (len(systems), systems[0] == STATIC) == ((2, True) if settings else (1, False))


def test_a_run_that_is_cancelled_in_a_tool_has_no_answer(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    begun = asyncio.Event()

    async def forever(what: str = "") -> str:
        begun.set()
        await asyncio.Event().wait()
        return what

    tool: Tool[Any] = Tool.from_schema(forever, TOOL, "Looks.", dict(SCHEMA))
    agent = Agent(asked_model, tools=[tool], capabilities=[MemoryCapability(home.memory, ANN_TALKS)])
    model.script = with_a_tool

    async def main() -> None:
        run = asyncio.ensure_future(agent.run(ASKED))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    loop.run(main())
    assert home.holds("garden", answered((ASKED, None)))


def test_run_stream_is_captured_when_it_was_read_to_its_end_and_unanswered_when_it_was_left(
    home: House, model: StubModel, loop: asyncio.Runner, asked_model: OpenAIChatModel
) -> None:
    agent = Agent(asked_model, capabilities=[MemoryCapability(home.memory, ANN_TALKS)])
    model.script = lambda asked: Say("In the shed, I think.")

    async def read() -> str:
        async with agent.run_stream(ASKED) as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])

    async def left() -> None:
        async with agent.run_stream("and the rake?") as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                raise Left

    answer = loop.run(read())
    model.script = lambda asked: Say("In the shed, I think.", hold=4)
    with pytest.raises(Left):
        loop.run(left())
    assert home.holds("garden", answered((ASKED, answer), ("and the rake?", None)))
