"""THR-02 to THR-13: mailboxes, hooks that raise, monitors."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

from supervision import (
    BRUTAL_KILL,
    Crashed,
    Down,
    Killed,
    NoProc,
    NoProcess,
    Normal,
    Reason,
    Ref,
    Restart,
    Shutdown,
    StartError,
    demonitor,
    monitor,
)
from tests.supervision.conformance.kit import Boom, Expected, Kit

row = pytest.mark.row

FATAL = [SystemExit(3), GeneratorExit(), KeyboardInterrupt()]


class Host(pykka.ThreadingActor):
    """Somebody else's actor, in the same process."""

    def on_receive(self, message: Any) -> Any:
        return message


@row("THR-02")
def test_THR_02_an_ask_queued_behind_a_stop_is_answered(kit: Kit) -> None:
    ref = kit.spawn()

    def queue(probe: Any) -> Any:
        first = probe.actor_ref.ask("before", block=False)
        probe.stop()
        return [first, *(probe.actor_ref.ask("behind", block=False) for _ in range(5))]

    for reply in kit.ask(ref, ("do", queue)):
        with pytest.raises(NoProc):
            kit.get(reply)


@row("THR-03")
@pytest.mark.parametrize("error", FATAL, ids=repr)
def test_THR_03_a_BaseException_in_a_handler_reaches_the_asker_and_ends_this_actor_only(
    kit: Kit, error: BaseException
) -> None:
    host = Host.start()
    try:
        bystander, ref = kit.spawn("bystander"), kit.spawn("a")
        with pytest.raises(NoProc) as caught:
            kit.ask(ref, ("raise", error))
        assert caught.value.__cause__ is error
        reason = kit.reason(ref)
        assert isinstance(reason, Crashed)
        assert type(reason.error) is type(error)
        assert kit.ask(bystander, "ping") == "pong"
        assert host.ask("still here", timeout=30) == "still here"
    finally:
        host.stop()


@row("THR-04")
@pytest.mark.parametrize("error", FATAL, ids=repr)
def test_THR_04_a_BaseException_in_on_start_is_a_start_error_and_nothing_is_left(
    kit: Kit, error: BaseException
) -> None:
    queued: list[Any] = []

    def fail(probe: Any) -> Any:
        queued.append(probe.actor_ref.ask("queued", block=False))
        raise error

    kit.plans["solo"].append(fail)
    with pytest.raises(StartError) as caught:
        kit.spawn()
    assert type(caught.value.__cause__) is type(error)
    with pytest.raises(NoProc):
        kit.get(queued[0])
    kit.until(lambda: not kit.rt.lives)
    registered: list[object] = list(pykka.ActorRegistry.get_all())
    assert not [ref for ref in registered if isinstance(ref, Ref)], "none of ours was ever in there"


@row("THR-05")
def test_THR_05_a_failed_start_raises_at_once_and_has_no_on_stop(kit: Kit) -> None:
    kit.plans["solo"].append(Boom("no"))
    with pytest.raises(StartError) as caught:
        kit.spawn()
    assert isinstance(caught.value.__cause__, Boom)
    kit.until(lambda: not kit.rt.lives)
    assert kit.happened("stop") == []


@row("THR-06")
@pytest.mark.parametrize("hook", ["on_stop", "on_failure"])
@pytest.mark.parametrize("error", [Boom("in the hook"), *FATAL], ids=repr)
def test_THR_06_whatever_a_last_hook_raises_the_end_completes(kit: Kit, hook: str, error: BaseException) -> None:
    kit.endings["solo" if hook == "on_stop" else ("failure", "solo")] = error
    ref = kit.spawn()
    downs: list[Down] = []
    monitor(ref, downs.append)

    def end(probe: Any) -> Any:
        queued.append(probe.actor_ref.ask("queued", block=False))
        if hook == "on_failure":
            raise Boom("bug")
        probe.stop()

    queued: list[Any] = []
    ref.tell(("do", end))
    kit.until(lambda: downs)
    kit.quiet()
    assert len(downs) == 1
    assert isinstance(downs[0].reason, Crashed)
    with pytest.raises(NoProc):
        kit.get(queued[0])


@row("THR-07")
def test_THR_07_a_second_completion_of_a_reply_is_dropped_and_the_actor_lives(kit: Kit) -> None:
    ref = kit.spawn()

    def complete(probe: Any) -> Any:
        reply = probe.actor_ref.ask("ping", block=False)
        assert reply.succeed("somebody else's")
        return reply

    reply = kit.ask(ref, ("do", complete))
    assert kit.ask(ref, "ping") == "pong"
    assert reply.get() == "somebody else's"
    assert not reply.succeed("third")
    assert ref.is_alive()


@row("THR-08")
@pytest.mark.parametrize("how", ["normal", "shutdown", "crash", "kill", "brutal", "start failure"])
def test_THR_08_every_monitor_gets_exactly_one_down(kit: Kit, how: str) -> None:
    functions: list[Down] = []
    watcher = kit.spawn("watcher")
    wanted: dict[str, Any] = {"normal": Normal(), "shutdown": Shutdown("x"), "kill": Killed(), "brutal": Killed()}

    def watch(ref: Any) -> None:
        for _ in range(2):
            monitor(ref, functions.append)
            monitor(ref, watcher)

    if how == "start failure":

        def fail(probe: Any) -> Any:
            watch(probe.actor_ref)
            raise Boom("no")

        kit.plans["a"].append(fail)
        with pytest.raises(StartError):
            kit.spawn("a")
    elif how == "brutal":
        sup = kit.sup([kit.spec("a", shutdown=BRUTAL_KILL, restart=Restart.TEMPORARY)])
        watch(kit.ref(sup, "a"))
        sup.terminate_child("a")
    else:
        ref = kit.spawn("a")
        watch(ref)
        kit.end(ref, wanted.get(how, how) if how not in ("crash", "kill") else how)
    kit.until(lambda: len(functions) == 2)
    kit.until(lambda: len(kit.ask(watcher, "heard")) == 2)
    kit.quiet()
    downs = functions + kit.ask(watcher, "heard")
    assert len(downs) == 4
    for down in downs:
        assert isinstance(down.reason, Crashed) if how not in wanted else down.reason == wanted[how]


@row("THR-09")
def test_THR_09_a_monitor_on_a_dead_ref_hears_at_once(kit: Kit) -> None:
    ref = kit.spawn("a")
    kit.end(ref, Normal())
    downs: list[Down] = []
    monitor(ref, downs.append)
    assert [down.reason for down in downs] == [NoProcess()]
    watcher = kit.spawn("watcher")
    kit.ask(watcher, ("do", lambda probe: probe.monitor(ref)))
    kit.until(lambda: kit.ask(watcher, "heard"))
    assert [down.reason for down in kit.ask(watcher, "heard")] == [NoProcess()]


@row("THR-10")
@pytest.mark.parametrize("how", ["stop", "raise"])
def test_THR_10_what_an_actor_sent_before_its_end_arrives_before_its_down(kit: Kit, how: str) -> None:
    for turn in range(20):
        watcher, ref = kit.spawn(f"watcher{turn}"), kit.spawn(f"a{turn}")
        kit.ask(watcher, ("do", lambda probe: probe.monitor(ref)))  # noqa: B023

        def talk(probe: Any) -> Any:
            for number in range(10):
                watcher.tell(number)  # noqa: B023
            if how == "raise":
                raise Boom("bug")
            probe.stop()

        ref.tell(("do", talk))
        kit.until(lambda: len(kit.ask(watcher, "heard")) == 11)  # noqa: B023
        heard = kit.ask(watcher, "heard")
        assert heard[:10] == list(range(10))
        assert isinstance(heard[10], Down)


@row("THR-11")
def test_THR_11_after_demonitor_there_is_no_down_not_even_one_on_its_way(kit: Kit) -> None:
    watcher, ref = kit.spawn("watcher"), kit.spawn("a")
    functions: list[Down] = []
    demonitor(monitor(ref, functions.append))

    def watch_kill_and_forget(probe: Any) -> Any:
        token = probe.monitor(ref)
        ref.kill()
        probe.demonitor(token)

    kit.ask(watcher, ("do", watch_kill_and_forget))
    kit.reason(ref)
    kit.quiet()
    assert kit.ask(watcher, "heard") == []
    assert functions == []


@row("THR-12")
def test_THR_12_a_stop_passes_a_backlog_of_a_thousand(kit: Kit) -> None:
    ref = kit.spawn()

    def fill(probe: Any) -> Any:
        for number in range(1000):
            probe.actor_ref.tell(number)
        ref.stop(block=False)

    ref.tell(("do", fill))
    kit.reason(ref)
    assert kit.born[0].heard == []


@row("THR-13")
def test_THR_13_a_draining_stop_handles_what_was_there_before(kit: Kit) -> None:
    ref = kit.spawn()

    def fill(probe: Any) -> Any:
        for number in range(10):
            probe.actor_ref.tell(number)
        done = probe.actor_ref.stop(block=False, drain=True)
        probe.actor_ref.tell("after")
        return done

    assert kit.get(kit.ask(ref, ("do", fill))) is True
    assert kit.born[0].heard == list(range(10))
    reason: Reason = ref.exit_reason
    assert reason == Normal()


@row("THR-03")
def test_THR_03_an_expected_error_reaches_the_asker_and_the_actor_lives(kit: Kit) -> None:
    ref = kit.spawn()
    with pytest.raises(Expected):
        kit.ask(ref, ("raise", Expected("yours")))
    ref.tell(("raise", Expected("nobody's")))
    assert kit.ask(ref, "ping") == "pong"
