"""A conversation at rest is one packed tuple: as it was, woken by whatever happens, nothing to the collector."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest

from honcho_actors.model import Realm, Reason, SessionKey, State, TurnRequest
from honcho_actors.sessions import keeper, residence
from honcho_actors.sessions.block import Limits, made_with
from honcho_actors.sessions.messages import PersonSnapshot, SessionSnapshot
from honcho_actors.sessions.order import BATCH, Order
from honcho_actors.sessions.residence import Residence
from honcho_actors.sessions.snapshots import SnapshotFile
from honcho_actors.sessions.table import Entry, Key, Table, pack, unpack
from honcho_actors.settings import Settings
from supervision import ManualClock
from tests.support.memory_world import Remote, Server, World, until

AWAKE = 3
MANY = 12


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many stay awake."""
    monkeypatch.setattr(residence, "LIVELY", AWAKE)


def crowd() -> Remote:
    return Remote({f"u{n}": (f"Person {n} likes colour {n}.", []) for n in range(MANY)})


def turn(world: World, number: int, query: str = "what about it?") -> State:
    state = world.turn(query, key=f"s{number}", user=f"u{number}").state
    world.quiet(20)
    return state


def told(world: World) -> World:
    for number in range(MANY):
        turn(world, number)
    return world


def keyed(number: int) -> Key:
    return ("server", "workspace", "", f"s{number}", f"u{number}", "private")


def test_a_conversation_comes_back_as_it_was() -> None:
    entry = Entry(keyed(1), 5.0)
    entry.block = ("system", "beside", 1.0, 2, 3.0, 4, 5, 6)
    for number, slot in enumerate(
        ("turns", "base_mark", "asked_mark", "summary_mark", "answered_turn", "empties", "failures", "uploads", "bytes")
    ):
        setattr(entry, slot, 10 + number)
    for number, slot in enumerate(("touched", "base_at", "answered_at", "retry_at")):
        setattr(entry, slot, 0.5 + number)
    entry.summary, entry.answer, entry.remote = "a summary", "an answer", "s1"
    entry.began_warm = entry.opened = True
    entry.reason = Reason.SERVER_ERROR
    again = unpack(entry.key, pack(entry))
    transient = {"ready", "served_at", "waiters", "question_due", "base_job", "dialectic_job", "summary_job"}
    for slot in set(Entry.__slots__) - transient:
        assert getattr(again, slot) == getattr(entry, slot), slot
    assert type(again.reason) is Reason
    assert not again.pinned


def test_what_is_not_used_goes_to_rest_and_is_served_from_there() -> None:
    with World(crowd()) as world:
        told(world)
        entries = world.sessions.table.entries
        assert (len(entries.lively), len(entries.resting)) == (AWAKE, MANY - AWAKE)
        asked = len(world.remote.asked)
        for number in range(MANY):
            context = world.turn("ok", key=f"s{number}", user=f"u{number}")
            assert (context.state, context.reason) == (State.WARM, Reason.HIT)
            assert f"colour {number}." in context.system
        assert len(world.remote.asked) == asked
        assert len(entries) == MANY
        assert world.gauge("sessions") == MANY


def test_turns_and_cadences_go_on_where_they_were() -> None:
    with World(crowd(), context_cadence=3, dialectic_cadence=1000) as world:
        for _ in range(4):
            told(world)
        counts = [
            sum(one.peer == f"u{n}" for one in world.remote.asked if one.op == "session_context") for n in range(MANY)
        ]
        assert set(counts) == {2}, "at turns 1 and 4"
        assert {row.turns for row in world.sessions.rows()} == {4}
        assert len(world.sessions.rows()) == MANY


def test_what_is_learned_of_a_person_shows_in_their_conversations_at_rest_which_stay_there() -> None:
    remote = Remote({"ann": ("Ann grows tomatoes.", [])})
    with World(remote) as world:
        for number in range(MANY):
            world.turn(key=f"s{number}")
            world.quiet(20)
        remote.persons["ann"] = ("Ann grows leeks.", [])
        world.turn(key=f"s{MANY - 1}")
        world.quiet(20)
        world.settle()
        entries = world.sessions.table.entries
        assert len(entries.resting) == MANY - AWAKE
        assert all("leeks" in rest[0][0] for rest in entries.resting.values())
        assert all("leeks" in world.turn("ok", key=f"s{n}").system for n in range(MANY))


def test_the_least_recently_used_leaves_first_awake_or_at_rest() -> None:
    with World(crowd(), max_sessions=MANY - 2) as world:
        for number in range(MANY - 2):
            turn(world, number)
        turn(world, 0, "ok")
        turn(world, MANY - 2)
        turn(world, MANY - 1)
        held = {row.key for row in world.sessions.rows()}
        assert {f"s{n}" for n in range(MANY)} - held == {"s1", "s2"}


def test_the_idle_sweep_and_the_forgetting_of_a_person_find_those_at_rest() -> None:
    clock = ManualClock()
    with World(crowd(), clock=clock, idle_ttl=100.0) as world:
        told(world)
        assert world.sessions.forget("u0", 20.0)
        assert "s0" not in {row.key for row in world.sessions.rows()}
        clock.advance(60.0)
        turn(world, 1, "ok")
        clock.advance(65.0)
        until(lambda: [row.key for row in world.sessions.rows()] == ["s1"], 20)
        assert world.gauge("session_evictions_total", reason="idle") == MANY - 2
        clock.advance(300.0)
        until(lambda: len(world.sessions.table.entries) == 0, 20)
        clock.advance(300.0)
        until(lambda: world.sessions.table.persons == {}, 20)
        assert world.sessions.table.bytes == 0


def test_the_next_manager_adopts_those_at_rest() -> None:
    with World(crowd()) as world:
        told(world)
        first = world.manager
        first.kill()
        until(lambda: world.sessions.table.manager not in (None, first), 20)
        assert [turn(world, number, "ok") for number in range(MANY)] == [State.WARM] * MANY


def test_one_that_was_never_loaded_rests_too_and_is_as_due_under_the_next_manager_as_at_first() -> None:
    remote = crowd()
    remote.statuses.update(session_context=500, peer_context=500)
    with World(remote, first_turn_wait=5.0) as world:
        for number in range(MANY):
            assert world.turn(key=f"s{number}", user=f"u{number}").reason in (Reason.SERVER_ERROR, Reason.BREAKER_OPEN)
            world.quiet(20)
        assert len(world.sessions.table.entries.resting) == MANY - AWAKE
        assert world.turn(key="s0", user="u0").reason in (Reason.SERVER_ERROR, Reason.BREAKER_OPEN)
        first = world.manager
        first.kill()
        until(lambda: world.sessions.table.manager not in (None, first), 20)
        world.settle()
        assert {entry.base_mark for entry in world.sessions.table.entries.values()} == {None}


def test_another_budget_is_served_from_those_at_rest_before_any_refresh() -> None:
    with World(crowd()) as world:
        told(world)
        gate = world.remote.closed["session_context"] = threading.Event()
        url = world.cell.current.base_url
        world.cell.publish(Settings(base_url=url, context_tokens=0))
        assert world.sessions.serve(TurnRequest(session_key="s0", user="u0", query="ok")).reason is Reason.BUDGET
        world.cell.publish(Settings(base_url=url, context_tokens=900))
        for number in range(MANY):
            context = world.sessions.serve(TurnRequest(session_key=f"s{number}", user=f"u{number}", query="ok"))
            assert f"colour {number}." in context.system
        gate.set()


def test_the_collector_does_not_look_at_what_is_at_rest() -> None:
    with World(crowd()) as world:
        told(world)
        for _ in range(4):
            gc.collect()
        table = world.sessions.table
        assert len(table.entries.resting) == MANY - AWAKE
        for tracked in (table.entries.resting, table.persons, *table.entries.resting.values(), *table.persons.values()):
            assert not gc.is_tracked(tracked)


def test_a_person_of_many_conversations_keeps_them_all_apart() -> None:
    table = Table()
    gone: list[str] = []
    people = Residence(table, gone.append, 0.0)
    keys = [("server", "workspace", "", f"s{n}", "ann", "private") for n in range(residence.FEW * 3)]
    for key in keys:
        assert people.admit(key, 0.0, 1_000) is not None
    person = ("server", "workspace", "", "ann", "ann")
    assert sorted(people.conversations(person)) == sorted(keys)
    for key in keys[1:]:
        entry = people.find(key)
        assert entry is not None
        people.drop(entry, "idle")
    assert people.conversations(person) == keys[:1]
    assert len(gone) == len(keys) - 1
    assert table.bytes == people.admit(keys[0], 0.0, 1).bytes  # type: ignore[union-attr]


def test_an_order_gives_the_least_recently_used_whatever_happened_since_it_was_noted() -> None:
    order: Order[int, float] = Order({})
    for number in range(3 * BATCH):
        order.put(number, float(number))
    assert order.take_oldest() == (0, 0.0)
    order.put(1, 1e6)
    order.take(2)
    assert order.take_oldest() == (3, 3.0)
    value = order.places[4]
    order.put(4, value)
    assert order.take_oldest() == (5, 5.0)
    left = [pair[0] for _ in range(3 * BATCH) if (pair := order.take_oldest()) is not None]
    assert left == [*range(6, 3 * BATCH), 1, 4]
    assert order.take_oldest() is None
    assert len(order) == 0


def test_what_a_turn_waits_for_is_restored_ahead_of_everything_that_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "SLICE", 1)
    remote = Remote({}, closed={"session_context": threading.Event()})
    with Server(remote) as server:
        settings = Settings(base_url=server.url)
        how = made_with(Limits(settings.context_tokens, settings.dialectic_max_chars))
        place, now, last = (settings.server_id, settings.workspace, ""), time.time(), 3_000
        file = SnapshotFile(tmp_path / "c")
        file.save(
            [
                PersonSnapshot((*place, f"u{n}", f"u{n}"), f"fact {n}", (), now, now - n, f"## fact {n}", how)
                for n in range(last + 1)
            ],
            [SessionSnapshot((*place, f"s{last}", f"u{last}", "private"), "They spoke of the pond.", now)],
        )
        file.close()
        with World(server=server, cache_dir=tmp_path / "c") as world:
            context = world.sessions.serve(TurnRequest(session_key=f"s{last}", user=f"u{last}", query="well?"), 30.0)
            assert world.sessions.status()["snapshots"] == "loading", "the others are still being loaded"
            assert f"fact {last}" in context.system
            assert "the pond" in context.system
            assert context.reason is Reason.FILLED
            stranger = world.turn("well?", key="nobody", user="nobody", budget=0.1)
            assert stranger.reason is Reason.DEADLINE
            assert remote.count("session_context") <= 2


def test_a_first_delivery_under_settings_that_read_nothing_reads_nothing() -> None:
    for changed in ({"recall_mode": "tools"}, {"context_tokens": 0}, {"workspace": "elsewhere"}):
        with World(crowd(), **changed) as world:
            realm = Realm(world.cell.current.server_id, "honcho-actors")
            world.sessions.note_upload(SessionKey(realm, "s0", "u0"))
            world.quiet(20)
            assert world.remote.asked == []
