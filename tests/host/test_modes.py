"""Case 86: what enters a prompt, and which tools there are, by recall mode, scope and saving; over sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from honcho_actors import TurnRequest
from honcho_actors.host import ContextRegistry, Transcript
from honcho_actors.satellite.tools import ToolError
from tests.support.memory_world import until
from tests.support.stub_honcho import Answer, Said, Seen
from tests.support.tools_rig import Stub, runtime


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    def answer(seen: Seen) -> Answer:
        if "/sessions/" in seen.path and seen.path.endswith("/context"):
            known = {"messages": [], "peer_representation": "Ines likes rain.", "peer_card": []}
            return Said({"id": seen.path.split("/")[-2], **known})
        return Said({"id": "x", "content": "It rains."})

    with Stub(answer) as running:
        yield running


@pytest.mark.parametrize("saving", [True, False], ids=["saving", "read-only"])
@pytest.mark.parametrize("inherited", [False, True], ids=["", "inject_in_subagents"])
@pytest.mark.parametrize("scope", ["main", "subagent"])
@pytest.mark.parametrize("mode", ["hybrid", "context", "tools"])
def test_case_86_the_mode_decides_what_enters_and_which_tools_there_are(
    stub: Stub, tmp_path: Path, mode: str, scope: str, inherited: bool, saving: bool
) -> None:
    changed = {"recall_mode": mode, "save_messages": saving, "inject_in_subagents": inherited}
    enters = mode != "tools" and (scope == "main" or inherited)
    request = TurnRequest(session_key="s", user="ines", query="what now?", scope=scope)  # type: ignore[arg-type]
    with runtime(tmp_path, stub.url, first_turn_wait=20.0, **changed) as memory:
        registry = ContextRegistry(max_timeout=30.0)
        registry.register("memory", memory.contributor(), inline=True)
        talk = Transcript("s", owner="ines")
        if enters:
            until(lambda: bool(memory.context(request).system), 20.0)
        prompt = talk.compose("S", registry.collect(request), "what now?")
        assert ("Ines likes rain." in prompt.system) is enters
        assert prompt.system.startswith("S")
        if not enters:
            assert (prompt.system, prompt.user) == ("S", "what now?")
        tools = memory.tools()
        assert bool(tools) is (mode != "context")
        for tool in tools[:1]:
            refused = tool.call({"query": "rain"}, request).error
            assert (refused is ToolError.SUBAGENT) is (scope == "subagent")
