"""The prompt-cache proof: sixty turns with moving dialectics, tool calls, refreshes, two evictions, an outage and a
restart, on the real read side. Every request is compared with the one before it, byte for byte."""

from __future__ import annotations

import pytest

from benchmarks.prompt import DOWN, EVICTED, LEARNED, RESTARTED, TURNS, Cache, Told, figures, lived
from honcho_actors.host import Prefix

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return lived(tmp_path_factory.mktemp("still"), ())


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return lived(tmp_path_factory.mktemp("moving"), LEARNED)


def test_the_sixty_turns_hold_what_they_promise(still: Told, moving: Told) -> None:
    for told in (still, moving):
        assert len(told.typed) == TURNS == 60
        assert told.ours.requests == told.ledger.requests == 120, "with tool calls in two turns of three"
        assert told.volatile >= 45, "a dialectic that says something else every turn"
        assert "cold:filled" in told.states[max(EVICTED) - 1], "it had been evicted, with its person"
        assert {told.states[turn - 1] for turn in DOWN} == {"cold:server_error"}
        assert told.states[RESTARTED - 1].startswith("restored")


def test_case_79_while_memory_stands_still_every_request_is_a_prefix_of_the_next(still: Told) -> None:
    assert still.ours.broken == still.ledger.broken == []
    assert (still.ours.ratio, still.ledger.ratio) == (1.0, 1.0)
    assert still.ours.system_changes == still.ledger.system_changes == 0
    assert set(still.prefixes[1:]) == {Prefix.CONTINUED}
    assert len(still.marks) == 1, "one id, through evictions and the restart"


def test_case_79_the_system_half_changes_only_where_something_was_learned(moving: Told) -> None:
    assert moving.changes == len(LEARNED)
    assert moving.ours.system_changes <= moving.changes
    assert [turn for turn, one in enumerate(moving.prefixes, 1) if one is Prefix.MEMORY_CHANGED] == list(LEARNED)
    assert set(moving.prefixes[1:]) == {Prefix.CONTINUED, Prefix.MEMORY_CHANGED}
    assert moving.ours.broken == moving.ledger.broken == [], "wherever the system text stood, the messages did, too"
    assert moving.ours.requests - 1 - moving.ours.extended == moving.ours.system_changes


def test_people_see_what_was_typed_whatever_stood_beside_it(moving: Told) -> None:
    assert [text for role, text in moving.shown if role == "user"] == moving.typed
    assert not any(mark in text for mark in moving.marks for _, text in moving.shown)
    assert {role for role, _ in moving.shown} == {"user", "assistant"}


def test_the_tokens_that_it_saves_are_told(still: Told, moving: Told) -> None:
    shown = figures(still, moving)
    assert shown["prefix_stable_ratio"] == shown["prefix_stable_ratio_ledger"] == 1.0
    assert shown["system_changes"] <= shown["base_publications_whose_text_changed"]
    assert shown["broken_prefixes"] == 0
    for run in ("still", "moving"):
        assert shown[run]["tokens_saved"] > 10 * shown["system_tokens"]
        assert shown[run]["input_price"] < shown[run]["input_price_all_in_system"] / 2


def test_the_measure_itself_sees_a_byte_that_moved() -> None:
    cache = Cache()
    cache.ask("s", [("user", "a")])
    cache.ask("s", [("user", "a"), ("assistant", "b"), ("user", "c")])
    assert (cache.ratio, cache.broken) == (1.0, [])
    cache.ask("s", [("user", "A"), ("assistant", "b"), ("user", "c"), ("assistant", "d")], "moved")
    assert (cache.extended, cache.broken, cache.system_changes) == (1, ["moved"], 0)
    cache.ask("S", [("user", "A")])
    assert cache.system_changes == 1
