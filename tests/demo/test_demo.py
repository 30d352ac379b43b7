"""The demo, as a newcomer runs it: a subprocess, real servers, real processes; long conversations through it (three of
LoCoMo's ten, all of them with HONCHO_DEMO_ALL=1)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from honcho import Honcho

from honcho_actors.cli.transcript import Transcript, read
from honcho_actors.local.process import start
from tests.support.transcripts import locomo, write

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ["26", "30", "49"]
if os.environ.get("HONCHO_DEMO_ALL"):
    NAMES += ["41", "42", "43", "44", "47", "48", "50"]
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("HONCHO_", "XDG_"))}


def run(*arguments: str, temporary: Path, timeout: float = 150.0, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "honcho_actors.cli", "demo", *arguments],
        env={**PLAIN, "HOME": str(temporary), "TMPDIR": str(temporary), **environ},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


Replay = tuple[Transcript, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that outlives the demos, so that somebody else can read it."""
    with start(tmp_path_factory.mktemp("server")) as running:
        yield running.url


@pytest.fixture(scope="module")
def replays(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Replay]]]:
    """The conversations through the demo, each into a workspace of its own on one server; {} where they are not
    beside this clone. A demo waits more than it works: they run beside each other and beside the other tests."""
    archive = ROOT.parent / "shared" / "data" / "locomo10.zip"
    if not archive.is_file():
        yield {}
        return
    folder = tmp_path_factory.mktemp("replayed")
    talks = locomo(archive)

    def replay(name: str) -> Replay:
        path = write(talks[name], folder / f"{name}.jsonl")
        environ = {"HONCHO_URL": server, "HONCHO_WORKSPACE_ID": f"locomo-{name}"}
        return read(path), run("--transcript", str(path), "--pace", "0", temporary=folder, timeout=250.0, **environ)

    with ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(replay, name) for name in NAMES}


@pytest.fixture(scope="module")
def done(replays: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run, told as JSON, and what it left behind."""
    folder = tmp_path_factory.mktemp("demo")
    home = folder / "home"
    home.mkdir()
    before = status()
    finished = run("--json", "--pace", "0.02", temporary=folder, HOME=str(home))
    assert finished.returncode == 0, finished.stderr
    result: dict[str, Any] = json.loads(finished.stdout)
    result["left"] = sorted(str(path) for path in folder.rglob("*") if path != home)
    result["left_in_clone"] = sorted(set(status()) - set(before))
    return result


@pytest.mark.timeout(200)
class TestBundled:
    def test_everything_that_was_said_is_on_the_server_once_and_in_order(self, done: dict[str, Any]) -> None:
        assert done["exact"] is True
        assert sum(one["held"] for one in done["server"]) == done["utterances"] == 48
        assert [(one["missing"], one["doubled"], one["in_order"]) for one in done["server"]] == [(0, 0, True)] * 3

    def test_the_first_turn_of_a_new_person_waits_once_and_no_other_turn_waits(self, done: dict[str, Any]) -> None:
        paths = [(row["conversation"], row["path"]) for row in done["rows"]]
        assert [name for name, path in paths if path == "cold"] == ["boat-shed", "cello"]
        assert all(row["waited_ms"] >= 200 for row in done["rows"] if row["path"] == "cold")
        assert done["longest_warm_wait_ms"] < 50

    def test_a_new_conversation_with_a_known_person_starts_warm_with_what_is_known(self, done: dict[str, Any]) -> None:
        first = next(row for row in done["rows"] if row["conversation"] == "boat-sunday")
        assert (first["path"], first["reason"]) == ("warm", "hit")
        assert first["block_tokens"] > 0

    def test_turns_go_on_during_the_outage_and_wait_in_the_outbox(self, done: dict[str, Any]) -> None:
        assert done["outage"]["turns"] == 3
        assert done["outage"]["pending"] == 3
        assert done["outage"]["longest_wait_ms"] < 50

    def test_after_the_outage_everything_is_delivered_as_the_server_says(self, done: dict[str, Any]) -> None:
        assert done["recovery"]["flushed"] is True
        assert done["recovery"]["held"] == done["recovery"]["said"]

    def test_the_runtime_restarts_as_another_process_and_its_first_turn_is_restored(self, done: dict[str, Any]) -> None:
        restart = done["restart"]
        assert restart["before"] != restart["after"]
        assert restart["exit_code"] == 0
        assert restart["first_path"] == "restored"
        assert restart["first_wait_ms"] < 50

    def test_the_turns_of_the_summary_are_those_that_were_scraped(self, done: dict[str, Any]) -> None:
        assert sum(done["turns"].values()) == done["turns_shown"] == len(done["rows"])
        assert done["delivered"] == 24

    def test_it_ends_in_time_and_leaves_nothing_behind(self, done: dict[str, Any]) -> None:
        assert done["seconds"] < 90
        assert done["left"] == []
        assert done["left_in_clone"] == []


def status() -> list[str]:
    """Files of the clone that git does not know; [] outside a clone."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--others", "--exclude-standard", "--", "honcho_actors/cli"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.splitlines()


@pytest.mark.timeout(200)
def test_a_transcript_of_one_conversation_shows_every_phase_and_keeps_what_it_is_told_to(
    tmp_path: Path, temporary: Path
) -> None:
    lines = [{"role": role, "content": f"{role} says {turn}"} for turn in range(4) for role in ("user", "assistant")]
    path = write(lines, tmp_path / "talk.jsonl")
    path.write_text("broken\n" + path.read_text())
    kept = tmp_path / "kept"
    finished = run(
        "--transcript", str(path), "--delay", "0", "--pace", "0.05", "--keep", str(kept), temporary=temporary
    )
    assert finished.returncode == 0, finished.stderr
    assert "transcript: line 1: not JSON" in finished.stdout
    assert "8 of 8 messages, in order, none twice (read from the server)" in finished.stdout
    assert "restored" in finished.stdout
    assert (kept / "state" / "outbox.db").is_file()
    assert list(temporary.iterdir()) == []


@pytest.mark.shared
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
def test_every_utterance_of_a_long_conversation_is_captured_once_and_in_order(
    name: str, server: str, replays: dict[str, Future[Replay]]
) -> None:
    if name not in replays:
        pytest.skip("the LoCoMo conversations are not beside this clone")
    told, finished = replays[name].result(300.0)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr
    with httpx.Client() as http:
        client = Honcho(base_url=server, workspace_id=f"locomo-{name}", api_key="unused", http_client=http)
        held = {session.id: list(session.messages()) for session in client.sessions()}
    assert sum(len(messages) for messages in held.values()) == told.count
    for conversation in told.conversations:
        wanted = [text.strip() for _, text in conversation.utterances]
        assert [message.content for message in held[conversation.key]] == wanted
        roles = ["you" if role == "user" else "assistant" for role, _ in conversation.utterances]
        assert [message.peer_id for message in held[conversation.key]] == roles


@pytest.mark.timeout(200)
def test_a_text_with_a_credential_stays_here_and_the_rest_is_exact(tmp_path: Path, temporary: Path) -> None:
    secret = "sk-" + "proj-" + "Zx9" * 16
    said = [
        "I have a boat in Vlieter.",
        "Noted.",
        f"use {secret} please",
        "I will not say it again.",
        "Thanks.",
        "Bye.",
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text(
        "".join(
            json.dumps({"role": "assistant" if number % 2 else "user", "content": text}) + "\n"
            for number, text in enumerate(said)
        )
    )
    finished = run(
        "--json", "--transcript", str(path), "--pace", "0", "--delay", "0", temporary=temporary, HOME=str(tmp_path)
    )
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert (result["exact"], result["withheld"]) == (True, 1)
    assert [(one["said"], one["held"]) for one in result["server"]] == [(5, 5)]
    assert secret not in finished.stdout + finished.stderr


@pytest.mark.timeout(200)
def test_a_signal_to_end_leaves_no_process_and_no_file_behind(tmp_path: Path, temporary: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "honcho_actors.cli", "demo", "--delay", "0"],
        env={**PLAIN, "TMPDIR": str(temporary), "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        started = [process.stdout.readline(), process.stdout.readline()]
        pids = [int(found[1]) for line in started if (found := re.search(r"process (\d+)", line))]
        process.terminate()
        process.stdout.read()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert len(pids) == 2
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read"), ("", "is empty"), ("date;text\n", "holds no usable line")],
    ids=["absent", "empty", "unknown format"],
)
def test_a_transcript_that_cannot_be_used_is_one_sentence_and_exit_2(
    content: str | None, words: str, tmp_path: Path, temporary: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    if content is not None:
        path.write_text(content)
    check_refused(run("--transcript", str(path), temporary=temporary), words)


def test_a_directory_that_cannot_be_made_is_one_sentence_and_exit_2(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "file").write_text("")
    check_refused(run("--keep", str(tmp_path / "file" / "inside"), temporary=temporary), "cannot be made")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000", "http://"),
        ("http://127.0.0.1:9", "does not answer as Honcho does"),
        ("http://192.0.2.7", "https is demanded off private networks"),
    ],
    ids=["no address", "nobody there", "plain http to a public address"],
)
def test_a_wrong_base_url_is_one_sentence_and_exit_2(url: str, words: str, temporary: Path) -> None:
    check_refused(run(temporary=temporary, HONCHO_URL=url, HONCHO_API_KEY="a-key"), words)


def check_refused(finished: subprocess.CompletedProcess[str], words: str) -> None:
    assert finished.returncode == 2, finished.stderr
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert "Traceback" not in finished.stderr
