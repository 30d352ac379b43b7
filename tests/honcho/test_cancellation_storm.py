"""Calls may be killed at any moment, thousands of times, and the next call is as healthy as the first."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from honcho_actors.honcho.client import HonchoClient, OutMessage
from honcho_actors.honcho.outcomes import Call, FailureKind, Ok, Priority
from supervision import TaskActor, ThreadRuntime
from tests.support.calls import client, endpoint, read_context, text, within
from tests.support.storm import WAYS, storm
from tests.support.stub_honcho import Said, Seen, StubHoncho

STORM = 5_000


def jittery(seen: Seen) -> Said:
    """Answers after 0 to 20 ms, sometimes with a 5xx, sometimes with a large body."""
    dice = random.Random(seen.target + seen.headers.get("content-length", "") + str(time.monotonic_ns()))
    delay = dice.uniform(0.0, 0.02)
    if seen.path.endswith("/messages"):
        return Said([{"id": "m"}], 201, delay=delay)
    if dice.random() < 0.02:
        return Said({"detail": "x"}, 503, delay=delay)
    return Said({"peer_representation": "x" * (100_000 if dice.random() < 0.05 else 10)}, delay=delay)


async def healthy(honcho: HonchoClient, stub: StubHoncho) -> int:
    stub.script = lambda seen: Said({"peer_representation": "well"})
    outcomes = [await read_context(honcho, within()) for _ in range(20)]
    return sum(isinstance(outcome, Ok) for outcome in outcomes)


async def no_slot_is_lost(honcho: HonchoClient, stub: StubHoncho) -> None:
    status = honcho.status()
    assert (status["busy"], status["waiting"], status["connections"]["busy"]) == (0, 0, 0)
    for _ in range(4_000):  # the server hears of our last aborts a moment later
        if stub.open == honcho.status()["connections"]["idle"]:
            break
        await asyncio.sleep(0.005)
    assert stub.open == honcho.status()["connections"]["idle"]


async def test_after_5000_cancelled_calls_20_of_20_are_healthy_and_no_slot_or_socket_is_lost() -> None:
    message = [OutMessage("user", text("hello"))]
    dice = random.Random(5)
    async with StubHoncho(jittery) as stub, client(stub.url) as honcho:

        def start(seconds: float) -> Awaitable[Any]:
            if dice.random() < 0.3:
                return honcho.add_messages("w", "s", message, within(seconds, Priority.DELIVERY))
            return read_context(honcho, within(seconds))

        ways = Counter(await storm(start, STORM * 3 // 5, seed=11, at_once=50))
        ways += Counter(await storm(start, STORM * 2 // 5, seed=12, at_once=200))
        assert sum(ways.values()) == STORM
        assert all(ways[way] > STORM / 20 for way in WAYS)
        await no_slot_is_lost(honcho, stub)
        await asyncio.sleep(0)
        assert await healthy(honcho, stub) == 20
        await no_slot_is_lost(honcho, stub)
        assert stub.accepted > 100, "the storm reached the server"


def test_the_same_storm_leaves_the_plain_library_dead_which_is_why_the_pool_is_ours() -> None:
    """If this fails, httpx has been mended, and `docs/honcho.md` on the pool should be read again."""
    command = [sys.executable, "-m", "tests.support.plain_storm", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20, "of 20 calls to an idle server"


class Caller(TaskActor):
    """Asks once, as a refresh worker does."""

    def __init__(self, honcho: HonchoClient) -> None:
        super().__init__()
        self._honcho = honcho

    async def on_receive(self, message: Any) -> Any:
        return await read_context(self._honcho, Call(asyncio.get_running_loop().time() + 30.0))


def test_300_actors_killed_in_mid_call_cost_the_neighbours_nothing() -> None:
    runtime = ThreadRuntime(name="storm")
    loop = runtime.loop.asyncio_loop

    def on_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    stub = StubHoncho(lambda seen: Said({"peer_representation": "well"}, delay=0.1))
    on_loop(stub.__aenter__())
    honcho = HonchoClient(endpoint(stub.url))
    try:
        doomed = [runtime.spawn(Caller, honcho) for _ in range(300)]
        for ref in doomed:
            ref.tell("go")
        dice = random.Random(1)
        for ref in doomed:
            if dice.random() < 0.3:
                time.sleep(0.001)
            ref.kill()
        neighbours = [runtime.spawn(Caller, honcho) for _ in range(20)]
        replies = [ref.ask("go", timeout=20) for ref in neighbours]
        assert sum(isinstance(reply, Ok) for reply in replies) == 20
        on_loop(no_slot_is_lost(honcho, stub))
        for ref in neighbours:
            ref.stop()
    finally:
        on_loop(honcho.aclose())
        on_loop(stub.__aexit__())
        assert runtime.close(30)


async def test_a_killed_call_closes_its_socket_at_once() -> None:
    closed: list[float] = []

    async with StubHoncho(lambda seen: Said({}, delay=30)) as stub, client(stub.url) as honcho:
        for _ in range(50):
            call = asyncio.create_task(read_context(honcho, within(30)))
            seen = len(stub.seen)
            while len(stub.seen) == seen:  # noqa: ASYNC110 (the step is what is measured)
                await asyncio.sleep(0)
            call.cancel()
            started = time.perf_counter()
            while stub.open:  # noqa: ASYNC110
                await asyncio.sleep(0)
            closed.append(time.perf_counter() - started)
            assert (await asyncio.gather(call, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    assert sorted(closed)[25] < 1.0


async def test_a_call_that_ends_by_its_deadline_says_so_and_a_cancelled_one_raises() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=30)) as stub, client(stub.url) as honcho:
        outcome = await read_context(honcho, within(0.05))
        assert not isinstance(outcome, Ok)
        assert outcome.kind is FailureKind.TIMED_OUT
