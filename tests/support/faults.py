"""The fault proxy as a process of its own, for tests of any room."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from typing import Any


class FaultProxyProcess:
    """`with FaultProxyProcess(upstream, rules) as proxy`: `proxy.url`, `proxy.plan(rules)`, `proxy.report()`.
    Blocking.
    """

    def __init__(self, upstream: str, rules: Sequence[dict[str, Any]] = (), *, extra: Sequence[str] = ()) -> None:
        self._rules = list(rules)
        command = [sys.executable, "-m", "honcho_actors.local.faultproxy", "--upstream", upstream, *extra]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.ready: dict[str, str] = json.loads(self._process.stdout.readline())
        self.url = self.ready["url"]
        self.admin = self.ready["admin"]
        self.last_report: dict[str, Any] = {}

    def __enter__(self) -> FaultProxyProcess:
        if self._rules:
            self.plan(self._rules)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        output = self._process.communicate(timeout=30)[0]
        assert self._process.returncode == 0
        self.last_report = json.loads(output.strip().splitlines()[-1])

    def plan(self, rules: Sequence[dict[str, Any]], seed: int = 0) -> dict[str, Any]:
        """Replaces the plan; counts go on."""
        return self._ask("PUT", "/plan", {"seed": seed, "rules": list(rules)})

    def report(self) -> dict[str, Any]:
        return self._ask("GET", "/report")

    def down(self) -> None:
        """Nothing listens any more; what is open is reset."""
        self._ask("POST", "/down")

    def up(self) -> None:
        self._ask("POST", "/up")

    def drop(self) -> None:
        """Resets every open client connection."""
        self._ask("POST", "/drop")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.admin + path, data=data or None, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as reply:
            found: dict[str, Any] = json.loads(reply.read())
            return found
