"""Real servers and runtimes for this room: one embedded server for all of it, one runtime a test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.local.process import start
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings
from tests.support.hung import hung as silent

MakeMemory = Callable[..., Memory]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded server, in its own process."""
    with start(tmp_path_factory.mktemp("honcho")) as running:
        yield running.url


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeMemory]:
    """Starts runtimes on a state directory of this test; closes them all."""
    with contextlib.ExitStack() as stack:

        def started(base_url: str | None = None, *, registry: Any = None, tree: bool = True, **changed: Any) -> Memory:
            places = {"state_dir": tmp_path / "state", "cache_dir": tmp_path / "cache"}
            given = {**places, "settle_time": 0.2, "first_turn_wait": 20.0, **changed}
            memory = Memory.start(Settings(base_url=base_url, **given), registry=registry, tree=tree)
            stack.callback(memory.close, 2.0)
            return memory

        yield started


@pytest.fixture
def hung() -> Iterator[str]:
    """A server that takes every connection and never says a word."""
    with silent() as url:
        yield url
