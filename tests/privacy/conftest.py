"""An option for the long form of the names' property test, and a loop of its own for every coroutine test."""

from __future__ import annotations

import asyncio
import inspect

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", type=int, default=1_000, help="how many turns two people and a room take together")
    parser.addoption(
        "--names", type=int, default=100_000, help="how many keys the names' property test takes (a release: 1000000)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def test_...` of this room."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**given))
    return True
