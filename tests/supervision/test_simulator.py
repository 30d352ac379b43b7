"""The simulator: virtual time, an order that the seed decides, exact replay, and HTTP over an in-memory transport."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import httpx
import pytest

from supervision import (
    CallingSelf,
    CallTimeout,
    ChildSpec,
    Deadlock,
    DynamicSupervisor,
    Killed,
    NoProc,
    Restart,
    Simulator,
    Strategy,
    Supervisor,
    TaskActor,
    ThreadActor,
    Waiter,
    WouldBlockLoop,
)
from tests.support.stopwatch import Stopwatch


class Bank(ThreadActor):
    """Keeps the order in which it hears from its customers."""

    def __init__(self) -> None:
        self.order: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        if message == "order":
            return list(self.order)
        self.order.append(message)
        return None


class Customer(TaskActor):
    def __init__(self, number: int, bank: Any) -> None:
        self.number = number
        self.bank = bank

    async def on_receive(self, message: Any) -> None:
        self.bank.tell((self.number, message))
        await asyncio.sleep(0)
        self.bank.tell((self.number, message + 1))


class Sync(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return message(self) if callable(message) else message


def _run(seed: int) -> tuple[list[Any], list[str]]:
    with Simulator(seed) as sim:
        bank = sim.spawn(Bank)
        customers = [sim.spawn(Customer, number, bank) for number in range(5)]
        for customer in customers:
            customer.tell(0)
        sim.run_until_idle()
        order = bank.ask("order")
    return order, sim.trace


def test_a_seed_replays_to_the_letter_and_seeds_differ() -> None:
    runs = [_run(seed) for seed in range(50)]
    assert runs == [_run(seed) for seed in range(50)]
    assert len({tuple(order) for order, _ in runs}) > 40
    for order, _ in runs:
        for number in range(5):
            assert [message for who, message in order if who == number] == [0, 1], (
                "messages of one pair keep their order"
            )


def test_an_hour_passes_in_no_time() -> None:
    class Patient(TaskActor):
        async def on_receive(self, seconds: float) -> str:
            try:
                async with asyncio.timeout(1800):
                    await asyncio.sleep(seconds)
            except TimeoutError:
                return f"gave up at {self.clock.now()}"
            return f"slept until {self.clock.now()}"

    began = Stopwatch()
    with Simulator() as sim:
        patient = sim.spawn(Patient)
        assert patient.ask(1000) == "slept until 1000.0"
        assert patient.ask(3600) == "gave up at 2800.0"
        with pytest.raises(CallTimeout):
            patient.ask(1500, timeout=100)
        assert sim.clock.now() == 2900.0
    assert began.seconds < 5


def test_time_stands_still_until_it_is_moved() -> None:
    with Simulator() as sim:
        fired: list[float] = []
        sim.timers.call_after(1.0, lambda: fired.append(sim.clock.now()))
        every = sim.timers.call_every(0.4, lambda: fired.append(sim.clock.now()))
        sim.run_until_idle()
        assert fired == []
        sim.advance(1.0)
        assert fired == [0.4, 0.8, 1.0]
        sim.timers.cancel(every)
        sim.advance(10)
        assert fired == [0.4, 0.8, 1.0]


def test_an_http_client_over_an_in_memory_transport_runs_in_virtual_time() -> None:
    async def serve(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(float(request.url.params["after"]))
        return httpx.Response(200, json={"path": request.url.path})

    class Fetcher(TaskActor):
        async def on_start(self) -> None:
            self.client = httpx.AsyncClient(transport=httpx.MockTransport(serve), base_url="http://memory")

        async def on_receive(self, after: float) -> Any:
            reply = await self.client.get("/turn", params={"after": after})
            return reply.json()

        async def on_stop(self, reason: Any) -> None:
            await self.client.aclose()

    with Simulator(5) as sim:
        fetchers = [sim.spawn(Fetcher) for _ in range(10)]
        replies = [fetcher.ask(60 + number, block=False) for number, fetcher in enumerate(fetchers)]
        fetchers[3].kill()
        for number, reply in enumerate(replies):
            if number == 3:
                with pytest.raises(NoProc):
                    reply.get()
            else:
                assert reply.get() == {"path": "/turn"}
        assert sim.clock.now() == 69.0


def test_a_blocking_ask_inside_an_actor_lets_the_others_go_on() -> None:
    with Simulator(2) as sim:
        first, second, third = (sim.spawn(Sync) for _ in range(3))
        through = first.ask(lambda me: second.ask(lambda me: third.ask("through three")))
        assert through == "through three"
        with pytest.raises(CallingSelf):
            first.ask(lambda me: me.actor_ref.ask("self"))


def test_an_actor_that_waits_for_nothing_hangs_and_can_be_abandoned() -> None:
    with Simulator() as sim:
        tree = Supervisor.start(
            sim, [ChildSpec("a", Sync, watchdog=10.0), ChildSpec("b", Sync)], strategy=Strategy.ONE_FOR_ONE
        )
        hung, other = tree.which_child("a").ref, tree.which_child("b").ref
        reply = hung.ask(lambda me: Waiter(clock=me.clock).result(), block=False)
        sim.advance(9.0)
        assert hung.is_alive()
        assert other.ask("meanwhile") == "meanwhile"
        sim.advance(1.5)
        with pytest.raises(NoProc):
            reply.get()
        assert hung.exit_reason == Killed("watchdog")
        assert sim.abandoned_count == 1
        assert tree.which_child("a").ref.ask("a new one") == "a new one"


def test_waiting_for_what_cannot_come_is_a_named_error_with_the_seed() -> None:
    with Simulator(41) as sim, pytest.raises(Deadlock, match="seed 41"):
        Waiter(clock=sim.clock).result()


def test_blocking_in_a_coroutine_is_refused_as_on_a_real_loop() -> None:
    class Blocking(TaskActor):
        expected_errors = (WouldBlockLoop,)

        async def on_receive(self, other: Any) -> Any:
            return other.ask("x")

    with Simulator() as sim:
        other, blocking = sim.spawn(Sync), sim.spawn(Blocking)
        with pytest.raises(WouldBlockLoop):
            blocking.ask(other)


def test_a_manager_and_its_workers_keep_their_promise_whatever_the_seed() -> None:
    class Work(TaskActor):
        def __init__(self, manager: Any, number: int) -> None:
            self.manager, self.number = manager, number

        async def on_start(self) -> None:
            self.actor_ref.tell("go")

        async def on_receive(self, message: Any) -> None:
            await asyncio.sleep(self.number % 3)
            if self.number % 4 == 0:
                raise RuntimeError("a bad day")
            self.manager.tell(("done", self.number))
            self.stop()

    class Manager(ThreadActor):
        def __init__(self, workers: Any) -> None:
            self.workers = workers
            self.waiting: dict[int, Waiter[str]] = {}

        def on_receive(self, message: Any) -> Any:
            kind, *rest = message
            if kind == "want":
                number, waiter = rest
                self.waiting[number] = waiter
                spec = ChildSpec(number, Work, (self.actor_ref, number), restart=Restart.TEMPORARY)
                waiter.bind(self.workers.start_child(spec), lambda down: "died")
            else:
                self.waiting.pop(rest[0]).resolve("done")

    logging.getLogger("supervision").setLevel(logging.CRITICAL)
    try:
        for seed in range(int(os.environ.get("SIMULATED_SEEDS", "200"))):
            with Simulator(seed, record=False) as sim:
                workers = DynamicSupervisor.start(sim)
                manager = sim.spawn(Manager, workers)
                waiters: list[Waiter[str]] = [Waiter(clock=sim.clock) for _ in range(6)]
                for number, waiter in enumerate(waiters):
                    manager.tell(("want", number, waiter))
                sim.advance(5.0)
                assert [waiter.resolved for waiter in waiters] == [True] * 6, f"seed {seed}"
                assert [waiters[number].value for number in (0, 4)] == ["died", "died"]
                assert {waiters[number].value for number in (1, 2, 3, 5)} <= {"done", "died"}
    finally:
        logging.getLogger("supervision").setLevel(logging.NOTSET)
