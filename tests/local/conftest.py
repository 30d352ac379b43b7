"""A server for each module, and a workspace of its own for each test."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from honcho_actors.local import process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.Handle]:
    with process.start(tmp_path_factory.mktemp("local")) as handle:
        yield handle


@pytest.fixture(scope="module")
def client(server: process.Handle) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as opened:
        yield opened


class Space:
    """One workspace, addressed by the rest of the path."""

    def __init__(self, client: httpx.Client, name: str) -> None:
        self.client = client
        self.name = name
        self.base = f"/v3/workspaces/{name}"

    def post(self, path: str, body: Any, status: int | None = None) -> Any:
        return self._read(self.client.post(self.base + path, json=body), status)

    def put(self, path: str, body: Any, status: int | None = None) -> Any:
        return self._read(self.client.put(self.base + path, json=body), status)

    def get(self, path: str, status: int | None = None) -> Any:
        return self._read(self.client.get(self.base + path), status)

    def say(self, session: str, *lines: tuple[str, str], **more: Any) -> list[Any]:
        batch = [{"peer_id": peer, "content": text, **more} for peer, text in lines]
        made: list[Any] = self.post(f"/sessions/{session}/messages", {"messages": batch}, 201)
        return made

    def settle(self) -> None:
        """Waits until nothing is left to derive."""

        def idle() -> bool:
            status = self.get("/queue/status")
            return bool(status["pending_work_units"] + status["in_progress_work_units"] == 0)

        wait_for(idle)

    def known(self, peer: str, target: str | None = None) -> str:
        body = {"target": target} if target else {}
        return str(self.post(f"/peers/{peer}/representation", body)["representation"])

    def _read(self, reply: httpx.Response, status: int | None) -> Any:
        assert status is None or reply.status_code == status, (reply.status_code, reply.text)
        return reply.json() if reply.content else None


def wait_for(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.01)


@pytest.fixture
def space(client: httpx.Client) -> Space:
    return Space(client, f"w-{secrets.token_hex(4)}")
