"""The ten ways in which stock Pykka loses replies or hangs: each is shown on the stock class, and is absent here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pykka
import pytest
from pykka.messages import _ActorStop

import supervision.life
import supervision.oneshot
from supervision import (
    CallTimeout,
    Crashed,
    Killed,
    NoProc,
    StartError,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    WouldBlockLoop,
)
from supervision._process import Reply
from supervision.birth import Birth, Handshake
from supervision.life import ThreadLife
from supervision.reasons import Normal
from supervision.thread_actor import run_thread
from tests.supervision.conftest import eventually
from tests.supervision.support.interleave import BadOrder, Interleavings, step_locks
from tests.support.stopwatch import Stopwatch

KINDS = ["thread", "task"]
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""The stock actor's thread dies of it."""


class Stock(pykka.ThreadingActor):
    """What the holes are shown on: Pykka as it is, on a daemon thread so that the tests end."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        return message() if callable(message) else message


class OnThread(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return message() if callable(message) else message


class OnLoop(TaskActor):
    async def on_receive(self, message: Any) -> Any:
        result = message() if callable(message) else message
        return await result if asyncio.iscoroutine(result) else result


OURS: dict[str, Any] = {"thread": OnThread, "task": OnLoop}


def leave() -> None:
    """What a handler does that ends its thread."""
    raise SystemExit


# --- H1: an ask that races a stop


def test_H1_stock_an_ask_racing_a_stop_is_never_answered() -> None:
    def build() -> Any:
        actor = Stock()
        actor.actor_inbox.put(pykka._envelope.Envelope(_ActorStop()))
        future: list[Any] = []

        def live() -> None:
            actor._actor_loop_running()
            actor._actor_loop_teardown()

        def check() -> None:
            assert future[0]._result is not None, "the asker has no answer"

        return [live, lambda: future.append(actor.actor_ref.ask("hello", block=False))], check

    with pytest.raises(BadOrder, match="the asker has no answer"):
        Interleavings("pykka/_actor.py", "pykka/_ref.py", preemptions=2).explore(build)


class _Quiet:
    """As much of a runtime as a life needs."""

    def __init__(self) -> None:
        self.given_up: set[Any] = set()
        self.clock = supervision.Clock()
        self.registry = supervision.Registry()
        self.report = lambda event: None

    def ended(self, life: Any) -> None:
        """Nobody counts."""

    abandoned = abandoned_ended = ended


def new_life() -> ThreadLife:
    """A thread's life without a thread."""
    life = ThreadLife(_Quiet(), OnThread, 100, "actor#1", 1)  # type: ignore[arg-type]
    life.ref = supervision.Ref(life)
    return life


def test_H1_here_every_order_of_an_ask_and_a_stop_answers_the_asker() -> None:
    def build() -> Any:
        life = new_life()
        life.ask_stop(Normal())
        handshake = Handshake(life)
        replies: list[Reply[Any]] = []

        def check() -> None:
            assert replies[0].settled, "the asker has no answer"
            assert life.reason == Normal()

        def ask() -> None:
            replies.append(life.ref.ask("hello", block=False))

        return [lambda: run_thread(life, Birth(OnThread), handshake), ask], check

    with step_locks([supervision.life, supervision.oneshot]):
        orders = Interleavings("supervision/life.py", preemptions=1).explore(build)
    assert orders > 20


# --- H2: a BaseException in a handler


@dies
def test_H2_stock_a_SystemExit_leaves_the_asker_and_stops_everybody() -> None:
    victim, bystander = Stock.start(), Stock.start()
    with pytest.raises(pykka.Timeout):
        victim.ask(leave, timeout=0.2)
    eventually(lambda: not bystander.is_alive())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_H2_here_the_asker_is_told_and_this_actor_alone_ends(
    rt: ThreadRuntime, kind: str, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error

    stranger = Stock.start()
    victim, bystander = rt.spawn(OURS[kind]), rt.spawn(OURS[kind])
    with pytest.raises(NoProc) as caught:
        victim.ask(fail, timeout=30)
    assert isinstance(caught.value.__cause__, error)
    eventually(lambda: isinstance(victim.exit_reason, Crashed))
    assert bystander.ask("still here", timeout=30) == "still here"
    assert stranger.is_alive()
    stranger.stop()


# --- H3: a BaseException in on_start


class StockBadStart(Stock):
    def on_start(self) -> None:
        raise SystemExit


class ThreadBadStart(OnThread):
    def on_start(self) -> None:
        raise SystemExit


class TaskBadStart(OnLoop):
    async def on_start(self) -> None:
        raise SystemExit


@dies
def test_H3_stock_a_BaseException_in_on_start_leaves_a_zombie() -> None:
    zombie = StockBadStart.start()
    with pytest.raises(pykka.Timeout):
        zombie.ask("anybody?", timeout=0.2)
    assert zombie.is_alive()
    pykka.ActorRegistry.unregister(zombie)


@pytest.mark.parametrize("cls", [ThreadBadStart, TaskBadStart])
def test_H3_here_the_start_fails_and_nothing_is_left(rt: ThreadRuntime, cls: Any) -> None:
    with pytest.raises(StartError) as caught:
        rt.spawn(cls)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert not rt.lives


# --- H4: somebody else completes the reply


@dies
def test_H4_stock_a_second_completion_kills_the_actor_unnoticed() -> None:
    ref = Stock.start()
    gate = threading.Event()
    future = ref.ask(gate.wait, block=False)
    future.set("a reaper was faster")
    gate.set()
    with pytest.raises(pykka.Timeout):
        ref.ask("anybody?", timeout=0.2)
    assert ref.is_alive()
    pykka.ActorRegistry.unregister(ref)


def test_H4_here_a_second_completion_is_dropped(rt: ThreadRuntime) -> None:
    ref = rt.spawn(OnThread)
    gate = threading.Event()
    reply = ref.ask(gate.wait, block=False)
    reply.set("a reaper was faster")
    gate.set()
    assert ref.ask("anybody?", timeout=30) == "anybody?"
    assert reply.get() == "a reaper was faster"


# --- H5: a BaseException in on_failure


class StockBadFailure(Stock):
    def on_failure(self, *_: Any) -> None:
        raise SystemExit


class ThreadBadFailure(OnThread):
    def on_failure(self, *_: Any) -> None:
        raise SystemExit


class TaskBadFailure(OnLoop):
    def on_failure(self, *_: Any) -> None:
        raise SystemExit


def _fail_behind_gate(gate: threading.Event) -> Callable[[], None]:
    def fail() -> None:
        gate.wait(30)
        raise ValueError

    return fail


@dies
def test_H5_stock_queued_askers_hang_when_on_failure_fails() -> None:
    ref = StockBadFailure.start()
    gate = threading.Event()
    ref.tell(_fail_behind_gate(gate))
    future = ref.ask("queued", block=False)
    gate.set()
    with pytest.raises(pykka.Timeout):
        future.get(timeout=0.3)


@pytest.mark.parametrize("cls", [ThreadBadFailure, TaskBadFailure])
def test_H5_here_they_are_answered(rt: ThreadRuntime, cls: Any) -> None:
    ref = rt.spawn(cls)
    gate = threading.Event()
    ref.tell(_fail_behind_gate(gate))
    reply = ref.ask("queued", block=False)
    gate.set()
    with pytest.raises(NoProc):
        reply.get(timeout=30)
    eventually(lambda: isinstance(ref.exit_reason, Crashed))


# --- H6: a handler that hangs


def test_H6_stock_a_hung_actor_lives_for_ever() -> None:
    ref = Stock.start()
    gate = threading.Event()
    ref.tell(gate.wait)
    with pytest.raises(pykka.Timeout):
        ref.stop(timeout=0.2)
    assert ref.is_alive()
    gate.set()


def test_H6_here_it_is_abandoned_and_its_asker_answered(rt: ThreadRuntime) -> None:
    ref = rt.spawn(OnThread)
    gate, entered = threading.Event(), threading.Event()
    in_flight = ref.ask(lambda: entered.set() or gate.wait(), block=False)  # type: ignore[func-returns-value]
    queued = ref.ask("queued", block=False)
    entered.wait(30)
    with pytest.raises(CallTimeout):
        ref.stop(timeout=0.05)
    assert ref.kill()
    for reply in (in_flight, queued):
        with pytest.raises(NoProc):
            reply.get(timeout=30)
    assert ref.exit_reason == Killed()
    assert not ref.is_alive()
    assert rt.abandoned_count == 1
    gate.set()
    eventually(lambda: rt.abandoned_count == 0)


def test_H6_here_a_hung_coroutine_is_cancelled(rt: ThreadRuntime) -> None:
    ref = rt.spawn(OnLoop)
    in_flight = ref.ask(lambda: asyncio.sleep(60), block=False)
    eventually(lambda: ref.life.current is not None)
    assert ref.kill()
    with pytest.raises(NoProc):
        in_flight.get(timeout=30)
    eventually(lambda: ref.exit_reason == Killed())
    assert rt.abandoned_count == 0


# --- H7: a stop behind a backlog


def _backlog(ref: Any) -> float:
    for _ in range(10):
        ref.tell(lambda: time.sleep(0.05))
    began = time.monotonic()
    ref.stop()
    return time.monotonic() - began


def test_H7_stock_a_stop_waits_for_the_whole_backlog() -> None:
    assert _backlog(Stock.start()) > 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_H7_here_a_stop_waits_for_the_current_message_only(rt: ThreadRuntime, kind: str) -> None:
    assert _backlog(rt.spawn(OURS[kind])) < 0.4


def test_H7_here_a_draining_stop_is_there_for_who_wants_it(rt: ThreadRuntime) -> None:
    ref = rt.spawn(OnThread)
    done: list[int] = []
    for number in range(5):
        ref.tell(lambda number=number: done.append(number))
    assert ref.stop(drain=True) is True
    assert done == [0, 1, 2, 3, 4]


# --- H8: the time-out of a second reader


def _second_reader(future: Any) -> Stopwatch:
    """A watch that was started when somebody who has 0.1 s came second to somebody who has 0.7 s, and has waited."""
    first = threading.Thread(target=lambda: _swallow(lambda: future.get(timeout=0.7)), daemon=True)
    first.start()
    time.sleep(0.05)
    began = Stopwatch()
    _swallow(lambda: future.get(timeout=0.1))
    return began


async def _read(future: Any) -> Any:
    return await future


def _swallow(call: Callable[[], Any]) -> None:
    try:
        call()
    except pykka.Timeout:
        pass


def test_H8_stock_a_second_readers_time_out_is_not_its_own() -> None:
    ref = Stock.start()
    gate = threading.Event()
    assert _second_reader(ref.ask(gate.wait, block=False).map(bool)).elapsed > 0.5
    gate.set()


def test_H8_here_each_reader_has_its_own(rt: ThreadRuntime) -> None:
    ref = rt.spawn(OnThread)
    gate = threading.Event()
    future = ref.ask(gate.wait, block=False).map(str)
    assert _second_reader(future).seconds < 0.5
    gate.set()
    assert future.get(timeout=30) == "True"


def test_H8_here_what_goes_wrong_for_one_reader_is_not_the_result_of_the_others(rt: ThreadRuntime) -> None:
    gate = threading.Event()
    future = rt.spawn(OnThread).ask(gate.wait, block=False).map(str)

    async def misled() -> None:
        with pytest.raises(WouldBlockLoop):
            future.get()

    asyncio.run(misled())
    gate.set()
    assert future.get(timeout=30) == "True"


def test_H9_here_a_derived_reply_whose_function_raises_SystemExit_comes_all_the_same(rt: ThreadRuntime) -> None:
    gate = threading.Event()
    future = rt.spawn(OnThread).ask(gate.wait, block=False).map(lambda _: leave())

    async def main() -> None:
        reading = asyncio.ensure_future(_read(future))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait_for(reading, 30)

    with pytest.raises(NoProc) as told:
        asyncio.run(main())
    assert isinstance(told.value.__cause__, SystemExit)


# --- H9: awaiting a reply


async def _ticks_while(awaitable: Any) -> int:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    before = ticks
    await awaitable
    ticker.cancel()
    return ticks - before


def test_H9_stock_awaiting_a_reply_stops_the_loop() -> None:
    ref = Stock.start()
    assert asyncio.run(_ticks_while(ref.ask(lambda: time.sleep(0.5), block=False))) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_H9_here_the_loop_runs_on(rt: ThreadRuntime, kind: str) -> None:
    ref = rt.spawn(OURS[kind])
    gate = threading.Event()

    def work() -> Any:
        return gate.wait(30) if kind == "thread" else asyncio.to_thread(gate.wait, 30)

    async def main(reply: Any) -> bool:
        gate.clear()
        reading = asyncio.ensure_future(_read(reply))
        for _ in range(25):
            await asyncio.sleep(0.001)
        gate.set()  # by the loop, while it awaits
        return bool(await reading)

    assert asyncio.run(main(ref.ask(work, block=False)))
    assert asyncio.run(main(ref.aask(work)))


# --- H10: exit with a hung thread


def _exit_seconds(body: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=True, timeout=30)
    return time.monotonic() - began


def test_H10_stock_the_interpreter_waits_for_a_hung_actor() -> None:
    body = """
        import time, pykka
        class A(pykka.ThreadingActor):
            def on_receive(self, message): time.sleep(2.5)
        A.start().tell(1)
        import threading
        stop = lambda: (time.sleep(0.2), pykka.ActorRegistry.stop_all(block=False))
        threading.Thread(target=stop, daemon=True).start()
    """
    assert _exit_seconds(body) > 2.0


def test_H10_here_it_does_not() -> None:
    body = """
        import time
        from supervision import ThreadActor, ThreadRuntime
        class A(ThreadActor):
            def on_receive(self, message): time.sleep(30)
        ThreadRuntime().spawn(A).tell(1)
    """
    assert _exit_seconds(body) < 5.0


def test_a_failed_start_raises_what_on_start_raised_or_a_StartError(rt: ThreadRuntime) -> None:
    class Slow(OnThread):
        start_timeout = 0.05

        def on_start(self) -> None:
            time.sleep(0.3)

    with pytest.raises(StartError, match="did not start within"):
        rt.spawn(Slow)
    eventually(lambda: rt.abandoned_count == 0)
    gone = rt.spawn(OnThread)
    gone.stop()

    class Asks(OnThread):
        def on_start(self) -> None:
            gone.ask("anybody?")

    with pytest.raises(StartError) as failed:  # and no bare NoProc, which says that the runtime is closed
        rt.spawn(Asks)
    assert isinstance(failed.value.__cause__, NoProc)
