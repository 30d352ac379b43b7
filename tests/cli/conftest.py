"""The command as people run it: a subprocess with a home of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from honcho_actors.cli import app
from honcho_actors.local.process import start

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
                process.wait(10)
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
