"""Timers: on the runtime's clock, in order, without drift, gone when cancelled."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from supervision import ManualClock, Simulator, ThreadActor, ThreadRuntime


class Listener(ThreadActor):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        if message == "heard":
            return list(self.heard)
        if callable(message):
            return message(self)
        self.heard.append(message)
        return None


def test_they_fire_in_the_order_of_their_times_and_never_early(timed: ThreadRuntime, clock: ManualClock) -> None:
    fired: list[int] = []
    for delay in (3, 1, 2, 2, 0, -1):
        timed.timers.call_after(delay, partial(fired.append, delay))
    clock.advance(0)
    assert sorted(fired) == [-1, 0]
    clock.advance(1.999)
    assert fired[2:] == [1]
    clock.advance(1.001)
    assert fired[2:] == [1, 2, 2, 3]


def test_a_period_does_not_drift_and_skips_what_was_missed(timed: ThreadRuntime, clock: ManualClock) -> None:
    fired: list[float] = []
    token = timed.timers.call_every(0.1, lambda: fired.append(round(clock.now() - 1000.0, 6)))
    for _ in range(1000):
        clock.advance(0.1)
    assert len(fired) >= 999
    assert fired[-1] == pytest.approx(100.0, abs=0.11)
    before = len(fired)
    clock.advance(1.0)
    clock.advance(0.1)
    assert len(fired) - before <= 3, "ten missed turns are not made up for"
    assert token.cancel()
    clock.advance(1.0)
    assert len(fired) - before <= 3
    with pytest.raises(ValueError, match="period"):
        timed.timers.call_every(0, lambda: None)


def test_a_cancelled_timer_never_fires_even_when_its_message_lies_in_the_mailbox() -> None:
    with Simulator() as sim:
        ref = sim.spawn(Listener)
        ref.ask(lambda me: setattr(me, "token", me.send_after(1.0, "late")))
        sim.virtual.now += 1.0
        sim.timers.run_due()
        assert ref.life.depth() == 1
        assert ref.ask("heard") == ["late"]

        ref.ask(lambda me: setattr(me, "token", me.send_after(1.0, "never")))
        token = ref.proxy().token.get()
        sim.virtual.now += 1.0
        sim.timers.run_due()
        assert token.cancel() is False, "it had fired"
        assert ref.ask("heard") == ["late"]


def test_a_timer_for_the_dead_is_no_error(timed: ThreadRuntime, clock: ManualClock) -> None:
    ref = timed.spawn(Listener)
    timed.timers.send_after(1.0, ref, "anybody?")
    ref.stop()
    clock.advance(2.0)
    assert len(timed.timers) == 0


def test_cancelled_timers_do_not_pile_up(timed: ThreadRuntime) -> None:
    for _ in range(10_000):
        timed.timers.call_after(1e6, lambda: None).cancel()
    assert len(timed.timers._heap) < 200
    assert len(timed.timers) == 0


def test_a_timer_that_fails_hurts_no_other(
    timed: ThreadRuntime, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    fired: list[int] = []

    def failing() -> None:
        fired.append(0)
        raise SystemExit

    timed.timers.call_after(1.0, lambda: [][0])
    timed.timers.call_every(1.0, failing)
    timed.timers.call_after(1.0, lambda: fired.append(1))
    clock.advance(1.0)
    clock.advance(1.0)
    assert fired == [0, 1, 0], "what is periodic goes on, and the control thread has not ended"
    assert "a timer failed" in caplog.text
    assert "a periodic call failed" in caplog.text


def test_a_timer_for_a_name_finds_who_has_it_by_then_and_misses_nobody(
    timed: ThreadRuntime, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timed.timers.send_after(1.0, timed.registry.via("late"), "hello")
    timed.timers.send_after(1.0, timed.registry.via("nobody"), "anybody?")
    ref = timed.spawn(Listener)
    timed.registry.register("late", ref)
    clock.advance(1.0)
    assert ref.ask("heard") == ["hello"]
    assert not caplog.records


def test_time_does_not_go_back(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
