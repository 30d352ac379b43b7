"""`import`: once, resumable, in order; what is wrong is one sentence and exit 2 before anything is taken."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.cli.importing import _Progress, _settings
from tests.capture.test_import import CHAT, chatgpt, jsonl, openai
from tests.cli.conftest import Command
from tests.cli.test_commands import sentence
from tests.support.capture_rig import texts

WORDS = [text for _, text in CHAT]


def results(stdout: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout)
    return found


def test_the_three_formats_are_found_by_themselves_and_a_second_run_sends_nothing(
    command: Command, server: str, tmp_path: Path
) -> None:
    files = [str(jsonl(tmp_path / "lines.jsonl")), str(openai(tmp_path / "messages.json"))]
    export = chatgpt(tmp_path / "conversations.json")
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.write(export, "someone/conversations.json")
    files.append(str(tmp_path / "export.zip"))
    given = {"HONCHO_URL": server, "HONCHO_WORKSPACE_ID": "imported"}
    first = command("import", *files, "--user", "ines", "--json", **given)
    assert first.returncode == 0, first.stderr
    told = results(first.stdout)
    assert (told["files"], told["conversations"], told["accepted"], told["undelivered"]) == (3, 3, 15, 0)
    for session in ("lines", "messages", "conv-1"):
        assert texts(server, session, "imported") == WORDS
    again = command("import", *files, "--user", "ines", **given)
    assert again.returncode == 0, again.stderr
    assert "0 new, 15 known from an earlier import" in again.stdout
    assert texts(server, "lines", "imported") == WORDS


def test_a_conversation_that_has_grown_sends_only_what_is_new(command: Command, server: str, tmp_path: Path) -> None:
    given = {"HONCHO_URL": server, "HONCHO_WORKSPACE_ID": "grown"}
    path = jsonl(tmp_path / "talk.jsonl")
    assert command("import", str(path), **given).returncode == 0
    jsonl(path, extra='{"role": "user", "content": "and now?"}\n{"role": "assistant", "content": "now this"}\n')
    told = results(command("import", str(path), "--json", **given).stdout)
    assert (told["accepted"], told["known"]) == (2, 5)
    assert texts(server, "talk", "grown") == [*WORDS, "and now?", "now this"]


def test_a_line_that_is_no_message_is_named_and_the_exit_code_says_that_something_was_left_out(
    command: Command, server: str, tmp_path: Path
) -> None:
    path = jsonl(tmp_path / "odd.jsonl", extra="not json\n")
    finished = command("import", str(path), HONCHO_URL=server, HONCHO_WORKSPACE_ID="odd")
    assert finished.returncode == 1
    assert "odd.jsonl: line 6 is no message and was skipped" in finished.stdout
    assert texts(server, "odd", "odd") == WORDS


def test_without_a_server_everything_waits_on_disk_and_says_so(command: Command, tmp_path: Path) -> None:
    finished = command("import", str(jsonl(tmp_path / "talk.jsonl")), "--state-dir", str(tmp_path / "state"))
    assert "5 messages are on disk and not delivered, since neither HONCHO_URL" in sentence(finished, 1)
    listed = command("outbox", "list", "--json", "--state-dir", str(tmp_path / "state"))
    assert [entry["state"] for entry in json.loads(listed.stdout)] == ["accepted"] * 5


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "can't be read"),
        ("", "is empty"),
        ("once upon a time\nthere was", "is neither"),
        ('{"a": 1}', "is neither"),
        ('{"messages": []}', "no message"),
        ("PK\x03\x04 and nothing more", "archive that can't be read"),
    ],
    ids=["absent", "empty", "prose", "other json", "no messages", "broken archive"],
)
def test_bad_input_is_one_sentence_and_exit_2_and_nothing_is_taken_of_the_good_file_beside_it(
    inside: Command, tmp_path: Path, content: str | None, word: str
) -> None:
    good, bad, state = jsonl(tmp_path / "good.jsonl"), tmp_path / "bad.json", tmp_path / "state"
    arguments = [str(bad)]
    if content is not None:
        bad.write_text(content)
        arguments = [str(good), str(bad)] if word != "no message" else [str(bad)]
    assert word in sentence(inside("import", *arguments, "--state-dir", str(state)), 2)
    assert not state.exists()


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"HONCHO_ACTORS_SAVE_MESSAGES": "false"}, "save_messages is off"),
        ({"HONCHO_ACTORS_ENABLED": "false"}, "it is switched off"),
        ({"HONCHO_ACTORS_REQUIRE_USER": "true"}, "--user NAME"),
    ],
    ids=["read-only", "off", "nobody"],
)
def test_settings_that_forbid_it_are_one_sentence_and_exit_2(
    inside: Command, tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    path, state = jsonl(tmp_path / "good.jsonl"), tmp_path / "state"
    assert words in sentence(inside("import", str(path), "--state-dir", str(state), **environ), 2)
    assert not state.exists()


def test_no_file_at_all_is_a_wrong_command_line(inside: Command) -> None:
    assert "--help" in sentence(inside("import"), 2)


def test_long_work_shows_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("honcho_actors.cli.importing.time.monotonic", lambda: now[0])
    progress = _Progress(2_000)
    for count in range(0, 2_000, 100):
        progress.imported(count)
        now[0] += 1.0
    said = capsys.readouterr().err.splitlines()
    assert said == [f"honcho-actors: {count:,} of 2,000 messages are on disk" for count in (500, 1_000, 1_500)]


def test_on_a_terminal_progress_is_one_line_that_is_gone_at_the_end(tmp_path: Path) -> None:
    program = (
        "import time; from honcho_actors.cli.importing import _Progress; p = _Progress(2)\n"
        "for n in (1, 2): time.sleep(0.15); p.imported(n)\n"
        "p.end()"
    )
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as shown:
        subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True, timeout=50)
        os.close(theirs)
        said = shown.read(1_000).decode()
    assert said.endswith("\r\x1b[K2 of 2 messages are on disk\r\x1b[K")
    assert "\n" not in said


def test_an_import_has_no_endpoint_of_its_own_and_leaves_the_one_of_the_running_process_announced() -> None:
    settings = _settings(None, None)
    assert (settings.admin_port, settings.metrics_port) == (None, None)
