"""What attaches to a running process: `sessions`, `context`, `top` (OP12, OP13, OP30 to OP39); `bench` beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from honcho_actors import Turn, TurnRequest
from honcho_actors.model import ReceiptState
from tests.cli.conftest import Command, Run, until
from tests.cli.test_commands import sentence
from tests.support.memory_world import Remote, Server

UNREACHABLE = "http://127.0.0.1:9"
ATTACHING = ("status", "sessions", "context", "outbox", "settings", "tree", "top")


class TestSessions:
    def test_OP30_OP13_the_table_marks_what_is_pending_and_what_was_never_read(
        self, inside: Command, running: Run, tmp_path: Path
    ) -> None:
        with Server() as remote:
            remote.remote.statuses["session_context"] = 500
            remote.remote.statuses["peer_context"] = 500
            memory = running(remote.url)
            memory.context(TurnRequest(session_key="kitchen", user="ann", query="where were we?"), 5.0)
            never = inside("sessions", "--state-dir", str(tmp_path / "state"))
            remote.remote.statuses.clear()
            memory.context(TurnRequest(session_key="garden", user="bob", query="where were we?"), 5.0)
            shown = inside("sessions", "--state-dir", str(tmp_path / "state"))
        head, row = (line.split() for line in never.stdout.splitlines()[1:3])
        assert head == ["key", "user", "remote", "turns", "read", "state", "reason"]
        assert row[:2] == ["kitchen", "ann"]
        assert "never" in row
        assert f"process {os.getpid()}" in shown.stdout
        assert " s ago" in next(line for line in shown.stdout.splitlines() if "garden" in line)

    def test_OP13_a_conversation_without_a_remote_session_is_pending(self) -> None:
        from honcho_actors.cli.inspect import session_lines

        row = {"key": "k", "user": "u", "remote": "", "turns": 0, "age": None, "state": "loading", "reason": "loading"}
        assert session_lines([row])[1].split() == ["k", "u", "pending", "0", "never", "loading", "loading"]

    def test_OP12_OP31_none_yet_is_an_explanation_and_no_header(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        running(server)
        finished = inside("sessions", "--state-dir", str(tmp_path / "state"))
        assert finished.returncode == 0
        assert "none yet: a conversation is held from its first turn on" in finished.stdout
        assert "remote" not in finished.stdout
        assert json.loads(inside("sessions", "--json", "--state-dir", str(tmp_path / "state")).stdout) == []

    def test_OP32_OP33_without_a_manager_it_says_so_and_that_nothing_was_looked_for(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory = running(server)
        assert memory._tree is not None
        assert memory._tree._root is not None
        memory._tree._root.terminate_child("read_side")
        until(lambda: memory.status().sessions["manager"] == "away")
        sessions = inside("sessions", "--state-dir", str(tmp_path / "state"))
        assert (sessions.returncode, "the session manager is away" in sessions.stdout) == (1, True)
        context = inside("context", "--session", "kitchen", "--state-dir", str(tmp_path / "state"))
        assert context.returncode == 1
        assert "nothing is loaded or injected until it is back, and nothing was looked for" in context.stdout


class TestContext:
    def test_OP34_OP36_a_tracked_one_is_reported_without_serving_a_turn_and_the_last_one_read_is_the_default(
        self, inside: Command, running: Run, tmp_path: Path
    ) -> None:
        given = ("--state-dir", str(tmp_path / "state"))
        with Server(Remote({"ann": ("Ann grows tomatoes.", []), "bob": ("Bob sails.", [])})) as remote:
            memory = running(remote.url)
            for key, user in (("garden", "ann"), ("boat", "bob")):
                memory.context(TurnRequest(session_key=key, user=user, query="where were we?"), 10.0)
            until(lambda: memory.status().sessions["uncounted_turns"] == 0)
            requests = len(remote.remote.asked)
            named = inside("context", "--session", "garden", *given)
            last = inside("context", *given)
            again = json.loads(inside("context", "--json", "--session", "garden", *given).stdout)
            assert len([one for one in remote.remote.asked if one.op != "chat"][requests:]) == 0
        assert named.returncode == last.returncode == 0
        assert "as it is held (no turn was served for this)" in named.stdout
        assert "key             garden" in named.stdout
        assert "the conversation that was read last" in last.stdout
        assert "key             boat" in last.stdout
        assert "tomatoes" not in named.stdout, "the block itself is shown by --live alone"
        assert (again["tracked"], again["row"]["turns"]) == (True, 1)

    def test_OP35_an_untracked_one_is_said_to_be_and_nothing_is_created(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory = running(server)
        given = ("--state-dir", str(tmp_path / "state"))
        assert "no conversation is held yet" in inside("context", *given).stdout
        finished = inside("context", "--session", "nowhere", *given)
        assert finished.returncode == 1
        assert "nowhere is not held: untracked, and nothing was created for this question" in finished.stdout
        assert memory.status().sessions["sessions"] == 0

    def test_query_and_timeout_belong_to_live(self, inside: Command) -> None:
        assert "belong to --live" in sentence(inside("context", "--query", "x"), 2)

    def test_OP37_live_warns_first_passes_query_and_key_and_prints_the_block(
        self, inside: Command, running: Run, tmp_path: Path
    ) -> None:
        with Server() as remote:
            memory = running(remote.url)
            finished = inside(
                "context", "--live", "--session", "garden", "--user", "ann", "--query", "what grows there this week?",
                "--state-dir", str(tmp_path / "state"), HONCHO_URL=remote.url,
            )  # fmt: skip
            until(lambda: remote.remote.count("session_context"))
            asked = remote.remote.last("session_context")
            assert (asked.peer, asked.session) == ("ann", "garden")
            assert memory.status().sessions["sessions"] == 0, "the running process was left alone"
        assert finished.returncode == 0
        assert "may be billed" in finished.stderr
        assert f"not process {os.getpid()}, which is left alone" in finished.stderr
        inner = finished.stdout.split("--- the block begins ---\n")[1].split("\n--- the block ends ---")[0]
        assert inner.startswith("## ")
        assert "Ann grows tomatoes." in inner

    def test_OP38_live_without_a_block_tells_every_reason_that_applies_the_likeliest_first(
        self, inside: Command
    ) -> None:
        finished = inside("context", "--live", "--json", HONCHO_ACTORS_RECALL_MODE="tools")
        assert finished.returncode == 1
        assert json.loads(finished.stdout)["why_empty"] == [
            "memory is off: neither HONCHO_URL nor HONCHO_API_KEY is set"
        ]
        both = inside(
            "context", "--live", "--json", HONCHO_URL=UNREACHABLE, HONCHO_ACTORS_RECALL_MODE="tools",
            HONCHO_ACTORS_CONTEXT_TOKENS="0",
        )  # fmt: skip
        first, second = json.loads(both.stdout)["why_empty"]
        assert "recall_mode is tools" in first
        assert "context_tokens leaves no room" in second

    def test_OP39_reasons_that_do_not_apply_are_not_told(self, inside: Command, server: str) -> None:
        nothing = inside("context", "--live", "--user", "nobody-yet", HONCHO_URL=server)
        assert nothing.returncode == 1
        assert "the server knows nothing of this person yet" in nothing.stdout
        assert "recall_mode" not in nothing.stdout
        down = json.loads(inside("context", "--live", "--json", "--timeout", "5", HONCHO_URL=UNREACHABLE).stdout)
        (reason,) = down["why_empty"]
        assert "gave no usable answer" in reason


class TestTop:
    def test_into_a_pipe_each_look_is_plain_lines_and_with_json_one_value_a_line(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory = running(server, workspace="watched")
        memory.context(TurnRequest(session_key="kitchen", user="ines", query="where were we?"), 10.0)
        memory.capture(Turn("kitchen", "ines", "a", "b")).wait(ReceiptState.DELIVERED, 20.0)
        given = ("--state-dir", str(tmp_path / "state"), "--every", "0.2")
        finished = inside("top", "--count", "2", *given)
        assert finished.returncode == 0
        assert finished.stdout.count(f"process {os.getpid()}, ") == 2
        assert "\x1b" not in finished.stdout
        assert "kitchen" in finished.stdout
        rows = [json.loads(line) for line in inside("top", "--count", "2", "--json", *given).stdout.splitlines()]
        assert [(row["running"], row["pid"]) for row in rows] == [(True, os.getpid())] * 2

    def test_without_a_process_it_says_so_and_exits_3(self, inside: Command, tmp_path: Path) -> None:
        given = ("--state-dir", str(tmp_path / "state"), "--count", "1")
        assert "no process runs" in sentence(inside("top", *given), 3)
        shown = inside("top", "--json", *given)
        assert (shown.returncode, json.loads(shown.stdout)["running"]) == (3, False)

    def test_on_a_terminal_it_is_live_and_ctrl_c_ends_it_with_0(
        self, running: Run, server: str, environment: dict[str, str], tmp_path: Path
    ) -> None:
        running(server)
        program = (
            "import os, pty, signal, sys\n"
            "child, terminal = pty.fork()\n"
            "if child == 0:\n"
            "    os.execv(sys.executable, [sys.executable, '-m', 'honcho_actors.cli', 'top', '--every', '0.2',"
            " '--state-dir', sys.argv[1]])\n"
            "seen = b''\n"
            "while seen.count(b'breakers') < 2:\n"
            "    seen += os.read(terminal, 4096)\n"
            "os.write(terminal, b'\\x03')\n"
            "try:\n"
            "    while os.read(terminal, 4096): pass\n"
            "except OSError: pass\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        finished = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "state")],
            env={**environment, "TERM": "xterm"}, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
        assert finished.stdout.strip() == "0", finished.stderr


@pytest.mark.parametrize("verb", ATTACHING)
def test_a_process_that_was_killed_is_one_sentence_and_exit_3(inside: Command, tmp_path: Path, verb: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "admin.json").write_text(json.dumps({"url": UNREACHABLE, "token": "t", "pid": 4242, "started": 0}))
    finished = inside(verb, *(("--count", "1") if verb == "top" else ()), "--state-dir", str(state))
    assert finished.returncode == (0 if verb == "settings" else 3)
    assert "process 4242 does not answer" in finished.stdout + finished.stderr or verb == "settings"
    assert "Traceback" not in finished.stderr


def test_what_a_terminal_cannot_say_is_escaped_in_json_and_replaced_in_text(command: Command, tmp_path: Path) -> None:
    odd = str(tmp_path / "Gedächtnis")
    shown = command("status", "--json", "--state-dir", odd, PYTHONIOENCODING="ascii")
    assert json.loads(shown.stdout)["why"].endswith(odd)
    assert "Ged?chtnis" in command("status", "--state-dir", odd, PYTHONIOENCODING="ascii").stdout
    tree = command("tree", "--state-dir", odd, PYTHONIOENCODING="ascii")
    assert (tree.returncode, "Ged?chtnis" in tree.stderr) == (3, True)


def test_half_a_character_is_no_reason_to_fail(inside: Command, running: Run, server: str, tmp_path: Path) -> None:
    memory = running(server, workspace="halves")
    memory.context(TurnRequest(session_key="half \ud83d of one", user="ines", query="where were we?"), 10.0)
    given = ("--state-dir", str(tmp_path / "state"))
    for verb in ("sessions", "context", "top"):
        for how in ((), ("--json",)):
            finished = inside(verb, *(("--count", "1") if verb == "top" else ()), *how, *given)
            assert "half " in finished.stdout, (verb, how, finished.stderr)


def test_bench_measures_this_machine_and_leaves_nothing_behind(inside: Command, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    finished = inside("bench", "--turns", "50", "--delay", "0.01", "--json", TMPDIR=str(scratch))
    shown = json.loads(finished.stdout)
    assert shown["delivered"] is True
    assert shown["cold_ms"] >= 10.0
    assert {"start_ms", "known_person_ms", "warm_p50_us", "warm_p99_us", "capture_p50_us", "delivered_s"} <= set(shown)
    assert list((tmp_path / "home").glob("**/outbox.db")) == []
