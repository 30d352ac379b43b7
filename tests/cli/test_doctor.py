"""`doctor`, `ping` and what attaches: each trouble is really made, told apart from the others, and has its fix."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.local.process import start
from honcho_actors.settings import Settings
from tests.cli.conftest import Begin, Command, Finished
from tests.cli.test_commands import ask, hello

KEY = "key-" + "k" * 24


@pytest.fixture
def answering() -> Iterator[Any]:
    """Starts servers that answer everything in one way."""
    started: list[tuple[HTTPServer, threading.Thread]] = []

    def make(
        status: int, body: bytes, *, kind: str = "application/json", date: str | None = None, hang: bool = False
    ) -> str:
        released = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if hang:
                    released.wait(20.0)
                    return
                self.send_response_only(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                if date is not None:
                    self.send_header("date", date)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        server.released = released  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield make
    for server, thread in started:
        server.released.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()


def findings(finished: Finished) -> dict[str, str]:
    """What is not fine: name -> text and fix."""
    assert "Traceback" not in finished.stdout + finished.stderr
    shown = json.loads(finished.stdout)
    assert finished.returncode == (0 if shown["fine"] else 1)
    for one in shown["findings"]:
        assert one["fine"] or one["fix"] or one["what"] == "process", one
    return {one["what"]: f"{one['text']}; {one['fix']}" for one in shown["findings"] if not one["fine"]}


def test_all_is_well(inside: Command, server: str) -> None:
    assert findings(inside("doctor", "--json", HONCHO_URL=server)) == {}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "neither HONCHO_URL nor HONCHO_API_KEY is set"),
        ({"HONCHO_URL": "http://127.0.0.1:9", "HONCHO_ACTORS_ENABLED": "no"}, "memory is switched off"),
        ({"HONCHO_URL": "localhost:8000"}, "the server's address from HONCHO_URL cannot be used"),
        ({"HONCHO_URL": "http://127.0.0.1:9", "HONCHO_ACTORS_SAVE_MESSAGES": "off"}, "nothing is written"),
    ],
    ids=["no key", "switched off", "no address", "read only"],
)
def test_what_the_settings_keep_off_is_told(inside: Command, environ: dict[str, str], words: str) -> None:
    assert words in findings(inside("doctor", "--json", **environ))["settings"]


def test_a_server_that_is_down_is_told(inside: Command) -> None:
    assert "cannot be reached" in findings(inside("doctor", "--json", HONCHO_URL="http://127.0.0.1:9"))["server"]


def test_a_public_address_is_not_asked_over_plain_http_and_is_sent_no_key(inside: Command) -> None:
    found = findings(inside("doctor", "--json", HONCHO_URL="http://192.0.2.7", HONCHO_API_KEY=KEY))
    assert "not asked: https is demanded off private networks" in found["server"]


def test_a_server_that_hangs_is_told_within_the_timeout(inside: Command, answering: Any) -> None:
    found = findings(inside("doctor", "--json", "--timeout", "0.5", HONCHO_URL=answering(200, b"{}", hang=True)))
    assert "gives no answer" in found["server"]


def test_a_login_page_is_told(inside: Command, answering: Any) -> None:
    url = answering(200, b"<html>please sign in</html>", kind="text/html")
    assert "answers, but not as Honcho does" in findings(inside("doctor", "--json", HONCHO_URL=url))["server"]


def test_a_server_that_fails_is_told(inside: Command, answering: Any) -> None:
    assert "fails (status 500)" in findings(inside("doctor", "--json", HONCHO_URL=answering(500, b"{}")))["server"]


def test_a_wrong_and_a_missing_key_are_told_apart_and_no_key_is_shown(
    inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_SERVER", "the-right-" + "one")
    with start(tmp_path / "guarded", arguments=("--token-env", "TOKEN_OF_THE_SERVER")) as guarded:
        wrong = inside("doctor", "--json", HONCHO_URL=guarded.url, HONCHO_API_KEY=KEY)
        monkeypatch.delenv("HONCHO_API_KEY")
        missing = inside("doctor", "--json", HONCHO_URL=guarded.url)
    assert "the key from HONCHO_API_KEY is not the right one" in findings(wrong)["server"]
    assert "wants a key and none is set" in findings(missing)["server"]
    assert KEY not in wrong.stdout + wrong.stderr


def test_a_key_file_that_is_not_there_is_told(inside: Command, server: str, tmp_path: Path) -> None:
    found = findings(inside("doctor", "--json", HONCHO_URL=server, HONCHO_API_KEY_FILE=str(tmp_path / "gone")))
    assert "there is no such file" in found["setting"]


def test_a_state_directory_that_cannot_be_written_is_told(inside: Command, server: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = findings(inside("doctor", "--json", "--state-dir", str(tmp_path / "file" / "state"), HONCHO_URL=server))
    assert "cannot be written (not a directory)" in found["disk"]


def test_a_wrong_clock_is_told(inside: Command, answering: Any) -> None:
    url = answering(200, b'{"items": []}', date="Mon, 02 Mar 2020 10:00:00 GMT")
    assert "off the server's" in findings(inside("doctor", "--json", HONCHO_URL=url))["clock"]


def test_ping_says_how_long_the_server_took_and_fails_when_it_is_off_or_down(inside: Command, server: str) -> None:
    reached = inside("ping", "--json", HONCHO_URL=server)
    assert (reached.returncode, json.loads(reached.stdout)["fine"]) == (0, True)
    assert inside("ping", HONCHO_URL="http://127.0.0.1:9").returncode == 1


def test_ping_without_a_server_is_one_sentence(inside: Command) -> None:
    finished = inside("ping")
    assert finished.returncode == 1
    assert "memory is off: neither" in finished.stderr


class TestAttached:
    @pytest.mark.parametrize("name", ["sessions", "tree", "outbox"])
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
        sessions = inside("sessions", "--state-dir", state)
        assert f"process {process.pid}" in sessions.stdout
        assert "kitchen" in sessions.stdout
        rows = json.loads(inside("tree", "--json", "--state-dir", state).stdout)
        assert {"io", "read_side", "write_side"} <= {row["child"] for row in rows}
        assert json.loads(inside("outbox", "--json", "--state-dir", state).stdout)["open"] is True
        shown = json.loads(inside("settings", "--json", "--state-dir", state).stdout)
        assert shown["whose"].startswith(f"process {process.pid}")
        assert (shown["values"]["ai_peer"], shown["sources"]["ai_peer"]) == ("butler", "HONCHO_ACTORS_AI_PEER")
        examined = inside("doctor", "--json", "--state-dir", state, HONCHO_URL=server)
        assert findings(examined) == {}
        assert f"process {process.pid}: memory is on" in examined.stdout


def test_settings_print_a_template_and_a_schema(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "honcho-actors.toml").write_text(inside("settings", "--toml").stdout)
    assert json.loads(inside("settings", "--schema").stdout)["title"] == "honcho-actors.toml"
    shown = inside("settings")
    assert (shown.returncode, "problem" in shown.stdout) == (0, False)
    assert f"max_sessions             {Settings().max_sessions}" in shown.stdout
