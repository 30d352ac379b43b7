"""The event loop as a place for task actors: killed coroutines, blocked loops, blocking calls on the wrong thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from supervision import (
    ActorAbandoned,
    ActorCrashed,
    CallingSelf,
    ChildSpec,
    Down,
    Killed,
    LoopAbandoned,
    ManualClock,
    NoProc,
    Observer,
    Shutdown,
    Simulator,
    StartTimeout,
    Strategy,
    Supervisor,
    SupervisorReport,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Waiter,
    WouldBlockLoop,
    monitor,
)
from tests.supervision.conftest import eventually
from tests.support.stopwatch import Stopwatch


class Witness(Observer):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def observe(self, event: Any) -> None:
        self.seen.append(event)


class Worker(TaskActor):
    """Runs what it is told to run."""

    async def on_receive(self, message: Any) -> Any:
        result = message(self) if callable(message) else message
        return await result if asyncio.iscoroutine(result) else result


class Caller(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return message(self) if callable(message) else message


class Listener(ThreadActor):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def on_receive(self, message: Any) -> None:
        self.heard.append(message)


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def watched(witness: Witness) -> Iterator[ThreadRuntime]:
    """A runtime whose loop is given up after less than a second."""
    runtime = ThreadRuntime(witness, name="watched", heartbeat=0.8)
    yield runtime
    runtime.close(1.0)


# --- kill


def test_a_killed_task_is_cancelled_and_its_cleanup_runs_before_the_Down(rt: ThreadRuntime) -> None:
    order: list[str] = []

    async def work(_: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            order.append("cleaned up")

    ref = rt.spawn(Worker)
    reply = ref.ask(lambda me: work(me), block=False)
    ended: Waiter[str] = Waiter()
    eventually(lambda: ref.life.current is not None)
    ended.bind(ref, lambda down: order.append("down") or "down")  # type: ignore[func-returns-value]
    ref.kill()
    with pytest.raises(NoProc):
        reply.get(timeout=0)
    assert ended.result() == "down"
    assert order == ["cleaned up", "down"]


def test_a_coroutine_that_swallows_its_cancellation_is_fenced_and_counted(witness: Witness) -> None:
    with ThreadRuntime(witness, kill_grace=0.05) as rt:
        heard: list[Any] = []
        listener = rt.spawn(Listener, heard)
        release = threading.Event()

        async def stubborn(_: Any) -> None:
            while not release.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    pass
            listener.tell("a late result")

        ref = rt.spawn(Worker)
        reply = ref.ask(lambda me: stubborn(me), block=False)
        eventually(lambda: ref.life.current is not None)
        ref.kill()
        eventually(lambda: ref.exit_reason == Killed())
        with pytest.raises(NoProc):
            reply.get(timeout=0)
        assert rt.abandoned_count == 1
        release.set()
        eventually(lambda: rt.abandoned_count == 0)
        assert listener.ask("an honest message", timeout=30) is None
        assert heard == ["an honest message"]
        assert any(isinstance(event, ActorAbandoned) for event in witness.seen)


@pytest.mark.parametrize("kind", ["threads", "simulator"])
def test_a_named_child_whose_restart_takes_too_long_is_gone_with_its_name_before_the_next_attempt(kind: str) -> None:
    starts: list[int] = []

    class Tidy(Worker):
        async def on_start(self) -> None:
            starts.append(self.generation)
            if len(starts) == 2:
                try:
                    await asyncio.sleep(3600)
                finally:
                    await asyncio.sleep(0.02)  # it closes what it holds, and has its name until then

    witness, clock = Witness(), ManualClock()
    runtime = Simulator(observer=witness) if kind == "simulator" else ThreadRuntime(witness, clock)
    with runtime:
        tree = Supervisor.start(runtime, [ChildSpec("n", Tidy, name="n")], strategy=Strategy.ONE_FOR_ONE, intensity=2)
        first = tree.which_child("n").ref
        first.kill()
        if isinstance(runtime, Simulator):
            runtime.advance(6.0)
        else:
            eventually(lambda: len(starts) == 2, 20.0)
            clock.advance(5.0)
        eventually(lambda: len(starts) == 3 and runtime.registry.via("n").is_alive(), 20.0)
        failed = [
            e.report.reason for e in witness.seen if isinstance(e, SupervisorReport) and e.report.what == "start_failed"
        ]
        assert [type(getattr(reason, "error", None)) for reason in failed] == [StartTimeout]
        assert runtime.registry.via("n").ask("third") == "third"
        assert tree.is_alive()


def test_killing_one_task_leaves_its_neighbours_alone(rt: ThreadRuntime) -> None:
    refs = [rt.spawn(Worker) for _ in range(50)]
    replies = [ref.ask(lambda me: asyncio.sleep(0.2, "done"), block=False) for ref in refs]
    for ref in refs[::2]:
        ref.kill()
    for number, reply in enumerate(replies):
        if number % 2:
            assert reply.get(timeout=30) == "done"
        else:
            with pytest.raises(NoProc):
                reply.get(timeout=30)


def test_messages_of_a_task_actor_are_handled_one_at_a_time_in_order(rt: ThreadRuntime) -> None:
    log: list[str] = []

    async def slow(name: str) -> None:
        log.append(f"{name} begins")
        await asyncio.sleep(0.005)
        log.append(f"{name} ends")

    ref = rt.spawn(Worker)
    for name in "abc":
        ref.tell(lambda me, name=name: slow(name))
    ref.ask("done", timeout=30)
    assert log == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


def test_an_actor_with_a_long_mailbox_lets_others_have_their_turn(rt: ThreadRuntime) -> None:
    busy, other = rt.spawn(Worker), rt.spawn(Worker)
    gate = threading.Event()
    count = [0]

    def step(me: Any) -> None:
        count[0] += 1

    busy.tell(lambda me: gate.wait(30) and None)
    for _ in range(2_000):
        busy.tell(step)
    seen = other.ask(lambda me: count[0], block=False)
    gate.set()
    assert seen.get(timeout=30) < 2_000


# --- a blocked loop


def test_a_blocked_loop_is_noticed_answered_counted_and_replaced(watched: ThreadRuntime, witness: Witness) -> None:
    gate = threading.Event()
    tree = Supervisor.start(watched, [ChildSpec("worker", Worker)], strategy=Strategy.ONE_FOR_ONE)
    worker, neighbour = tree.which_child("worker").ref, watched.spawn(Worker)
    downs: list[Down] = []
    monitor(neighbour, downs.append)
    innocent = neighbour.ask(lambda me: asyncio.sleep(600), block=False)
    submitted = watched.loop.submit(asyncio.sleep(600))
    blocking = worker.ask(lambda me: gate.wait(60), block=False)
    for reply in (blocking, innocent, submitted):
        with pytest.raises(NoProc):
            reply.get(timeout=30)
    assert [down.reason for down in downs] == [Killed("loop blocked")]
    eventually(lambda: tree.which_child("worker").ref not in (None, worker))
    assert tree.which_child("worker").ref.ask("a new loop", timeout=30) == "a new loop"
    assert watched.loop.replaced == 1
    assert watched.abandoned_count == 1
    assert [event.actors for event in witness.seen if isinstance(event, LoopAbandoned)] == [2]
    gate.set()
    eventually(lambda: watched.abandoned_count == 0)
    assert not [event for event in witness.seen if isinstance(event, ActorCrashed)], "who was given up does not crash"


def test_what_an_abandoned_loop_still_sends_is_dropped(watched: ThreadRuntime) -> None:
    heard: list[Any] = []
    listener = watched.spawn(Listener, heard)
    waiter: Waiter[str] = Waiter()
    gate = threading.Event()

    def block(me: Any) -> None:
        gate.wait(60)
        listener.tell("late")
        waiter.resolve("late")

    worker = watched.spawn(Worker)
    with pytest.raises(NoProc):
        worker.ask(block, timeout=30)
    gate.set()
    eventually(lambda: watched.abandoned_count == 0)
    listener.ask("in time", timeout=30)
    assert heard == ["in time"]
    assert not waiter.resolved


def test_a_busy_loop_that_answers_is_left_alone(watched: ThreadRuntime) -> None:
    worker = watched.spawn(Worker)
    until = time.monotonic() + 1.5

    async def busy(_: Any) -> str:
        while time.monotonic() < until:
            time.sleep(0.005)
            await asyncio.sleep(0)
        return "done"

    assert worker.ask(lambda me: busy(me), timeout=30) == "done"
    assert watched.loop.replaced == 0


def test_a_closing_runtime_is_not_held_up_by_a_blocked_loop_and_leaves_nobody_waiting() -> None:
    rt = ThreadRuntime()
    gate = threading.Event()
    entered = threading.Event()
    worker = rt.spawn(Worker)
    tree = Supervisor.start(rt, [ChildSpec("worker", Worker)], strategy=Strategy.ONE_FOR_ONE)
    downs: list[Down] = []
    for ref in (worker, tree, tree.which_child("worker").ref):
        monitor(ref, downs.append)
    submitted = rt.loop.submit(asyncio.sleep(600))
    worker.tell(lambda me: entered.set() or gate.wait(60))  # type: ignore[func-returns-value]
    entered.wait(30)
    began = Stopwatch()
    assert rt.close(0.1) is False
    assert began.seconds < 3.0
    with pytest.raises(NoProc):
        submitted.get(timeout=0)
    assert len(downs) == 3
    assert not rt.lives
    gate.set()


# --- blocking where a loop runs


def test_a_blocking_call_on_a_loop_raises_at_once(rt: ThreadRuntime) -> None:
    thread, task = rt.spawn(Caller), rt.spawn(Worker)
    pending = thread.ask(lambda me: time.sleep(0.2), block=False)

    def all_of_them(me: Any) -> list[str]:
        refused = []
        calls = [
            lambda: thread.ask("x"),
            lambda: thread.stop(),
            lambda: pending.get(),
            lambda: Waiter().result(),
            lambda: rt.spawn(Worker),
            lambda: rt.close(),
            lambda: Supervisor.start(rt, [], strategy=Strategy.ONE_FOR_ONE),
        ]
        for call in calls:
            try:
                call()  # type: ignore[no-untyped-call]
            except WouldBlockLoop as error:
                refused.append(str(error))
        return refused

    assert len(task.ask(all_of_them, timeout=30)) == 7
    assert thread.ask("still there", timeout=30) == "still there"

    async def on_a_loop_of_the_users() -> None:
        with pytest.raises(WouldBlockLoop):
            thread.ask("x")
        assert await thread.aask("x", timeout=30) == "x"
        assert await task.aask("x") == "x"

    asyncio.run(on_a_loop_of_the_users())


def test_coroutines_have_a_form_of_every_call(rt: ThreadRuntime) -> None:
    async def main() -> None:
        ref = await rt.aspawn(Worker)
        assert await ref.aask("hello") == "hello"
        tree = await Supervisor.astart(rt, [ChildSpec("a", Worker)], strategy=Strategy.ONE_FOR_ONE)
        child = await tree.astart_child(ChildSpec("b", Worker))
        assert await child.aask(1) == 1
        await tree.aterminate_child("b")
        child = await tree.arestart_child("b")
        assert await child.aask(2) == 2
        assert await tree.astop()
        assert await ref.astop() is True
        assert await ref.astop() is False
        assert await rt.aclose() is True

    asyncio.run(main())


def test_an_actor_that_asks_itself_is_told_so(rt: ThreadRuntime) -> None:
    ref = rt.spawn(Caller)
    with pytest.raises(CallingSelf):
        ref.ask(lambda me: me.actor_ref.ask("x"), timeout=30)


def test_a_task_may_ask_another_task_on_the_same_loop(rt: ThreadRuntime) -> None:
    first, second = rt.spawn(Worker), rt.spawn(Worker)
    assert first.ask(lambda me: second.aask("through two"), timeout=30) == "through two"


def test_what_would_stop_a_loop_stops_neither_ours_nor_the_askers(rt: ThreadRuntime) -> None:
    neighbour = rt.spawn(Worker)
    busy = neighbour.ask(lambda me: asyncio.sleep(0.1, "done"), block=False)

    def leave(_: Any = None) -> None:
        raise SystemExit(3)

    async def leave_soon() -> None:
        leave()

    async def on_a_loop_of_the_users() -> Any:
        victim = await rt.aspawn(Worker)
        return await victim.aask(leave)

    with pytest.raises(NoProc) as caught:
        asyncio.run(on_a_loop_of_the_users())
    assert isinstance(caught.value.__cause__, SystemExit)
    with pytest.raises(NoProc):
        rt.loop.submit(leave_soon()).get(timeout=30)
    rt.loop.call_soon(leave)
    assert busy.get(timeout=30) == "done"
    assert neighbour.ask("still here", timeout=30) == "still here"
    assert rt.loop.replaced == 0


def test_a_loop_that_is_stopped_twice_or_from_within_still_winds_up(caplog: pytest.LogCaptureFixture) -> None:
    rt = ThreadRuntime(name="twice")
    closed: list[str] = []

    async def close_hook() -> None:
        place.stop()
        asyncio.get_running_loop().call_soon(leave)
        await asyncio.sleep(0.02)
        closed.append("hook")

    def leave() -> None:
        raise SystemExit(3)

    async def begin() -> None:
        rt.loop.at_close(close_hook)
        asyncio.get_running_loop().stop()  # not ours to end: it goes on

    place = rt.loop.place
    rt.loop.submit(begin()).get(timeout=30)
    assert rt.loop.submit(asyncio.sleep(0, "goes on")).get(timeout=30) == "goes on"
    place.stop()
    place.stop()
    assert rt.close(30)
    assert closed == ["hook"]
    assert "Event loop stopped" not in caplog.text


def test_what_hangs_or_raises_while_a_loop_is_wound_up_keeps_no_other_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("supervision.loop.CLOSE_SECONDS", 0.05)
    rt = ThreadRuntime()
    kept: list[Any] = []
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(600)

    async def close_hook() -> None:
        raise SystemExit

    async def begin() -> None:
        rt.loop.at_close(close_hook)
        kept.append(numbers())
        await anext(kept[0])

    async def other() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append("other")

    rt.loop.submit(begin()).get(timeout=30)
    rt.loop.submit(other())
    assert rt.close(30)
    assert ended == ["other"]


def test_a_coroutine_can_be_submitted_and_ends_with_the_loop(rt: ThreadRuntime) -> None:
    assert rt.loop.submit(asyncio.sleep(0, "value")).get(timeout=30) == "value"
    closed: list[str] = []

    async def close_hook() -> None:
        closed.append("hook")

    async def begin() -> None:
        rt.loop.at_close(close_hook)

    rt.loop.submit(begin()).get(timeout=30)
    endless = rt.loop.submit(asyncio.sleep(600))
    rt.close()
    with pytest.raises(NoProc):
        endless.get(timeout=1)
    assert closed == ["hook"]


@pytest.mark.parametrize("what", ["actor", "tree"])
def test_who_is_no_longer_waited_for_by_a_cancelled_caller_does_not_live_on(rt: ThreadRuntime, what: str) -> None:
    awaited, runs = threading.Event(), threading.Event()

    class Prompt(Worker):
        def on_start(self) -> None:
            awaited.wait(30)
            self.actor_ref.tell(lambda me: runs.set())  # heard when it has started

    async def main() -> None:
        if what == "actor":
            starting: Any = asyncio.ensure_future(rt.aspawn(Prompt))
        else:
            specs = [ChildSpec("a", Prompt, name="a")]
            starting = asyncio.ensure_future(Supervisor.astart(rt, specs, strategy=Strategy.ONE_FOR_ONE))
        await asyncio.sleep(0)
        awaited.set()
        assert runs.wait(30)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())
    eventually(lambda: not rt.lives, 20.0)
    assert rt.registry.whereis("a") is None


def test_an_awaited_stop_of_a_tree_gives_it_its_reason(rt: ThreadRuntime) -> None:
    tree = Supervisor.start(rt, [ChildSpec("a", Worker)], strategy=Strategy.ONE_FOR_ONE)
    assert asyncio.run(tree.astop(Shutdown("the day is over"), timeout=30))
    assert tree.exit_reason == Shutdown("the day is over")
