"""The processes that a demo or a chat starts: the embedded server, and a runtime that takes turns over its pipes.

Each is a real process of this interpreter with an environment of its own: no setting and no file of the person who
runs the command reaches it. Each is ended in a bounded time, whatever state it is in.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, Self

from honcho_actors.cli import out

STARTED_WITHIN: Final = 60.0
ENDED_WITHIN: Final = 8.0


class ProcessFailed(RuntimeError):
    """A process did not start, or went away; the text is one sentence."""


def clean_environment(home: Path, **extra: str) -> dict[str, str]:
    """This process's environment without anybody's Honcho settings, proxies and directories; home is `home`."""
    dropped = ("HONCHO_", "XDG_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "HOME": str(home), "PYTHONUNBUFFERED": "1", **extra}


@contextlib.contextmanager
def in_order_when_told_to_end() -> Iterator[None]:
    """SIGTERM ends the command by way of its clean-up, which no second one cuts short: no process and no file stays."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise out.Stop("", 128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Process:
    """A child with its stderr kept aside, ended by SIGTERM and, when that is not enough, by SIGKILL."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path, **streams: Any) -> None:
        self._log = log
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments], env=dict(environment), stderr=sink, **streams
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        """The last line that the process wrote to stderr, for an error's sentence."""
        try:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:300] if lines else ""

    def end(self, sign: int = signal.SIGTERM) -> int:
        """Ends the process and gives its exit code."""
        if self.is_running:
            self.process.send_signal(sign)
            try:
                self.process.wait(ENDED_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return int(self.process.returncode)

    @contextlib.contextmanager
    def ended_on_failure(self) -> Iterator[None]:
        """While it starts: whatever comes in between, an interrupt too, the process does not stay behind."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


class Upstream(Protocol):
    """The server as the runtime sees it: it can go away, and come back at the same address."""

    @property
    def url(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def kill(self) -> object: ...
    def stop(self) -> object: ...


class Proxy(_Process):
    """A way to a server that is not ours: when it is killed, the runtime cannot reach the server any more."""

    def __init__(self, upstream: str, home: Path, port: int = 0) -> None:
        ready = home / f"proxy-{time.monotonic_ns()}.json"
        arguments = ["honcho_actors.local.faultproxy", "--upstream", upstream, "--port", str(port)]
        super().__init__(
            [*arguments, "--ready-file", str(ready)],
            clean_environment(home),
            home / "proxy.log",
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + STARTED_WITHIN
        with self.ended_on_failure():
            while not ready.exists():
                if not self.is_running or time.monotonic() > end:
                    raise ProcessFailed(f"the way to the server did not open: {self.last_words() or 'no reason given'}")
                time.sleep(0.02)
            self.url = str(json.loads(ready.read_text())["url"]).rstrip("/")

    def kill(self) -> int:
        return self.end(signal.SIGKILL)

    def stop(self) -> int:
        return self.end()


def start_server(data: Path, *, port: int = 0, delay: float = 0.0) -> Upstream:
    """The embedded server as a process. It can be stopped and started again on the same port and data."""
    from honcho_actors.local.process import DidNotStart, start

    try:
        return start(data, port=port, delay=delay)
    except DidNotStart as failed:
        reason = str(failed).strip().splitlines()[-1][:300]
        raise ProcessFailed(f"the embedded server did not start: {reason}") from None


class Runtime(_Process):
    """`honcho-actors serve --stdio` as a process: one JSON line asked, one answered."""

    def __init__(self, home: Path, settings: Mapping[str, str], *, pass_key: str | None = None) -> None:
        extra = {f"HONCHO_ACTORS_{name.upper()}": value for name, value in settings.items()}
        if pass_key:
            extra["HONCHO_API_KEY"] = pass_key
        super().__init__(
            ["honcho_actors.cli", "serve", "--stdio"],
            clean_environment(home, **extra),
            home / "runtime.log",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1,
        )
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self.ended_on_failure():
            threading.Thread(target=self._listen, name="runtime-answers", daemon=True).start()
            self.hello = self._next(STARTED_WITHIN)

    def ask(self, do: str, *, within: float = 15.0, **arguments: Any) -> dict[str, Any]:
        """Asks for one thing and gives the answer. Raises `ProcessFailed` when the process does not answer."""
        stream = self.process.stdin
        assert stream is not None
        try:
            stream.write(json.dumps({"do": do, **arguments}, ensure_ascii=False) + "\n")
            stream.flush()
        except (OSError, ValueError):
            raise ProcessFailed(f"the runtime process has gone: {self.last_words() or 'no reason given'}") from None
        return self._next(within)

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            for line in stream:
                with contextlib.suppress(ValueError):
                    self._lines.put(json.loads(line))
        self._lines.put(None)

    def _next(self, within: float) -> dict[str, Any]:
        try:
            answer = self._lines.get(timeout=within)
        except queue.Empty:
            raise ProcessFailed(f"the runtime process gave no answer within {within:g} s") from None
        if answer is None:
            self.process.wait(ENDED_WITHIN)
            raise ProcessFailed(f"the runtime process ended: {self.last_words() or 'no reason given'}")
        if "error" in answer:
            raise ProcessFailed(str(answer["error"]))
        return answer
