"""Field case 86: what is injected, which tools there are and what is written, for every mode, scope and setting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from honcho_actors import Turn, TurnRequest
from honcho_actors.host import ContextRegistry, Ingest, MemoryProviders, compose_prompt
from honcho_actors.local.process import start
from honcho_actors.model import ReceiptState, SkipReason
from honcho_actors.satellite.tools import ToolError
from tests.support.tools_rig import FIVE, GOOD, runtime

FACT = "Ines restores a clinker dinghy from 1963."
TYPED = "What about the boat?"
WRITES = (("honcho_remember", {"content": "Ines sails in winter."}), ("honcho_profile", {"card": ["Name: Ines"]}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start(tmp_path_factory.mktemp("honcho")) as running:
        yield running.url


@pytest.fixture(scope="module")
def told(server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A workspace in which something is known of Ines."""
    with runtime(tmp_path_factory.mktemp("told"), server, workspace="modes") as memory:
        made = memory.call_tool("honcho_remember", {"content": FACT}, TurnRequest("s", user="ines"))
        assert made.error is None
    return "modes"


@pytest.mark.parametrize(
    ("mode", "scope", "save", "inject"),
    [
        one
        for one in itertools.product(("hybrid", "context", "tools"), ("main", "subagent"), (True, False), (False, True))
        if one[1] == "subagent" or not one[3]
    ],
)
def test_86_mode_by_subagent_by_saving(
    server: str, told: str, tmp_path: Path, mode: str, scope: str, save: bool, inject: bool
) -> None:
    changed = {"recall_mode": mode, "save_messages": save, "inject_in_subagents": inject}
    with runtime(tmp_path, server, workspace=told, first_turn_wait=20.0, **changed) as memory:
        request = TurnRequest("s", user="ines", query=TYPED, scope=scope)  # type: ignore[arg-type]
        main, with_tools = scope == "main", mode != "context"
        injected = mode != "tools" and (main or inject)

        registry = ContextRegistry(max_timeout=20.0)
        registry.register("memory", memory.contributor(), inline=True)
        prompt = compose_prompt("You help.", registry.collect(request), TYPED)
        assert (FACT in prompt.system + prompt.user) is injected
        if not injected:
            assert (prompt.system, prompt.user) == ("You help.", TYPED)

        names = [one["function"]["name"] for one in memory.tool_schemas(request)]
        assert names == (list(FIVE) if main and with_tools else [])
        refused = None if main and with_tools else ToolError.SUBAGENT if with_tools else None
        if not with_tools:
            refused = ToolError.CONTEXT_MODE if main else ToolError.SUBAGENT
        for name in FIVE:
            found = memory.call_tool(name, GOOD[name], request)
            assert (name, found.error) == (name, refused)
        for name, args in WRITES:
            found = memory.call_tool(name, args, request)
            if refused is None and save:
                assert found.details["verified"] is True
            else:
                assert found.error is (refused or ToolError.READ_ONLY)

        turn = Turn("s", "ines", TYPED, "Which one?", turn_id=f"t-{tmp_path.name}", scope=scope)  # type: ignore[arg-type]
        receipt = memory.capture(turn)
        providers = MemoryProviders()
        providers.register("honcho", memory.provider())
        line = Ingest(providers)
        line.ingest(turn)
        assert line.drain(20.0)
        if save and main:
            assert receipt.wait(ReceiptState.DELIVERED, 20.0) is ReceiptState.DELIVERED
        else:
            assert receipt.wait(ReceiptState.ACCEPTED, 20.0) is ReceiptState.SKIPPED
            assert receipt.reason in (SkipReason.READ_ONLY, SkipReason.SUBAGENT)
        assert memory.status().outbox.get("pending_turns", 0) == 0 or memory.flush(20.0)
