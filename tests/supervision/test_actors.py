"""What both kinds of actors promise: starts, mailboxes, errors, ends, and the named error for every wrong call."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
import weakref
from typing import Any, ClassVar

import pykka
import pytest
from pykka._envelope import Envelope

from supervision import (
    BRUTAL_KILL,
    IGNORE,
    AlreadyStarted,
    CallingSelf,
    CallTimeout,
    ChildSpec,
    Crashed,
    Down,
    DynamicSupervisor,
    Killed,
    ManualClock,
    NoProc,
    Normal,
    NotFound,
    Overloaded,
    Process,
    Shutdown,
    StartError,
    Strategy,
    Supervisor,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    Waiter,
    started,
)
from tests.supervision.conftest import eventually
from tests.support.stopwatch import Stopwatch

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class _Body:
    mailbox_limit: ClassVar[float] = 50
    expected_errors: ClassVar[tuple[type[BaseException], ...]] = (KeyError,)

    def __init__(self, plan: Any = None) -> None:
        self.plan = plan
        self.number = 41
        self.nothing: dict[str, int] = {}

    def on_start(self) -> Any:
        if isinstance(self.plan, BaseException):
            raise self.plan
        return self.plan

    def add_one(self) -> int:
        self.number += 1
        return self.number

    def act(self, message: Any) -> Any:
        return message(self) if callable(message) else message


class OnThread(_Body, ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return self.act(message)


class OnLoop(_Body, TaskActor):
    async def on_receive(self, message: Any) -> Any:
        result = self.act(message)
        return await result if asyncio.iscoroutine(result) else result


BOTH = pytest.mark.parametrize("cls", [OnThread, OnLoop])


@BOTH
def test_a_start_tells_its_info_or_that_there_is_nothing_to_run(rt: ThreadRuntime, cls: Any) -> None:
    assert rt.spawn(cls, started({"port": 1})).info == {"port": 1}
    ignored: Any = rt.spawn(cls, IGNORE)
    assert ignored is IGNORE
    with pytest.raises(StartError) as caught:
        rt.spawn(cls, "nonsense")
    assert "on_start returned a str" in str(caught.value.__cause__)
    with pytest.raises(StartError) as caught:
        rt.spawn(cls, OSError("no disk"))
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(StartError):
        rt.spawn(cls, nonsense=1)
    with pytest.raises(TypeError):
        rt.spawn(pykka.ThreadingActor)  # type: ignore[type-var, unused-ignore]
    eventually(lambda: len(rt.lives) == 1)


@BOTH
def test_a_full_mailbox_refuses_at_once_and_never_blocks(rt: ThreadRuntime, cls: Any) -> None:
    ref = rt.spawn(cls)
    gate, entered = threading.Event(), threading.Event()
    ref.tell(lambda me: entered.set() or gate.wait(30))  # type: ignore[func-returns-value]
    entered.wait(30)
    for _ in range(50):
        ref.tell(1)
    began = Stopwatch()
    for call in (lambda: ref.tell(1), lambda: ref.ask(1)):
        with pytest.raises(Overloaded):
            call()
    assert ref.cast(1) is False
    with pytest.raises(Overloaded):
        ref.ask(1, block=False).get(timeout=0)
    assert began.seconds < 1.0
    gate.set()
    eventually(lambda: ref.life.depth() == 0)
    assert ref.ask("again", timeout=30) == "again"


@BOTH
def test_an_expected_error_reaches_the_asker_and_an_unexpected_one_ends_the_actor_however_it_was_sent(
    rt: ThreadRuntime, cls: Any
) -> None:
    ref = rt.spawn(cls)
    with pytest.raises(KeyError):
        ref.ask(lambda me: me.nothing["missing"], timeout=30)
    ref.tell(lambda me: me.nothing["missing"])
    assert ref.ask("alive", timeout=30) == "alive"
    with pytest.raises(ZeroDivisionError):
        ref.ask(lambda me: 1 / 0, timeout=30)
    eventually(lambda: isinstance(ref.exit_reason, Crashed))
    other = rt.spawn(cls)
    other.tell(lambda me: 1 / 0)
    eventually(lambda: isinstance(other.exit_reason, Crashed))


@BOTH
def test_a_crash_keeps_no_frame_alive(rt: ThreadRuntime, cls: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="supervision")  # pytest keeps what is logged, frames and all

    class Big:
        pass

    kept: list[weakref.ref[Big]] = []

    def crash(me: Any) -> None:
        big = Big()
        kept.append(weakref.ref(big))
        raise ValueError("with a local")

    ref = rt.spawn(cls)
    ref.tell(crash)
    eventually(lambda: isinstance(ref.exit_reason, Crashed))
    eventually(lambda: gc.collect() >= 0 and kept[0]() is None)
    assert isinstance(ref.exit_reason, Crashed)
    assert ref.exit_reason.error.__traceback__ is None


@BOTH
def test_an_actor_stops_itself_and_says_why(rt: ThreadRuntime, cls: Any) -> None:
    for reason in (Normal(), Shutdown("enough")):
        ref = rt.spawn(cls)
        ended = Waiter[Any]().bind(ref, lambda down: down.reason)
        ref.tell(lambda me, reason=reason: me.stop(reason))
        assert ended.result() == reason
        assert ref.stop() is False


@BOTH
def test_an_actor_hears_of_the_end_of_another_as_a_message(rt: ThreadRuntime, cls: Any) -> None:
    heard: list[Any] = []

    class Watcher(cls):  # type: ignore[misc]
        def act(self, message: Any) -> Any:
            if isinstance(message, Down):
                heard.append(message)
                return None
            return super().act(message)

    watcher, watched, unwatched = rt.spawn(Watcher), rt.spawn(cls), rt.spawn(cls)
    watcher.ask(lambda me: me.monitor(watched) and None, timeout=30)
    watcher.ask(lambda me: me.demonitor(me.monitor(unwatched)), timeout=30)
    unwatched.kill()
    watched.kill()
    eventually(lambda: heard)
    assert watcher.ask("after", timeout=30) == "after"
    assert heard == [Down(watched, Killed())]


@BOTH
def test_pykkas_proxies_work_and_pykkas_registry_knows_nothing_of_us(rt: ThreadRuntime, cls: Any) -> None:
    ref: Any = rt.spawn(cls)
    proxy = ref.proxy()
    assert proxy.number.get(timeout=30) == 41
    proxy.number = 50
    assert proxy.add_one().get(timeout=30) == 51
    assert ref not in pykka.ActorRegistry.get_all()
    assert isinstance(ref, pykka.ActorRef)
    assert issubclass(cls, pykka.Actor)
    assert ref.actor_inbox.empty()
    for message in ("hello", ["unhashable"]):
        theirs: Any = pykka.ThreadingFuture()
        ref.actor_inbox.put(Envelope(message, reply_to=theirs))
        assert theirs.get(timeout=30) == message
    pykka.ActorRegistry.stop_all()
    assert ref.ask("alive", timeout=30) == "alive"
    assert not ref.actor_stopped.is_set()
    ref.stop()
    assert ref.actor_stopped.wait(30)

    theirs = pykka.ThreadingFuture()
    rt.spawn(cls).actor_inbox.put(Envelope(lambda me: 1 / 0, reply_to=theirs))
    with pytest.raises(ZeroDivisionError):
        theirs.get(timeout=30)


@BOTH
def test_the_callers_context_is_there_in_the_actor_it_starts(rt: ThreadRuntime, cls: Any) -> None:
    variable.set("the caller's")
    dynamic = DynamicSupervisor.start(rt)
    for ref in (rt.spawn(cls), dynamic.start_child(ChildSpec("a", cls))):
        assert ref.ask(lambda me: variable.get(), timeout=30) == "the caller's"


@BOTH
def test_an_actor_keeps_its_own_context_whoever_sends_to_it(rt: ThreadRuntime, cls: Any) -> None:
    class Keeper(cls):  # type: ignore[misc]
        def on_start(self) -> None:
            variable.set("the actor's own")

    seen: list[str] = []

    class AtTheEnd(Keeper):
        def on_stop(self, reason: Any) -> None:
            seen.append(variable.get())

    variable.set("the sender's")
    for _ in range(20):
        ref = rt.spawn(AtTheEnd)
        if len(seen) % 2:
            assert ref.ask(lambda me: variable.get(), timeout=30) == "the actor's own"
        ref.stop()
    assert seen == ["the actor's own"] * 20


@BOTH
def test_a_watchdog_kills_a_turn_that_is_too_long_and_no_other(
    timed: ThreadRuntime, clock: ManualClock, cls: Any
) -> None:
    specs = [ChildSpec("a", cls, watchdog=1.0), ChildSpec("b", cls)]
    tree = Supervisor.start(timed, specs, strategy=Strategy.ONE_FOR_ONE)
    first = tree.which_child("a").ref
    clock.advance(1.5)
    assert first.ask("idle is no turn") == "idle is no turn"
    gate, entered = threading.Event(), threading.Event()

    def work(me: Any) -> Any:
        entered.set()
        return gate.wait(30) if cls is OnThread else asyncio.sleep(30)

    hung = first.ask(work, block=False)
    assert entered.wait(30)
    clock.advance(1.5)
    assert hung.block(30)
    with pytest.raises(NoProc):
        hung.get()
    eventually(lambda: first.exit_reason == Killed("watchdog"))
    eventually(lambda: tree.which_child("a").ref not in (None, first))
    gate.set()


def test_killing_many_idle_actors_abandons_nobody(rt: ThreadRuntime) -> None:
    tree = Supervisor.start(
        rt,
        [ChildSpec(number, OnThread, shutdown=BRUTAL_KILL) for number in range(60)],
        strategy=Strategy.ONE_FOR_ALL,
    )
    before = {child.ref for child in tree.which_children()}
    tree.which_child(0).ref.kill()
    eventually(
        lambda: tree.count_children().active == 60 and not before & {child.ref for child in tree.which_children()}
    )
    assert rt.abandoned_count == 0


def test_a_name_belongs_to_one_living_actor_and_is_free_before_anybody_hears_of_its_end(rt: ThreadRuntime) -> None:
    first, second = rt.spawn(OnThread), rt.spawn(OnThread)
    rt.registry.register("name", first)
    with pytest.raises(AlreadyStarted) as caught:
        rt.registry.register("name", second)
    assert caught.value.ref is first
    found = Waiter[Any]().bind(first, lambda down: [rt.registry.whereis("name")])
    first.stop()
    assert found.result() == [None]
    with pytest.raises(NoProc):
        rt.registry.register("name", first)
    assert rt.registry.whereis("name") is None
    rt.registry.register("name", second)
    assert rt.registry.via("name").ask("by name", timeout=30) == "by name"
    assert rt.registry.unregister("name")
    with pytest.raises(NoProc, match="nobody is called"):
        rt.registry.via("name").tell(1)
    for bad in ("", "  ", None, 7):
        with pytest.raises(ValueError):
            rt.registry.register(bad, second)  # type: ignore[arg-type]


def test_every_wrong_call_has_its_named_error_in_the_callers_thread_and_harms_nobody(rt: ThreadRuntime) -> None:
    tree = Supervisor.start(rt, [ChildSpec("a", OnThread)], strategy=Strategy.ONE_FOR_ONE)
    child, stranger = tree.which_child("a").ref, rt.spawn(OnThread)
    with pytest.raises(NotFound):
        tree.terminate_child(stranger)
    with pytest.raises(NotFound):
        tree.which_child(stranger)
    with pytest.raises(CallingSelf):
        child.ask(lambda me: me.actor_ref.stop(), timeout=30)
    inside: Waiter[str] = Waiter()

    def on_control() -> None:
        for call in (tree.start_child, rt.spawn):
            try:
                call(OnThread)
            except CallingSelf:
                continue
            inside.resolve("it blocked")
        inside.resolve("refused")

    rt.timers.call_after(0, on_control)
    assert inside.result(time.monotonic() + 30) == "refused"
    with pytest.raises(TypeError):
        tree.tell("a message")
    neither: Any
    for neither in (Process, object, "a class"):
        with pytest.raises(TypeError, match="is not a ThreadActor or TaskActor class"):
            rt.spawn(neither)
    with pytest.raises(TypeError):
        Supervisor.start(rt, [])
    with pytest.raises(TypeError):
        Supervisor.start("no runtime", [], strategy=Strategy.ONE_FOR_ONE)  # type: ignore[arg-type]
    with pytest.raises(CallTimeout):
        stranger.ask(lambda me: time.sleep(0.1), timeout=0.01)
    assert tree.which_child("a").state == "running"
    tree.stop()
    for call in (
        lambda: tree.which_children(),
        lambda: tree.count_children(),
        lambda: tree.start_child(OnThread),
        lambda: tree.terminate_child("a"),
        lambda: tree.restart_child("a"),
        lambda: tree.delete_child("a"),
    ):
        with pytest.raises(NoProc):
            call()
    assert tree.stop() is True
    rt.close()
    with pytest.raises(NoProc):
        rt.spawn(OnThread)
    with pytest.raises(NoProc):
        Supervisor.start(rt, [], strategy=Strategy.ONE_FOR_ONE)


@BOTH
def test_who_asks_a_hung_actor_to_stop_again_and_again_leaves_nothing_behind(rt: ThreadRuntime, cls: Any) -> None:
    gate, entered = threading.Event(), threading.Event()

    def on_thread(me: Any) -> None:
        entered.set()
        gate.wait(60)

    async def on_loop(me: Any) -> None:
        entered.set()
        await asyncio.to_thread(gate.wait, 60)

    ref = rt.spawn(cls)
    ref.tell(on_thread if cls is OnThread else on_loop)
    assert entered.wait(30)
    for _ in range(20):
        with pytest.raises(CallTimeout):
            ref.stop(timeout=0)
        with pytest.raises(CallTimeout):
            asyncio.run(ref.astop(timeout=0))
    assert not ref.life.watchers
    assert ref.life.depth() <= 1
    gate.set()
    eventually(lambda: not ref.is_alive(), 20.0)


def test_an_actor_needs_no_runtime_of_its_own() -> None:
    ref = OnThread.start(started("by itself"))
    assert ref.info == "by itself"
    assert ref.ask(1, timeout=30) == 1
    ref.stop()
    from supervision import default_runtime

    default_runtime().close()
    again = OnLoop.start()
    assert again.ask(2, timeout=30) == 2
    default_runtime().close()
