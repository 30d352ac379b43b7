"""Drivers of the OpenAI Agents SDK: its runner, async over responses with a session, sync over chat completions."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    SQLiteSession,
    TResponseInputItem,
)

from honcho_actors import TurnRequest
from honcho_actors.integrations.agents import Remembering
from tests.integrations.driving import FOUND, SCHEMA, STATIC, TOOL, Chat, lacking, spoken_by
from tests.integrations.keeper import House
from tests.integrations.looping import Left, LoopChat, LoopDriver, Seen, subagent_of
from tests.support.stub_model import StubModel

QUIET = RunConfig(tracing_disabled=True)
NO_STREAM = "`run_sync` has no streamed form: `run_streamed` needs a running event loop, so there it is async"
NO_CANCELLATION = "`run_sync` blocks until the run has ended: it has no cancellation"


async def look_up(context: Any, arguments: str) -> str:
    return FOUND


LOOK_UP = FunctionTool(TOOL, "Looks a thing up.", dict(SCHEMA), look_up, strict_json_schema=False)


def agent_of(model: Model, **more: Any) -> Agent[Any]:
    """An agent that has the tool."""
    return Agent(**{"name": "gardener", "instructions": STATIC, "model": model, "tools": [LOOK_UP], **more})


class SessionChat(LoopChat):
    """The history is a session's."""

    def __init__(self, runner: Remembering, agent: Agent[Any], request: TurnRequest | None, loop: asyncio.Runner):
        super().__init__(request, loop.run)
        self._runner = runner
        self._agent = agent
        self.session = SQLiteSession("chat")

    def retry(self) -> str:
        return str(self._run(self._turn([])))

    def transcript(self) -> list[str]:
        items: list[Any] = self._run(self.session.get_items())
        return [one["content"] for one in items if one.get("role") == "user"]

    async def _turn(self, text: str | list[TResponseInputItem]) -> str:
        with spoken_by(self._request):
            result = await self._runner.run(self._agent, text, session=self.session, run_config=QUIET)
            return str(result.final_output)

    async def _delegated(self, text: str) -> str:
        return str((await self._runner.run(self._agent, text, run_config=QUIET)).final_output)

    async def _streamed(self, text: str, seen: Seen) -> str:
        with spoken_by(self._request):
            result = self._runner.run_streamed(self._agent, text, session=self.session, run_config=QUIET)
            left = False
            async for event in result.stream_events():  # read on after `cancel`, as the framework asks
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    try:
                        seen(event.data.delta)
                    except Left:
                        left = True
                        result.cancel()
            if left:
                raise Left
            return str(result.final_output)


@contextmanager
def again() -> Iterator[None]:
    """`run_sync` ends every run with `loop.shutdown_asyncgens()` and takes the same loop for the next, of which
    asyncio warns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*scheduled after loop.shutdown_asyncgens", ResourceWarning)
        yield


class SyncChat(Chat):
    """The history is the program's own list."""

    def __init__(self, runner: Remembering, agent: Agent[Any], request: TurnRequest | None):
        self._runner = runner
        self._agent = agent
        self._request = request
        self.history: list[Any] = []

    def say(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        return self.retry()

    def retry(self) -> str:
        with spoken_by(self._request), again():
            result = self._runner.run_sync(self._agent, self.history, run_config=QUIET)
        self.history = result.to_input_list()
        return str(result.final_output)

    def stream(self, text: str) -> str:
        """There is no streamed form."""
        return self.say(text)

    def delegate(self, text: str) -> str:
        with subagent_of(self._request), again():
            return str(self._runner.run_sync(self._agent, text, run_config=QUIET).final_output)

    def transcript(self) -> list[str]:
        return [one["content"] for one in self.history if one.get("role") == "user"]


class AgentsDriver(LoopDriver):
    """`Remembering` in the place of `Runner`."""

    def __init__(self, name: str, is_async: bool) -> None:
        self.name = name
        self._is_async = is_async
        if not is_async:
            self.cannot = lacking(stream=NO_STREAM, cancel=NO_CANCELLATION)

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        client, loop = self.kept(model)
        runner = Remembering(house.memory)
        if self._is_async:
            made = SessionChat(runner, agent_of(OpenAIResponsesModel("stub", client)), request, loop)
            yield made
            made.session.close()
        else:
            asyncio.set_event_loop(loop.get_loop())  # the loop that `run_sync` takes
            yield SyncChat(runner, agent_of(OpenAIChatCompletionsModel("stub", client)), request)


AGENTS = [AgentsDriver("agents", True), AgentsDriver("agents-sync", False)]
