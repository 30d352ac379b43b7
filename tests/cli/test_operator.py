"""Usage, `status` and `ping` by the ids of the original's table (OP1 to OP11, OP14 to OP17, OP20 to OP29); the others
are in `test_attached`.

Where this project says otherwise than the original, the test says so: exit codes are 0 fine, 1 not fine, 2 usage, 3 no
running process (the original's `status` ended with 0 always); commands attach to the running process (the original's
described themselves); a deployment is an address, and no key names one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from honcho_actors import Turn, TurnRequest
from honcho_actors.cli import probe
from honcho_actors.honcho.said import said
from tests.cli.conftest import Answer, Command, Finished, Run
from tests.cli.test_commands import sentence

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
