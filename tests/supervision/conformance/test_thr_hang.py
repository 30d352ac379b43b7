"""THR-14 to THR-21: code that hangs, and what it may still do when it wakes up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from supervision import (
    INFINITY,
    AbandonedEnded,
    ActorAbandoned,
    ChildSpec,
    Down,
    Killed,
    LateResult,
    NoProc,
    Restart,
    Shutdown,
    StartTimeout,
    Strategy,
    TaskActor,
    ThreadActor,
    TooManyAbandoned,
    Waiter,
    monitor,
)
from supervision.events import Happening
from supervision.oneshot import OneShot
from tests.supervision.conformance.kit import Boom, Kit
from tests.support.stopwatch import Stopwatch

row = pytest.mark.row


class DeafThread(ThreadActor):
    """Hangs in a turn until it is let go, then does what it was to do afterwards, as if it still lived."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def on_receive(self, message: Any) -> Any:
        if message != "hang":
            return message
        self.scene.hanging.set()
        self.scene.go.wait(60)
        self.scene.afterwards()
        return "late"


class DeafTask(TaskActor):
    """The same as a coroutine that swallows its cancellation."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def on_receive(self, message: Any) -> Any:
        if message != "hang":
            return message
        self.scene.hanging.set()
        self.scene.loop = asyncio.get_running_loop()
        self.scene.task_go = asyncio.Event()
        while not self.scene.task_go.is_set():
            try:
                await self.scene.task_go.wait()
            except asyncio.CancelledError:
                pass
        self.scene.afterwards()
        return "late"


class Scene:
    """One hung actor, abandoned, that can be let go."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.hanging = threading.Event()
        self.go = threading.Event()
        self.loop: Any = None
        self.task_go: Any = None
        self.done = threading.Event()
        self.acts: list[Any] = []
        self.results: list[Any] = []

    def afterwards(self) -> None:
        for act in self.acts:
            try:
                self.results.append(act())
            except Exception as error:
                self.results.append(error)
        self.done.set()

    @property
    def cls(self) -> type[Any]:
        return DeafThread if self.kit.name == "threads" else DeafTask

    def hang(self, ref: Any) -> Any:
        reply = ref.ask("hang", block=False)
        self.kit.until(self.hanging.is_set)
        return reply

    def abandon(self, ref: Any) -> None:
        ref.kill()
        if self.kit.name != "threads":
            self.kit.quiet()
            self.kit.advance(self.kit.rt.kill_grace)
        assert self.kit.reason(ref) == Killed()

    def release(self) -> None:
        self.go.set()
        if self.task_go is not None:
            if self.kit.sim:
                self.task_go.set()
            else:
                self.loop.call_soon_threadsafe(self.task_go.set)
        self.kit.until(self.done.is_set, "the late end")


@row("THR-14")
def test_THR_14_a_hung_handler_is_abandoned_at_its_deadline_and_the_supervisor_goes_on(kit: Kit) -> None:
    sup = kit.sup([kit.spec("hung", hangs=True, shutdown=2.0), kit.spec("b")])
    hung = kit.ref(sup, "hung")
    reply = hung.ask("hang", block=False)
    kit.until(lambda: ("hangs in turn", "hung") in kit.log)
    done = sup.terminate_child("hung", block=False)
    kit.until(lambda: kit.state(sup, "hung") == "stopping")
    kit.advance(1.999)
    kit.quiet()
    assert not done.settled
    kit.advance(0.002)
    assert kit.get(done) is None
    assert hung.exit_reason == Killed()
    with pytest.raises(NoProc):
        kit.get(reply)
    assert kit.witness.reports(Happening.ABANDONED)
    assert sup.restart_child("hung").is_alive()


@row("THR-14")
@pytest.mark.only("sim")
def test_THR_14_a_thread_that_hangs_is_abandoned_in_the_simulator_too(kit: Kit) -> None:
    class Stuck(ThreadActor):
        def on_receive(self, message: Any) -> Any:
            self.clock.block(OneShot(), None)

    sup = kit.sup([ChildSpec("hung", Stuck, shutdown=2.0, restart=Restart.TEMPORARY)])
    ref = kit.ref(sup, "hung")
    reply = ref.ask("hang", block=False)
    kit.quiet()
    done = sup.terminate_child("hung", block=False)
    kit.advance(2.0)
    assert kit.get(done) is None
    with pytest.raises(NoProc):
        kit.get(reply)
    assert ref.exit_reason == Killed()
    assert kit.rt.abandoned_count == 1
    kit.rt.given_up.clear()


@row("THR-15")
def test_THR_15_the_late_result_of_an_abandoned_actor_is_nobodys(kit: Kit) -> None:
    scene = Scene(kit)
    table = {"entry": "good"}
    newer: Waiter[str] = Waiter(clock=kit.rt.clock)
    ref = kit.rt.spawn(scene.cls, scene)
    older = Waiter[str](clock=kit.rt.clock).bind(ref, lambda down: "died")
    scene.acts += [lambda: older.resolve("late"), lambda: newer.resolve("late"), lambda: _publish(ref, table)]
    reply = scene.hang(ref)
    scene.abandon(ref)
    assert older.value == "died"
    with pytest.raises(NoProc):
        kit.get(reply)
    scene.release()
    assert scene.results == [False, False, "fenced"]
    assert not newer.resolved
    assert table == {"entry": "good"}
    assert newer.resolve("in time")


def _publish(ref: Any, table: dict[str, str]) -> str:
    """What a well-behaved worker does before it publishes."""
    if ref.exit_reason is not None:
        return "fenced"
    table["entry"] = "late"
    return "published"


@row("THR-16")
def test_THR_16_what_an_abandoned_actor_still_sends_is_dropped_and_counted(kit: Kit) -> None:
    scene = Scene(kit)
    other = kit.spawn("other")
    ref = kit.rt.spawn(scene.cls, scene)
    scene.acts += [lambda: other.tell("late"), lambda: kit.rt.loop and other.ask("ping", block=False)]
    scene.hang(ref)
    scene.abandon(ref)
    scene.release()
    assert scene.results[0] is None
    with pytest.raises(NoProc):
        kit.get(scene.results[1])
    assert kit.ask(other, "heard") == []
    assert len([event for event in kit.witness.seen if isinstance(event, LateResult)]) == 2


@row("THR-17")
def test_THR_17_an_abandoned_actor_that_ends_after_all_is_uncounted_and_has_no_second_down(kit: Kit) -> None:
    scene = Scene(kit)
    ref = kit.rt.spawn(scene.cls, scene)
    downs: list[Down] = []
    monitor(ref, downs.append)
    before = threading.active_count()
    scene.hang(ref)
    scene.abandon(ref)
    assert kit.rt.abandoned_count == 1
    assert any(isinstance(event, ActorAbandoned) for event in kit.witness.seen)
    scene.release()
    kit.until(lambda: kit.rt.abandoned_count == 0)
    assert any(isinstance(event, AbandonedEnded) for event in kit.witness.seen)
    kit.quiet()
    assert [down.reason for down in downs] == [Killed()]
    if kit.name == "threads":
        kit.until(lambda: threading.active_count() < before)


@row("THR-18")
@pytest.mark.options(max_abandoned=2)
def test_THR_18_at_the_bound_nothing_is_started_and_the_supervisor_gives_up(kit: Kit) -> None:
    scenes = [Scene(kit) for _ in range(3)]
    specs = [ChildSpec(number, scene.cls, args=(scene,)) for number, scene in enumerate(scenes[:2])]
    sup = kit.sup([*specs, kit.spec("good")], intensity=9)
    for number in range(2):
        ref = kit.ref(sup, number)
        scenes[number].hang(ref)
        ref.kill()
        if kit.name != "threads":
            kit.quiet()
            kit.advance(kit.rt.kill_grace)
        kit.reason(ref)
    reason = kit.reason(sup)
    assert isinstance(reason, Shutdown)
    assert kit.witness.reports(Happening.GAVE_UP)
    with pytest.raises(TooManyAbandoned):
        kit.spawn("more")
    for scene in scenes[:2]:
        scene.release()
    kit.until(lambda: kit.rt.abandoned_count == 0)
    assert kit.spawn("again").is_alive()


@row("THR-19")
def test_THR_19_a_hung_on_start_times_out_and_is_given_up(kit: Kit) -> None:
    kit.plans["a"].append("hang")
    sup = kit.sup()
    reply = sup.start_child(kit.spec("a", hangs=True, start_timeout=3.0), block=False)
    kit.until(lambda: ("hangs in start", "a") in kit.log)
    kit.advance(2.9)
    kit.quiet()
    assert not reply.settled
    assert kit.state(sup, "a") == "starting"
    kit.advance(0.1)
    with pytest.raises(StartTimeout):
        kit.get(reply)
    assert sup.which_children() == ()
    if kit.name == "threads":
        assert kit.rt.abandoned_count == 1
    assert sup.start_child(kit.spec("a")).is_alive()


@row("THR-20")
def test_THR_20_a_supervisor_that_does_not_end_is_abandoned_with_all_below_it(kit: Kit) -> None:
    deep = ChildSpec.supervisor(
        "deep", [kit.spec("hung", hangs=True, shutdown=INFINITY), kit.spec("b")], strategy=Strategy.ONE_FOR_ONE
    )
    inner = ChildSpec.supervisor("inner", [kit.spec("a"), deep], strategy=Strategy.ONE_FOR_ONE, shutdown=1.0)
    sup = kit.sup([inner])
    nested = kit.ref(sup, "inner")
    refs = [nested, kit.ref(nested, "a"), kit.ref(nested, "deep"), kit.ref(kit.ref(nested, "deep"), "hung")]
    refs[3].tell("hang")
    kit.until(lambda: ("hangs in turn", "hung") in kit.log)
    done = sup.stop(block=False)
    kit.until(lambda: kit.state(sup, "inner") == "stopping")
    kit.quiet()
    assert not done.settled
    kit.advance(1.0)
    assert kit.get(done)
    assert [ref.exit_reason is not None for ref in refs] == [True] * 4
    assert refs[0].exit_reason == refs[3].exit_reason == Killed()
    kit.until(lambda: not kit.rt.lives)


EXIT = """
import threading, time, sys
from supervision import *

class Hung({base}):
    {keyword}def on_receive(self, message):
        {hang}

rt = ThreadRuntime()
sup = Supervisor.start(rt, [ChildSpec("a", Hung, shutdown=0.05)], strategy=Strategy.ONE_FOR_ONE)
ref = sup.which_child("a").ref
ref.tell("hang")
time.sleep(0.1)
ref.kill()
print("leaving", flush=True)
"""


@row("THR-21")
@pytest.mark.only("threads", "loop")
def test_THR_21_a_process_with_a_hung_actor_exits_at_once(kit: Kit) -> None:
    thread = kit.name == "threads"
    script = EXIT.format(
        base="ThreadActor" if thread else "TaskActor",
        keyword="" if thread else "async ",
        hang="threading.Event().wait()" if thread else "time.sleep(60)",
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "leaving\n"
    begun = Stopwatch()
    code = process.wait(30)
    seconds = begun.seconds
    process.stdout.close()
    assert code == 0
    assert seconds < 1.0


BLOCKED = "loop blocked"


@row("LOOP-01")
@pytest.mark.only("loop")
@pytest.mark.options(heartbeat=0.3)
def test_LOOP_01_a_coroutine_that_blocks_the_loop_is_noticed_answered_abandoned_and_replaced(kit: Kit) -> None:
    released = threading.Event()

    class Blocks(TaskActor):
        async def on_receive(self, message: Any) -> Any:
            while not released.is_set():
                time.sleep(0.01)

    sup = kit.sup([ChildSpec("blocks", Blocks), kit.spec("neighbour")])
    blocks, neighbour = kit.ref(sup, "blocks"), kit.ref(sup, "neighbour")
    replies = [blocks.ask("block", block=False), neighbour.ask("ping", block=False)]
    begun = Stopwatch()
    for reply in replies:
        with pytest.raises(NoProc):
            kit.get(reply)
    assert begun.seconds < 3.0
    assert blocks.exit_reason == neighbour.exit_reason == Killed(BLOCKED)
    fresh = kit.fresh(sup, "neighbour", neighbour)
    assert kit.ask(fresh, "ping") == "pong", "on a loop of its own again"
    assert kit.rt.loop.replaced == 1
    assert kit.rt.abandoned_count == 1
    released.set()
    kit.until(lambda: kit.rt.abandoned_count == 0)


@row("THR-19")
def test_THR_19_a_restart_that_hangs_counts_as_one_that_failed(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", hangs=True, start_timeout=1.0)])
    kit.plans["a"].append("hang")
    old = kit.ref(sup, "a")
    old.tell(("raise", Boom("bug")))
    kit.until(lambda: ("hangs in start", "a") in kit.log)
    kit.advance(1.0)
    assert kit.fresh(sup, "a", old).is_alive()
    assert kit.happened("start") == ["a"] * 3
