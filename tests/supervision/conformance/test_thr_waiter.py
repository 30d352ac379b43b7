"""THR-22 to THR-30: a waiter always gets a reply."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from supervision import (
    BRUTAL_KILL,
    CallTimeout,
    ChildSpec,
    Crashed,
    Down,
    NoProc,
    NoProcess,
    Restart,
    Simulator,
    Strategy,
    TaskActor,
    ThreadActor,
    Waiter,
)
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row


@row("THR-22")
def test_THR_22_a_waiter_is_resolved_once_with_the_value(kit: Kit) -> None:
    waiter: Waiter[str] = Waiter(clock=kit.rt.clock)
    ref = kit.spawn()
    waiter.bind(ref, lambda down: "died")
    ref.tell(("do", lambda probe: waiter.resolve("value")))
    kit.until(lambda: waiter.resolved)
    kit.crash(ref)
    assert (waiter.value, waiter.cause, waiter.resolve("other")) == ("value", "result", False)


@row("THR-23")
def test_THR_23_a_waiter_is_resolved_in_the_same_turn_as_the_down(kit: Kit) -> None:
    order: list[str] = []
    ref = kit.spawn()
    waiter = Waiter[Any](clock=kit.rt.clock).bind(ref, lambda down: ("WorkerDied", down.reason))
    waiter.add_done_callback(lambda done: order.append("waiter"))
    watcher = kit.spawn("watcher")
    kit.ask(watcher, ("do", lambda probe: probe.monitor(ref)))
    ref.tell(("raise", Boom("bug")))
    kit.until(lambda: ref.exit_reason is not None and kit.ask(watcher, "heard"))
    word, reason = waiter.value
    assert word == "WorkerDied"
    assert isinstance(reason, Crashed)
    assert order == ["waiter"]


@row("THR-24")
def test_THR_24_a_waiter_is_resolved_at_its_own_deadline_even_if_the_worker_hangs(kit: Kit) -> None:
    ref = kit.spawn(hangs=True)
    waiter: Waiter[str] = Waiter(
        clock=kit.rt.clock, timers=kit.rt.timers, deadline=kit.now() + 1.5, on_deadline="Timeout"
    )
    waiter.bind(ref, lambda down: "died")
    ref.tell("hang")
    kit.until(lambda: ("hangs in turn", "solo") in kit.log)
    kit.advance(1.499)
    assert not waiter.resolved
    kit.advance(0.001)
    kit.until(lambda: waiter.resolved)
    assert (waiter.value, waiter.cause) == ("Timeout", "deadline")
    assert ref.is_alive()


CAUSES = ["worker killed", "evicted", "supervisor gave up", "manager crashed", "manager stopped", "runtime closed"]


@row("THR-25")
@pytest.mark.parametrize("cause", CAUSES)
def test_THR_25_whatever_ends_the_work_the_waiter_is_resolved(kit: Kit, cause: str) -> None:
    pool = ChildSpec.dynamic("pool", intensity=0)
    sup = kit.sup([kit.spec("manager"), pool], Strategy.ONE_FOR_ALL, intensity=0)
    manager = kit.ref(sup, "manager")
    worker = kit.ref(sup, "pool").start_child(kit.spec("worker", hangs=True, shutdown=BRUTAL_KILL))
    waiter: Waiter[str] = Waiter(clock=kit.rt.clock)
    waiter.bind(worker, lambda down: "worker").bind(manager, lambda down: "manager")
    worker.tell("hang")
    kit.until(lambda: ("hangs in turn", "worker") in kit.log)
    if cause == "worker killed":
        worker.kill()
    elif cause == "evicted":
        manager.tell(("do", lambda probe: waiter.resolve("evicted", "evicted")))
    elif cause == "supervisor gave up":
        kit.ref(sup, "pool").start_child(kit.spec("other"))
        kit.crash(kit.ref(kit.ref(sup, "pool"), _find(sup, kit, "other")))
    elif cause == "manager crashed":
        manager.tell(("raise", Boom("bug")))
    elif cause == "manager stopped":
        sup.terminate_child("manager", block=False)
    else:
        kit.gate.set()
        kit.rt.close()
    kit.until(lambda: waiter.resolved)
    wanted = {"evicted": {"evicted"}, "worker killed": {"worker"}}.get(cause, {"worker", "manager"})
    assert waiter.value in wanted


def _find(sup: Any, kit: Kit, child_id: str) -> Any:
    pool = kit.ref(sup, "pool")
    return next(info.ref for info in pool.which_children() if info.id == child_id)


class Fetch:
    """Ask the front for the value of its one entry."""

    def __init__(self, waiter: Waiter[int]) -> None:
        self.waiter = waiter


class Front:
    """A single-flight manager: one worker at a time, waiters join it, a new generation after it."""

    def __init__(self, pool: Any, worker: type[Any]) -> None:
        self.pool, self.worker = pool, worker
        self.waiting: list[Waiter[int]] = []
        self.flights = 0

    def handle(self, actor: Any, message: Any) -> None:
        if isinstance(message, Fetch):
            self.waiting.append(message.waiter)
            if len(self.waiting) == 1:
                self.flights += 1
                spec = ChildSpec(
                    self.flights, self.worker, args=(actor.actor_ref, self.flights), restart=Restart.TEMPORARY
                )
                self.pool.start_child(spec, block=False)
        elif isinstance(message, tuple):
            for waiter in self.waiting:
                waiter.resolve(message[1])
            self.waiting = []


class ThreadFront(ThreadActor):
    def __init__(self, pool: Any) -> None:
        self.front = Front(pool, ThreadWorker)

    def on_receive(self, message: Any) -> Any:
        return self.front.handle(self, message)


class TaskFront(TaskActor):
    def __init__(self, pool: Any) -> None:
        self.front = Front(pool, TaskWorker)

    def on_receive(self, message: Any) -> Any:
        return self.front.handle(self, message)


class ThreadWorker(ThreadActor):
    def __init__(self, front: Any, flight: int) -> None:
        self.front, self.flight = front, flight

    def on_start(self) -> None:
        self.actor_ref.tell("go")

    def on_receive(self, message: Any) -> None:
        self.front.tell(("done", self.flight))
        self.stop()


class TaskWorker(TaskActor):
    def __init__(self, front: Any, flight: int) -> None:
        self.front, self.flight = front, flight

    async def on_start(self) -> None:
        self.actor_ref.tell("go")

    async def on_receive(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.front.tell(("done", self.flight))
        self.stop()


@row("THR-26")
def test_THR_26_a_waiter_that_joins_while_the_worker_finishes_is_never_stuck(kit: Kit) -> None:
    def fetch(front: Any) -> Waiter[int]:
        waiter: Waiter[int] = Waiter(clock=kit.rt.clock)
        front.tell(Fetch(waiter))
        return waiter

    if not kit.sim:
        front = kit.rt.spawn(ThreadFront if kit.name == "threads" else TaskFront, kit.dyn())
        waiters = [fetch(front) for _ in range(300)]
        kit.until(lambda: all(waiter.resolved for waiter in waiters))
        return
    orders = set()
    for seed in range(200):
        with Simulator(seed=seed, record=False) as sim:
            pool = Kit.dyn(_on(kit, sim))
            front = sim.spawn(TaskFront if seed % 2 else ThreadFront, pool)
            waiters = [Waiter(clock=sim.clock) for _ in range(4)]
            sim.timers.call_after(0, lambda: _fetch_all(front, waiters[:2]))  # noqa: B023
            front.tell(Fetch(waiters[2]))
            sim.timers.call_after(0, lambda: front.tell(Fetch(waiters[3])))  # noqa: B023
            sim.run_until_idle()
            assert all(waiter.resolved for waiter in waiters), f"seed {seed}"
            orders.add(tuple(waiter.value for waiter in waiters))
    assert len(orders) > 1, "both sides of the race were seen"


def _fetch_all(front: Any, waiters: list[Waiter[int]]) -> None:
    for waiter in waiters:
        front.tell(Fetch(waiter))


def _on(kit: Kit, sim: Simulator) -> Kit:
    other = object.__new__(Kit)
    other.__dict__.update(kit.__dict__, rt=sim)
    return other


@row("THR-27")
def test_THR_27_a_waiter_added_after_the_manager_closed_hears_at_once(kit: Kit) -> None:
    manager = kit.spawn()
    kit.crash(manager)
    waiter = Waiter[Any](clock=kit.rt.clock).bind(manager, lambda down: down.reason)
    assert waiter.resolved
    assert waiter.value == NoProcess()
    with pytest.raises(NoProc):
        manager.tell("fetch")


@row("THR-28")
def test_THR_28_a_restarted_manager_finds_old_workers_gone_and_clears_its_table_first(kit: Kit) -> None:
    table: dict[str, str] = {}
    workers: list[Any] = []

    def begin(probe: Any) -> None:
        assert all(worker.exit_reason is not None for worker in workers), "old workers are stopped first"
        table.clear()

    kit.plans["manager"].extend([begin, begin])
    sup = kit.sup([kit.spec("manager"), ChildSpec.dynamic("pool")], Strategy.ONE_FOR_ALL)
    manager, pool = kit.ref(sup, "manager"), kit.ref(sup, "pool")
    workers.extend(pool.start_child(kit.spec(number)) for number in range(3))
    kit.ask(manager, ("do", lambda probe: table.update(entry="old")))
    kit.crash(manager)
    fresh = kit.fresh(sup, "manager", manager)
    assert kit.ask(fresh, ("do", lambda probe: dict(table))) == {}
    kit.fresh(sup, "pool", pool)


@row("THR-29")
@pytest.mark.options(real_time=True)
def test_THR_29_a_loop_keeps_ticking_while_it_awaits_an_actor(kit: Kit) -> None:
    class Slow(ThreadActor):
        def on_receive(self, gate: threading.Event) -> str:
            return "done" if gate.wait(30.0) else "the loop stood"

    class SlowTask(TaskActor):
        async def on_receive(self, gate: threading.Event) -> str:
            while not gate.is_set():  # noqa: ASYNC110 - in the simulator, too, where no thread could wait for it
                await asyncio.sleep(0.01)
            return "done"

    ref = kit.rt.spawn(Slow if kit.name == "threads" else SlowTask)

    async def main() -> str:
        gate = threading.Event()
        waiting = asyncio.ensure_future(ref.aask(gate))
        for _ in range(25):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        gate.set()  # by the loop, while it awaits
        return str(await waiting)

    assert (kit.rt.run(main()) if kit.sim else asyncio.run(main())) == "done"


@row("THR-30")
@pytest.mark.options(real_time=True)
def test_THR_30_each_reader_of_a_derived_reply_has_its_own_time_out(kit: Kit) -> None:
    ref = kit.spawn(hangs=True)
    reply = ref.ask("hang", block=False)
    derived = reply.map(lambda value: value)
    if not kit.sim:
        first = threading.Thread(target=lambda: _swallow(lambda: derived.get(timeout=3.0)), daemon=True)
        first.start()
        time.sleep(0.05)
    begun = kit.now()
    with pytest.raises(CallTimeout):
        derived.get(timeout=0.1)
    assert kit.now() - begun < 1.0
    ref.kill()
    with pytest.raises(NoProc):
        derived.get(timeout=30.0)
    if not kit.sim:
        first.join(30.0)


def _swallow(call: Any) -> None:
    try:
        call()
    except Exception:
        pass


@row("THR-23")
def test_THR_23_a_down_carries_the_ref_that_ended(kit: Kit) -> None:
    ref = kit.spawn()
    waiter = Waiter[Down](clock=kit.rt.clock).bind(ref, lambda down: down)
    kit.crash(ref)
    kit.until(lambda: waiter.resolved)
    assert waiter.value.ref is ref
