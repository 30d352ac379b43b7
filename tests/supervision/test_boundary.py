"""Whoever is called in the middle of something may raise what it likes: nobody behind it is kept waiting for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from supervision import (
    ChildSpec,
    LateResult,
    Normal,
    Observer,
    Simulator,
    Strategy,
    Supervisor,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Waiter,
    monitor,
)
from tests.supervision.conftest import eventually

SECONDS = 20.0


class OnThread(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return message


class OnLoop(TaskActor):
    async def on_receive(self, message: Any) -> Any:
        return message


def leave(*_: object) -> None:
    """What ends a thread, and stops a loop."""
    raise SystemExit


@pytest.mark.parametrize("cls", [OnThread, OnLoop])
def test_a_watcher_that_raises_SystemExit_keeps_the_next_from_nothing(rt: ThreadRuntime, cls: Any) -> None:
    ref = rt.spawn(cls)
    monitor(ref, leave)
    down: Waiter[Any] = Waiter()
    down.bind(ref, lambda down: down.reason)
    ref.stop(timeout=SECONDS)
    assert down.result(rt.clock.now() + SECONDS) == Normal()
    assert rt.spawn(cls).ask("goes on", timeout=SECONDS) == "goes on"


def test_a_callback_that_raises_SystemExit_keeps_no_reader_waiting_on_a_thread_or_a_loop() -> None:
    waiter: Waiter[str] = Waiter()

    async def read() -> str:
        waiter.add_done_callback(leave)
        reading = asyncio.ensure_future(_of(waiter))
        await asyncio.sleep(0)
        assert waiter.resolve("value")
        return await asyncio.wait_for(reading, SECONDS)

    assert asyncio.run(read()) == "value"


async def _of(waiter: Waiter[str]) -> str:
    return await waiter


def test_an_observer_may_tell_somebody_what_it_hears_of_an_abandoned_thread_and_hears_it_once() -> None:
    heard: list[Any] = []

    class Telling(Observer):
        def observe(self, event: Any) -> None:
            if isinstance(event, LateResult):
                sink.tell(event)

    class Sink(ThreadActor):
        def on_receive(self, message: Any) -> None:
            heard.append(message)

    class Hung(ThreadActor):
        def on_receive(self, message: Any) -> None:
            entered.set()
            gate.wait(60)
            sink.cast("late")

    gate, entered = threading.Event(), threading.Event()
    with ThreadRuntime(Telling()) as runtime:
        sink, hung = runtime.spawn(Sink), runtime.spawn(Hung)
        hung.tell("hang")
        assert entered.wait(SECONDS)
        hung.kill()
        gate.set()
        eventually(lambda: runtime.abandoned_count == 0, SECONDS)
        sink.ask("in time", timeout=SECONDS)
    assert heard == [LateResult(hung.label), "in time"]


class Leaving(Observer):
    def observe(self, event: Any) -> None:
        leave()


def test_an_observer_that_raises_SystemExit_ends_neither_the_control_thread_nor_an_actor() -> None:
    for runtime in (ThreadRuntime(Leaving()), Simulator(observer=Leaving())):
        with runtime:
            tree = Supervisor.start(runtime, [ChildSpec("a", OnThread)], strategy=Strategy.ONE_FOR_ONE)
            assert tree.which_child("a").ref.ask("hello", timeout=SECONDS) == "hello"
            assert tree.terminate_child("a", timeout=SECONDS) is None
            assert tree.stop(SECONDS)
