"""More first turns than can be served: told while there is time, first come first served, no burst beyond budget."""

from __future__ import annotations

import logging
import random
import threading
from math import inf

import pytest

from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.sessions import line
from honcho_actors.sessions.line import AT_ONCE, MANY, Line
from supervision import ManualClock, Waiter
from tests.support.memory_world import Remote, World, until

CROWD = 500


def ask(number: int) -> TurnRequest:
    return TurnRequest(session_key=f"s{number}", user=f"u{number}", query="what about it?")


def hung(people: int) -> tuple[Remote, threading.Event]:
    """A server that knows so many persons, and answers nobody until the event is set."""
    gate = threading.Event()
    return Remote(
        {f"u{n}": (f"Person {n} likes colour {n}.", []) for n in range(people)}, closed={"session_context": gate}
    ), gate


def begun(world: World, numbers: range, seconds: float) -> list[Waiter[Context]]:
    """First turns that wait so long, as somebody's event loop would have them."""
    waiters = []
    for number in numbers:
        turn = world.sessions.look(ask(number))
        waiter = world.sessions.begin(turn, world.runtime.clock.now() + seconds)
        waiter.add_done_callback(lambda done, turn=turn: world.sessions.ended(turn, done))  # type: ignore[misc]
        waiters.append(waiter)
    world.settle()
    return waiters


# -- the line ----------------------------------------------------------------------------------------------------------


def test_the_line_goes_by_deadline_and_by_arrival_where_that_is_the_same() -> None:
    waiting = Line()
    for number, deadline in enumerate((3.0, 1.0, inf, 1.0, 2.0)):
        waiting.put(deadline, number, 0.0)
    assert [waiting.pop() for _ in range(6)] == [1, 3, 4, 0, 2, None]


def test_a_short_line_is_left_alone_however_hopeless_it_is() -> None:
    waiting = Line()
    for number in range(MANY):
        waiting.put(0.001, number, 0.0)
    assert waiting.hopeless(1.0, 0, 1, lambda number: 0.001) == []


def test_the_last_in_line_are_told_a_few_at_a_time_until_those_are_left_who_can_be_served() -> None:
    waiting = Line()
    for number in range(2_000):
        waiting.put(3.0, number, 0.0)
    told: list[int] = []
    served = 0
    for tick in range(1, 58):  # 32 places, 200 ms each
        now = tick * 0.05
        while served < int(now / 0.2) * 32:
            waiting.pop()
            waiting.served()
            served += 1
        gone = waiting.hopeless(now, 32, 32, lambda number: 3.0)
        assert len(gone) <= AT_ONCE
        told += gone
    assert 380 <= served <= 480
    assert len(told) + served + len(waiting) == 2_000
    assert len(waiting) <= MANY, "so many are left to their own deadlines"
    assert not set(told) & set(range(400)), "whoever came first is served, not told"


def test_whoever_nobody_waits_for_and_whoever_was_joined_by_somebody_patient_stays_in_line() -> None:
    waiting = Line()
    for number in range(400):
        waiting.put(inf if number % 4 == 0 else 1.0, number, 0.0)
    gone: set[int] = set()
    for _ in range(20):
        gone |= set(waiting.hopeless(0.9, 0, 1, lambda number: 60.0 if number % 4 == 1 else 1.0))
    assert gone
    assert all(number % 4 in (2, 3) for number in gone)


def test_the_pace_is_that_of_late_and_not_of_long_ago() -> None:
    waiting = Line()
    waiting.put(1e9, 0, 0.0)
    for _ in range(10_000):
        waiting.served()
    assert waiting._pace(10.0, 0) == pytest.approx(1_000.0)
    for second in range(11, 200):
        slow = waiting._pace(float(second), 0)
    assert slow < 10.0


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_a_crowd_in_front_of_a_hung_server_is_told_long_before_its_deadlines_and_sends_no_more_than_fits() -> None:
    remote, gate = hung(CROWD)
    clock = ManualClock()
    with World(remote, clock=clock, max_concurrent_requests=4) as world:
        waiters = begun(world, range(CROWD), 3.0)
        for _ in range(60):
            clock.advance(0.051)
            world.settle()
            if sum(not one.resolved for one in waiters) <= MANY + 8:
                break
        told = [number for number, one in enumerate(waiters) if one.resolved]
        assert clock.now() < 2.5
        assert len(told) >= CROWD - MANY - 8
        assert {waiters[number].value.reason for number in told} == {Reason.OVERLOADED}
        assert min(told) >= 8, "those with a worker are not told"
        assert len(remote.asked) <= 8, "two workers for each place of the client; this client has places for all"
        gate.set()
        until(lambda: all(waiter.resolved for waiter in waiters), 40)
        world.quiet(40)
        served = [number for number, one in enumerate(waiters) if one.value.reason is Reason.FILLED]
        assert len(served) >= MANY / 2
        assert max(served) < min(told)
        assert all(f"colour {number}." in waiters[number].value.system for number in served)
        assert remote.count("session_context") == len(served), "whoever was told was not asked about"
        again = world.turn(key=f"s{told[0]}", user=f"u{told[0]}")
        world.quiet(20)
        assert again.state is State.COLD
        assert world.turn("ok", key=f"s{told[0]}", user=f"u{told[0]}").state is State.WARM


def test_a_crowd_that_the_server_is_known_to_be_too_slow_for_is_told_at_the_door_and_leaves_nothing() -> None:
    remote, gate = hung(CROWD)
    with World(remote, clock=ManualClock(), max_concurrent_requests=4) as world:
        world.sessions.table.read_took(1.0)
        waiters = begun(world, range(CROWD), 30.0)
        at_once = [waiter for waiter in waiters if waiter.resolved]
        assert abs(len(at_once) - (CROWD - (MANY + 2 * 4 * 30))) <= 2
        assert {waiter.value.reason for waiter in at_once} == {Reason.OVERLOADED}
        assert len(world.sessions.table.entries) == CROWD - len(at_once)
        assert world.gauge("waiters_resolved_total", cause="overloaded") == len(at_once)
        gate.set()
        until(lambda: all(waiter.resolved for waiter in waiters), 40)
        world.quiet(40)
        assert not world.sessions.table.begun
        assert world.gauge("cold_waiters") == 0


def test_a_crowd_of_one_person_is_one_request_and_nobody_of_it_is_told_to_go() -> None:
    gate = threading.Event()
    remote = Remote({"ann": ("Ann grows tomatoes.", [])}, closed={"session_context": gate})
    with World(remote, max_concurrent_requests=1) as world:
        now = world.runtime.clock.now()
        turns = [world.sessions.look(TurnRequest(session_key=f"s{n}", user="ann", query="well?")) for n in range(CROWD)]
        waiters = [world.sessions.begin(turn, now + 60.0) for turn in turns]
        world.settle()
        gate.set()
        assert {waiter.result().reason for waiter in waiters} == {Reason.FILLED}
        world.quiet(20)
        assert remote.count("session_context") == 1


def test_while_first_reads_stand_in_line_no_question_takes_their_places() -> None:
    remote, gate = hung(40)
    with World(remote, max_concurrent_requests=1) as world:
        waiters = begun(world, range(40), 60.0)
        gate.set()
        assert {waiter.result().reason for waiter in waiters} == {Reason.FILLED}
        world.quiet(30)
        asked = [one.op for one in remote.asked]
        assert asked.count("chat") <= 3, "only of those whose reads came when nobody stood in line any more"
        assert "chat" not in asked[:37]
        world.turn(key="s0", user="u0")
        world.quiet(30)
        assert remote.last("chat").peer == "u0", "the question stayed due"


def test_how_fast_a_server_is_taken_to_be_falls_at_once_and_rises_slowly() -> None:
    with World() as world:
        table = world.sessions.table
        table.read_took(1.0)
        table.read_took(0.2)
        assert table.read_seconds == 0.2
        table.read_took(1.0)
        assert table.read_seconds == pytest.approx(0.3)


def test_whatever_comes_and_goes_the_line_loses_nobody() -> None:
    dice = random.Random(11)
    waiting = Line()
    inside: set[int] = set()
    out: list[int] = []
    for number in range(3_000):
        now = number * 0.002
        waiting.put(now + dice.choice((0.1, 1.0, 3.0)), number, now)
        inside.add(number)
        if dice.random() < 0.2 and (first := waiting.pop()) is not None:
            out.append(first)
            waiting.served()
        if dice.random() < 0.05:
            out += waiting.hopeless(now, 4, 4, lambda one: dice.choice((0.0, 2.0, 9.0, inf)))
    while (last := waiting.pop()) is not None:
        out.append(last)
    assert sorted(out) == sorted(inside)
    assert len(waiting) == 0
    assert line.HOPE > 1.0


def test_in_a_crowd_a_worker_is_given_the_next_in_line_and_leaves_when_nobody_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote, gate = hung(120)
    caplog.set_level(logging.DEBUG, "supervision")
    with World(remote, max_concurrent_requests=10, dialectic_per_hour=0) as world:
        waiters = begun(world, range(120), 60.0)
        gate.set()
        assert {waiter.result().reason for waiter in waiters} == {Reason.FILLED}
        assert all(f"colour {number}." in waiter.value.system for number, waiter in enumerate(waiters))
        world.quiet(20)
        until(lambda: world.workers() == [], 20)
    started = sum("refresh/worker" in one.getMessage() and "started" in one.getMessage() for one in caplog.records)
    assert 20 <= started <= 40
    assert remote.count("session_context") == 120


def test_the_death_of_workers_that_stay_costs_what_they_were_reading_and_nothing_else() -> None:
    remote, gate = hung(120)
    with World(remote, max_concurrent_requests=10, dialectic_per_hour=0) as world:
        waiters = begun(world, range(120), 60.0)
        until(lambda: len(world.workers()) == 20, 20)
        lost = 0
        for _ in range(3):
            for worker in world.workers()[-4:]:
                worker.kill()
                lost += 1
            world.settle()
        gate.set()
        reasons = [waiter.result().reason for waiter in waiters]
        assert set(reasons) <= {Reason.FILLED, Reason.WORKER_DIED}
        assert 1 <= reasons.count(Reason.WORKER_DIED) <= lost
        world.quiet(20)
        until(lambda: world.workers() == [], 20)
        assert all(not entry.pinned for entry in world.sessions.table.entries.values())
