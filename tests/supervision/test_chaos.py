"""Everything at once: crashes, kills, stops, hung threads and blocked loops, while many ask. Nobody is left without
an answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from supervision import (
    CallTimeout,
    ChildSpec,
    NoProc,
    Strategy,
    Supervisor,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Waiter,
)
from tests.supervision.conftest import eventually

SECONDS = 3.0


class _Bug(Exception):
    pass


class OnThread(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        match message:
            case "bug":
                raise _Bug
            case "hang":
                time.sleep(0.4)
        return message


class OnLoop(TaskActor):
    async def on_receive(self, message: Any) -> Any:
        match message:
            case "bug":
                raise _Bug
            case "hang":
                await asyncio.sleep(0.4)
            case "block":
                time.sleep(1.0)
        return message


def test_every_ask_is_answered_whatever_happens_and_afterwards_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="supervision")
    runtime = ThreadRuntime(name="chaos", heartbeat=0.4, max_abandoned=500)
    specs = [ChildSpec(f"t{n}", OnThread, name=f"t{n}", watchdog=0.3) for n in range(6)]
    specs += [ChildSpec(f"l{n}", OnLoop, name=f"l{n}", watchdog=0.3) for n in range(12)]
    tree = Supervisor.start(runtime, specs, strategy=Strategy.ONE_FOR_ONE, intensity=100_000)
    names = [str(spec.id) for spec in specs]
    until = time.monotonic() + SECONDS
    answers: Counter[str] = Counter()
    waiters: list[Waiter[str]] = []

    def ask(seed: int) -> None:
        dice = random.Random(seed)
        tally: Counter[str] = Counter()
        while time.monotonic() < until:
            name = dice.choice(names)
            draw = dice.random()
            message = "bug" if draw < 0.05 else "hang" if draw < 0.07 else "block" if draw < 0.0705 else draw
            try:
                handle = runtime.registry.via(name).ref
                if draw > 0.99:
                    waiters.append(Waiter[str]().bind(handle, lambda down: "down"))
                    handle.kill()
                tally["value" if handle.ask(message, timeout=20.0) == message else "wrong"] += 1
            except _Bug:
                tally["bug"] += 1
            except NoProc:
                tally["noproc"] += 1
                time.sleep(0.001)
            except CallTimeout:
                tally["lost"] += 1
        answers.update(tally)

    askers = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(40)
        assert not asker.is_alive()
    assert answers["lost"] == answers["wrong"] == 0
    assert answers["value"] > 100
    assert answers["bug"] > 0
    eventually(lambda: all(waiter.resolved for waiter in waiters))
    eventually(lambda: tree.count_children().active == len(specs), 30)
    eventually(lambda: runtime.abandoned_count == 0, 30)
    for name in names:
        assert runtime.registry.via(name).ask("well", timeout=30) == "well"
    assert tree.stop(30.0)
    assert not runtime.lives
    assert runtime.close()
