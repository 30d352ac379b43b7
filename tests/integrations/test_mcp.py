"""Memory's tools over MCP, with the official client: stdio as a host starts it, and streamable HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from honcho_actors import TurnRequest
from honcho_actors.integrations.mcp import STATUS_URI, Guarded, talking_in
from honcho_actors.local.process import start
from honcho_actors.settings import Settings
from tests.integrations.keeper import ANN, BOB

SHOWN = ["honcho_conclude", "honcho_context", "honcho_profile", "honcho_reasoning", "honcho_search"]
PATIENCE = 50.0
WORKSPACE = Settings().workspace


@pytest.fixture
def honcho(tmp_path: Path) -> Iterator[str]:
    """The embedded server, with a card each for ann and bob."""
    (tmp_path / "honcho").mkdir()
    with start(tmp_path / "honcho") as running, httpx.Client(base_url=f"{running.url}/v3", timeout=PATIENCE) as http:
        http.post("/workspaces", json={"id": WORKSPACE}).raise_for_status()
        for person, card in (("ann", ["Name: Ann", ANN]), ("bob", ["Name: Bob", BOB])):
            http.post(f"/workspaces/{WORKSPACE}/peers", json={"id": person}).raise_for_status()
            http.put(f"/workspaces/{WORKSPACE}/peers/{person}/card", json={"peer_card": card}).raise_for_status()
        yield running.url


def environment(url: str, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HONCHO_URL": url,
        "HONCHO_ACTORS_STATE_DIR": str(folder / "state"),
        "HONCHO_ACTORS_CACHE_DIR": str(folder / "cache"),
    }


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "honcho_actors.cli", "mcp", *more]


@asynccontextmanager
async def over_stdio(url: str, folder: Path, *more: str) -> AsyncIterator[Client]:
    program, *arguments = command(*more)
    params = StdioServerParameters(command=program, args=arguments, env=environment(url, folder))
    async with Client(stdio_client(params)) as client:
        yield client


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def everything(client: Client) -> tuple[list[str], Any, Any]:
    """The tools, a profile, and the status resource."""
    tools = await client.list_tools()
    profile = await client.call_tool("honcho_profile", {})
    status = await client.read_resource(STATUS_URI)
    return sorted(one.name for one in tools.tools), profile, json.loads(status.contents[0].text)  # type: ignore[union-attr]


def test_over_stdio_the_tools_answer_and_the_status_can_be_read(honcho: str, tmp_path: Path) -> None:
    async def main() -> tuple[list[str], Any, Any]:
        async with over_stdio(honcho, tmp_path, "--session", "garden", "--user", "ann") as client:
            return await everything(client)

    names, profile, status = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert names == SHOWN
    assert profile.is_error is False
    assert "Name: Ann" in text_of(profile)
    assert status["state"] == "ready"
    assert ANN not in json.dumps(status)


def test_what_a_model_sends_wrong_is_answered_over_stdio(honcho: str, tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with over_stdio(honcho, tmp_path, "--session", "garden", "--user", "ann") as client:
            return [
                await client.call_tool("honcho_search", {"query": 7, "limit": "no"}),
                await client.call_tool("honcho_search", {}),
                await client.call_tool("no_such_tool", {"a": None}),
            ]

    for answer in asyncio.run(asyncio.wait_for(main(), PATIENCE)):
        assert answer.is_error is True
        assert text_of(answer)
        assert answer.structured_content["outcome"] == "refused"


def test_over_stdio_nobody_is_guessed_and_a_signal_ends_it(honcho: str, tmp_path: Path) -> None:
    done = subprocess.run(
        command(), capture_output=True, text=True, env=environment(honcho, tmp_path), timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--session and --user" in done.stderr
    with subprocess.Popen(
        command("--session", "garden", "--user", "ann"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(honcho, tmp_path),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "honcho-actors"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""


@pytest.fixture
def over_http(honcho: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server over HTTP, and its token."""
    with subprocess.Popen(
        command("--http", "--port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(honcho, tmp_path),
    ) as process:
        assert process.stderr is not None
        try:
            url = process.stderr.readline().split(";")[0].strip()
            file = tmp_path / "state" / "mcp-token"
            assert file.stat().st_mode & 0o777 == 0o600
            yield url, file.read_text().strip()
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=PATIENCE)
            assert (process.returncode, out) == (0, "")


@asynccontextmanager
async def connected(url: str, headers: dict[str, str]) -> AsyncIterator[Client]:
    import httpx2

    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def test_over_http_each_connection_is_its_own_person(over_http: tuple[str, str]) -> None:
    url, token = over_http

    def headers(session: str, user: str) -> dict[str, str]:
        return {"authorization": f"Bearer {token}", "x-honcho-session": session, "x-honcho-user": user}

    async def main() -> tuple[Any, Any, Any]:
        async with (
            connected(url, headers("garden", "ann")) as ann,
            connected(url, headers("hive", "bob")) as bob,
            connected(url, {"authorization": f"Bearer {token}"}) as nobody,
        ):
            names, profile, _ = await everything(ann)
            assert names == SHOWN
            found = await asyncio.gather(
                *(one.call_tool("honcho_context", {}) for _ in range(10) for one in (ann, bob))
            )
            assert all(ANN in text_of(one) for one in found[::2])
            assert all(BOB in text_of(one) for one in found[1::2])
            assert not any("tomato" in text_of(one) for one in found[1::2])
            refused = await nobody.call_tool("honcho_profile", {})
            return profile, found[1], refused

    profile, _, refused = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert "Name: Ann" in text_of(profile)
    assert refused.is_error is True


def test_over_http_nobody_without_the_token_and_no_page_of_a_browser(over_http: tuple[str, str]) -> None:
    url, token = over_http
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for given in ({}, {"authorization": "Bearer no"}, {"authorization": token}):
        assert httpx.post(url, json=hello, headers=given, timeout=PATIENCE).status_code == 401
    right = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    for more in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert httpx.post(url, json=hello, headers={**right, **more}, timeout=PATIENCE).status_code in (403, 421)


def test_names_that_come_twice_are_nobodys_and_not_those_of_whom_the_server_was_started_for() -> None:
    bound = TurnRequest(session_key="garden", user="ann")
    twice = [("x-honcho-session", "s"), ("x-honcho-user", "bob")] * 2
    assert talking_in(httpx.Request("POST", "http://localhost", headers=twice), bound) is None
    assert talking_in(httpx.Request("POST", "http://localhost"), bound) is bound
    room = httpx.Request("POST", "http://localhost", headers=[*twice[:2], ("x-honcho-audience", "Shared")])
    assert talking_in(room, bound) == TurnRequest(session_key="s", user="bob", audience="shared")


def test_a_token_that_comes_twice_is_none() -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("it was let in")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guarded = Guarded(never, "one")
    scope = {"type": "http", "headers": [(b"authorization", b"Bearer one"), (b"authorization", b"Bearer one")]}
    asyncio.run(guarded(scope, never, send))
    assert sent[0]["status"] == 401
