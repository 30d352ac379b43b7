"""The servers that the contract is held against."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from honcho_actors.local import process
from tests.contract.steps import LOCAL, RECORDED, URL, Live, Replay, Target

TARGETS = (*RECORDED, LOCAL, *((URL,) if os.environ.get("HONCHO_CONTRACT_URL") else ()))

URLS = [os.environ.get(f"HONCHO_CONTRACT_{name}", "") for name in ("URL", "AUTH_URL", "TOKEN")]


@pytest.fixture(scope="session")
def local_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with process.start(tmp_path_factory.mktemp("contract")) as server:
        yield server.url


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL and the token of a server that demands one."""
    token = secrets.token_hex(8)
    data = tmp_path_factory.mktemp("guarded")
    with process.start(data, arguments=["--token-env", "LOCAL_TOKEN"], environment={"LOCAL_TOKEN": token}) as server:
        yield server.url, token


@pytest.fixture(scope="session", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    name: str = request.param
    if name == LOCAL:
        return Live(LOCAL, request.getfixturevalue("local_url"), *request.getfixturevalue("guarded"))
    if name == URL:
        return Live(URL, *URLS)
    shared: Path = request.getfixturevalue("shared")
    recording = shared / "reference" / f"honcho-exchanges-{name}.json"
    return Replay(name, json.loads(recording.read_text("utf-8")))
