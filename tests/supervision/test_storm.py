"""5,000 task actors, each killed somewhere in an HTTP request: before it connects, in the queue, in flight, while it
closes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from typing import Any

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.outcomes import Call, Ok
from supervision import Killed, NoProc, TaskActor, ThreadRuntime, monitor
from tests.supervision.conftest import eventually
from tests.support.calls import endpoint, read_context
from tests.support.stub_honcho import Said, Seen, StubHoncho

STORM = int(os.environ.get("STORM", "5000"))
AT_ONCE = 100


class Caller(TaskActor):
    """Makes one request for whoever asks."""

    def __init__(self, honcho: HonchoClient) -> None:
        self._honcho = honcho

    async def on_receive(self, message: Any) -> Any:
        return await read_context(self._honcho, Call(asyncio.get_running_loop().time() + 30.0))


def answer(seen: Seen) -> Said:
    """After 0 to 15 ms."""
    return Said({"peer_representation": "well"}, delay=(hash(seen.target) + time.monotonic_ns()) % 15 / 1000)


def test_5000_actors_killed_at_random_phases_leave_no_asker_no_neighbour_and_no_socket_behind() -> None:
    dice = random.Random(29)
    downs: Counter[type] = Counter()
    answers: Counter[str] = Counter()
    runtime = ThreadRuntime(name="storm")
    on_loop = runtime.loop.submit
    stub = StubHoncho(answer)
    on_loop(stub.__aenter__()).get(timeout=30)
    honcho = HonchoClient(endpoint(stub.url))
    try:
        neighbours = [runtime.spawn(Caller, honcho) for _ in range(8)]
        healthy = [neighbour.ask("go", block=False) for neighbour in neighbours]
        for _ in range(STORM // AT_ONCE):
            refs = [runtime.spawn(Caller, honcho) for _ in range(AT_ONCE)]
            for ref in refs:
                monitor(ref, lambda down: downs.update([type(down.reason)]))
            replies = [ref.ask("go", block=False) for ref in refs]
            order = list(refs)
            dice.shuffle(order)
            for number, ref in enumerate(order):
                if number % 10 == 9:
                    time.sleep(dice.uniform(0, 0.004))
                ref.kill()
                if dice.random() < 0.3:
                    ref.kill()
            for reply in replies:
                try:
                    answers[type(reply.get(timeout=30)).__name__] += 1
                except NoProc:
                    answers["NoProc"] += 1
            for number, reply in enumerate(healthy):
                if reply.settled:
                    assert isinstance(reply.get(), Ok)
                    healthy[number] = neighbours[number].ask("go", block=False)
        eventually(lambda: sum(downs.values()) == STORM, 20)
        assert set(downs) == {Killed}
        assert sum(answers.values()) == STORM
        assert answers["NoProc"] > STORM / 10
        assert all(isinstance(reply.get(timeout=30), Ok) for reply in healthy)
        assert runtime.abandoned_count == 0
        assert len(runtime.lives) == len(neighbours)
        status = honcho.status()
        assert (status["busy"], status["waiting"], status["connections"]["busy"]) == (0, 0, 0)
        eventually(lambda: stub.open == honcho.status()["connections"]["idle"])
        assert isinstance(neighbours[0].ask("go", timeout=30), Ok)
        assert stub.accepted > 100
    finally:
        on_loop(honcho.aclose()).get(timeout=30)
        on_loop(stub.__aexit__()).get(timeout=30)
        assert runtime.close(30)
