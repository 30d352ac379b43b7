"""The capture side of a runtime, whole and real, without the rest of it: for tests and for the kill harness."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from honcho_actors.capture.facade import Capture, CapturePorts
from honcho_actors.capture.retry import RetryPolicy
from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import parse_endpoint
from honcho_actors.metrics import Meters
from honcho_actors.model import SessionKey, Turn
from honcho_actors.settings import Settings, SettingsCell
from supervision import Strategy, Supervisor, SupervisorRef, ThreadRuntime

QUICK = RetryPolicy(first=0.05, cap=0.2, longest=1.0)


class Rig:
    """`with Rig(tmp_path, url) as rig`: `rig.capture`, `rig.settings`, `rig.change(...)`. Retries are quick."""

    def __init__(
        self,
        state_dir: Path,
        url: str | None,
        *,
        wrap: Callable[[HonchoClient], Any] | None = None,
        ports: dict[str, Any] | None = None,
        intake: Any = None,
        **settings: Any,
    ) -> None:
        self.state_dir = state_dir
        self.cell = SettingsCell(
            Settings(**{"base_url": url, "state_dir": state_dir, "settle_time": 0.3, "workspace": "w", **settings})
        )
        self.meters = Meters()
        self.uploaded: list[SessionKey] = []
        self._wrap = wrap
        self._clients: dict[tuple[asyncio.AbstractEventLoop, str], Any] = {}
        self._ports = ports or {}
        self._intake = intake
        self.runtime: ThreadRuntime
        self.tree: SupervisorRef
        self.capture: Capture

    def __enter__(self) -> Rig:
        self.runtime = ThreadRuntime(name="rig")
        ports = CapturePorts(
            settings=self.cell,
            client=self._client,
            meters=self.meters,
            on_uploaded=self.uploaded.append,
            **{"retry": QUICK, **self._ports},
        )
        self.capture = Capture(ports, self.state_dir, intake=self._intake)
        self.tree = Supervisor.start(
            self.runtime, self.capture.child_specs(), strategy=Strategy.ONE_FOR_ALL, intensity=20, period=5.0
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops in order: nothing more is taken, what was handed over is written."""
        self.capture.close()
        assert self.tree.stop(30.0)
        self.runtime.close(5.0)

    def change(self, **settings: Any) -> None:
        """Puts other settings in force."""
        self.cell.publish(Settings(**{**self._given(), **settings}))

    def _given(self) -> dict[str, Any]:
        current = self.cell.current
        return {name: getattr(current, name) for name, source in current.sources.items() if source != "default"}

    def _client(self, server: str) -> Any:
        current = self.cell.current
        if not current.configured or current.server_id != server:
            return None
        loop = asyncio.get_running_loop()
        found = self._clients.get((loop, server))
        if found is None:
            client = HonchoClient(parse_endpoint(current.server_url, current.api_key), meters=self.meters)
            self.runtime.loop.at_close(client.aclose)
            found = self._clients[loop, server] = client if self._wrap is None else self._wrap(client)
        return found


def turn(number: int, session: str = "s", **more: Any) -> Turn:
    """The n-th turn of a conversation, with both halves."""
    given = {"prompt": f"question {number}", "answer": f"answer {number}", "turn_id": f"t{number}", **more}
    return Turn(session_key=session, **given)


def stored(url: str, session: str, workspace: str = "w") -> list[dict[str, Any]]:
    """Every message of a session, in the server's order, read over plain HTTP."""
    found: list[dict[str, Any]] = []
    page = 1
    while True:
        body = _ask(url, f"/v3/workspaces/{workspace}/sessions/{session}/messages/list?page={page}&size=100", {})
        found += body["items"]
        if page >= body["pages"]:
            return found
        page += 1


def texts(url: str, session: str, workspace: str = "w") -> list[str]:
    """What was said, in the server's order."""
    return [message["content"] for message in stored(url, session, workspace)]


def _ask(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        url + path, data=json.dumps(body).encode(), method="POST", headers={"content-type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as reply:
        return json.loads(reply.read())


def said(*numbers: int) -> list[str]:
    """The texts of these turns, in order."""
    return [text for number in numbers for text in (f"question {number}", f"answer {number}")]


@contextlib.contextmanager
def server(data: Path, **more: Any) -> Iterator[Any]:
    """The embedded server, in a process of its own."""
    from honcho_actors.local.process import start

    handle = start(data, **more)
    try:
        yield handle
    finally:
        handle.stop()
