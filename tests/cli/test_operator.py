"""The operator's commands by the ids of the original's table (OP1 to OP17, OP20 to OP39), and what is added here.

Where this project says otherwise than the original, the test says so: exit codes are 0 fine, 1 not fine, 2 usage, 3 no
running process (the original's `status` ended with 0 always); commands attach to the running process (the original's
described themselves); a deployment is an address, and no key names one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from honcho_actors import Turn, TurnRequest
from honcho_actors.cli import probe
from honcho_actors.honcho.said import said
from honcho_actors.model import ReceiptState
from tests.cli.conftest import Answer, Command, Finished, Run, until
from tests.cli.test_commands import sentence
from tests.support.memory_world import Remote, Server

KEY = "key-" + "o" * 24
UNREACHABLE = "http://127.0.0.1:9"
VERBS = (
    "status",
    "ping",
    "doctor",
    "sessions",
    "context",
    "outbox",
    "settings",
    "tree",
    "top",
    "serve",
    "local",
    "demo",
)
ATTACHING = ("status", "sessions", "context", "outbox", "settings", "tree", "top")


def lines(finished: Finished) -> dict[str, str]:
    """The labelled lines of `status` without a running process."""
    pairs = [line[2:24].strip() + "\t" + line[25:] for line in finished.stdout.splitlines() if line.startswith("  ")]
    return dict(pair.split("\t") for pair in pairs)


class TestUsage:
    @pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)], ids=["OP1", "OP2", "OP2 short"])
    def test_usage_names_every_verb(self, inside: Command, arguments: tuple[str, ...]) -> None:
        finished = inside(*arguments)
        assert (finished.returncode, finished.stderr) == (0, "")
        for verb in VERBS:
            assert f" {verb} " in finished.stdout, verb

    def test_OP3_an_unknown_verb_fails_by_name(self, inside: Command) -> None:
        assert "No such command 'statuss'" in sentence(inside("statuss"), 2)

    @pytest.mark.parametrize("verb", ["status", "ping", "sessions", "context", "doctor", "top", "tree", "settings"])
    def test_OP4_extra_arguments_to_a_known_verb_fail_specifically(self, inside: Command, verb: str) -> None:
        assert "unexpected extra argument(s) (more)" in sentence(inside(verb, "more"), 2)

    @pytest.mark.parametrize("verb", ["status", "ping", "doctor"])
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ((), "Option '--timeout' requires an argument"),
            (("soon",), "Invalid value for '--timeout'"),
            (("0",), "Invalid value for '--timeout'"),
            (("-1",), "Invalid value for '--timeout'"),
            (("nan",), "Invalid value for '--timeout'"),
        ],
        ids=["OP5", "OP6", "OP7", "OP7 negative", "OP7 no number"],
    )
    def test_a_timeout_that_is_none_fails_by_name(
        self, inside: Command, verb: str, given: tuple[str, ...], words: str
    ) -> None:
        assert words in sentence(inside(verb, "--timeout", *given), 2)

    def test_OP7_the_quick_way_into_status_is_no_other_way(self, command: Command) -> None:
        assert "Invalid value for '--timeout'" in sentence(command("status", "--timeout", "0"), 2)

    def test_every_verb_has_help_with_an_example_and_json(self, inside: Command) -> None:
        for verb in VERBS:
            finished = inside(verb, "--help")
            assert finished.returncode == 0
            assert f"Example: honcho-actors {verb}" in finished.stdout or "Example: HONCHO_URL" in finished.stdout
            assert "--json" in finished.stdout, verb

    def test_a_shell_is_offered_the_verbs_and_the_conversations(
        self, command: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        asked = {"_HONCHO_ACTORS_COMPLETE": "complete_bash", "COMP_WORDS": "honcho-actors se", "COMP_CWORD": "1"}
        assert set(command(**asked).stdout.split()) == {"serve", "sessions", "settings"}
        memory = running(server, workspace="completed")
        memory.context(TurnRequest(session_key="kitchen", user="ines", query="where were we?"), 10.0)
        words = {**asked, "COMP_WORDS": "honcho-actors context --session kit", "COMP_CWORD": "3"}
        assert command(**words, HONCHO_ACTORS_STATE_DIR=str(tmp_path / "state")).stdout.split() == ["kitchen"]
        assert command(**words, HONCHO_ACTORS_STATE_DIR=str(tmp_path / "none")).stdout.split() == []


class TestStatusLines:
    def test_OP8_no_key_and_unconfigured(self, inside: Command) -> None:
        shown = lines(inside("status"))
        assert shown["key"] == "absent"
        assert shown["memory"] == "off: neither HONCHO_URL nor HONCHO_API_KEY is set"

    def test_OP9_a_key_is_present_and_never_shown(self, inside: Command) -> None:
        finished = inside("status", HONCHO_URL=UNREACHABLE, HONCHO_API_KEY=KEY)
        assert lines(finished)["key"] == "present (HONCHO_API_KEY)"
        assert KEY not in finished.stdout + finished.stderr

    def test_OP10_every_field_that_decides_whose_memory_is_read_and_when(self, inside: Command, server: str) -> None:
        shown = lines(
            inside(
                "status",
                HONCHO_URL=server,
                HONCHO_WORKSPACE_ID="w7",
                HONCHO_ACTORS_USER_PEER="ada",
                HONCHO_ACTORS_AI_PEER="butler",
                HONCHO_ACTORS_RECALL_MODE="context",
                HONCHO_ACTORS_SESSION_STRATEGY="repo",
                HONCHO_ACTORS_OBSERVATION_MODE="unified",
                HONCHO_ACTORS_CONTEXT_CADENCE="3",
                HONCHO_ACTORS_DIALECTIC_CADENCE="5",
                HONCHO_ACTORS_DIALECTIC_PER_HOUR="40",
                HONCHO_ACTORS_SAVE_MESSAGES="no",
                HONCHO_ACTORS_INJECT_IN_SUBAGENTS="yes",
                HONCHO_ACTORS_REQUEST_TIMEOUT="4",
            )
        )
        reached = shown.pop("reached")
        state = shown.pop("state directory")
        assert reached.startswith("answers in ")
        assert state.endswith("honcho-actors")
        assert shown == {
            "memory": "on",
            "server": server,
            "key": "absent",
            "workspace": "w7",
            "user peer": "ada",
            "assistant's peer": "butler",
            "recall mode": "context",
            "session strategy": "repo",
            "observation mode": "unified",
            "reasoning level": "low, at most high",
            "context cadence": "every 3 turns",
            "dialectic cadence": "every 5 turns",
            "dialectic an hour": "40",
            "context tokens": "1200",
            "first turn waits": "3 s",
            "a request may take": "4 s",
            "messages": "not saved (read-only)",
            "subagents": "get the block",
        }

    def test_OP11_a_key_alone_is_the_hosted_service_and_the_hourly_budget_has_no_limit(
        self, inside: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(probe, "STATUS_SECONDS", 0.0)  # nothing is asked: this machine alone may be reached here
        shown = lines(inside("status", HONCHO_API_KEY=KEY))
        assert shown["server"] == "https://api.honcho.dev"
        assert shown["dialectic an hour"] == "no limit"

    def test_a_public_address_over_plain_http_is_off_and_says_why(self, inside: Command, running: Run) -> None:
        shown = lines(inside("status", HONCHO_URL="http://192.0.2.7"))
        assert shown["memory"] == "off: http://192.0.2.7 may not be asked: https is demanded off private networks"
        memory = running("http://192.0.2.7")
        assert memory.status().state == "off"

    @pytest.mark.parametrize("arguments", [(), ("--json",), ("--timeout", "0.2"), ("--state-dir", "elsewhere")])
    def test_the_quick_way_and_the_command_tree_say_the_same(
        self, inside: Command, command: Command, arguments: tuple[str, ...]
    ) -> None:
        quick = command("status", *arguments, HONCHO_WORKSPACE_ID="same")
        assert (quick.stdout, quick.returncode) == (inside("status", *arguments, HONCHO_WORKSPACE_ID="same").stdout, 3)


class TestScrubbing:
    @pytest.mark.parametrize(
        ("key", "text", "shown"),
        [
            ("abc-defg", "Bearer abc-defg was refused", "Bearer [key] was refused"),
            (None, "nothing to hide here", "nothing to hide here"),
            ("abcde", "the abcde of it", "the abcde of it"),
            ("abcdef", "the abcdef of it", "the [key] of it"),
        ],
        ids=["OP14", "OP15", "OP16", "OP17"],
    )
    def test_the_key_goes_out_of_what_a_server_says(self, key: str | None, text: str, shown: str) -> None:
        assert said(text, (key,)) == shown

    def test_OP14_it_is_scrubbed_before_it_is_cut(self) -> None:
        text = "x" * 290 + " " + KEY
        assert KEY[:8] not in said(text, (KEY,))

    @pytest.mark.parametrize("verb", ["status", "ping", "doctor"])
    def test_OP22_OP26_a_refusal_that_echoes_the_key_is_shown_without_it(
        self, inside: Command, answering: Answer, verb: str
    ) -> None:
        echoing = answering(422, json.dumps({"detail": f"bad header: Bearer {KEY}"}).encode())
        finished = inside(verb, HONCHO_URL=echoing.url, HONCHO_API_KEY=KEY)
        assert finished.returncode == (3 if verb == "status" else 1)
        assert "refuses (status 422)" in finished.stdout
        assert KEY not in finished.stdout + finished.stderr


class TestStatusProbe:
    def test_OP20_unconfigured_is_explained_and_nothing_is_asked(self, inside: Command) -> None:
        finished = inside("status")
        assert finished.returncode == 3, "there is no running process; the original ended with 0"
        assert lines(finished)["reached"] == "not asked"

    def test_OP21_reachable_says_key_and_latency(self, inside: Command, server: str) -> None:
        shown = lines(inside("status", HONCHO_URL=server, HONCHO_API_KEY=KEY))
        assert shown["key"].startswith("present")
        assert shown["reached"].startswith("answers in ")
        assert shown["reached"].endswith("ms (asked by this command)")

    def test_OP22_unreachable_says_so(self, inside: Command) -> None:
        assert lines(inside("status", HONCHO_URL=UNREACHABLE))["reached"] == "cannot be reached: nothing listens there"

    def test_OP23_one_attempt_inside_five_seconds_at_most(
        self, inside: Command, answering: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert probe.STATUS_SECONDS == 5.0
        failing = answering(503, b"{}")
        inside("status", HONCHO_URL=failing.url)
        assert len(failing.seen) == 1, "no retry"
        monkeypatch.setattr(probe, "STATUS_SECONDS", 0.2)
        hanging = answering(200, b"{}", hang=True)
        shown = lines(inside("status", HONCHO_URL=hanging.url))
        assert shown["reached"] == "gave no answer within 0.2 s (asked by this command)"

    def test_OP23_a_shorter_request_timeout_is_kept(self, inside: Command, answering: Answer) -> None:
        hanging = answering(200, b"{}", hang=True)
        shown = lines(inside("status", HONCHO_URL=hanging.url, HONCHO_ACTORS_REQUEST_TIMEOUT="0.15"))
        assert "within 0.15 s" in shown["reached"]

    def test_OP24_a_timeout_of_ones_own_may_be_longer_than_the_settings(
        self, inside: Command, answering: Answer
    ) -> None:
        slow = answering(200, b'{"items": []}', delay=0.4)
        environ = {"HONCHO_URL": slow.url, "HONCHO_ACTORS_REQUEST_TIMEOUT": "0.1"}
        assert "within 0.1 s" in lines(inside("status", **environ))["reached"]
        assert lines(inside("status", "--timeout", "20", **environ))["reached"].startswith("answers in ")

    def test_the_running_process_is_asked_and_its_server_by_this_command(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        running(server)
        given = ("--state-dir", str(tmp_path / "state"))
        fine = inside("status", *given, HONCHO_URL=server)
        assert fine.returncode == 0
        assert f"process {os.getpid()} on {tmp_path / 'state'}" in fine.stdout
        assert "ms (asked by this command)" in fine.stdout
        other = inside("status", *given, HONCHO_URL=UNREACHABLE)
        assert other.returncode == 0
        assert "not asked: the settings found here name another server" in other.stdout
        shown = json.loads(inside("status", "--json", *given, HONCHO_URL=server).stdout)
        assert (shown["running"], shown["probe"]["fine"], shown["state"]) == (True, True, "ready")

    def test_a_running_process_whose_memory_is_degraded_says_why_and_what_to_do_and_exits_1(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory = running(server, require_user=True)
        for number in range(10):
            memory.capture(Turn(f"s{number}", None, "a", "b"))
        finished = inside("status", "--state-dir", str(tmp_path / "state"), HONCHO_URL=server)
        assert finished.returncode == 1
        assert "degraded: none of 10 turns that were handed over was taken (no_identity: 10)" in finished.stdout
        assert "degraded   nothing_captured since " in finished.stdout
        assert "docs/capture.md explains each word" in finished.stdout


class TestPing:
    def test_OP25_it_says_how_long_it_took(self, inside: Command, server: str) -> None:
        said = inside("ping", HONCHO_URL=server)
        assert said.returncode == 0
        assert " ms, asked by this process)" in said.stdout
        reached = inside("ping", "--json", HONCHO_URL=server)
        assert json.loads(reached.stdout)["fine"] is True

    def test_OP26_a_failure_is_not_zero(self, inside: Command) -> None:
        assert inside("ping", HONCHO_URL=UNREACHABLE).returncode == 1

    def test_OP27_unconfigured_fails(self, inside: Command) -> None:
        assert "memory is off: neither" in sentence(inside("ping"), 1)
        assert "https is demanded" in sentence(inside("ping", HONCHO_URL="http://192.0.2.7"), 1)

    def test_OP28_the_bound_is_the_configured_timeout_and_there_is_no_retry(
        self, inside: Command, answering: Answer
    ) -> None:
        hanging = answering(200, b"{}", hang=True)
        finished = inside("ping", "--json", HONCHO_URL=hanging.url, HONCHO_ACTORS_REQUEST_TIMEOUT="0.2")
        shown = json.loads(finished.stdout)
        assert (finished.returncode, shown["code"]) == (1, "server_hangs")
        assert shown["seconds"] >= 0.2
        failing = answering(503, b"{}")
        inside("ping", HONCHO_URL=failing.url)
        assert len(failing.seen) == 1

    def test_OP29_a_timeout_of_ones_own(self, inside: Command, answering: Answer) -> None:
        slow = answering(200, b'{"items": []}', delay=0.4)
        environ = {"HONCHO_URL": slow.url, "HONCHO_ACTORS_REQUEST_TIMEOUT": "0.1"}
        assert inside("ping", **environ).returncode == 1
        assert inside("ping", "--timeout", "20", **environ).returncode == 0

    def test_it_creates_nothing_and_sends_the_key_to_this_server_alone(
        self, inside: Command, answering: Answer
    ) -> None:
        elsewhere = answering(200, b'{"items": []}')
        moved = answering(307, b"", location=elsewhere.url)
        inside("ping", HONCHO_URL=moved.url, HONCHO_API_KEY=KEY)
        ((method, path, headers),) = moved.seen
        assert (method, path) == ("POST", "/v3/workspaces/honcho-actors/peers/list?size=1")
        assert headers["Authorization"] == f"Bearer {KEY}"
        assert elsewhere.seen == []


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
            "while seen.count(b'its parts') < 2:\n"
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
