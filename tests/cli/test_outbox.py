"""`outbox list|show|retry|export`: the file itself; what was said only with `--reveal`."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import sentence
from tests.support.capture_rig import Rig, said, texts, turn
from tests.support.shared_faults import end, faults

REFUSING = [{"fault": "status", "on": ["add_messages"], "status": 422}]


@pytest.fixture(scope="session")
def honcho(server: str) -> Iterator[str]:
    yield server
    end(server)


def waiting(state: Path, *numbers: int) -> list[str]:
    """Turns that wait for a first server; their batch ids."""
    with Rig(state, None) as rig:
        receipts = [rig.capture.capture(turn(number)) for number in numbers]
        for receipt in receipts:
            assert receipt.wait("accepted", 20.0) == "accepted"
        return [receipt.batch_id for receipt in receipts]


def test_what_waits_is_listed_oldest_first_and_no_command_says_what_was_said(inside: Command, tmp_path: Path) -> None:
    state = tmp_path / "state"
    ids = waiting(state, 1, 2, 3)
    where = ("--state-dir", str(state))
    listed = inside("outbox", "list", *where)
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0] == str(state / "outbox.db")
    assert [line.split()[0] for line in listed.stdout.splitlines()[2:]] == ids
    as_json = inside("outbox", *where, "--json", "list", "--limit", "2")
    assert [entry["batch_id"] for entry in json.loads(as_json.stdout)] == ids[:2]
    shown = inside("outbox", "show", ids[0], *where)
    exported = inside("outbox", "export", *where)
    assert "10 characters" in shown.stdout
    assert len(exported.stdout.splitlines()) == 3
    for finished in (listed, as_json, shown, exported):
        assert "question" not in finished.stdout + finished.stderr
    assert inside("outbox", "list", "--state", "delivered", *where).stdout.endswith("nothing waits here\n")


def test_reveal_shows_what_was_said_and_it_moves_no_cursor(inside: Command, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Rig(state, None) as rig:
        receipt = rig.capture.capture(turn(1, prompt="one\nred \x1b[31m two\x07", answer=None))
        assert receipt.wait("accepted", 20.0) == "accepted"
    finished = inside("outbox", "show", receipt.batch_id, "--reveal", "--state-dir", str(state))
    assert "     one\n     red \\x1b[31m two\\x07\n" in finished.stdout
    as_json = inside("outbox", "show", receipt.batch_id, "--reveal", "--json", "--state-dir", str(state))
    assert json.loads(as_json.stdout)[0]["text"] == "one\nred \x1b[31m two\x07"


def test_export_writes_a_new_private_file_and_never_over_another(inside: Command, tmp_path: Path) -> None:
    state, kept = tmp_path / "state", tmp_path / "kept.jsonl"
    waiting(state, 1, 2)
    more = ("--reveal", "--state-dir", str(state), "--output", str(kept))
    assert inside("outbox", "export", *more).stdout == f"2 turns of {state / 'outbox.db'} are in {kept}\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    entries = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    assert [part["text"] for entry in entries for part in entry["parts"]] == said(1, 2)
    assert "can't be written" in sentence(inside("outbox", "export", *more), 2)
    array = tmp_path / "kept.json"
    inside("outbox", "export", "--json", "--state-dir", str(state), "--output", str(array))
    assert [entry["batch_id"] for entry in json.loads(array.read_text())] == [entry["batch_id"] for entry in entries]


def test_what_was_set_aside_is_listed_with_its_reason_retried_and_delivered_once(
    inside: Command, honcho: str, tmp_path: Path
) -> None:
    state, where = tmp_path / "state", ("--state-dir", str(tmp_path / "state"))
    with faults(honcho, REFUSING) as proxy, Rig(state, proxy.url, workspace="retried") as rig:
        receipt = rig.capture.capture(turn(1))
        assert rig.capture.flush(20.0)
        (entry,) = json.loads(inside("outbox", "list", "--state", "set_aside", "--json", *where).stdout)
        assert (entry["batch_id"], entry["reason"], entry["messages"]) == (receipt.batch_id, "status_422", 2)
        assert "which turn?" in sentence(inside("outbox", "retry", *where), 2)
        sentence(inside("outbox", "retry", "00ff", *where), 1)
        proxy.plan([])
        assert json.loads(inside("outbox", "retry", receipt.batch_id, "--json", *where).stdout) == {"messages": 2}
        assert "nothing was set aside" in sentence(inside("outbox", "retry", "--all", *where), 1)
        assert rig.capture.flush(20.0)
    assert texts(honcho, "s", "retried") == said(1)


def test_an_outbox_that_is_not_there_yet_is_empty_and_is_not_made(inside: Command, tmp_path: Path) -> None:
    where = ("--state-dir", str(tmp_path / "state"))
    assert json.loads(inside("outbox", "list", "--json", *where).stdout) == []
    assert inside("outbox", "export", *where).stdout == ""
    sentence(inside("outbox", "show", "00ff", *where), 1)
    sentence(inside("outbox", "retry", "--all", *where), 1)
    assert not (tmp_path / "state").exists()


def test_a_file_that_is_no_outbox_and_a_state_that_does_not_exist_are_one_sentence(
    inside: Command, tmp_path: Path
) -> None:
    (tmp_path / "outbox.db").write_text("not a database, and long enough to be looked at" * 100)
    for name in (("list",), ("show", "00ff"), ("export",)):
        assert "can't be read" in sentence(inside("outbox", *name, "--state-dir", str(tmp_path)), 1)
    assert "there is no state" in sentence(inside("outbox", "list", "--state", "lost"), 2)


def test_bare_outbox_asks_the_running_process(inside: Command, tmp_path: Path) -> None:
    assert "no process runs on" in sentence(inside("outbox", "--state-dir", str(tmp_path / "state")), 3)
