"""THR-01 and THR-32 to THR-39: races, timers, names, leaks, hygiene, seeds."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import statistics
import threading
import time
import weakref
from typing import Any

import pykka
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import supervision.life
import supervision.oneshot
from supervision import (
    BRUTAL_KILL,
    ChildSpec,
    Normal,
    Restart,
    Strategy,
    Supervisor,
    SupervisorReport,
    ThreadActor,
)
from tests.supervision.conformance.kit import RUNTIMES, Boom, Kit
from tests.supervision.conformance.rows import load
from tests.supervision.support.interleave import Interleavings, step_locks
from tests.supervision.support.seeds import run_seed
from tests.supervision.support.shellmachine import machine_for
from tests.supervision.support.stress import storm
from tests.supervision.test_holes import new_life

row = pytest.mark.row


@row("THR-01")
@pytest.mark.only("threads")
def test_THR_01_an_ask_racing_a_stop_is_answered_in_every_order(kit: Kit) -> None:
    def build() -> Any:
        life = new_life()
        replies: list[Any] = []

        def check() -> None:
            assert replies[0].settled, "the asker has no answer"

        return [
            lambda: replies.append(life.ref.ask("hello", block=False)),
            lambda: life.finish(Normal()),
        ], check

    with step_locks([supervision.life, supervision.oneshot]):
        assert Interleavings("supervision/life.py", preemptions=2).explore(build) > 20


@row("THR-01")
@pytest.mark.only("threads", "loop")
def test_THR_01_nor_is_one_lost_in_a_storm(kit: Kit) -> None:
    result = storm("thread" if kit.name == "threads" else "task", seconds=1.5)
    assert (result.lost, result.double, result.left) == (0, 0, 0)
    assert result.asks > 500


@row("THR-32")
def test_THR_32_a_cancelled_timer_and_one_for_the_dead_are_void(kit: Kit) -> None:
    ref, other = kit.spawn("a"), kit.spawn("b")
    timers = kit.rt.timers
    cancelled = timers.send_after(1.0, ref, "cancelled")
    timers.send_after(1.0, ref, "kept")
    timers.send_after(1.0, other, "for the dead")
    own = kit.ask(ref, ("do", lambda probe: probe.send_after(1.0, "own, cancelled")))
    assert timers.cancel(cancelled)
    kit.ask(ref, ("do", lambda probe: probe.cancel_timer(own)))
    kit.end(other, Normal())
    kit.advance(0.999)
    assert kit.ask(ref, "heard") == []
    kit.advance(0.001)
    kit.until(lambda: kit.ask(ref, "heard") == ["kept"])
    assert not timers.cancel(cancelled)
    due = timers.send_after(1.0, ref, "cancelled when it lies in the mailbox")

    def cancel_the_one_that_lies_there(probe: Any) -> Any:
        probe.kit.rt.timers.send_after(0, ref, "after")
        timers.cancel(due)

    kit.ask(ref, ("do", cancel_the_one_that_lies_there))
    kit.advance(1.0)
    kit.until(lambda: "after" in kit.ask(ref, "heard"))
    assert kit.ask(ref, "heard") == ["kept", "after"]


@row("THR-33")
def test_THR_33_a_child_is_named_by_tree_id_and_generation(kit: Kit) -> None:
    inner = ChildSpec.supervisor("inner", [kit.spec("a")], strategy=Strategy.ONE_FOR_ONE)
    sup = Supervisor.start(kit.rt, [inner], strategy=Strategy.ONE_FOR_ONE, name="tree")
    nested = kit.ref(sup, "inner")
    old = kit.ref(nested, "a")
    assert old.label == "tree/inner/a#1"
    kit.crash(old)
    fresh = kit.fresh(nested, "a", old)
    assert fresh.label == "tree/inner/a#2"
    assert "tree/inner/a#2" in repr(fresh)
    assert type(kit.born[-1]).__name__ in repr(fresh)
    if kit.name == "threads":
        assert "tree/inner/a#2" in {thread.name for thread in threading.enumerate()}


@row("THR-34")
def test_THR_34_a_thousand_lives_leave_nothing(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    stock = {one.actor_urn for one in pykka.ActorRegistry.get_all()}  # whatever other tests of this process left there
    caplog.set_level(logging.CRITICAL, logger="supervision")

    class Big:
        pass

    sup = kit.dyn(intensity=10**6)
    kit.end(kit.spawn("warm the loop up"), Normal())
    kit.quiet()
    base, first = threading.active_count(), []
    for turn in range(1000):
        big = Big()
        first.append(weakref.ref(big))
        ref = sup.start_child(kit.spec("a", big, restart=Restart.TEMPORARY))
        del big
        if turn % 2:
            ref.tell(("raise", Boom("bug")))
        else:
            ref.tell(("stop", Normal()))
        kit.reason(ref)
        kit.born.clear()
        kit.log.clear()
        kit.witness.seen.clear()
    del ref
    kit.reasons.clear()
    caplog.clear()
    kit.until(lambda: not sup.which_children())
    kit.until(lambda: gc.collect() >= 0 and sum(one() is not None for one in first) == 0, "the end of every argument")
    kit.until(lambda: threading.active_count() <= base)
    assert len(kit.rt.lives) == 1
    assert {one.actor_urn for one in pykka.ActorRegistry.get_all()} <= stock


@row("THR-35")
@pytest.mark.only("threads")
def test_THR_35_a_published_read_is_fast_beside_a_busy_and_a_hung_thread(kit: Kit) -> None:
    table = {"key": ("snapshot",)}
    busy = threading.Event()

    class Hog(ThreadActor):
        def on_receive(self, message: Any) -> None:
            while not busy.is_set():
                sum(range(1000))

    hung = kit.spawn("hung")
    hung.tell("hang")
    hog = kit.rt.spawn(Hog)
    hog.tell("go")
    samples = []
    try:
        for _ in range(300):
            time.sleep(0.001)
            begun = time.perf_counter()
            table.get("key")
            samples.append(time.perf_counter() - begun)
    finally:
        busy.set()
    assert statistics.median(samples) < 10e-6


@row("THR-36")
def test_THR_36_reports_name_child_generation_and_reason_and_never_a_payload(
    kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "hush" + "-hush"
    caplog.set_level(logging.DEBUG, logger="supervision")
    sup = kit.sup([kit.spec("a", secret, shutdown=BRUTAL_KILL)])
    ref = kit.ref(sup, "a")
    ref.tell({"payload": secret})
    ref.tell(("raise", Boom("bug")))
    fresh = kit.fresh(sup, "a", ref)
    fresh.tell(("stop", Normal()))
    kit.fresh(sup, "a", fresh)
    sup.stop()
    reports = [event for event in kit.witness.seen if isinstance(event, SupervisorReport)]
    assert [(one.report.child_id, one.report.generation) for one in reports if one.report.what == "exited"] == [
        ("a", 1),
        ("a", 2),
    ]
    said = [repr(event) for event in kit.witness.seen] + [record.getMessage() for record in caplog.records]
    assert any("/a#1" in line and "Crashed" in line for line in said)
    assert not any(secret in line for line in said)


ALONE = {"OTP-73", "OTP-77", "OTP-88"}
"""Rows whose own text names the simulator."""


@row("THR-37")
@pytest.mark.only("threads")
def test_THR_37_every_row_of_the_three_suites_runs_on_every_runtime(kit: Kit) -> None:
    seen: dict[str, set[str]] = {}
    for test in load():
        marks = getattr(test, "pytestmark", [])
        for mark in marks:
            if mark.name == "row":
                only = next((tuple(m.args) for m in marks if m.name == "only"), RUNTIMES)
                assert "kit" in inspect.signature(test).parameters
                seen.setdefault(mark.args[0], set()).update(only)
    partly = {name for name, on in seen.items() if name[:3] in ("OTP", "DYN", "SUP") and on != set(RUNTIMES)}
    assert partly == ALONE


@row("THR-38")
def test_THR_38_random_trees_behave_as_the_model(kit: Kit) -> None:
    """The machine asserts after every step: see `tests/supervision/support/shellmachine.py`."""
    examples = 40 if kit.sim else 8
    run_state_machine_as_test(
        machine_for(kit.name),
        settings=settings(
            max_examples=examples, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@row("THR-39")
@pytest.mark.only("sim")
@pytest.mark.timeout(600, method="signal")
def test_THR_39_a_seed_replays_its_schedule_to_the_byte(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="supervision")
    seeds = 1_000 if os.environ.get("CONFORMANCE_FULL") else 100
    digests = [run_seed(seed) for seed in range(seeds)]
    assert [run_seed(seed) for seed in range(seeds)] == digests
    assert len(set(digests)) > 0.8 * seeds, "other seeds are other lives, but for those that fail at once"
