"""What the middleware for LangChain does beside the common behaviours: agents in tools, memory's tools, what ends a
turn without a last model call, structured answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from honcho_actors.integrations.langchain import MemoryMiddleware
from tests.integrations.driving import FOUND, SCHEMA, STATIC, TOOL, with_a_tool
from tests.integrations.keeper import ANN, Held, House
from tests.integrations.langchain_driver import LOOK_UP, StubChat, given
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
def chat(loop: asyncio.Runner, stub: StubModel) -> Iterator[StubChat]:
    key = "sk-" + "stub" * 5
    with openai.OpenAI(base_url=stub.url, api_key=key, max_retries=0) as plain:
        later = openai.AsyncOpenAI(base_url=stub.url, api_key=key, max_retries=0)
        yield StubChat(plain=plain, later=later)
        loop.run(later.close())


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
def test_an_agent_inside_a_tool_is_a_subagent(home: House, model: StubModel, chat: StubChat, bound: bool) -> None:
    middleware = MemoryMiddleware(home.memory, ANN_TALKS if bound else None)
    inner = create_agent(chat, system_prompt="You look things up.", middleware=[middleware])

    def ask(what: str = "") -> str:
        return str(inner.invoke(given(what))["messages"][-1].text)

    tool = StructuredTool(name=TOOL, description="Asks.", args_schema=dict(SCHEMA), func=ask)
    agent = create_agent(chat, tools=[tool], system_prompt=STATIC, middleware=[middleware])
    model.script = lambda asked: Say(FOUND) if asked.system.startswith("You look") else with_a_tool(asked)
    if bound:
        answer = agent.invoke(given(ASKED))["messages"][-1].text
    else:
        with talking(ANN_TALKS):
            answer = agent.invoke(given(ASKED))["messages"][-1].text
    first, inside, last = model.calls
    assert (ANN in first.system, ANN in inside.raw.decode(), ANN in last.system) == (True, False, True)
    assert home.holds("garden", answered((ASKED, str(answer))))


def test_memorys_tools_are_offered_and_answer_and_subagents_get_none(
    home: House, model: StubModel, chat: StubChat, loop: asyncio.Runner
) -> None:
    def script(asked: Asked) -> Say:
        if asked.items[-1]["role"] == "tool":
            return Say("You are Ann.")
        return Say("", call=("honcho_profile", {}))

    agent = create_agent(chat, tools=[LOOK_UP], middleware=[MemoryMiddleware(home.memory, tools=True)])
    model.script = script

    async def really() -> None:
        with talking(ANN_TALKS):
            await agent.ainvoke(given("and really?"))

    with talking(ANN_TALKS):
        agent.invoke(given("who am I?"))
    loop.run(really())
    model.script = lambda asked: Say("Nobody.")
    with subagent_of(ANN_TALKS):
        agent.invoke(given("who is it?"))
    agent.invoke(given("who is it?"))
    assert [shown(one) for one in model.calls] == [[*SHOWN, TOOL]] * 4 + [[TOOL]] * 2
    assert "Name: Ann" in json.dumps(model.calls[1].items[-1])
    assert "Name: Ann" in json.dumps(model.calls[3].items[-1])
    assert home.holds("garden", answered(("who am I?", "You are Ann."), ("and really?", "You are Ann.")))


def test_a_run_that_is_cancelled_in_a_tool_has_no_answer(
    home: House, model: StubModel, chat: StubChat, loop: asyncio.Runner
) -> None:
    begun = asyncio.Event()

    async def forever(what: str = "") -> str:
        begun.set()
        await asyncio.Event().wait()
        return what

    tool = StructuredTool(name=TOOL, description="Looks.", args_schema=dict(SCHEMA), coroutine=forever)
    agent = create_agent(chat, tools=[tool], middleware=[MemoryMiddleware(home.memory, ANN_TALKS)])
    model.script = with_a_tool

    async def main() -> None:
        run = asyncio.ensure_future(agent.ainvoke(given(ASKED)))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    loop.run(main())
    assert home.holds("garden", answered((ASKED, None)))


def test_what_a_tool_returns_directly_is_the_answer(home: House, model: StubModel, chat: StubChat) -> None:
    tool = StructuredTool(
        name=TOOL,
        description="Looks.",
        args_schema=dict(SCHEMA),
        func=lambda what="": FOUND,
        return_direct=True,
    )
    agent = create_agent(chat, tools=[tool], middleware=[MemoryMiddleware(home.memory, ANN_TALKS)])
    model.script = with_a_tool
    agent.invoke(given(ASKED))
    assert len(model.calls) == 1
    assert home.holds("garden", answered((ASKED, FOUND)))


class Place(BaseModel):
    """Where a thing is."""

    room: str


def test_a_structured_answer_is_captured_as_it_was_given(home: House, model: StubModel, chat: StubChat) -> None:
    agent: Any = create_agent(
        chat, middleware=[MemoryMiddleware(home.memory, ANN_TALKS)], response_format=ToolStrategy(Place)
    )
    model.script = lambda asked: Say("", call=("Place", {"room": "shed"}))
    assert agent.invoke(given(ASKED))["structured_response"] == Place(room="shed")
    assert home.holds("garden", answered((ASKED, '{"room": "shed"}')))
