"""What the system tests stand on: a host process, an embedded server behind the fault proxy, a real Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from honcho_actors.local.process import start as start_server
from tests.support.faults import FaultProxyProcess

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120.0
"""Seconds after which something that is waited for is taken not to come."""


def until(true: Callable[[], Any], what: str, seconds: float = LIMIT) -> Any:
    """What `true` gave, as soon as it is true; fails, saying `what`, when it does not become so."""
    end = time.monotonic() + seconds
    while True:
        found = true()
        if found:
            return found
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def get_json(url: str, headers: Mapping[str, str] | None = None) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers=dict(headers or {})), timeout=10) as reply:
        return json.loads(reply.read())


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nobody's settings, and a home of its own."""
    dropped = ("HONCHO_", "XDG_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    home.mkdir(parents=True, exist_ok=True)
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **more}


class HostProcess:
    """`tests.system.host` running: `ask(do=..., ...)` waits for its answer."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.state_dir = folder / "state"
        self.config_dir = folder / "home" / ".config" / "honcho-actors"
        self.environment = environment(
            folder / "home",
            HONCHO_ACTORS_STATE_DIR=str(self.state_dir),
            HONCHO_ACTORS_CACHE_DIR=str(folder / "cache"),
            **{"HONCHO_ACTORS_METRICS_PORT": "0", **settings},
        )
        self._log = folder / "host.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.host"],
                env=self.environment,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            endpoints = self._answer()
        except BaseException:
            self.kill()
            raise
        self.metrics_url = str(endpoints["metrics"])
        self.target = self.metrics_url.removeprefix("http://").removesuffix("/metrics")

    def ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def link(self) -> str:
        """A fresh link to its status page."""
        return str(json.loads(self.command("page", "--json"))["url"])

    def command(self, *arguments: str, fine: tuple[int, ...] = (0,)) -> str:
        """What the command line, asked beside this process, prints; it must end with one of these codes."""
        done = subprocess.run(
            [sys.executable, "-m", "honcho_actors.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode in fine, done.stderr
        return done.stdout

    def end(self) -> None:
        """Ends it in order; at once if it does not."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the host process has ended: {self._log.read_text()[-2000:]}"
        return json.loads(line)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[FaultProxyProcess]:
    """An embedded server behind a fault proxy."""
    with start_server(folder / "server") as handle, FaultProxyProcess(handle.url) as proxy:
        yield proxy


def query(url: str, promql: str) -> list[dict[str, Any]]:
    """The vector that this expression is now at this Prometheus. Fails on an expression that it does not take."""
    found = get_json(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": promql}))
    assert found["status"] == "success"
    return list(found["data"]["result"])


class Prometheus:
    """A real one, on rules and targets of a test. Use with `with`."""

    def __init__(self, folder: Path, rules: str, targets: list[str], *, every: str = "1s") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alerts.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(
            f"global:\n  scrape_interval: {every}\n  scrape_timeout: {every}\n  evaluation_interval: {every}\n"
            "rule_files:\n  - alerts.yml\n"
            "scrape_configs:\n  - job_name: honcho-actors\n    static_configs:\n"
            f"      - targets: {json.dumps(targets)}\n"
        )
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Prometheus:
        command = [
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=error",
        ]
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=log)
        until(self._is_ready, "Prometheus is ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def query(self, promql: str) -> list[dict[str, Any]]:
        """The vector that this expression is now."""
        return query(self.url, promql)

    def firing(self) -> set[tuple[str, str]]:
        """(alert, instance) of every alert that fires now."""
        alerts = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {
            (one["labels"]["alertname"], one["labels"].get("instance", ""))
            for one in alerts
            if one["state"] == "firing"
        }

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "prometheus.log").read_text()
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.url}/-/ready", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False
