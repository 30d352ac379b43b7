"""The TSK rows: jobs as temporary children of a dynamic supervisor, and awaiting their results."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest

from supervision import Counts, Crashed, Down, Killed, NoProc, Normal, Restart, Shutdown, Waiter, monitor
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row

TRACE: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")


def job(kit: Kit, name: str, **fields: Any) -> Any:
    return kit.spec(name, restart=Restart.TEMPORARY, **fields)


def run(probe: Any, waiter: Waiter[Any]) -> None:
    """A job: resolve, then end."""
    waiter.resolve("done")
    probe.stop()


def stop_with_an_ask_behind(probe: Any) -> Any:
    probe.stop(Shutdown("enough"))
    return probe.actor_ref.ask("behind", block=False)


@row("TSK-01")
def test_TSK_01_a_pool_of_jobs_is_a_child_like_any_other(kit: Kit) -> None:
    from supervision import ChildSpec

    sup = kit.sup([ChildSpec.dynamic("one"), ChildSpec.dynamic("two")])
    for name in ("one", "two"):
        assert kit.ref(sup, name).start_child(job(kit, name)).is_alive()
    assert sup.count_children() == Counts(2, 2, 2, 0)


@row("TSK-03")
def test_TSK_03_jobs_are_counted_and_listed_alike(kit: Kit) -> None:
    pool = kit.dyn()
    refs = [pool.start_child(job(kit, name)) for name in "abc"]
    assert [info.ref for info in pool.which_children()] == refs[::-1]
    assert pool.count_children() == Counts(3, 3, 0, 3)
    kit.end(refs[1], Normal())
    kit.until(lambda: pool.count_children() == Counts(2, 2, 0, 2))


@row("TSK-04")
def test_TSK_04_a_job_resolves_its_waiter_once_and_its_down_comes_after(kit: Kit) -> None:
    pool = kit.dyn()
    order: list[Any] = []
    waiter: Waiter[str] = Waiter(clock=kit.rt.clock)
    waiter.add_done_callback(lambda done: order.append(done.value))
    ref = pool.start_child(job(kit, "a"))
    monitor(ref, lambda down: order.append(down.reason))
    waiter.bind(ref, lambda down: "died")
    ref.tell(("do", lambda probe: run(probe, waiter)))
    kit.until(lambda: len(order) == 2)
    assert order == ["done", Normal()]
    assert not waiter.resolve("again")
    assert waiter.value == "done"


@row("TSK-05")
def test_TSK_05_the_end_of_the_pool_ends_a_job_by_its_own_budget(kit: Kit) -> None:
    pool = kit.dyn()
    ref = pool.start_child(job(kit, "slow", hangs=True, shutdown=2.0))
    ref.tell("hang")
    kit.until(lambda: ("hangs in turn", "slow") in kit.log)
    done = pool.stop(block=False)
    kit.until(lambda: pool.which_children()[0].state == "stopping")
    kit.advance(1.9)
    kit.quiet()
    assert ref.exit_reason is None
    kit.advance(0.1)
    assert kit.get(done)
    assert ref.exit_reason == Killed()


@row("TSK-07")
@row("TSK-11")
def test_TSK_07_and_11_a_job_runs_in_the_context_of_who_started_it(kit: Kit) -> None:
    pool = kit.dyn()
    seen: list[str] = []
    kit.plans["a"].append(lambda probe: seen.append(TRACE.get()))
    token = TRACE.set("turn-17")
    try:
        ref = pool.start_child(job(kit, "a"))
        solo = kit.spawn()
    finally:
        TRACE.reset(token)
    assert seen == ["turn-17"]
    for one in (ref, solo):
        assert kit.ask(one, ("do", lambda probe: TRACE.get())) == "turn-17"
    assert TRACE.get() == "none"


@row("TSK-08")
def test_TSK_08_whoever_waits_survives_the_crash_of_the_job(kit: Kit) -> None:
    pool = kit.dyn()
    caller = kit.spawn("caller")
    ref = pool.start_child(job(kit, "a"))
    kit.ask(caller, ("do", lambda probe: probe.monitor(ref)))
    kit.crash(ref)
    kit.until(lambda: kit.ask(caller, "heard"))
    (down,) = kit.ask(caller, "heard")
    assert isinstance(down, Down)
    assert isinstance(down.reason, Crashed)
    assert caller.is_alive()
    assert pool.is_alive()


@row("TSK-13")
def test_TSK_13_after_a_time_out_neither_a_late_reply_nor_a_down_reaches_the_caller(kit: Kit) -> None:
    ref = kit.spawn("a")
    waiter: Waiter[str] = Waiter(
        clock=kit.rt.clock, timers=kit.rt.timers, deadline=kit.now() + 1.0, on_deadline="too late"
    )
    caller = kit.spawn("caller")
    token = kit.ask(caller, ("do", lambda probe: probe.monitor(ref)))
    waiter.bind(ref, lambda down: "died")
    kit.advance(1.0)
    kit.until(lambda: waiter.resolved)
    assert (waiter.value, waiter.cause) == ("too late", "deadline")
    kit.ask(caller, ("do", lambda probe: probe.demonitor(token)))
    assert not waiter.resolve("late")
    kit.end(ref, Normal())
    kit.quiet()
    assert waiter.value == "too late"
    assert kit.ask(caller, "heard") == []


@row("TSK-14")
@pytest.mark.parametrize("how", ["crash", "kill", "SystemExit", "stop"])
def test_TSK_14_whoever_waits_gets_the_failure(kit: Kit, how: str) -> None:
    pool = kit.dyn()
    ref = pool.start_child(job(kit, "a", hangs=True))
    waiter = Waiter[Any](clock=kit.rt.clock).bind(ref, lambda down: ("WorkerDied", down.reason))
    if how == "kill":
        reply = ref.ask("hang", block=False)
        kit.until(lambda: ("hangs in turn", "a") in kit.log)
        ref.kill()
    elif how == "stop":
        reply = ref.ask(
            ("do", lambda probe: (probe.stop(Shutdown("enough")), probe.actor_ref.ask("x", block=False))), block=False
        )
        reply = kit.get(reply)[1]
    else:
        error = Boom("bug") if how == "crash" else SystemExit(7)
        reply = ref.ask(("raise", error), block=False)
    kit.until(lambda: waiter.resolved)
    word, reason = waiter.value
    assert word == "WorkerDied"
    assert {"kill": Killed, "stop": Shutdown}.get(how, Crashed) is type(reason)
    with pytest.raises(Boom if how == "crash" else NoProc):
        kit.get(reply)
