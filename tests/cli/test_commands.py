"""Every command: help with an example, exit codes, one sentence for what is wrong, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Begin, Command, Finished

COMMANDS = ("demo", "chat", "serve", "local", "status")


def sentence(finished: Finished, code: int) -> str:
    """What a refusal looks like: the exit code, one line on stderr, no traceback anywhere."""
    assert finished.returncode == code, (finished.stdout, finished.stderr)
    assert "Traceback" not in finished.stdout + finished.stderr
    lines = finished.stderr.strip().splitlines()
    assert len(lines) == 1, finished.stderr
    return lines[0]


def hello(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    said: dict[str, Any] = json.loads(process.stdout.readline())
    return said


def ask(process: subprocess.Popen[str], **asked: object) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    return hello(process)


class TestUsage:
    def test_every_command_has_help_with_an_example(self, inside: Command) -> None:
        listed = inside("--help")
        assert listed.returncode == 0
        for name in COMMANDS:
            assert name in listed.stdout
        shown = inside("status", "--help")
        assert (shown.returncode, "Example: honcho-actors status" in shown.stdout) == (0, True)

    @pytest.mark.parametrize(
        "arguments",
        [("nope",), ("demo", "--delay", "soon"), ("status", "extra"), ("local", "--port", "70000"), ("serve", "--x")],
    )
    def test_a_wrong_command_line_is_one_sentence_and_exit_2(self, inside: Command, arguments: tuple[str, ...]) -> None:
        assert "--help" in sentence(inside(*arguments), 2)

    def test_a_missing_extra_is_named_in_one_sentence(self, environment: dict[str, str]) -> None:
        program = "import sys; sys.modules['typer'] = None; from honcho_actors.cli import main; main()"
        finished = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert "pip install 'honcho-actors[cli]'" in sentence(finished, 2)

    def test_the_missing_extra_of_the_server_is_named_too(self, environment: dict[str, str]) -> None:
        program = (
            "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['local'];"
            "from honcho_actors.cli import main; main()"
        )
        finished = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert "pip install 'honcho-actors[local]'" in sentence(finished, 2)


class TestLocal:
    def test_a_port_in_use_is_one_sentence_and_exit_2(self, command: Command, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            finished = command("local", "--port", port, "--data", str(tmp_path / "data"))
        assert f"port {port} on 127.0.0.1 cannot be taken" in sentence(finished, 2)

    def test_a_directory_that_cannot_be_written_is_one_sentence_and_exit_2(
        self, command: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        assert "data" in sentence(command("local", "--port", "0", "--data", str(tmp_path / "file" / "data")), 2)

    def test_it_serves_until_it_is_told_to_end(self, begin: Begin, tmp_path: Path) -> None:
        process = begin("local", "--json", "--port", "0", "--data", str(tmp_path / "data"))
        said = hello(process)
        assert (said["pid"], said["url"].startswith("http://127.0.0.1:")) == (process.pid, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


class TestServe:
    def test_it_takes_turns_as_lines_and_answers_each_in_order(self, begin: Begin, server: str, tmp_path: Path) -> None:
        process = begin("serve", "--stdio", "--state-dir", str(tmp_path / "state"), HONCHO_URL=server)
        said = hello(process)
        assert (said["ready"], said["pid"]) == (True, process.pid)
        cold = ask(process, do="context", session_key="one", user="ines", query="where were we with it?")
        assert (cold["state"], cold["reason"], cold["degraded"]) == ("cold", "nothing_known", [])
        taken = ask(
            process, do="capture", session_key="one", user="ines", prompt=["a", "b"], answer="c", wait="delivered"
        )
        assert taken["state"] == "delivered"
        assert ask(process, do="context", session_key="one", query="and I am?")["reason"] == "no_identity"
        assert ask(process, do="flush", timeout=30.0) == {"flushed": True}
        assert ask(process, do="status")["settings"]["require_user"] is True
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0

    def test_a_line_that_cannot_be_used_is_answered_and_the_next_is_taken(self, begin: Begin) -> None:
        process = begin("serve", "--stdio")
        hello(process)
        assert process.stdin is not None
        for line in ("{", "[]", "{}", '{"do": "unknown"}', '{"do": "capture", "at": "soon"}', "null"):
            process.stdin.write("\n" + line + "\n")
            process.stdin.flush()
            assert "cannot be used" in hello(process)["error"], line
        assert "state" in ask(process, do="status")

    def test_a_signal_ends_it_with_0_and_its_announcement_goes_with_it(self, begin: Begin, tmp_path: Path) -> None:
        process = begin("serve", "--json", "--state-dir", str(tmp_path / "state"))
        assert hello(process)["admin"]
        assert (tmp_path / "state" / "admin.json").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not (tmp_path / "state" / "admin.json").exists()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_that_the_waiting_main_thread_does_not_get_ends_it_too(
        self, number: signal.Signals, tmp_path: Path
    ) -> None:
        program = f"""
import signal, sys, threading
from pathlib import Path
from honcho_actors.cli import out, serve

def ready(hello):
    announce(hello)
    threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), {number.value})).start()

announce, out.emit_line = out.emit_line, ready
raise SystemExit(serve.serve(stdio=False, state_dir=Path(sys.argv[1]), as_json=True))
"""
        environment = {**os.environ, "HOME": str(tmp_path)}
        finished = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "state")],
            capture_output=True,
            text=True,
            timeout=50,
            env=environment,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        assert json.loads(finished.stdout)["ready"] is True

    def test_a_metrics_port_in_use_is_told_and_it_runs(self, begin: Begin) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            process = begin("serve", "--stdio", HONCHO_ACTORS_METRICS_PORT=str(port))
            assert hello(process)["metrics"] is None
            problems = ask(process, do="status")["problems"]
        assert f"metrics_port {port} cannot be used: address already in use" in problems


class TestStatus:
    def test_without_a_running_process_it_says_so_and_what_would_be(self, inside: Command, tmp_path: Path) -> None:
        finished = inside("status", "--state-dir", str(tmp_path / "state"))
        assert finished.returncode == 3
        assert f"no process runs on the state directory {tmp_path / 'state'}" in finished.stdout
        assert "off: neither HONCHO_URL nor HONCHO_API_KEY is set" in finished.stdout

    def test_a_wrong_base_url_is_its_reason(self, inside: Command) -> None:
        shown = json.loads(inside("status", "--json", HONCHO_URL="localhost:8000").stdout)
        assert shown["running"] is False
        assert "HONCHO_URL cannot be used" in shown["reason"]

    def test_a_key_is_shown_as_present_alone(self, inside: Command) -> None:
        key = "key-" + "q" * 30
        finished = inside("status", "--json", HONCHO_API_KEY=key, HONCHO_URL="http://127.0.0.1:9")
        assert key not in finished.stdout + finished.stderr
        assert json.loads(finished.stdout)["settings"]["api_key"] == "present"

    def test_it_asks_the_running_process_and_notices_when_that_was_killed(
        self, command: Command, begin: Begin, server: str, tmp_path: Path
    ) -> None:
        state = str(tmp_path / "state")
        process = begin("serve", "--stdio", "--state-dir", state, HONCHO_URL=server)
        hello(process)
        running = command("status", "--state-dir", state)
        assert running.returncode == 0, running.stderr
        assert f"process {process.pid} on {state}" in running.stdout
        assert "ready: memory is on" in running.stdout
        shown = json.loads(command("status", "--json", "--state-dir", state).stdout)
        assert shown["pid"] == process.pid
        process.kill()
        process.wait(30)
        gone = command("status", "--state-dir", state)
        assert gone.returncode == 3
        assert f"process {process.pid} does not answer" in gone.stdout


class TestChat:
    @pytest.fixture
    def model(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """An OpenAI-compatible endpoint that remembers what it was asked."""
        asked: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                answer = {"choices": [{"message": {"role": "assistant", "content": f"answer {len(asked)}"}}]}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        with HTTPServer(("127.0.0.1", 0), Handler) as listening:
            thread = threading.Thread(target=listening.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{listening.server_address[1]}/v1", asked
            listening.shutdown()
            thread.join()

    def test_the_prompt_that_is_shown_is_the_prompt_that_the_model_was_given(
        self, command: Command, server: str, model: tuple[str, list[dict[str, Any]]], tmp_path: Path
    ) -> None:
        url, asked = model
        given = {
            "HONCHO_URL": server,
            "HONCHO_WORKSPACE_ID": "chat",
            "HONCHO_ACTORS_STATE_DIR": str(tmp_path / "state"),
            "HONCHO_ACTORS_CACHE_DIR": str(tmp_path / "cache"),
            "OPENAI_BASE_URL": url,
            "OPENAI_MODEL": "small",
        }
        first = command("chat", "--json", "--user", "ines", stdin="I restore a clinker dinghy from 1963.\n", **given)
        assert first.returncode == 0, first.stderr
        again = command(
            "chat", "--json", "--user", "ines", "--session", "b", stdin="What do I restore?\n\n/quit\nx\n", **given
        )
        shown = [json.loads(line) for line in (first.stdout + again.stdout).splitlines()]
        assert [one["answer"] for one in shown] == ["answer 1", "answer 2"]
        for one, sent in zip(shown, asked, strict=True):
            assert sent["messages"][0] == {"role": "system", "content": one["system"]}
            assert sent["messages"][-1] == {"role": "user", "content": one["user"]}
        assert "1963" in shown[1]["system"]

    def test_without_a_server_it_starts_the_embedded_one_and_says_so(self, command: Command, tmp_path: Path) -> None:
        finished = command("chat", stdin="hello there, who are you?\n", TMPDIR=str(tmp_path / "home"))
        assert finished.returncode == 0, finished.stderr
        assert "the embedded server runs for this chat" in finished.stderr
        assert "--- system" in finished.stdout
        assert "no model is set" in finished.stdout
        assert list((tmp_path / "home").glob("honcho-actors-chat-*")) == []

    def test_a_wrong_base_url_is_one_sentence_and_exit_2(self, inside: Command) -> None:
        assert "HONCHO_URL cannot be used" in sentence(inside("chat", HONCHO_URL="localhost:8000"), 2)

    def test_what_could_not_be_kept_is_not_said_to_be_kept(self, command: Command, server: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        finished = command(
            "chat", stdin="hello there\n", HONCHO_URL=server, HONCHO_ACTORS_STATE_DIR=str(tmp_path / "file" / "inside")
        )
        assert finished.returncode == 1
        assert "not everything was kept, since the outbox cannot be written" in finished.stderr
        assert "it is kept" not in finished.stderr

    def test_a_model_that_is_away_costs_the_answer_and_not_the_chat(self, command: Command, server: str) -> None:
        finished = command(
            "chat",
            stdin="hello there, old friend\n",
            HONCHO_URL=server,
            OPENAI_BASE_URL="http://127.0.0.1:9/v1",
            OPENAI_MODEL="m",
        )
        assert finished.returncode == 0, finished.stderr
        assert "no answer: it could not be reached" in finished.stdout


def test_a_reader_that_goes_away_is_no_traceback(environment: dict[str, str], server: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "honcho_actors.cli", "status", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(30)
