"""Field cases of other projects, by number, as they look at this layer."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from supervision import (
    BRUTAL_KILL,
    ChildSpec,
    Down,
    DynamicSupervisor,
    ManualClock,
    NoProc,
    Observer,
    Restart,
    Shutdown,
    Simulator,
    Strategy,
    Supervisor,
    SupervisorReport,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Waiter,
)
from supervision.events import Happening
from tests.supervision.conftest import eventually


class Heard(Observer):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def observe(self, event: Any) -> None:
        self.seen.append(event)

    def count(self, what: Happening) -> int:
        return sum(isinstance(event, SupervisorReport) and event.report.what is what for event in self.seen)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def simulated(heard: Heard) -> Iterator[Simulator]:
    with Simulator(3, observer=heard) as simulator:
        yield simulator


class Echo(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return message


class Job(TaskActor):
    """Does one job and ends."""

    async def on_start(self) -> None:
        self.actor_ref.tell("go")

    async def on_receive(self, message: Any) -> None:
        await asyncio.sleep(0.01)
        self.stop()


class Poisoned(TaskActor):
    async def on_receive(self, message: Any) -> Any:
        if message == "poison":
            raise RuntimeError("always")
        return message


def test_case_023_fifty_threads_ask_while_the_actor_stops_and_none_hangs(rt: ThreadRuntime) -> None:
    for kind in (Echo, Poisoned):
        for _ in range(20):
            ref = rt.spawn(kind)
            answered: list[int] = []

            def ask(ref: Any = ref, answered: list[int] = answered) -> None:
                try:
                    while True:
                        ref.ask(1)
                        answered.append(1)
                except NoProc:
                    answered.append(0)

            threads = [threading.Thread(target=ask, daemon=True) for _ in range(50)]
            for thread in threads:
                thread.start()
            time.sleep(0.002)
            ref.stop()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive(), "a caller hangs"
            assert answered.count(0) == 50


def test_case_024_eight_waiters_on_one_refresh_are_all_answered_at_once() -> None:
    waiter: Waiter[str] = Waiter()
    read: list[str] = []
    threads = [threading.Thread(target=lambda: read.append(waiter.result())) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(waiter._callbacks or ()) == 8)
    waiter.resolve("block")
    for thread in threads:
        thread.join(30)
    assert read == ["block"] * 8


def test_case_025_a_reply_that_comes_after_giving_up_is_nobodys(
    simulated: Simulator, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(TaskActor):
        async def on_receive(self, message: str) -> str:
            await asyncio.sleep(0.3)
            return f"text of {message}"

    caplog.set_level(logging.INFO)
    slow = simulated.spawn(Slow)
    first = Waiter(clock=simulated.clock, deadline=simulated.clock.now() + 0.1, on_deadline="nothing")
    reply = slow.ask("session A", block=False)
    reply.subscribe(lambda: first.resolve(reply.get()))
    assert first.result() == "nothing"
    simulated.advance(0.15)
    assert slow.ask("session B") == "text of session B"
    assert first.value == "nothing"
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_case_109_normal_ends_are_not_crashes(simulated: Simulator, heard: Heard) -> None:
    workers = DynamicSupervisor.start(simulated, intensity=1)
    for restart in (Restart.TEMPORARY, Restart.TRANSIENT):
        for number in range(50):
            workers.start_child(ChildSpec(number, Job, restart=restart))
        simulated.advance(1.0)
        assert workers.count_children().specs == 0
    assert heard.count(Happening.RESTARTED) == 0
    assert workers.is_alive()


def test_case_110_one_poisoned_session_costs_the_others_nothing(simulated: Simulator, heard: Heard) -> None:
    workers = DynamicSupervisor.start(simulated)
    healthy = workers.start_child(ChildSpec("healthy", Poisoned))
    for turn in range(200):
        worker = workers.start_child(ChildSpec("P", Poisoned, restart=Restart.TEMPORARY))
        with pytest.raises(RuntimeError):
            worker.ask("poison")
        assert healthy.ask(turn) == turn
    simulated.run_until_idle()
    assert workers.count_children().specs == 1
    assert heard.count(Happening.RESTARTED) == 0


@pytest.mark.parametrize(
    ("crashes", "every", "trips"),
    [(4, 0.25, True), (3, 1.5, False), (10, 6.0, False)],
    ids=["4 in 1 s", "3 in 5 s", "10 of them, one every 6 s"],
)
def test_case_111_the_window_counts_time_and_restarts(
    simulated: Simulator, crashes: int, every: float, trips: bool
) -> None:
    tree = Supervisor.start(
        simulated, [ChildSpec("a", Poisoned)], strategy=Strategy.ONE_FOR_ONE, intensity=3, period=5.0
    )
    for _ in range(crashes):
        if tree.is_alive():
            tree.which_child("a").ref.tell("poison")
        simulated.run_until_idle()
        simulated.advance(every)
    assert tree.is_alive() is not trips


@pytest.mark.parametrize("message", [None, {"malformed": True}, "x" * 10_000_000, object()])
@pytest.mark.parametrize("kind", [ThreadActor, TaskActor])
def test_case_112_a_told_message_that_kills_is_followed_by_a_new_actor_under_the_old_handle(
    rt: ThreadRuntime, kind: Any, message: Any
) -> None:
    class Strict(kind):  # type: ignore[misc]
        def on_receive(self, message: Any) -> Any:
            if message != "ping":
                raise TypeError("not for me")
            return "pong"

    Supervisor.start(rt, [ChildSpec("strict", Strict, name="strict")], strategy=Strategy.ONE_FOR_ONE)
    handle = rt.registry.via("strict")
    first = handle.ref
    handle.tell(message)
    eventually(lambda: not first.is_alive() and handle.is_alive())  # within 1 s on a quiet machine
    assert handle.ask("ping", timeout=30) == "pong"


def test_case_113_a_restart_that_cannot_start_uses_up_its_intensity_and_gives_up_without_a_busy_loop(
    simulated: Simulator, heard: Heard
) -> None:
    broken = [False]

    class NeedsDisk(TaskActor):
        async def on_start(self) -> None:
            if broken[0]:
                raise OSError("the state directory is gone")

        async def on_receive(self, message: Any) -> Any:
            raise RuntimeError(message)

    tree = Supervisor.start(simulated, [ChildSpec("disk", NeedsDisk)], strategy=Strategy.ONE_FOR_ONE, intensity=3)
    broken[0] = True
    tree.which_child("disk").ref.tell("crash")
    steps = simulated.run_until_idle()
    assert not tree.is_alive()
    assert heard.count(Happening.START_FAILED) == 3
    assert heard.count(Happening.GAVE_UP) == 1
    assert steps < 200
    broken[0] = False
    again = Supervisor.start(simulated, [ChildSpec("disk", NeedsDisk)], strategy=Strategy.ONE_FOR_ONE)
    assert again.count_children().active == 1


def test_case_115_children_do_not_outlive_their_parent(rt: ThreadRuntime) -> None:
    late: list[Any] = []

    class Worker(TaskActor):
        async def on_receive(self, message: Any) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                late.append(self.fenced)

    parent = Supervisor.start(
        rt, [ChildSpec("manager", Echo), ChildSpec.dynamic("workers")], strategy=Strategy.ONE_FOR_ALL
    )
    workers = parent.which_child("workers").ref
    specs = [ChildSpec(number, Worker, restart=Restart.TEMPORARY, shutdown=BRUTAL_KILL) for number in range(4)]
    children = [workers.start_child(spec) for spec in specs]
    for child in children:
        child.tell("work")
    eventually(lambda: all(child.life.depth() == 0 for child in children))
    parent.which_child("manager").ref.kill()
    eventually(lambda: not any(child.is_alive() for child in children))
    eventually(lambda: parent.count_children().active == 2)
    assert parent.stop(30.0) is True
    assert not rt.lives
    assert not [thread for thread in threading.enumerate() if "manager" in thread.name]


def test_case_116_a_supervisor_that_gives_up_is_no_crash_of_the_host(rt: ThreadRuntime) -> None:
    tree = Supervisor.start(rt, [ChildSpec("a", Poisoned)], strategy=Strategy.ONE_FOR_ONE, intensity=0)
    gone = Waiter[Down]().bind(tree, lambda down: down)
    tree.which_child("a").ref.tell("poison")
    assert isinstance(gone.result().reason, Shutdown)
    with pytest.raises(NoProc):
        tree.which_children()
    again = Supervisor.start(rt, [ChildSpec("a", Poisoned)], strategy=Strategy.ONE_FOR_ONE)
    assert again.which_child("a").ref.ask("hello", timeout=30) == "hello"


def test_the_clock_on_the_wall_means_nothing(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case 111, last part: the wall clock is shifted meanwhile."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    rt = ThreadRuntime(clock=clock)
    fired: list[float] = []
    rt.timers.call_after(5.0, lambda: fired.append(clock.now()))
    clock.advance(4.0)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert fired == []
    clock.advance(1.0)
    assert fired == [1005.0]
    rt.close()
