"""`honcho-actors chat` through the same object as every adapter: a model of the user's choice, streamed, replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.keeper import ANN, Held, keeper
from tests.support.memory_world import Server
from tests.support.stub_model import Say, StubModel

LINES = "what about the beds, at length?\nand what about the paths between them?\n"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def honcho() -> Iterator[Server]:
    remote = keeper()
    remote.about = {"ann": "It is about sowing."}
    with Server(remote) as server:
        yield server


def talk(honcho: Server, folder: Path, *arguments: str, lines: str = LINES, **environment: str) -> str:
    code = "import sys; from honcho_actors.cli import main; sys.exit(main())"
    given = {
        **os.environ,
        "HONCHO_URL": honcho.url,
        "HONCHO_ACTORS_STATE_DIR": str(folder / "state"),
        "HONCHO_ACTORS_CACHE_DIR": str(folder / "cache"),
        "HONCHO_ACTORS_DIALECTIC_CADENCE": "1",
        "HONCHO_ACTORS_FIRST_TURN_WAIT": "30",
        **environment,
    }
    command = [sys.executable, "-c", code, "chat", "--user", "ann", "--session", "garden", *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, env=given, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_each_protocol_is_streamed_and_earlier_messages_are_sent_again_byte_for_byte(
    honcho: Server, model: StubModel, tmp_path: Path, protocol: str
) -> None:
    family, url = ("ANTHROPIC", model.root) if protocol == "messages" else ("OPENAI", model.url)
    where = {f"{family}_BASE_URL": url, f"{family}_MODEL": "stub"}
    said = talk(honcho, tmp_path, "--protocol", protocol, "--json", **where)
    first, second = (json.loads(line) for line in said.splitlines())
    one, two = model.calls
    assert one.body["stream"] is True
    assert ANN in one.system
    assert first["answer"] == "You said 1 things, at last: what about the beds, at length?"
    assert two.items[: len(one.items)] == one.items
    assert two.users[-1] == second["user"]
    assert [held.text for held in honcho.remote.held.popitem()[1]] == [  # type: ignore[attr-defined]
        LINES.splitlines()[0],
        first["answer"],
        LINES.splitlines()[1],
        second["answer"],
    ]


def test_a_person_sees_the_answer_as_it_comes_and_a_failure_as_a_clause(
    honcho: Server, model: StubModel, tmp_path: Path
) -> None:
    answers = iter([Say("It is fine."), Say("no", status=500)])
    model.script = lambda asked: next(answers)
    said = talk(honcho, tmp_path, OPENAI_BASE_URL=model.url, OPENAI_MODEL="stub")
    assert "--- assistant\nIt is fine.\n" in said
    assert "(no answer: it answered with status 500)" in said
    held = honcho.remote.held["garden"]  # type: ignore[attr-defined]
    assert held[-1] == Held("ann", LINES.splitlines()[1], True)
