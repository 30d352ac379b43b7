"""What every test stands on: the tripwire, and a home that is not the developer's.

The tripwire refuses, by raising, every connection and every name look-up that leaves this machine. It raises rather
than returning an error because the product turns errors into values, and a value would hide the leak.
"""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
"""Material that may stand beside the clone; a test that reads it skips, with the reason, where it is absent."""

# Hundreds of tests start processes of ours, and pytest rewrites every file of tests: with what was compiled kept beside
# the sources (git ignores it) that is done once and not every time, whatever this machine's habit is.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

LONG = (
    "integrations/test_adapters.py",
    "soak/test_soak.py",
    "demo/test_demo.py",
    "integrations/test_docs.py",
    "kill/test_kill.py",
    "integrations/test_mcp.py",
    "runtime/test_faults.py",
    "life/test_field_cases.py",
    "capture/test_field_cases_e.py",
    "supervision/test_typing.py",
    "supervision/conformance/test_thr_misc.py",
    "integrations/test_imports.py",
    "local/test_process.py",
    "cli/test_commands.py",
    "sessions/test_field_cases.py",
    "capture/test_field_cases_d.py",
    "life/test_forks.py",
    "life/test_exits.py",
    "local/test_model.py",
    "runtime/test_degraded.py",
    "supervision/test_storm.py",
)
"""The files that take longest, longest first: with those begun first, no worker is left alone with one at the end (a
file stays on one worker, and `--no-loadscope-reorder` keeps this order)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; nothing else changes its place."""
    here = Path(__file__).resolve().parent
    ranks = {here / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """Seven thousand tests and all that they import live until the end: the collector need not look at them again."""
    gc.collect()
    gc.freeze()


_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo


class LeftTheMachine(BaseException):
    """A test tried to reach a host that is not loopback. A BaseException: no handler of the product may swallow it."""


def _is_loopback(host: object) -> bool:
    if host is None:
        return True
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if text in ("", "localhost") or text.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(text.split("%")[0]).is_loopback
    except ValueError:
        return False


def _check(address: object) -> None:
    if isinstance(address, tuple) and address and not _is_loopback(address[0]):
        raise LeftTheMachine(f"a test tried to connect to {address[0]!r}")


@pytest.fixture(autouse=True, scope="session")
def tripwire() -> Iterator[None]:
    """Refuses any host but loopback, for sockets, for asyncio and for name resolution."""

    def connect(self: socket.socket, address: Any) -> None:
        _check(address)
        _connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        _check(address)
        return _connect_ex(self, address)

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_loopback(host):
            raise LeftTheMachine(f"a test tried to resolve {host!r}")
        return _getaddrinfo(host, *args, **kwargs)

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", connect)
    patch.setattr(socket.socket, "connect_ex", connect_ex)
    patch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No HONCHO_* of the developer's reaches a test, and nothing is written to the developer's home."""
    for name in list(os.environ):
        if name.startswith(("HONCHO_", "XDG_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")):
            if name in ("HONCHO_CONTRACT_URL",):
                continue
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material, or a skip that says why."""
    if not SHARED.is_dir():
        pytest.skip("the shared material is not beside this clone")
    return SHARED
