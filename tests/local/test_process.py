"""The server as a process: how it starts, how it refuses to, how it ends, and what outlives it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from honcho_actors.local import process
from tests.support.stopwatch import Stopwatch

COMMAND = [sys.executable, "-m", "honcho_actors.local"]


def refused(*arguments: str) -> str:
    """What the command said before it ended with 2."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_it_prints_its_url_when_it_listens_and_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "--port", "0", "--data", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        assert httpx.get(f"{url}/health", trust_env=False).json() == {"status": "ok"}
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def test_sigint_ends_it_with_0(tmp_path: Path) -> None:
    with process.start(tmp_path) as server:
        os.kill(server.pid, signal.SIGINT)
        assert server.process.wait(30) == 0


def test_sigterm_ends_it_although_a_connection_is_open(tmp_path: Path) -> None:
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        client.get("/health")
        started = Stopwatch()
        assert server.stop() == 0
        assert started.seconds < 6


def test_a_taken_port_is_one_sentence_and_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in refused("--port", port, "--data", str(tmp_path))


def test_an_impossible_port_is_one_sentence_and_2(tmp_path: Path) -> None:
    assert "70000" in refused("--port", "70000", "--data", str(tmp_path))


def test_a_directory_that_cannot_be_made_is_one_sentence_and_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be written" in refused("--port", "0", "--data", str(tmp_path / "file" / "data"))


def test_a_store_that_is_no_database_is_one_sentence_and_2(tmp_path: Path) -> None:
    (tmp_path / "honcho-local.db").write_text("this is no database, whatever its name says" * 100)
    assert "cannot be opened" in refused("--port", "0", "--data", str(tmp_path))


def test_a_second_server_on_the_same_directory_is_refused_and_changes_nothing_in_it(tmp_path: Path) -> None:
    path = "/v3/workspaces/w/sessions"
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        client.post(path, json={"id": "s"})
        client.delete(f"{path}/s")
        assert "another server" in refused("--port", "0", "--data", str(tmp_path))
        assert client.post(path, json={"id": "s"}).status_code == 404, "what a start clears up is not cleared up"


def test_a_token_variable_without_a_token_is_refused_not_taken_as_open(tmp_path: Path) -> None:
    assert "NOT_SET_HERE" in refused("--port", "0", "--data", str(tmp_path), "--token-env", "NOT_SET_HERE")


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "made"
    with process.start(data):
        assert data.stat().st_mode & 0o777 == 0o700
        assert (data / "honcho-local.db").stat().st_mode & 0o777 == 0o600


def test_every_accepted_message_survives_sigkill(tmp_path: Path) -> None:
    path = "/v3/workspaces/w/sessions/s/messages"
    accepted: list[str] = []
    for round_number in range(3):
        with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
            for number in range(20):
                text = f"round {round_number} message {number}"
                body = {"messages": [{"peer_id": "alice", "content": text}]}
                assert client.post(path, json=body).status_code == 201
                accepted.append(text)
            assert server.kill() == -signal.SIGKILL
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        items = client.post(f"{path}/list?size=100", json={}).json()["items"]
        assert [item["content"] for item in items] == accepted
        found = client.post("/v3/workspaces/w/search", json={"query": "round", "limit": 100}).json()
        assert len(found) == len(accepted)


def test_what_a_kill_left_underived_is_derived_at_the_next_start(tmp_path: Path) -> None:
    with (
        process.start(tmp_path, arguments=["--no-derive"]) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):
        body = {"messages": [{"peer_id": "alice", "content": "I keep bees on the roof."}]}
        client.post("/v3/workspaces/w/sessions/s/messages", json=body)
        assert client.get("/v3/workspaces/w/queue/status").json()["pending_work_units"] == 1
        server.kill()
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        deadline = time.monotonic() + 30
        while client.get("/v3/workspaces/w/queue/status").json()["pending_work_units"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        known = client.get("/v3/workspaces/w/peers/alice/context").json()["representation"]
        assert "alice said: I keep bees on the roof." in known


def test_the_delay_is_added_to_every_request_but_health(tmp_path: Path) -> None:
    with (
        process.start(tmp_path, delay=0.2) as server,
        httpx.Client(base_url=server.url, trust_env=False) as client,
    ):

        def quickest(path: str) -> float:
            taken = []
            for _ in range(4):
                started = time.monotonic()
                client.get(path)
                taken.append(time.monotonic() - started)
            return min(taken)

        assert quickest("/v3/workspaces/w/queue/status") >= 0.2 > quickest("/health")


def test_a_deleted_session_answers_404_until_a_restart_and_can_then_be_made_again(tmp_path: Path) -> None:
    path = "/v3/workspaces/w/sessions"
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        client.post(path, json={"id": "s"})
        client.delete(f"{path}/s")
        assert client.post(path, json={"id": "s"}).status_code == 404
    with process.start(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        assert client.post(path, json={"id": "s"}).status_code == 201


def test_a_server_that_cannot_start_says_so_to_the_one_that_starts_it(tmp_path: Path) -> None:
    with process.start(tmp_path), pytest.raises(process.DidNotStart, match="another server"):
        process.start(tmp_path)
