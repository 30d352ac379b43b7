"""The runtimes and servers of `tests/runtime`, and settings that come from the environment, as a process has them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from honcho_actors import Memory
from tests.runtime.conftest import hung, make, server
from tests.support import shared_faults
from tests.support.memory_world import Remote, Server

__all__ = ["hung", "make", "server"]

Environment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """Sets settings in the environment: `environment(url=..., user_peer="eve", context_tokens=None)`; None unsets."""

    def change(url: str | None = "", **fields: object) -> None:
        values = {f"HONCHO_ACTORS_{name.upper()}": value for name, value in fields.items()}
        if url != "":
            values["HONCHO_URL"] = url
        for name, value in values.items():
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, str(value))

    change(state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", settle_time=0.2)
    return change


@pytest.fixture
def memory(environment: Environment) -> Iterator[Callable[[], Memory]]:
    """Starts a runtime on the settings of the environment, and closes it."""
    with contextlib.ExitStack() as stack:

        def started() -> Memory:
            one = Memory.start()
            stack.callback(one.close, 2.0)
            return one

        yield started


@pytest.fixture
def readable() -> Iterator[Callable[..., Server]]:
    """Scripted servers to read from: `readable(ann=("Ann sails.", []))`."""
    with contextlib.ExitStack() as stack:

        def started(**persons: tuple[str, list[str]]) -> Server:
            return stack.enter_context(Server(Remote(dict(persons))))

        yield started


@pytest.fixture
def faults(server: str) -> Iterator[shared_faults.Faults]:
    """The fault proxy in front of the embedded server, without any plan yet."""
    with shared_faults.faults(server) as proxy:
        yield proxy


@pytest.fixture(scope="session", autouse=True)
def no_proxy_is_left(server: str) -> Iterator[None]:
    """Ends the fault proxy after the last test."""
    yield
    shared_faults.end(server)
