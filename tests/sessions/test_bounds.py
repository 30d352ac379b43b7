"""Admission, eviction, what can be asked about sessions: SM49 to SM66, and the field cases about caches (B)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from honcho_actors.model import Realm, Reason, SessionKey, State, TurnRequest
from honcho_actors.sessions.residence import Residence
from honcho_actors.sessions.table import Key, Table
from supervision import ManualClock
from tests.support.memory_world import Remote, World, until
from tests.support.stopwatch import Stopwatch


def crowd(number: int) -> Remote:
    """A server that knows so many persons."""
    return Remote({f"u{n}": (f"Person {n} likes colour {n}.", [f"Name: {n}"]) for n in range(number)})


def request(number: int, query: str = "what about it?") -> TurnRequest:
    return TurnRequest(session_key=f"s{number}", user=f"u{number}", query=query)


def held(world: World) -> list[str]:
    return [row.key for row in world.sessions.rows()]


def one(world: World, number: int, query: str = "what about it?") -> State:
    state = world.turn(query, key=f"s{number}", user=f"u{number}").state
    world.quiet()
    return state


def uploaded(world: World, number: int) -> None:
    realm = Realm(world.cell.current.server_id, world.cell.current.workspace)
    world.sessions.note_upload(SessionKey(realm, f"s{number}", f"u{number}"))
    world.quiet(20)


def test_sm49_above_the_cap_the_least_recently_used_leaves_and_a_touch_counts() -> None:
    with World(crowd(5), max_sessions=3) as world:
        for number in (0, 1, 2):
            one(world, number)
        one(world, 0, "ok")
        one(world, 3)
        assert held(world) == ["s0", "s2", "s3"]
        assert world.gauge("session_evictions_total", reason="entries") == 1


def test_sm50_an_idle_entry_leaves() -> None:
    # New value: by the manager's own timer, in slices, not only when a new key arrives.
    clock = ManualClock()
    with World(crowd(2), clock=clock, idle_ttl=100.0) as world:
        one(world, 0)
        clock.advance(60.0)
        one(world, 1)
        clock.advance(65.0)
        until(lambda: held(world) == ["s1"])
        assert world.gauge("session_evictions_total", reason="idle") == 1


def test_sm51_a_pinned_entry_is_passed_over_and_can_leave_when_its_refresh_has_ended() -> None:
    # New value: the cap is never exceeded; when everyone is pinned the newcomer is answered without memory (case 16).
    gate = threading.Event()
    with World(crowd(4), max_sessions=2, first_turn_wait=0.6) as world:
        one(world, 0)
        world.remote.closed["session_context"] = gate
        world.turn(key="s1", user="u1")
        world.turn(key="s2", user="u2")
        assert held(world) == ["s1", "s2"]
        assert world.turn(key="s3", user="u3").reason is Reason.OVERLOADED
        gate.set()
        world.quiet()
        assert one(world, 3) is State.COLD
        assert held(world) in (["s1", "s3"], ["s2", "s3"]), "whichever refresh ended first"


def test_sm52_a_conversation_that_only_uploads_counts_towards_the_cap() -> None:
    with World(crowd(4), max_sessions=2) as world:
        for number in (0, 1, 2):
            uploaded(world, number)
        assert held(world) == ["s1", "s2"]


def test_sm53_an_evicted_conversation_is_unknown_then_loads_and_serves_again() -> None:
    with World(crowd(3), max_sessions=1) as world:
        one(world, 0)
        one(world, 1)
        assert world.sessions.known(request(0)) is None
        assert one(world, 0) is State.COLD
        assert world.turn("ok", key="s0", user="u0").state is State.WARM


def test_sm54_cold_for_an_unknown_conversation() -> None:
    with World(crowd(1)) as world:
        assert world.sessions.cold(request(0))


def test_sm55_cold_for_one_that_only_uploaded_until_the_read_at_its_first_delivery_has_landed() -> None:
    # New value: a first delivery of somebody of whom nothing was read starts that read (the leading edge).
    gate = threading.Event()
    remote = crowd(1)
    remote.closed["peer_context"] = gate
    with World(remote) as world:
        realm = Realm(world.cell.current.server_id, world.cell.current.workspace)
        for _ in range(3):
            world.sessions.note_upload(SessionKey(realm, "s0", "u0"))
        world.settle()
        assert world.sessions.cold(request(0))
        gate.set()
        world.quiet(20)
        assert not world.sessions.cold(request(0))
        first = world.turn("what about it?", key="s0", user="u0")
        assert (first.state, "colour 0" in first.system) == (State.WARM, True)
        world.quiet(20)
        assert (remote.count("peer_context"), remote.count("session_context")) == (1, 1)


def test_sm56_not_cold_after_a_served_turn() -> None:
    with World(crowd(1)) as world:
        one(world, 0)
        assert not world.sessions.cold(request(0))


def test_sm57_not_cold_when_there_is_no_manager() -> None:
    with World(crowd(1)) as world:
        world.root.stop(5)
        assert not world.sessions.cold(request(0))


def test_sm62_the_list_of_sessions_shows_what_is_held_and_answers_fast() -> None:
    with World(crowd(3)) as world:
        for number in range(3):
            one(world, number)
        start = Stopwatch()
        rows = world.sessions.rows()
        assert start.seconds < 0.5
        assert [(row.key, row.user, row.remote, row.turns) for row in rows] == [
            (f"s{n}", f"u{n}", f"s{n}", 1) for n in range(3)
        ]


def test_sm63_without_a_manager_the_list_is_what_is_still_served() -> None:
    # New value: the published table outlives its manager and goes on being served, so the list is not empty.
    with World(crowd(1)) as world:
        assert world.sessions.rows() == ()
        one(world, 0)
        world.root.stop(5)
        assert held(world) == ["s0"]
        assert world.sessions.status()["manager"] == "away"


def test_sm64_a_held_conversation_tells_its_remote_session_and_its_peers() -> None:
    with World(crowd(1)) as world:
        one(world, 0)
        known = world.sessions.known(request(0))
        assert known is not None
        assert (known.remote_session, known.user_peer, known.ai_peer) == ("s0", "u0", "assistant")


def test_sm65_an_unknown_conversation_is_reported_and_not_guessed() -> None:
    with World(crowd(2)) as world:
        one(world, 0)
        assert world.sessions.known(request(1)) is None
        assert world.sessions.known(TurnRequest(session_key="s0", user="u1")) is None


def test_sm66_without_a_manager_every_entrance_gives_its_degraded_answer() -> None:
    with World(crowd(2)) as world:
        one(world, 0)
        world.root.stop(5)
        start = Stopwatch()
        assert world.sessions.serve(request(0)).state is State.WARM
        lost = world.sessions.serve(request(1))
        assert (lost.state, lost.reason, lost.sections) == (State.COLD, Reason.GIVEN_UP, ())
        world.sessions.prewarm(request(1))
        world.sessions.refresh(request(1))
        uploaded_key = SessionKey(Realm("x", "y"), "s9", "u9")
        world.sessions.note_upload(uploaded_key)
        assert world.sessions.forget("u1", 0.5) is False
        world.sessions.close()
        assert world.sessions.serve(request(1)).reason is Reason.CLOSED
        assert start.seconds < 5.0


# -- field cases ---------------------------------------------------------------------------------------


def test_case_13_many_threads_on_few_conversations_under_a_short_idle_time() -> None:
    with World(crowd(20), max_sessions=8, idle_ttl=0.1) as world:
        failures: list[BaseException] = []
        most = [0]

        def hammer(seed: int) -> None:
            try:
                for turn in range(150):
                    world.sessions.serve(request((seed * 7 + turn) % 20, "ok"), 0.2)
                    most[0] = max(most[0], len(world.sessions.table.entries))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        world.quiet(20)
        assert failures == []
        assert most[0] <= 8
        assert all(world.turn("ok", key=f"s{n}", user=f"u{n}").state in (State.COLD, State.WARM) for n in range(20))


def test_case_14_twenty_first_touches_of_one_conversation_make_one_entry_and_one_request() -> None:
    gate = threading.Event()
    remote = crowd(1)
    remote.closed["session_context"] = gate
    with World(remote) as world, ThreadPoolExecutor(20) as pool:
        start = threading.Barrier(20)

        def first(_: int) -> Reason:
            start.wait()
            return world.sessions.serve(request(0)).reason

        answers = [pool.submit(first, n) for n in range(20)]
        world.until_gauge("cold_waiters", 20)
        gate.set()
        assert {answer.result(30) for answer in answers} == {Reason.FILLED}
        assert remote.count("session_context") == 1
        assert held(world) == ["s0"]


def test_case_15_an_idle_sweep_spares_whoever_is_being_refreshed_or_waited_for() -> None:
    gate = threading.Event()
    remote = crowd(1)
    remote.closed["session_context"] = gate
    with World(remote, idle_ttl=0.1, first_turn_wait=30.0) as world, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(world.sessions.serve, request(0)) for _ in range(3)]
        until(lambda: world.gauge("cold_waiters") == 3)
        time.sleep(0.4)
        assert held(world) == ["s0"]
        gate.set()
        assert {answer.result(30).reason for answer in answers} == {Reason.FILLED}
        until(lambda: held(world) == [])


def test_case_16_with_everyone_pinned_the_newcomer_is_answered_at_once_and_the_count_stays_true() -> None:
    gate = threading.Event()
    remote = crowd(8)
    remote.closed["session_context"] = gate
    with World(remote, max_sessions=4, first_turn_wait=0.6) as world:
        for number in range(4):
            world.turn(key=f"s{number}", user=f"u{number}")
        start = Stopwatch()
        fifth = world.turn(key="s4", user="u4")
        assert start.seconds < 0.5
        assert (fifth.reason, fifth.sections) == (Reason.OVERLOADED, ())
        until(lambda: len(world.workers()) == 4)
        for worker in world.workers()[:3]:
            worker.kill()
        world.until_gauge("refresh_in_progress", 1)
        assert len(held(world)) == 4
        assert world.turn(key="s5", user="u5").reason is not Reason.OVERLOADED
        assert len(held(world)) == 4 == world.gauge("sessions")


def test_case_18_an_outage_costs_one_attempt_a_window_and_the_last_good_value_stays_with_its_age() -> None:
    clock = ManualClock()
    with World(crowd(1), clock=clock, context_cadence=3, dialectic_cadence=100) as world:
        one(world, 0)
        good = world.turn("ok", key="s0", user="u0").system
        world.remote.statuses.update(session_context=500, peer_context=500)
        for _ in range(10):
            clock.advance(1.0)
            context = world.turn("what about it?", key="s0", user="u0")
            world.quiet()
            assert context.system == good
            assert context.age is not None
        assert context.age == pytest.approx(10.0, abs=1.1)
        assert world.remote.count("session_context") == 1 + 3


def test_case_19_a_jump_of_the_wall_clock_changes_no_age_no_idle_time_and_no_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.time
    with World(crowd(2), idle_ttl=7200.0) as world:
        one(world, 0)
        for shift in (-3600.0, 86_400.0):
            monkeypatch.setattr(time, "time", lambda shift=shift: real() + shift)
            context = world.turn("ok", key="s0", user="u0")
            assert context.age is not None
            assert 0 <= context.age < 30
            assert context.state is State.WARM
        world.remote.delays["session_context"] = 2.0
        start = Stopwatch()
        assert world.turn(key="s1", user="u1", budget=0.3).reason is Reason.DEADLINE
        assert start.seconds < 1.5
        assert held(world) == ["s0", "s1"]


def test_case_21_many_conversations_leave_nothing_behind() -> None:
    with World(crowd(400), max_sessions=16, first_turn_wait=0.0) as world:
        threads = threading.active_count()
        for number in range(400):
            world.sessions.serve(request(number))
        world.quiet(30)
        assert threading.active_count() <= threads + 2
        table = world.sessions.table
        assert len(table.entries) <= 16
        assert len(table.persons) <= 16
        assert len(table.feed) == 0
        assert len(world.sessions._gate.known) <= 1024 + 2 * 16
        until(lambda: world.workers() == [])


def keyed(number: int) -> Key:
    return ("server", "workspace", "", f"s{number}", f"u{number}", "private")


def test_bytes_are_bounded_and_counted_from_the_real_table() -> None:
    remote = Remote({f"u{n}": ("x " * 800, []) for n in range(30)})
    with World(remote, max_cache_bytes=30_000) as world:
        for number in range(30):
            one(world, number)
        table = world.sessions.table
        assert table.bytes <= 30_000
        assert 1 <= len(table.entries) < 30
        assert world.sessions.forget(next(iter(table.entries))[4])
        for entry in list(table.entries.values()):
            assert world.sessions.forget(entry.key[4])
        for person in list(table.persons):
            assert world.sessions.forget(person[4])
        assert (table.bytes, len(table.entries), len(table.persons)) == (0, 0, 0)


def test_the_cap_is_kept_at_every_size_and_nobody_pinned_leaves() -> None:
    table = Table()
    gone: list[str] = []
    residence = Residence(table, gone.append, 0.0)
    entries = [residence.admit(keyed(n), float(n), 5) for n in range(5)]
    assert entries[0] is not None
    assert entries[1] is not None
    entries[0].base_job = 7
    residence.settle(entries[0])
    assert residence.admit(keyed(5), 5.0, 5) is not None
    assert keyed(0) in table.entries
    assert keyed(1) not in table.entries
    for entry in table.entries.values():
        entry.base_job = 1
        residence.settle(entry)
    assert residence.admit(keyed(6), 6.0, 5) is None
    assert len(table.entries) == 5
    assert gone == ["entries"]


def test_a_flood_of_warm_turns_holds_up_no_cold_one() -> None:
    with World(crowd(3)) as world:
        one(world, 0)
        stop = threading.Event()

        def flood() -> None:
            while not stop.is_set():
                world.sessions.serve(request(0, "ok"))

        threads = [threading.Thread(target=flood) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            answers = [world.sessions.serve(request(number), 8.0).reason for number in (1, 2)]
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)
        assert answers == [Reason.FILLED, Reason.FILLED]


def test_persons_without_a_conversation_leave_when_they_were_not_needed_for_long() -> None:
    clock = ManualClock()
    with World(crowd(2), clock=clock, idle_ttl=100.0) as world:
        one(world, 0)
        clock.advance(60.0)
        one(world, 1)
        clock.advance(60.0)
        until(lambda: held(world) == ["s1"] and len(world.sessions.table.persons) == 1)
        clock.advance(300.0)
        until(lambda: world.sessions.table.persons == {})
        assert world.sessions.table.bytes == 0


def test_readers_beside_a_writer_see_whole_blocks_that_never_go_back() -> None:
    remote = Remote({"u0": ("version 0", ["version 0"])})
    with World(remote, dialectic_cadence=10_000) as world:
        one(world, 0)
        stop = threading.Event()
        wrong: list[str] = []
        seen: set[int] = set()

        def read() -> None:
            last = 0
            while not stop.is_set():
                system = world.sessions.serve(request(0, "ok")).system
                versions = {int(word) for word in system.replace("\n", " ").split() if word.isdigit()}
                if len(versions) != 1 or min(versions) < last:
                    wrong.append(f"{versions} after {last}")
                last = max(versions)
                seen.add(last)
                time.sleep(0.0005)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for version in range(1, 15):
                remote.persons["u0"] = (f"version {version}", [f"version {version}"])
                before = remote.count("session_context")
                world.turn(key="s0", user="u0")
                until(lambda before=before: remote.count("session_context") > before, 20)  # type: ignore[misc]
                world.quiet(20)
                fresh = world.turn("ok", key="s0", user="u0").system
                assert f"version {version}" in fresh, "a turn after the publication gets what was published"
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)
        assert wrong == []
        assert len(seen) > 3
