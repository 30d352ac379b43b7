"""Starts the embedded server as a process of its own and waits until it answers: for tests and the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

READY_SECONDS = 40.0
STOP_SECONDS = 10.0


class DidNotStart(Exception):
    """The server ended or stayed silent; the text is what it said."""


@dataclass(frozen=True)
class Handle:
    """A running server. `stop` ends it in order, `kill` at once (SIGKILL); both may be called twice."""

    url: str
    pid: int
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM, then SIGKILL after `timeout` seconds; the exit status."""
        if self.running():
            self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        if self.running():
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def start(
    data_dir: Path | str,
    *,
    delay: float = 0.0,
    port: int = 0,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    timeout: float = READY_SECONDS,
) -> Handle:
    """A server on loopback with its store in `data_dir`, ready when this returns; raises `DidNotStart`.

    `arguments` and `environment` are added to what the command is given.
    """
    with tempfile.TemporaryDirectory(prefix="honcho-local-") as scratch:
        ready, said = Path(scratch) / "ready", Path(scratch) / "stderr"
        command = [sys.executable, "-m", "honcho_actors.local", "--port", str(port), "--data", str(data_dir)]
        command += ["--delay", str(delay), "--ready-file", str(ready), *arguments]
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **(environment or {})},
            )
        deadline = time.monotonic() + timeout
        try:
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise DidNotStart(said.read_text("utf-8", "replace").strip() or "no word from the server")
                time.sleep(0.01)
        except BaseException:  # an interrupt, too, leaves no server behind
            process.kill()
            process.wait()
            raise
        return Handle(ready.read_text("utf-8").strip(), process.pid, process)
