"""One embedded server for the tests of this room; each test has a workspace of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.capture_rig import server
from tests.support.shared_faults import end


@pytest.fixture(scope="session")
def honcho(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("server")) as handle:
        yield handle.url
        end(handle.url)


@pytest.fixture
def workspace() -> str:
    return f"w-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"
