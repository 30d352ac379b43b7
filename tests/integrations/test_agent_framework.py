"""What the Agent Framework's adapter does beside the common behaviours: tools, and what is cancelled in them."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest
from agent_framework import Agent, FunctionTool

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from honcho_actors.integrations.agent_framework import MemoryProvider
from tests.integrations.agent_framework_driver import StubClient
from tests.integrations.driving import SCHEMA
from tests.integrations.keeper import Held, House
from tests.integrations.looping import subagent_of
from tests.support.stub_model import Asked, Say, StubModel

ANN_TALKS = TurnRequest(session_key="garden", user="ann")
SHOWN = ["honcho_conclude", "honcho_context", "honcho_profile", "honcho_reasoning", "honcho_search"]


def agent_of(home: House, client: openai.AsyncOpenAI) -> Agent:
    return Agent(
        client=StubClient(client), instructions="", context_providers=[MemoryProvider(home.memory, tools=True)]
    )


def client_of(model: StubModel) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=model.url, api_key="sk-" + "stub" * 5, max_retries=0)


def shown(asked: Asked) -> list[str]:
    return sorted(one["function"]["name"] for one in asked.body.get("tools", []))


def test_memorys_tools_are_offered_and_answer_and_subagents_get_none(home: House, model: StubModel) -> None:
    def script(asked: Asked) -> Say:
        if asked.items[-1]["role"] == "tool":
            return Say("Ann is Ann.")
        return Say("", call=("honcho_profile", {}))

    model.script = script

    async def main() -> None:
        async with client_of(model) as client:
            agent = agent_of(home, client)
            with talking(ANN_TALKS):
                found = await agent.run("who am I?")
            assert found.messages[-1].text == "Ann is Ann."
            model.script = lambda asked: Say("Nobody.")
            with subagent_of(ANN_TALKS):
                await agent.run("who is it?")

    asyncio.run(main())
    assert shown(model.calls[0]) == SHOWN
    assert model.calls[1].items[-1]["content"]
    assert shown(model.calls[-1]) == []
    assert home.holds("garden", [Held("ann", "who am I?", False), Held("assistant", "Ann is Ann.", False)])


def test_a_run_that_is_cancelled_in_a_tool_has_no_answer(home: House, model: StubModel) -> None:
    begun = asyncio.Event()

    async def forever(what: str = "") -> str:
        begun.set()
        await asyncio.Event().wait()
        return what

    model.script = lambda asked: Say("", call=("look_up", {"what": "hose"}))

    async def main() -> None:
        async with client_of(model) as client:
            tool = FunctionTool(name="look_up", description="Looks.", func=forever, input_model=SCHEMA)
            agent = Agent(client=StubClient(client), tools=[tool], context_providers=[MemoryProvider(home.memory)])
            with talking(ANN_TALKS):
                run = asyncio.ensure_future(agent.run("where is the hose?"))
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    asyncio.run(main())
    assert home.holds("garden", [Held("ann", "where is the hose?", True)])
    assert json.dumps(model.calls[0].body)
