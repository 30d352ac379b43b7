"""`doctor` and what attaches: each trouble is really made, told apart from the others, and has its fix."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.capture.clocks import Reading, read_clock
from honcho_actors.cli import doctor, findings
from honcho_actors.local.process import start
from honcho_actors.model import Cause, Reason, ReceiptState
from honcho_actors.settings import Settings
from tests.cli.conftest import Answer, Begin, Command, Run, until, wrong
from tests.cli.conftest import findings as found_by
from tests.cli.test_commands import ask, hello
from tests.support.capture_rig import Rig
from tests.support.memory_world import Server

KEY = "key-" + "k" * 24
UNREACHABLE = "http://127.0.0.1:9"


def test_all_is_well(inside: Command, server: str) -> None:
    assert wrong(inside("doctor", "--json", HONCHO_URL=server)) == {}


def test_it_says_the_same_in_words(inside: Command, server: str) -> None:
    fine = inside("doctor", HONCHO_URL=server)
    assert {line[:3] for line in fine.stdout.splitlines()} == {"ok "}
    bad = inside("doctor", HONCHO_URL=UNREACHABLE)
    assert bad.returncode == 1
    (line,) = [line for line in bad.stdout.splitlines() if line.startswith("NOT")]
    assert "cannot be reached" in line
    assert line.endswith("; start the server, or correct the address and its port")


class TestSettings:
    @pytest.mark.parametrize(
        ("environ", "code", "words"),
        [
            ({}, "no_key", "neither HONCHO_URL nor HONCHO_API_KEY is set"),
            ({"HONCHO_URL": UNREACHABLE, "HONCHO_ACTORS_ENABLED": "no"}, "off", "memory is switched off"),
            ({"HONCHO_URL": "localhost:8000"}, "bad_address", "the server's address from HONCHO_URL cannot be used"),
            ({"HONCHO_URL": UNREACHABLE, "HONCHO_ACTORS_SAVE_MESSAGES": "off"}, "read_only", "nothing is written"),
            ({"HONCHO_URL": UNREACHABLE, "HONCHO_ACTORS_SERCH_LIMIT": "3"}, "setting", "HONCHO_ACTORS_SEARCH_LIMIT"),
        ],
    )
    def test_what_the_settings_keep_off_is_told(
        self, inside: Command, environ: dict[str, str], code: str, words: str
    ) -> None:
        assert words in wrong(inside("doctor", "--json", **environ))[code]

    @pytest.mark.parametrize("how", ["gone", "a directory", "not text", "not readable"])
    def test_a_key_file_that_cannot_be_read_is_told_and_never_shown(
        self, inside: Command, server: str, tmp_path: Path, how: str
    ) -> None:
        file = tmp_path / "key"
        if how == "a directory":
            file.mkdir()
        elif how == "not text":
            file.write_bytes(b"\xff\xfe\x00" + KEY.encode())
        elif how == "not readable":
            file.write_text(KEY)
            file.chmod(0)
            if os.access(file, os.R_OK):
                pytest.skip("this user may read every file")
        finished = inside("doctor", "--json", HONCHO_URL=server, HONCHO_API_KEY_FILE=str(file))
        assert "let this user read the file" in wrong(finished)["key_file"]
        assert KEY not in finished.stdout


class TestTheServer:
    def test_one_that_is_down(self, inside: Command) -> None:
        assert "nothing listens there" in wrong(inside("doctor", "--json", HONCHO_URL=UNREACHABLE))["server_down"]

    def test_a_wrong_port_beside_the_right_one(
        self, inside: Command, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "OTHER_PORTS", (urlsplit(server).port,))
        finished = inside("doctor", "--json", HONCHO_URL=UNREACHABLE, HONCHO_API_KEY=KEY)
        assert wrong(finished)["wrong_port"].endswith(f"a Honcho answers at {server}; set HONCHO_URL to {server}")

    def test_a_port_of_something_that_speaks_no_http(self, inside: Command) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:

            def greet() -> None:
                with contextlib.suppress(OSError):
                    taken, _ = other.accept()
                    with taken:
                        taken.sendall(b"220 mail is here\r\n")
                        taken.recv(4096)

            thread = threading.Thread(target=greet)
            thread.start()
            url = f"http://127.0.0.1:{other.getsockname()[1]}"
            found = wrong(inside("doctor", "--json", HONCHO_URL=url))
            thread.join()
        assert "something else has that port" in found["wrong_port"]

    def test_one_that_hangs_is_told_within_the_timeout(self, inside: Command, answering: Answer) -> None:
        hanging = answering(200, b"{}", hang=True)
        found = wrong(inside("doctor", "--json", "--timeout", "0.3", HONCHO_URL=hanging.url))
        assert "gives no answer" in found["server_hangs"]

    def test_one_that_drips_is_told_within_the_timeout_too(self, inside: Command) -> None:
        stop = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def drip() -> None:
                taken, _ = listening.accept()
                with taken, contextlib.suppress(OSError):
                    taken.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n")
                    while not stop.wait(0.02):
                        taken.sendall(b" ")

            thread = threading.Thread(target=drip)
            thread.start()
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            found = wrong(inside("doctor", "--json", "--timeout", "0.5", HONCHO_URL=url))
            stop.set()
            thread.join()
        assert "gives no answer" in found["server_hangs"]

    def test_a_name_that_is_never_resolved_is_told_within_the_timeout(
        self, inside: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free = threading.Event()

        def looks_for_ever(*args: object, **more: object) -> list[object]:
            free.wait(30.0)
            raise socket.gaierror("over")

        monkeypatch.setattr(socket, "getaddrinfo", looks_for_ever)
        found = wrong(inside("doctor", "--json", "--timeout", "0.3", HONCHO_URL="http://honcho.internal:8000"))
        free.set()
        assert "gives no answer" in found["server_hangs"]

    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (200, b"<html>please sign in</html>", "text/html"),
            (200, b"<html>please sign in</html>", "application/json"),
            (302, b"", "text/html"),
            (404, b'{"error": "no such page"}', "application/json"),
            (200, b'{"hello": "world"}', "application/json"),
        ],
        ids=["a page", "a page that says it is JSON", "a redirect", "another service's 404", "another service"],
    )
    def test_a_login_page_or_another_service(
        self, inside: Command, answering: Answer, status: int, body: bytes, kind: str
    ) -> None:
        other = answering(status, body, kind=kind, location="http://127.0.0.1:9/login")
        finished = inside("doctor", "--json", HONCHO_URL=other.url, HONCHO_API_KEY=KEY)
        assert "answers, but not as Honcho does" in wrong(finished)["not_honcho"]

    def test_one_that_fails(self, inside: Command, answering: Answer) -> None:
        found = wrong(inside("doctor", "--json", HONCHO_URL=answering(500, b'{"detail": "no database"}').url))
        assert "fails (status 500): no database" in found["server_fails"]

    def test_one_that_refuses(self, inside: Command, answering: Answer) -> None:
        found = wrong(inside("doctor", "--json", HONCHO_URL=answering(422, b'{"detail": "no such filter"}').url))
        assert "refuses (status 422): no such filter" in found["server_refuses"]

    def test_a_public_address_is_not_asked_over_plain_http_and_is_sent_no_key(self, inside: Command) -> None:
        found = wrong(inside("doctor", "--json", HONCHO_URL="http://192.0.2.7", HONCHO_API_KEY=KEY))
        assert "not asked: https is demanded off private networks" in found["not_asked"]

    @pytest.mark.parametrize(("host", "noted"), [("honcho.example", True), ("10.1.2.3", False)])
    def test_CL23_a_missing_key_is_noted_for_public_hosts_only(self, host: str, noted: bool) -> None:
        (found,) = findings.of_settings(Settings(base_url=f"https://{host}"))
        assert (found.fine, "a public server will most likely refuse" in found.fix) == (True, noted)

    def test_a_wrong_and_a_missing_key_are_told_apart_and_no_key_is_shown(
        self, inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOKEN_OF_THE_SERVER", "the-right-" + "one")
        with start(tmp_path / "guarded", arguments=("--token-env", "TOKEN_OF_THE_SERVER")) as guarded:
            rejected = inside("doctor", "--json", HONCHO_URL=guarded.url, HONCHO_API_KEY=KEY)
            monkeypatch.delenv("HONCHO_API_KEY")
            missing = inside("doctor", "--json", HONCHO_URL=guarded.url)
        assert "the key from HONCHO_API_KEY is not the right one" in wrong(rejected)["wrong_key"]
        assert "wants a key and none is set; set HONCHO_API_KEY" in wrong(missing)["no_key"]
        assert KEY not in rejected.stdout + rejected.stderr

    @pytest.mark.parametrize(("year", "which"), [("2020", "ahead of"), ("2099", "behind")])
    def test_a_wrong_clock(self, inside: Command, answering: Answer, year: str, which: str) -> None:
        dated = answering(200, b'{"items": []}', date=f"Mon, 02 Mar {year} 10:00:00 GMT")
        assert f"{which} the server's" in wrong(inside("doctor", "--json", HONCHO_URL=dated.url))["clock"]

    def test_what_it_has_still_to_derive_is_a_note(self, inside: Command, answering: Answer, tmp_path: Path) -> None:
        model = answering(200, b"{}", hang=True)
        with start(tmp_path / "slow", arguments=("--model-url", f"{model.url}/v1")) as slow:
            with Rig(tmp_path / "said", slow.url, workspace="honcho-actors") as rig:
                rig.capture.capture(Turn("one", "ines", "I restore a clinker dinghy.", "What a find."))
                assert rig.capture.flush(20.0)
            until(lambda: model.seen)
            found = found_by(inside("doctor", "--json", HONCHO_URL=slow.url))["derivation"]
            slow.kill()
        assert found["fine"]
        assert "still to derive memory from" in found["text"]


class TestTheDisk:
    def test_a_state_directory_that_cannot_be_written(self, inside: Command, server: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        finished = inside("doctor", "--json", "--state-dir", str(tmp_path / "file" / "state"), HONCHO_URL=server)
        assert "cannot be written (not a directory)" in wrong(finished)["state_dir"]

    def test_one_that_is_nearly_full(
        self, inside: Command, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small = next((place for place in _small_disks() if os.access(place, os.W_OK)), None)
        if small is None:  # no small disk on this machine: the bar is put above what is really left
            monkeypatch.setattr(findings, "LOW_DISK_BYTES", shutil.disk_usage(tmp_path).free + (1 << 40))
        state = (small or tmp_path) / f"honcho-actors-test-{os.getpid()}"
        try:
            found = wrong(inside("doctor", "--json", "--state-dir", str(state), HONCHO_URL=server))
        finally:
            shutil.rmtree(state, ignore_errors=True)
        assert "MB are left for" in found["disk"]


def _small_disks() -> Iterator[Path]:
    for place in ("/dev/shm", "/run/lock"):
        path = Path(place)
        if path.is_dir() and shutil.disk_usage(path).free < findings.LOW_DISK_BYTES:
            yield path


class TestTheRunningProcess:
    def examined(self, inside: Command, tmp_path: Path, url: str) -> dict[str, str]:
        return wrong(inside("doctor", "--json", "--state-dir", str(tmp_path / "state"), HONCHO_URL=url))

    def test_a_port_that_is_taken(self, inside: Command, running: Run, server: str, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            running(server, metrics_port=other.getsockname()[1])
            found = self.examined(inside, tmp_path, server)
        assert "cannot be used: address already in use; end what has it" in found["port_taken"]

    def test_a_breaker_that_is_open(self, inside: Command, running: Run, server: str, tmp_path: Path) -> None:
        with Server() as failing:
            failing.remote.statuses.update({"session_context": 500, "peer_context": 500})
            memory = running(failing.url)
            for number in range(5):
                memory.context(TurnRequest(session_key=f"s{number}", user=f"u{number}", query="where were we?"), 5.0)
            found = self.examined(inside, tmp_path, server)
        assert "fails repeatedly and is left alone" in found["breaker_open"]
        assert "could not be read" in found["refresh_failing"]
        assert "each reason stands below" in found["process"]

    def test_an_outbox_that_is_stuck(self, inside: Command, running: Run, server: str, tmp_path: Path) -> None:
        def earlier() -> Reading:
            now = read_clock()
            return Reading(now.boot, now.seconds - 1800.0, now.wall_us - 1_800_000_000)

        with Rig(tmp_path / "state", None, ports={"read_clock": earlier}) as rig:
            receipt = rig.capture.capture(Turn("one", "ines", "said half an hour ago", "yes"))
            assert receipt.wait(ReceiptState.ACCEPTED, 20.0) is ReceiptState.ACCEPTED
        memory = running(UNREACHABLE)
        until(lambda: (memory.status().outbox.get("oldest_age") or 0.0) > 1700.0)
        found = self.examined(inside, tmp_path, server)
        assert "the oldest undelivered turn has waited 30 minutes" in found["outbox_stuck"]
        assert "mend the server" in found["outbox_stuck"]

    def test_everything_skipped(self, inside: Command, running: Run, server: str, tmp_path: Path) -> None:
        memory = running(server, require_user=True)
        memory.capture(Turn("one", None, "a", "b"))
        assert "every turn so far was skipped (no_identity: 1)" in self.examined(inside, tmp_path, server)["skipped"]
        for _ in range(10):
            memory.capture(Turn("one", None, "a", "b"))
        assert "(no_identity: 11)" in self.examined(inside, tmp_path, server)["skipped"]

    def test_a_fork_without_history(self, inside: Command, running: Run, server: str, tmp_path: Path) -> None:
        memory = running(server, workspace="forks")
        memory.fork("never spoken in", "child")
        assert memory.capture(Turn("child", None, "and on", "yes")).wait(ReceiptState.DELIVERED, 20.0) == "delivered"
        until(lambda: memory.status().outbox["forks_failed"])
        found = self.examined(inside, tmp_path, server)
        assert "1 fork began without the parent's history (no_record: 1)" in found["fork"]

    def test_memory_on_the_server_that_the_cache_does_not_show(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory = running(server, workspace="hidden")
        request = TurnRequest(session_key="one", user="ines", query="where were we?")
        assert memory.context(request, 10.0).reason is Reason.NOTHING_KNOWN
        with Rig(tmp_path / "elsewhere", server, workspace="hidden") as rig:
            rig.capture.capture(Turn("two", "ines", "I restore a clinker dinghy from 1963.", "What a find."))
            assert rig.capture.flush(20.0)

        def found() -> dict[str, dict[str, object]]:
            return found_by(inside("doctor", "--json", "--state-dir", str(tmp_path / "state"), HONCHO_URL=server))

        until(lambda: "hidden_memory" in found())
        assert "the server remembers something for the conversation one" in str(found()["hidden_memory"]["text"])
        memory.refresh(request)
        until(lambda: memory.context(request).system)
        assert "hidden_memory" not in found()

    def test_nothing_is_wrong_with_one_that_works(
        self, inside: Command, running: Run, server: str, tmp_path: Path
    ) -> None:
        memory: Memory = running(server, workspace="works")
        memory.capture(Turn("one", "ines", "a", "b")).wait(ReceiptState.DELIVERED, 20.0)
        assert self.examined(inside, tmp_path, server) == {}


class TestAttached:
    @pytest.mark.parametrize("name", ["sessions", "tree", "outbox", "context"])
    def test_without_a_running_process_it_is_one_sentence_and_exit_3(
        self, inside: Command, name: str, tmp_path: Path
    ) -> None:
        finished = inside(name, "--state-dir", str(tmp_path / "state"))
        assert finished.returncode == 3
        assert finished.stderr.count("\n") == 1

    def test_a_running_process_shows_its_sessions_tree_outbox_and_settings(
        self, inside: Command, begin: Begin, server: str, tmp_path: Path
    ) -> None:
        state = str(tmp_path / "state")
        environ = {"HONCHO_URL": server, "HONCHO_WORKSPACE_ID": "attached", "HONCHO_ACTORS_AI_PEER": "butler"}
        process = begin("serve", "--stdio", "--state-dir", state, **environ)
        hello(process)
        ask(process, do="context", session_key="kitchen", user="ines", query="where were we with it?")
        ask(process, do="capture", session_key="kitchen", user="ines", prompt="a", answer="b", wait="delivered")
        for verb in ("status", "sessions", "context", "outbox", "settings", "tree", "top"):
            shown = inside(verb, *(("--count", "1") if verb == "top" else ()), "--state-dir", state)
            assert f"process {process.pid}" in shown.stdout, verb
        assert "kitchen" in inside("sessions", "--state-dir", state).stdout
        rows = json.loads(inside("tree", "--json", "--state-dir", state).stdout)
        assert {"io", "read_side", "write_side"} <= {row["child"] for row in rows}
        assert json.loads(inside("outbox", "--json", "--state-dir", state).stdout)["open"] is True
        found = json.loads(inside("settings", "--json", "--state-dir", state).stdout)
        assert found["whose"].startswith(f"process {process.pid}")
        assert (found["values"]["ai_peer"], found["sources"]["ai_peer"]) == ("butler", "HONCHO_ACTORS_AI_PEER")
        examined = inside("doctor", "--json", "--state-dir", state, HONCHO_URL=server)
        assert wrong(examined) == {}
        assert f"process {process.pid}: memory is on" in examined.stdout


def test_settings_print_a_template_and_a_schema(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "honcho-actors.toml").write_text(inside("settings", "--toml").stdout)
    assert json.loads(inside("settings", "--schema").stdout)["title"] == "honcho-actors.toml"
    shown = inside("settings")
    assert (shown.returncode, "problem" in shown.stdout) == (0, False)
    assert f"max_sessions             {Settings().max_sessions}" in shown.stdout
    words = {line.split()[0]: line.split()[1] for line in shown.stdout.splitlines() if line.startswith("  ")}
    assert (words["enabled"], words["base_url"], words["user_peer_prefix"]) == ("true", "unset", "none")
    assert inside("--version").stdout == f"honcho-actors {version('honcho-actors')}\n"


def test_the_docs_name_every_code_and_every_cause() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}
    assert named >= findings.CODES
    assert named >= {cause.value for cause in Cause}
