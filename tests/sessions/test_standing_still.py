"""A system half that changes only when something was learned: through evictions and restarts, summaries included."""

from __future__ import annotations

from pathlib import Path

import pytest

from honcho_actors.model import State
from honcho_actors.sessions import summaries
from honcho_actors.sessions.summaries import Summaries
from tests.support.memory_world import Remote, Server, World, until

ANN = {"ann": ("Ann grows tomatoes.", ["Name: Ann"])}
TALK = {"s1": "They planned the garden."}
PATIENT = {"first_turn_wait": 20.0, "request_timeout": 20.0}


def crowd(world: World, user: str = "ann") -> None:
    """Other conversations take every place."""
    for number in range(4):
        world.turn(key=f"other {number}", user=user)
        world.quiet(20.0)
    assert not any(row.key == "s1" for row in world.sessions.rows())


def test_a_conversation_that_was_evicted_comes_back_with_its_summary_at_once() -> None:
    with World(Remote(dict(ANN), dict(TALK)), max_sessions=2, **PATIENT) as world:  # type: ignore[arg-type]
        world.turn()
        world.quiet(20.0)
        before = world.turn("ok").system
        assert "the garden" in before
        crowd(world)
        asked = world.remote.count("session_context")
        assert world.turn("ok").system == before, "served before anything was read again"
        assert world.turn().system == before
        world.quiet(20.0)
        assert world.turn("ok").system == before
        assert world.remote.count("session_context") >= asked


def test_without_summaries_none_comes_back() -> None:
    with World(Remote(dict(ANN), dict(TALK)), max_sessions=2, session_summary=False, **PATIENT) as world:  # type: ignore[arg-type]
        world.turn()
        world.quiet(20.0)
        crowd(world)
        assert "the garden" not in world.turn().system


def test_forgetting_a_person_forgets_the_summaries_of_what_had_left() -> None:
    with World(Remote(dict(ANN), dict(TALK)), max_sessions=2, **PATIENT) as world:  # type: ignore[arg-type]
        world.turn()
        world.quiet(20.0)
        crowd(world)
        assert len(world.sessions.table.summaries) == 1
        assert world.sessions.forget("ann")
        assert len(world.sessions.table.summaries) == 0


def test_a_restart_serves_what_was_known_last_not_what_was_rendered_when_the_summary_came(tmp_path: Path) -> None:
    with Server(Remote(dict(ANN), dict(TALK))) as server:
        with World(server=server, cache_dir=tmp_path / "c", **PATIENT) as world:  # type: ignore[arg-type]
            world.turn()
            world.quiet(20.0)
            server.remote.persons["ann"] = ("Ann grows potatoes now.", ["Name: Ann"])
            world.turn()
            world.quiet(20.0)
            before = world.turn("ok").system
            assert "potatoes" in before
            assert "the garden" in before
        with World(server=server, cache_dir=tmp_path / "c", **PATIENT) as world:  # type: ignore[arg-type]
            until(lambda: world.sessions.status()["snapshots"] == "loaded", 20.0)
            found = world.turn("ok")
            assert (found.state, found.system) == (State.RESTORED, before)


def test_summaries_are_bounded_in_number_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "MOST", 10)
    monkeypatch.setattr(summaries, "MOST_CHARS", 50)
    kept = Summaries()
    for number in range(100):
        kept.put(("s", "w", "", str(number), "ann", "private"), "x" * 7)
    assert len(kept) == 7
    assert kept.get(("s", "w", "", "99", "ann", "private")) == "x" * 7
    kept.put(("s", "w", "", "99", "ann", "private"), "")
    assert len(kept) == 6
    kept.put(("s", "w", "", "1", "bob", "private"), "x" * 60)
    assert len(kept) == 0
