"""The small door: bounded, private, and never in the way of a stop (field cases 103, 104, 108)."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from honcho_actors.metrics import Meters
from honcho_actors.ops.announcement import find
from honcho_actors.ops.endpoint import AdminEndpoint, Board, Look
from honcho_actors.ops.wire import Answer, Asked, Door, Refuse
from honcho_actors.settings import Settings, SettingsCell
from supervision import Ref, ThreadRuntime
from tests.support.stopwatch import Stopwatch


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    with ThreadRuntime(name="test") as made:
        yield made


def board(tmp_path: Path, *, metrics_port: int | None = 0, admin_port: int | None = 0) -> Board:
    settings = Settings(state_dir=tmp_path / "state", metrics_port=metrics_port, admin_port=admin_port)
    return Board(
        SettingsCell(settings),
        Meters(),
        lambda: {"state": "ready", "health": "all is well"},
        {"/sessions": lambda query: [{"limit": query.get("limit")}]},
    )


def run(runtime: ThreadRuntime, shown: Board) -> Ref[AdminEndpoint]:
    return runtime.spawn(AdminEndpoint, shown)


def token(tmp_path: Path) -> dict[str, str]:
    found = find(tmp_path / "state")
    assert found is not None
    return {"Authorization": f"Bearer {found[1]}"}


def test_a_scrape_answers_without_a_token_and_the_admin_pages_do_not(runtime: ThreadRuntime, tmp_path: Path) -> None:
    shown = board(tmp_path)
    actor = run(runtime, shown)
    assert shown.metrics_url is not None
    assert "honcho_actors_turns_total" in httpx.get(shown.metrics_url).text
    assert httpx.get(f"{shown.admin_url}/status").status_code == 401
    assert httpx.get(f"{shown.admin_url}/status", headers={"Authorization": "Bearer guess"}).status_code == 401
    assert httpx.get(f"{shown.admin_url}/status", headers=token(tmp_path)).json()["state"] == "ready"
    assert httpx.get(f"{shown.admin_url}/sessions?limit=3", headers=token(tmp_path)).json() == [{"limit": "3"}]
    assert httpx.get(f"{shown.admin_url}/nothing", headers=token(tmp_path)).status_code == 404
    assert httpx.get(f"{shown.admin_url}/readyz", headers=token(tmp_path)).json()["ready"] is True
    assert httpx.post(f"{shown.admin_url}/status", headers=token(tmp_path)).status_code == 405
    actor.stop()


def test_the_token_lies_in_a_private_file_that_goes_with_the_endpoint(runtime: ThreadRuntime, tmp_path: Path) -> None:
    actor = run(runtime, board(tmp_path))
    path = tmp_path / "state" / "admin.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["url"].startswith("http://127.0.0.1:")
    actor.stop()
    assert not path.exists()


def test_another_process_s_announcement_is_left_alone(runtime: ThreadRuntime, tmp_path: Path) -> None:
    actor = run(runtime, board(tmp_path))
    path = tmp_path / "state" / "admin.json"
    path.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "other", "pid": 1}))
    actor.stop()
    assert find(tmp_path / "state") == ("http://127.0.0.1:1", "other", 1)


def test_after_another_process_has_come_and_gone_it_is_found_again(runtime: ThreadRuntime, tmp_path: Path) -> None:
    """As after a `chat` beside a `serve` on the same state directory."""
    actor = run(runtime, board(tmp_path))
    path = tmp_path / "state" / "admin.json"
    ours = find(tmp_path / "state")
    other = {"url": "http://127.0.0.1:1", "token": "other"}
    path.unlink()  # it took the file over, and away with it
    actor.ask(Look(), timeout=20.0)
    assert find(tmp_path / "state") == ours
    path.write_text(json.dumps({**other, "pid": 2**30}))  # it was killed
    actor.ask(Look(), timeout=20.0)
    assert find(tmp_path / "state") == ours
    path.write_text(json.dumps({**other, "pid": 1}))  # it lives
    actor.ask(Look(), timeout=20.0)
    assert find(tmp_path / "state") == ("http://127.0.0.1:1", "other", 1)
    actor.stop()


def test_a_foreign_host_name_is_refused_before_its_token_is_looked_at(runtime: ThreadRuntime, tmp_path: Path) -> None:
    shown = board(tmp_path)
    actor = run(runtime, shown)
    reply = httpx.get(f"{shown.admin_url}/status", headers={**token(tmp_path), "Host": "rebound.example"})
    assert reply.status_code == 403
    actor.stop()


def test_108_a_port_that_is_taken_is_a_problem_of_the_status_and_no_reason_not_to_run(
    runtime: ThreadRuntime, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        shown = board(tmp_path, metrics_port=taken)
        actor = run(runtime, shown)
        assert actor.is_alive()
        assert shown.metrics_url is None
        assert shown.problems == (f"metrics_port {taken} cannot be used: address already in use",)
        assert shown.admin_url is not None
        actor.stop()


def test_103_a_state_directory_that_cannot_be_written_takes_the_admin_endpoint_away_and_nothing_else(
    runtime: ThreadRuntime, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file where a directory should be")
    shown = board(tmp_path)
    actor = run(runtime, shown)
    assert shown.admin_url is None
    assert shown.metrics_url is not None
    assert "cannot be announced" in shown.problems[0]
    actor.stop()


def test_104_a_silent_client_and_half_a_request_do_not_hold_up_the_stop(runtime: ThreadRuntime, tmp_path: Path) -> None:
    shown = board(tmp_path)
    actor = run(runtime, shown)
    assert shown.metrics_url is not None
    port = int(shown.metrics_url.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as silent, socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127")
        assert httpx.get(shown.metrics_url).status_code == 200
        begun = Stopwatch()
        actor.stop(timeout=30.0)
        assert begun.seconds < 2.0
        assert not actor.is_alive()
        silent.settimeout(20.0)
        with pytest.raises(OSError):
            silent.sendall(b"x" * 10) if silent.recv(1) else (_ for _ in ()).throw(OSError("closed"))
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_103_fifty_scrapes_at_once_while_the_endpoint_comes_and_goes(runtime: ThreadRuntime, tmp_path: Path) -> None:
    whole, refused, wrong = [0], [0], []
    shown = board(tmp_path, admin_port=None)
    done = threading.Event()

    def scrape() -> None:
        while not done.is_set():
            url = shown.metrics_url
            if url is None:
                continue
            try:
                reply = httpx.get(url, timeout=30.0)
            except httpx.TransportError:
                refused[0] += 1
                continue
            if reply.status_code != 200 or not reply.text.endswith("\n"):
                wrong.append(reply.status_code)
            whole[0] += 1

    threads = [threading.Thread(target=scrape) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        actor = run(runtime, shown)
        begun = time.monotonic()
        while whole[0] == 0 and time.monotonic() - begun < 5.0:
            time.sleep(0.01)
        time.sleep(0.1)
        actor.stop()
    done.set()
    for thread in threads:
        thread.join(30.0)
    assert not [thread for thread in threads if thread.is_alive()]
    assert wrong == []
    assert whole[0] > 0


def test_a_head_that_is_too_long_or_no_request_at_all_is_refused(runtime: ThreadRuntime) -> None:
    def handler(asked: Asked) -> Answer:
        if asked.path == "/fails":
            raise ValueError("inside")
        if asked.path == "/refuses":
            raise Refuse(404)
        return Answer(json.dumps({"path": asked.path, **asked.query}).encode())

    async def talk() -> list[bytes]:
        door = Door(handler)
        port = await door.start(0)
        answers = []
        for request in (
            b"GET /a%20b?x=1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
            b"GET /fails HTTP/1.1\r\nHost: [::1]\r\n\r\n",
            b"GET /refuses HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            answers.append((await reader.read()).split(b"\r\n")[0])
            writer.close()
        door.close()
        return answers

    codes = [answer.split(b" ")[1] for answer in runtime.loop.submit(talk()).get(timeout=30.0)]
    assert codes == [b"200", b"500", b"404", b"400", b"400"]
