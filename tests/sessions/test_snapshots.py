"""What outlives the process: restored at start, bound to its place and person, private, set aside when broken."""

from __future__ import annotations

import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.model import Reason, State, TurnRequest
from honcho_actors.sessions.block import Limits, made_with
from honcho_actors.sessions.messages import PersonSnapshot, Restored, SessionSnapshot
from honcho_actors.sessions.snapshots import FILE, SnapshotFile
from honcho_actors.settings import Settings
from supervision import ManualClock, ThreadActor
from tests.support.memory_world import Remote, Server, World, until
from tests.support.stopwatch import Stopwatch


@pytest.fixture
def server() -> Any:
    with Server(Remote({"ann": ("Ann grows tomatoes.", ["Name: Ann"])}, {"s1": "They spoke of the pond."})) as server:
        yield server


def written(server: Server, cache: Path, **settings: Any) -> None:
    """One process that learns of Ann and ends."""
    with World(server=server, cache_dir=cache, **settings) as world:
        assert "tomatoes" in world.turn().system
        world.quiet()


def loaded(world: World) -> None:
    until(lambda: world.sessions.status()["snapshots"] == "loaded")
    world.settle()


def test_the_first_turn_after_a_restart_is_restored_from_disk_with_its_summary_and_its_true_age(
    server: Server, tmp_path: Path
) -> None:
    written(server, tmp_path / "c")
    server.remote.closed["session_context"] = threading.Event()
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        start = Stopwatch()
        context = world.sessions.serve(TurnRequest(session_key="s1", user="ann", query="ok"))
        assert start.seconds < 0.5
        assert (context.state, context.reason) == (State.RESTORED, Reason.HIT)
        assert "tomatoes" in context.system
        assert "the pond" in context.system
        assert context.age is not None
        assert 0 < context.age < 60
        other = world.turn("ok", key="another")
        assert (other.state, "the pond" in other.system) == (State.RESTORED, False)


def test_a_refresh_makes_a_restored_conversation_warm(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c")
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.turn().state is State.RESTORED
        world.quiet()
        assert world.turn("ok").state is State.WARM


def test_the_summary_of_a_restored_conversation_is_read_again_with_its_first_refresh(
    server: Server, tmp_path: Path
) -> None:
    written(server, tmp_path / "c")
    server.remote.summaries["s1"] = "They spoke of the roof."
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert "the pond" in world.turn().system
        world.quiet()
        assert "the roof" in world.turn("ok").system


def test_the_restored_bytes_are_those_of_the_process_before(server: Server, tmp_path: Path) -> None:
    with World(server=server, cache_dir=tmp_path / "c") as world:
        before = world.turn().system
        world.quiet()
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.turn("ok").system == before


def test_another_budget_in_the_next_process_renders_anew(server: Server, tmp_path: Path) -> None:
    server.remote.persons["ann"] = ("observation " * 2000, [])
    with World(server=server, cache_dir=tmp_path / "c") as world:
        world.turn()
        world.quiet()
    with World(server=server, cache_dir=tmp_path / "c", context_tokens=300) as world:
        loaded(world)
        context = world.turn("ok")
        assert context.state is State.RESTORED
        assert 0 < len(context.system) <= 900


def test_the_files_are_private(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c")
    for path in [tmp_path / "c", *(tmp_path / "c").iterdir()]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_nothing_is_restored_for_another_server_workspace_or_person(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c")
    with World(server=server, cache_dir=tmp_path / "c", workspace="elsewhere") as world:
        loaded(world)
        assert world.sessions.status()["restored"] == 0
    with Server(server.remote) as moved, World(server=moved, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.sessions.status()["restored"] == 0
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.turn("ok", user="bob").sections == ()


def test_a_workspace_whose_name_had_to_be_changed_is_restored_too(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c", workspace="my team's place")
    with World(server=server, cache_dir=tmp_path / "c", workspace="my team's place") as world:
        loaded(world)
        assert world.turn("ok").state is State.RESTORED


def test_a_snapshot_past_its_time_is_not_restored_and_is_deleted(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c")
    time.sleep(0.05)
    with World(server=server, cache_dir=tmp_path / "c", snapshot_ttl=0.01) as world:
        loaded(world)
        assert world.sessions.status()["restored"] == 0
    file = SnapshotFile(tmp_path / "c")
    assert file.count() == (0, 0)
    file.close()


@pytest.mark.parametrize(
    "damage", [b"not a database, but long enough to be looked at " * 40, b"SQLite format 3\x00" + b"\xff" * 4000]
)
def test_a_broken_file_is_set_aside_and_everything_goes_on(server: Server, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "c").mkdir(mode=0o700)
    (tmp_path / "c" / FILE).write_bytes(damage)
    written(server, tmp_path / "c")
    aside = [path for path in (tmp_path / "c").iterdir() if "corrupt" in path.name and path.suffix == ".db"]
    assert [path.read_bytes() for path in aside] == [damage]
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.turn("ok").state is State.RESTORED


def test_a_directory_that_can_not_be_used_costs_snapshots_and_nothing_else(server: Server, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file, not a directory")
    with World(server=server, cache_dir=tmp_path / "c") as world:
        assert "tomatoes" in world.turn().system
        until(lambda: world.sessions.status()["snapshots"] in ("unusable", "read_only"))


def test_forgetting_a_person_takes_them_out_of_memory_and_out_of_the_file(server: Server, tmp_path: Path) -> None:
    server.remote.persons["ann"] = ("Ann's middle name is Quirinia.", [])
    written_world = World(server=server, cache_dir=tmp_path / "c")
    with written_world as world:
        world.turn()
        world.quiet()
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.sessions.forget("ann")
        assert world.sessions.rows() == ()
    left = b"".join(path.read_bytes() for path in (tmp_path / "c").iterdir())
    assert b"Quirinia" not in left
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.sessions.status()["restored"] == 0


def test_what_the_keeper_had_read_of_a_person_before_they_were_forgotten_does_not_come_back(
    server: Server, tmp_path: Path
) -> None:
    written(server, tmp_path / "c")
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        table, settings = world.sessions.table, world.cell.current
        keeper, manager = table.keeper, table.manager
        assert keeper is not None
        assert manager is not None
        file = SnapshotFile(settings.cache_dir)
        persons = tuple(one for part in file.persons(settings.server_id, settings.workspace, 9) for one in part)
        talks = tuple(one for part in file.sessions(settings.server_id, settings.workspace, 9) for one in part)
        file.close()
        assert persons

        class HandsOver(ThreadActor):
            def on_receive(self, message: Any) -> Any:
                assert manager is not None
                assert keeper is not None
                manager.cast(Restored(persons, talks, time.time(), keeper))
                return keeper.ask(message, timeout=20)

        table.keeper = world.runtime.spawn(HandsOver)
        assert world.sessions.forget("ann", 20.0)
        assert world.sessions.rows() == ()
        assert not table.persons


def test_a_person_whom_the_server_has_forgotten_is_not_restored(server: Server, tmp_path: Path) -> None:
    written(server, tmp_path / "c")
    del server.remote.persons["ann"]
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        world.turn()
        world.quiet()
    with World(server=server, cache_dir=tmp_path / "c") as world:
        loaded(world)
        assert world.turn("ok").sections == ()


def test_whoever_waits_for_a_person_that_is_being_loaded_is_answered_by_the_snapshot(
    server: Server, tmp_path: Path
) -> None:
    written(server, tmp_path / "c")
    server.remote.closed["session_context"] = threading.Event()
    with World(server=server, cache_dir=tmp_path / "c") as world:
        context = world.sessions.serve(TurnRequest(session_key="s1", user="ann", query="well?"), 20.0)
        assert "tomatoes" in context.system
        assert context.waited < 10.0


def test_two_thousand_conversations_are_restored_newest_first_and_no_turn_touches_the_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(base_url=server.url)
    file = SnapshotFile(tmp_path / "c")
    how = made_with(Limits(settings.context_tokens, settings.dialectic_max_chars))
    now = time.time()
    place = (settings.server_id, settings.workspace, "")
    for start in range(0, 2000, 500):
        numbers = range(start, start + 500)
        file.save(
            [
                PersonSnapshot((*place, f"u{n}", f"u{n}"), f"fact {n} " * 200, ("a",), now, now - n, "## text", how)
                for n in numbers
            ],
            [SessionSnapshot((*place, f"s{n}", f"u{n}", "private"), "", now - n) for n in numbers],
        )
    file.close()
    used: set[str] = set()
    real = SnapshotFile._slices

    def watched(self: SnapshotFile, *args: Any) -> Any:
        used.add(threading.current_thread().name)
        return real(self, *args)

    monkeypatch.setattr(SnapshotFile, "_slices", watched)
    with World(server=server, cache_dir=tmp_path / "c") as world:
        until(lambda: len(world.sessions.table.persons) > 0)
        assert (*place, "u0", "u0") in world.sessions.table.persons
        loaded(world)
        assert world.sessions.status()["restored"] == 4000
        for number in range(0, 2000, 40):
            found = world.sessions.serve(TurnRequest(session_key=f"s{number}", user=f"u{number}", query="ok"))
            assert found.state is State.RESTORED
        assert threading.current_thread().name not in used
        assert len(used) == 1


def fill(server: Server, cache: Path, number: int) -> None:
    """So many persons and conversations, the one with the lowest number the newest."""
    settings = Settings(base_url=server.url)
    how = made_with(Limits(settings.context_tokens, settings.dialectic_max_chars))
    place = (settings.server_id, settings.workspace, "")
    now = time.time()
    file = SnapshotFile(cache)
    file.save(
        [
            PersonSnapshot((*place, f"u{n}", f"u{n}"), f"fact {n} " * 100, (), now, now - n, "## text " * 50, how)
            for n in range(number)
        ],
        [SessionSnapshot((*place, f"s{n}", f"u{n}", "private"), "", now - n) for n in range(number)],
    )
    file.close()


def test_when_not_everything_finds_a_place_it_is_the_newest_that_is_restored(server: Server, tmp_path: Path) -> None:
    fill(server, tmp_path / "c", 300)
    with World(server=server, cache_dir=tmp_path / "c", max_sessions=40) as world:
        loaded(world)
        assert {row.key for row in world.sessions.rows()} == {f"s{n}" for n in range(40)}
        world.turn(key="fresh", user="ann")
        world.quiet()
        assert {row.key for row in world.sessions.rows()} == {*(f"s{n}" for n in range(39)), "fresh"}
    fill(server, tmp_path / "d", 300)
    with World(server=server, cache_dir=tmp_path / "d", max_cache_bytes=60_000) as world:
        loaded(world)
        users = {person[4] for person in world.sessions.table.persons}
        assert 5 < len(users) < 300
        assert users == {f"u{n}" for n in range(len(users))}


def test_what_was_restored_stays_warm_for_as_long_as_anything_else(server: Server, tmp_path: Path) -> None:
    fill(server, tmp_path / "c", 5)
    clock = ManualClock(1_000_000.0)
    with World(server=server, cache_dir=tmp_path / "c", clock=clock, idle_ttl=100.0) as world:
        loaded(world)
        clock.advance(60.0)
        world.settle()
        assert world.turn("ok", key="new", user="u3").state is State.RESTORED


def test_times_and_odd_text_survive_the_file_to_the_byte(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "c")
    place = ("server", "work", "part", "ann", "ann")
    person = PersonSnapshot(place, "a\u2028b 'quoted' \"double\" 漢 😀", ("x\ny", ""), 1796042300.187295, 1796042300.25)
    session = SessionSnapshot(
        ("server", "work", "part", "tele:42", "ann", "private"), "sum", 1796042300.187295, "t", "h"
    )
    file.save([person, PersonSnapshot((*place[:3], "bob", "bob"), "nul\x00 and \ud83d", (), 1.0, 2.0)], [session])
    people = [one for slice_ in file.persons("server", "work", 1) for one in slice_]
    assert people[0] == person
    assert "\x00" not in people[1].representation
    assert [one for slice_ in file.sessions("server", "work", 10) for one in slice_] == [session]
    assert list(file.persons("server", "other", 10)) == []
    file.close()


def test_paging_ends_and_loses_nothing_when_everything_was_saved_at_one_moment(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "c")
    people = [PersonSnapshot(("s", "w", "", f"u{n}", f"u{n}"), "x", (), 5.0, 1796042300.187295) for n in range(100)]
    file.save(people, [])
    found = [one.person for slice_ in file.persons("s", "w", 7) for one in slice_]
    assert sorted(found) == sorted(one.person for one in people)
    file.prune(0.0, 10)
    assert file.count() == (10, 0)
    file.close()


def test_a_fault_of_the_snapshots_costs_snapshots_and_nothing_else(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault that nobody foresaw")

    monkeypatch.setattr(SnapshotFile, "prune", broken)
    with World(server=server, cache_dir=tmp_path / "c") as world:
        until(lambda: world.sessions.status()["snapshots"] == "failed")
        assert "tomatoes" in world.turn().system
        assert world.sessions.status()["generation"] == 1
