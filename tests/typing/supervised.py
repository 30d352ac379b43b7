"""Code as a user of `supervision` would write it, under mypy --strict and pyright strict. It also runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from supervision import (
    IGNORE,
    INFINITY,
    AutoShutdown,
    ChildInfo,
    ChildSpec,
    Counts,
    Crashed,
    Down,
    DynamicSupervisor,
    ManualClock,
    MonitorRef,
    NoProc,
    Normal,
    Observer,
    Reason,
    Ref,
    Reply,
    Restart,
    Shutdown,
    Simulator,
    Strategy,
    Supervisor,
    SupervisorRef,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Token,
    Waiter,
    demonitor,
    monitor,
    started,
)


@dataclass(frozen=True)
class Add:
    amount: int


class Counter(ThreadActor):
    mailbox_limit = 100
    expected_errors = (ValueError,)
    start_timeout = 1.0

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.count = start
        self.watching: MonitorRef | None = None

    def on_start(self) -> started | None:
        return started(self.count) if self.count else None

    def on_receive(self, message: Any) -> int:
        match message:
            case Add(amount):
                self.count += amount
            case Down():
                self.stop(Shutdown("the watched one is gone"))
            case _:
                raise ValueError(type(message).__name__)
        return self.count

    def on_stop(self, reason: Reason) -> None:
        if isinstance(reason, Crashed):
            assert_type(reason.error, BaseException)

    def watch(self, ref: Ref[Any]) -> None:
        self.watching = self.monitor(ref)
        token = self.send_after(1.0, Add(1))
        assert_type(token, Token)
        self.cancel_timer(token)
        self.demonitor(self.watching)


class Worker(TaskActor):
    async def on_start(self) -> None:
        assert self.clock.now() >= 0.0

    async def on_receive(self, message: Any) -> str:
        return str(message)

    async def on_stop(self, reason: Reason) -> None:
        assert reason.quiet


class Tree(Supervisor):
    @classmethod
    def init(cls, size: int) -> Any:
        if size == 0:
            return IGNORE
        children = [ChildSpec(number, Worker, restart=Restart.TRANSIENT) for number in range(size)]
        return cls.tree(children, strategy=Strategy.REST_FOR_ONE, auto_shutdown=AutoShutdown.NEVER)


class Heard(Observer):
    def __init__(self) -> None:
        self.events: list[object] = []

    def observe(self, event: Any) -> None:
        self.events.append(event)


async def coroutines(runtime: ThreadRuntime) -> None:
    ref = await runtime.aspawn(Worker)
    assert_type(ref, Ref[Worker])
    assert await ref.aask(1, timeout=5.0) == "1"
    assert await ref.astop(Normal()) is True


def main() -> None:
    clock = ManualClock()
    with ThreadRuntime(Heard(), clock, name="typed") as runtime:
        counter = runtime.spawn(Counter, 3)
        assert_type(counter, Ref[Counter])
        counter.tell(Add(1))
        assert counter.ask(Add(1), timeout=5.0) == 5
        later: Reply[int] = counter.ask(Add(1), block=False)
        assert later.get(timeout=5.0) == 6

        tree = Supervisor.start(
            runtime,
            [ChildSpec("worker", Worker, shutdown=INFINITY), ChildSpec.dynamic("jobs", max_children=10)],
            strategy=Strategy.ONE_FOR_ALL,
            intensity=1,
        )
        assert_type(tree, SupervisorRef)
        assert_type(tree.which_children(), tuple[ChildInfo, ...])
        assert_type(tree.count_children(), Counts)
        jobs = DynamicSupervisor.start(runtime, max_children=2)
        job: Ref[Worker] = jobs.start_child(ChildSpec("job", Worker, restart=Restart.TEMPORARY))

        waiter: Waiter[str] = Waiter(clock=clock, deadline=clock.now() + 1.0, on_deadline="late")
        bound = waiter.bind(job, lambda down: type(down.reason).__name__)
        assert_type(bound, Waiter[str])
        token = monitor(job, lambda down: None)
        demonitor(token)
        assert job.kill()
        assert_type(waiter.result(), str)
        try:
            job.tell("anybody?")
        except NoProc:
            pass
        Tree.start(runtime, 2)

    with Simulator(seed=1) as sim:
        assert sim.spawn(Worker).ask("simulated") == "simulated"
        sim.advance(1.0)


if __name__ == "__main__":
    main()
