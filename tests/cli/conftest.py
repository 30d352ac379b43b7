"""The command as people run it: a subprocess with a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.cli import app
from honcho_actors.cli.findings import CODES
from honcho_actors.local.process import start
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nobody's settings: a home of its own, no HONCHO_*, no OPENAI_*."""
    dropped = ("HONCHO_", "XDG_", "OPENAI_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return {**kept, "HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> Command:
    def run(*arguments: str, stdin: str = "", timeout: float = 60.0, **environ: str) -> Finished:
        return subprocess.run(
            [sys.executable, "-m", "honcho_actors.cli", *arguments],
            env={**environment, **environ},
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def inside(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command in this process: for what starts nothing and leaves nothing behind."""

    def run(*arguments: str, **environ: str) -> Finished:
        monkeypatch.setattr(sys, "argv", ["honcho-actors", *arguments])
        monkeypatch.chdir(tmp_path)
        for name, value in {**environment, **environ}.items():
            monkeypatch.setenv(name, value)
        code = app.run()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(list(arguments), code, said.out, said.err)

    return run


@pytest.fixture
def begin(environment: dict[str, str], tmp_path: Path) -> Iterator[Begin]:
    """Starts a command that goes on; ends it after the test."""
    with contextlib.ExitStack() as stack:

        def run(*arguments: str, **environ: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "honcho_actors.cli", *arguments],
                env={**environment, **environ},
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

            def end() -> None:
                if process.poll() is None:
                    process.kill()
                process.wait(30)
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream is not None:
                        with contextlib.suppress(OSError):
                            stream.close()

            stack.callback(end)
            return process

        yield run


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded server, in its own process."""
    with start(tmp_path_factory.mktemp("honcho")) as running:
        yield running.url


@dataclass
class Answering:
    """A server that answers everything in one way, and remembers what it was asked."""

    url: str
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


Answer = Callable[..., Answering]


@pytest.fixture
def answering() -> Iterator[Answer]:
    """Starts servers that answer everything in one way. `hang`: never; `delay` in seconds."""
    with contextlib.ExitStack() as stack:

        def make(
            status: int,
            body: bytes,
            *,
            kind: str = "application/json",
            hang: bool = False,
            delay: float = 0.0,
            **headers: str,
        ) -> Answering:
            released = threading.Event()
            found = Answering("")

            class Handler(BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    found.seen.append((self.command, self.path, dict(self.headers)))
                    if hang:
                        released.wait(30.0)
                        return
                    released.wait(delay)
                    self.send_response_only(status)
                    for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    with contextlib.suppress(OSError):
                        self.wfile.write(body)

                do_GET = do_POST  # noqa: N815

                def log_message(self, format: str, *args: object) -> None:
                    """Says nothing."""

            listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()

            def end() -> None:
                released.set()
                listening.shutdown()
                thread.join()
                listening.server_close()

            stack.callback(end)
            found.url = f"http://127.0.0.1:{listening.server_address[1]}"
            return found

        yield make


Run = Callable[..., Memory]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Run]:
    """Runs a memory in this process, on the state directory `state`, for commands to attach to."""
    with contextlib.ExitStack() as stack:

        def begin(url: str | None, **changed: Any) -> Memory:
            given = {"state_dir": tmp_path / "state", "cache_dir": tmp_path / "cache", "settle_time": 0.2, **changed}
            memory = Memory.start(Settings(base_url=url, **given))
            stack.callback(memory.close, 2.0)
            until(lambda: memory.status().endpoints["admin"])
            return memory

        yield begin


def until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    """Returns as soon as something holds; fails when it does not within the time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.01)


def findings(finished: Finished) -> dict[str, dict[str, Any]]:
    """What `doctor --json` found by its code; what is not fine has a sentence of what to do."""
    assert "Traceback" not in finished.stdout + finished.stderr
    shown = json.loads(finished.stdout)
    assert finished.returncode == (0 if shown["fine"] else 1)
    for one in shown["findings"]:
        assert one["fine"] or one["fix"], one
        assert one["code"] in CODES
    return {one["code"]: one for one in shown["findings"]}


def wrong(finished: Finished) -> dict[str, str]:
    """What is not fine: code -> text and fix."""
    return {code: f"{one['text']}; {one['fix']}" for code, one in findings(finished).items() if not one["fine"]}
