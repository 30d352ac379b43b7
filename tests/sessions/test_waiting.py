"""Whoever waits is answered: field cases of groups C (waiters, deadlines) and M (event loops), and every way to die."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.sessions.jobs import Done
from supervision import Waiter
from tests.support.memory_world import Remote, Server, World, until
from tests.support.stopwatch import Stopwatch


def ask(key: str = "s1", user: str = "ann", query: str = "what about the garden?") -> TurnRequest:
    return TurnRequest(session_key=key, user=user, query=query)


def held(**more: Any) -> tuple[Remote, threading.Event]:
    """A server whose base reads do not come back until the event is set."""
    gate = threading.Event()
    persons: dict[str, Any] = {f"u{n}": (f"Person {n}.", []) for n in range(30)}
    persons["ann"] = ("Ann grows tomatoes.", ["Name: Ann"])
    return Remote(persons, closed={"session_context": gate}, **more), gate


def waiting(world: World, pool: ThreadPoolExecutor, number: int, budget: float = 30.0) -> list[Future[Context]]:
    """So many turns of one conversation that wait, for certain."""
    answers = [pool.submit(world.sessions.serve, ask(), budget) for _ in range(number)]
    world.until_gauge("cold_waiters", number)
    return answers


def emptied(world: World) -> None:
    world.until_gauge("cold_waiters", 0)
    assert all(not entry.waiters for entry in world.sessions.table.entries.values())


def test_case_23_turns_that_race_a_stop_all_return_inside_their_budget() -> None:
    for _ in range(6):
        remote, _gate = held()
        with World(remote) as world, ThreadPoolExecutor(12) as pool:
            start = Stopwatch()
            answers = [pool.submit(world.sessions.serve, ask(f"s{n}", f"u{n % 30}"), 8.0) for n in range(40)]
            time.sleep(0.01)
            world.sessions.close()
            world.root.stop(3)
            reasons = {answer.result(30).reason for answer in answers}
            assert start.seconds < 8.0
            assert reasons <= {Reason.CLOSED, Reason.DEADLINE, Reason.WORKER_DIED}


def test_case_24_eight_waiters_on_one_load_are_all_answered_when_it_lands() -> None:
    remote, gate = held()
    with World(remote) as world, ThreadPoolExecutor(8) as pool:
        answers = waiting(world, pool, 8)
        start = Stopwatch()
        gate.set()
        assert {answer.result(30).reason for answer in answers} == {Reason.FILLED}
        assert start.seconds < 5.0
        emptied(world)
        assert world.gauge("waiters_resolved_total", cause="result") == 8
        assert remote.count("session_context") == 1


def test_case_25_a_late_reply_warms_its_own_conversation_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    remote, gate = held()
    with World(remote) as world:
        assert world.turn(budget=0.15).reason is Reason.DEADLINE
        remote.closed.pop("session_context")
        other = world.turn(key="s2", user="u2")
        assert "tomatoes" not in other.system
        gate.set()
        world.quiet()
        assert "tomatoes" in world.turn("ok").system
        assert [record for record in caplog.records if record.levelname != "DEBUG" and "honcho" in record.name] == []


def test_case_27_limits_do_not_add_up_and_a_warm_turn_is_not_held_up() -> None:
    remote, _gate = held()
    remote.closed.clear()
    with World(remote, headroom=0.05, first_turn_wait=2.0) as world:
        world.turn(key="warm")
        world.quiet()
        remote.closed["session_context"] = threading.Event()
        start = Stopwatch()
        turn = world.sessions.look(ask("cold", "u1"))
        time.sleep(0.5)
        until_time = turn.at + 1.0 - turn.settings.headroom
        waiter = world.sessions.begin(turn, until_time)
        assert waiter.result().reason is Reason.DEADLINE
        assert start.seconds <= 1.3
        for number in range(20):
            world.sessions.begin(world.sessions.look(ask(f"c{number}", f"u{number}")), world.runtime.clock.now() + 2)
        start = Stopwatch()
        assert world.sessions.serve(ask("warm")).state is State.WARM
        assert start.seconds < 0.5


@pytest.mark.parametrize("way", ["fails", "killed", "late"])
def test_case_28_followers_share_the_leaders_fate_and_ask_nothing_again(way: str) -> None:
    remote, gate = held()
    if way == "fails":
        remote.statuses.update(session_context=401)
    with World(remote) as world, ThreadPoolExecutor(10) as pool:
        answers = waiting(world, pool, 10, 0.6 if way == "late" else 30.0)
        until(lambda: len(world.workers()) == 1 and remote.count("session_context") == 1)
        start = Stopwatch()
        if way == "fails":
            gate.set()
        elif way == "killed":
            world.workers()[0].kill()
        reasons = {answer.result(30).reason for answer in answers}
        expected = {"fails": Reason.UNAUTHORIZED, "killed": Reason.WORKER_DIED, "late": Reason.DEADLINE}[way]
        assert reasons == {expected}
        assert way == "late" or start.seconds < 5.0
        emptied(world)
        assert remote.count("session_context") == 1


@pytest.mark.parametrize(
    "budget", [0, -1, -0.0, 0.01, float("-inf"), pytest.param(-(10**400), id="too large for a float")]
)
def test_case_29_a_budget_of_nothing_is_answered_at_once(budget: float) -> None:
    remote, _gate = held()
    with World(remote) as world:
        start = Stopwatch()
        context = world.sessions.serve(ask(), budget)
        assert start.seconds < 5.0
        assert (context.reason, context.waited) == (Reason.LOADING, 0.0)


@pytest.mark.parametrize("budget", [None, float("nan"), True, "soon"])
def test_case_29_a_budget_that_makes_no_sense_counts_as_the_setting(budget: Any) -> None:
    remote, _gate = held()
    with World(remote, first_turn_wait=0.3) as world:
        start = Stopwatch()
        assert world.sessions.serve(ask(), budget).reason is Reason.DEADLINE
        assert start.elapsed > 0.2
        assert start.seconds < 3.0


def test_case_30_five_processes_worth_of_runtimes_on_one_cache_do_not_wait_for_each_other() -> None:
    with Server(Remote({"ann": ("Ann.", [])}, delays={"session_context": 1.0})) as server:
        worlds = [World(server=server) for _ in range(5)]
        for world in worlds:
            world.__enter__()
        try:
            with ThreadPoolExecutor(5) as pool:
                start = Stopwatch()
                answers = list(pool.map(lambda world: world.sessions.serve(ask(), 20.0), worlds))
            assert {answer.reason for answer in answers} == {Reason.FILLED}
            assert start.seconds < 4.0
        finally:
            for world in worlds:
                world.__exit__()


# -- every way to die ---------------------------------------------------------------------------------------


def test_a_waiter_is_answered_when_the_manager_dies_and_the_next_one_adopts_the_table() -> None:
    remote, _gate = held()
    remote.closed.clear()
    with World(remote) as world, ThreadPoolExecutor(3) as pool:
        world.turn(key="warm")
        world.quiet()
        remote.closed["session_context"] = threading.Event()
        answers = [pool.submit(world.sessions.serve, ask("cold", "u1"), 30.0) for _ in range(3)]
        world.until_gauge("cold_waiters", 3)
        first = world.manager
        first.kill()
        assert {answer.result(30).reason for answer in answers} <= {Reason.WORKER_DIED, Reason.CLOSED}
        until(lambda: world.sessions.table.manager not in (None, first))
        assert world.turn("ok", key="warm").state is State.WARM
        assert world.sessions.status()["generation"] == 2
        emptied(world)


def test_turns_served_while_the_manager_is_away_are_counted_by_the_next_one() -> None:
    with World() as world:
        world.turn()
        world.quiet()
        first = world.manager
        first.kill()
        world.sessions.serve(ask())
        until(lambda: world.sessions.table.manager not in (None, first))
        world.quiet()
        assert world.gauge("turns_total", path="warm", outcome="hit") == 1
        assert world.sessions.rows()[0].turns == 2


def test_a_waiter_is_answered_at_its_own_deadline_when_the_manager_hangs() -> None:
    remote, _gate = held()
    hold = threading.Event()
    with World(remote, established=lambda session: session.key == "slow" and hold.wait(30)) as world:
        world.sessions.prewarm(ask("slow", "u9"))
        turn = world.sessions.look(ask())
        start = Stopwatch()
        waiter = world.sessions.begin(turn, world.runtime.clock.now() + 0.3)
        assert waiter.result().reason is Reason.DEADLINE
        assert start.seconds < 5.0
        hold.set()
        world.settle()
        assert [row.key for row in world.sessions.rows()] == ["slow"], "a turn whose time was over starts nothing"
        until(lambda: [one.session for one in remote.asked] == ["slow"])


def test_a_waiter_is_answered_when_the_tree_stops() -> None:
    remote, _gate = held()
    with World(remote) as world, ThreadPoolExecutor(4) as pool:
        answers = waiting(world, pool, 4)
        world.sessions.close()
        world.root.stop(5)
        assert {answer.result(30).reason for answer in answers} == {Reason.CLOSED}


def test_a_waiter_is_answered_when_its_person_is_forgotten() -> None:
    remote, _gate = held()
    with World(remote) as world, ThreadPoolExecutor(2) as pool:
        answers = waiting(world, pool, 2)
        assert world.sessions.forget("ann", 20.0)
        assert {answer.result(30).sections for answer in answers} == {()}
        assert world.sessions.rows() == ()
        emptied(world)


def test_a_worker_that_reports_twice_or_never_started_harms_nothing() -> None:
    with World() as world:
        world.turn()
        world.quiet()
        world.manager.tell(Done(1 << 32 | 1))
        world.manager.tell(object())
        world.manager.tell(None)
        world.settle()
        assert world.turn("ok").state is State.WARM
        assert world.gauge("late_results_total", kind="refresh") == 1


def test_a_port_that_raises_costs_its_own_conversation_and_nobody_else() -> None:
    def established(session: Any) -> bool:
        if session.key == "bad":
            raise RuntimeError("a port with a fault")
        return False

    remote, gate = held()
    gate.set()
    with World(remote, established=established) as world:
        for _ in range(6):
            start = Stopwatch()
            assert world.turn(key="bad", user="u1").reason in (Reason.SERVER_ERROR, Reason.LOADING)
            assert start.seconds < 5.0
            assert "tomatoes" in world.turn(key="good").system
            world.quiet()
        assert world.sessions.status()["generation"] == 1
        emptied(world)


def test_a_waiter_is_answered_when_the_loop_is_blocked_and_the_next_loop_serves() -> None:
    remote, gate = held()
    with World(remote, heartbeat=0.4) as world, ThreadPoolExecutor(2) as pool:
        answers = waiting(world, pool, 2)
        until(lambda: len(world.workers()) == 1)
        hold = threading.Event()
        world.runtime.loop.call_soon(hold.wait, 20)
        start = Stopwatch()
        assert {answer.result(30).reason for answer in answers} == {Reason.WORKER_DIED}
        assert start.seconds < 10.0
        gate.set()
        assert "tomatoes" not in world.turn(key="s2", user="u2").system
        assert world.turn(key="s3", user="u3").reason is Reason.FILLED
        hold.set()
        emptied(world)


# -- event loops (group M) -------------------------------------------------------------------------------------


def test_case_117_any_number_of_loops_one_after_another_and_at_once() -> None:
    with World() as world:
        for number in range(3):
            served = asyncio.run(world.sessions.aserve(ask(f"s{number}")))
            assert "tomatoes" in served.system
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda n: asyncio.run(world.sessions.aserve(ask(f"t{n}", f"nobody{n}"))), range(2)))
        assert {one.reason for one in both} == {Reason.NOTHING_KNOWN}


def test_case_119_one_waiter_of_five_is_cancelled_and_the_others_are_served() -> None:
    remote, gate = held()

    async def five(world: World) -> list[Any]:
        tasks = [asyncio.create_task(world.sessions.aserve(ask(), 30.0)) for _ in range(5)]
        while world.gauge("cold_waiters") < 5:  # noqa: ASYNC110 (another thread counts)
            await asyncio.sleep(0.002)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with World(remote) as world:
        first, *others = asyncio.run(five(world))
        assert isinstance(first, asyncio.CancelledError)
        assert {one.reason for one in others} == {Reason.FILLED}
        emptied(world)
        world.quiet()
        assert not world.sessions.table.entries.values()[0].pinned
        assert remote.count("session_context") == 1


def test_who_asks_again_after_a_caller_left_may_wait_in_its_stead() -> None:
    remote, gate = held()

    async def twice(world: World) -> Context:
        first = asyncio.create_task(world.sessions.aserve(ask(), 30.0))
        while world.gauge("cold_waiters") < 1:  # noqa: ASYNC110 (another thread counts)
            await asyncio.sleep(0.002)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        while world.gauge("cold_waiters") > 0:  # noqa: ASYNC110 (another thread counts)
            await asyncio.sleep(0.002)
        asyncio.get_running_loop().call_later(0.05, gate.set)
        return await world.sessions.aserve(ask(), 30.0)

    with World(remote) as world:
        assert asyncio.run(twice(world)).reason is Reason.FILLED


def test_case_120_the_loop_goes_on_while_a_cold_turn_waits_on_it() -> None:
    remote, _gate = held()

    async def tick(world: World) -> tuple[int, Context, Context]:
        ticks = 0

        async def ticker() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        task = asyncio.create_task(ticker())
        cold = await world.sessions.aserve(ask(), 0.4)
        seen = ticks
        start = Stopwatch()
        blocking = world.sessions.serve(ask("s2", "u2"), 30.0)
        assert start.seconds < 5.0
        task.cancel()
        return seen, cold, blocking

    with World(remote) as world:
        ticks, cold, blocking = asyncio.run(tick(world))
        assert ticks >= 5, "four hundred on a quiet machine; one at most on a loop that stood"
        assert cold.reason is Reason.DEADLINE
        assert (blocking.reason, blocking.sections) == (Reason.EVENT_LOOP, ())


def test_case_121_a_reply_for_a_loop_that_is_gone_raises_nowhere() -> None:
    remote, gate = held()
    with World(remote) as world:
        loop = asyncio.new_event_loop()
        task = loop.create_task(world.sessions.aserve(ask(), 30.0))
        while world.gauge("cold_waiters") < 1:
            loop.run_until_complete(asyncio.sleep(0.005))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
        gate.set()
        world.quiet()
        assert "tomatoes" in world.turn("ok").system


def test_three_hundred_waiters_leave_none_behind() -> None:
    remote, gate = held()
    with World(remote) as world:
        now = world.runtime.clock.now()
        waiters: list[Waiter[Context]] = []
        for number in range(300):
            turn = world.sessions.look(ask(f"s{number}", f"u{number % 30}"))
            waiters.append(world.sessions.begin(turn, now + (40.0 if number < 30 or number % 2 else 0.2)))
        world.settle()
        time.sleep(0.2)
        gate.set()
        until(lambda: all(waiter.resolved for waiter in waiters), 40)
        assert {waiter.value.reason for waiter in waiters} <= {Reason.FILLED, Reason.DEADLINE}
        world.quiet(30)
        emptied(world)
        assert remote.count("session_context") == 30, "one request for a person, however many conversations wait"


def test_the_death_of_a_shared_read_answers_every_conversation_that_joined_it() -> None:
    remote, _gate = held()
    with World(remote) as world, ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(world.sessions.serve, ask(f"s{number}"), 30.0) for number in range(4)]
        world.until_gauge("cold_waiters", 4)
        until(lambda: len(world.workers()) == 1)
        start = Stopwatch()
        world.workers()[0].kill()
        assert {answer.result(30).reason for answer in answers} == {Reason.WORKER_DIED}
        assert start.seconds < 5.0
        emptied(world)


def test_a_storm_is_served_earliest_deadline_first_and_what_nobody_waits_for_any_more_is_not_sent() -> None:
    gate = threading.Event()
    remote = Remote({f"u{n}": (f"P {n}", []) for n in range(60)}, closed={"session_context": gate})
    with World(remote, max_concurrent_requests=1) as world:
        now = world.runtime.clock.now()
        first = [world.sessions.begin(world.sessions.look(ask(f"s{n}", f"u{n}")), now + 30) for n in range(2)]
        world.settle()
        patient = [world.sessions.begin(world.sessions.look(ask(f"s{n}", f"u{n}")), now + 40 - n) for n in range(8, 12)]
        gone = [world.sessions.begin(world.sessions.look(ask(f"s{n}", f"u{n}")), now + 0.3) for n in range(12, 60)]
        world.settle()
        assert world.gauge("cold_waiters") == 54
        assert all(waiter.result().reason is Reason.DEADLINE for waiter in gone)
        gate.set()
        assert {waiter.result().reason for waiter in (*first, *patient)} == {Reason.FILLED}
        world.quiet()
        asked = [one.peer for one in remote.asked if one.op == "session_context"]
        earliest_first = ["u11", "u10", "u9", "u8"]
        assert sorted(asked[2:]) == sorted(earliest_first)
        moved = [abs(asked[2:].index(name) - place) for place, name in enumerate(earliest_first)]
        assert max(moved) <= 1, "two workers run for one slot of the client: neighbours may meet there in either order"
        assert world.gauge("refresh_total", layer="base", outcome="cancelled") == 48
        assert world.turn(key="s20", user="u20").state is State.COLD
        world.quiet()
        assert world.turn("ok", key="s20", user="u20").state is State.WARM
        emptied(world)
