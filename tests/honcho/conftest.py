"""Coroutine tests of this room run on a loop of their own, which must be left clean."""

from __future__ import annotations

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def test_...`; afterwards no task of the test may be left."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        await pyfuncitem.obj(**given)
        for _ in range(4_000):  # the server's side of a connection ends a moment after the client's
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()]
            if not left:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"the test left {len(left)} tasks behind, such as {left[0]}")

    asyncio.run(run())
    return True
