"""What the page shows, made of the status, the meters and the last hour."""

from __future__ import annotations

import json
from typing import Any

import pytest

from honcho_actors.metrics import Meters
from honcho_actors.model import Reason, State
from honcho_actors.ops.history import MINUTES, History
from honcho_actors.ops.overview import TROUBLE, WHY, WITH_MEMORY, Watch


class Hand:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


LIMITS = {"max_sessions": 10_000, "dialectic_per_hour": None}


def shown(watch: Watch, status: dict[str, Any] | None = None) -> dict[str, Any]:
    found = watch.overview(status or {"state": "ready", "health": "fine"}, [], LIMITS)
    return dict(json.loads(json.dumps(found)))


class TestHistory:
    def test_an_hour_is_sixty_minutes_and_what_is_older_has_gone(self) -> None:
        history = History(0.0)
        history.look({("a",): 3.0}, 10.0)
        assert history.total(59.0) == {("a",): 3.0}
        assert history.minutes(10.0)[-1] == {("a",): 3.0}
        assert history.minutes(130.0)[-3] == {("a",): 3.0}
        assert len(history.minutes(130.0)) == MINUTES
        assert history.total(60.0 * MINUTES - 1) == {("a",): 3.0}
        assert history.total(60.0 * MINUTES) == {}

    def test_only_what_grew_counts_and_only_once(self) -> None:
        history = History(0.0)
        for now in (1.0, 2.0, 3.0):
            history.look({("a",): 5.0, ("b",): 0.0}, now)
        history.look({("a",): 7.0, ("b",): 0.0}, 61.0)
        assert history.total(61.0) == {("a",): 7.0}
        assert history.minutes(61.0)[-2:] == [{("a",): 5.0}, {("a",): 2.0}]

    def test_a_counter_that_fell_is_a_new_beginning_and_no_negative_minute(self) -> None:
        history = History(0.0)
        history.look({("a",): 5.0}, 1.0)
        history.look({("a",): 1.0}, 2.0)
        history.look({("a",): 2.0}, 3.0)
        assert history.total(3.0) == {("a",): 6.0}

    def test_a_year_of_looks_keeps_no_more_than_an_hour(self) -> None:
        history = History(0.0)
        for minute in range(10_000):
            history.look({("a",): float(minute)}, minute * 60.0)
        assert len(history.minutes(9_999 * 60.0)) == MINUTES
        assert history.total(9_999 * 60.0) == {("a",): float(MINUTES)}


class TestOverview:
    def test_every_reason_has_words_and_is_memory_trouble_or_as_it_should_be(self) -> None:
        assert set(WHY) == set(Reason)
        assert all(len(words) > 15 for words in WHY.values())
        assert not WITH_MEMORY & TROUBLE

    def test_what_happened_before_it_began_to_watch_is_not_of_the_last_hour(self) -> None:
        meters, clock = Meters(), Hand()
        meters.turn(State.WARM, Reason.HIT, 0.0, 1.0)
        watch = Watch(meters, clock)
        meters.turn(State.WARM, Reason.HIT, 0.0, 1.0)
        assert shown(watch)["turns"]["total"] == 1.0

    def test_why_blocks_were_empty_by_reason_most_frequent_first(self) -> None:
        meters, clock = Meters(), Hand()
        watch = Watch(meters, clock)
        for reason, times in ((Reason.HIT, 5), (Reason.NOTHING_KNOWN, 1), (Reason.BREAKER_OPEN, 3)):
            for _ in range(times):
                meters.turn(State.WARM, reason, 0.0, None)
        turns = shown(watch)["turns"]
        assert (turns["total"], turns["with_memory"]) == (9.0, 5.0)
        assert [(one["reason"], one["count"], one["trouble"]) for one in turns["empty"]] == [
            ("breaker_open", 3.0, True),
            ("nothing_known", 1.0, False),
        ]
        assert turns["minutes"][-1] == [5.0, 1.0, 3.0]

    def test_the_waits_are_those_of_first_turns_alone(self) -> None:
        meters, clock = Meters(), Hand()
        watch = Watch(meters, clock)
        meters.turn(State.COLD, Reason.FILLED, 0.2, None)
        meters.turn(State.COLD, Reason.DEADLINE, 70.0, None)
        meters.turn(State.WARM, Reason.HIT, 0.0, 1.0)
        waits = shown(watch)["waits"]
        assert waits["total"] == 2.0
        assert [one["up_to"] for one in waits["buckets"] if one["count"]] == [0.25, None]

    def test_breakers_spend_and_restarts_stand_beside_what_they_are_of(self) -> None:
        meters, clock = Meters(), Hand()
        watch = Watch(meters, clock)
        meters.breaker_state.labels("read").set(2)
        meters.dialectic_calls.labels("tool").inc(4)
        meters.supervisor_restarts.labels("read_side").inc(2)
        rows = [
            {"supervisor": "root", "child": "read_side", "kind": "supervisor", "state": "running", "generation": 1},
            {"supervisor": "read_side", "child": "session_manager", "kind": "worker", "state": "running"},
        ]
        found = shown(watch, {"state": "ready", "health": "", "tree": rows})
        assert {one["area"]: one["state"] for one in found["breakers"]} == {
            "read": "open",
            "chat": "closed",
            "write": "closed",
            "search": "closed",
        }
        assert found["spend"] == {"last_hour": 4.0, "by_trigger": {"tool": 4.0}, "limit_per_hour": None}
        assert [(one["child"], one["restarts"]) for one in found["tree"]] == [
            ("root", 0),
            ("read_side", 2),
            ("session_manager", 0),
        ]

    def test_a_status_of_which_parts_could_not_be_read_is_shown_all_the_same(self) -> None:
        found = shown(Watch(Meters(), Hand()), {"state": "ready", "health": "fine", "outbox": None, "tree": None})
        assert found["outbox"] == {}
        assert found["tree"] == []
        assert found["degraded"] == {"since": None, "causes": []}


@pytest.mark.parametrize("reason", sorted(TROUBLE))
def test_the_alert_on_turns_without_memory_counts_the_same_reasons_as_the_page(reason: str) -> None:
    from honcho_actors.ops import rules

    rule = rules.text().split("HonchoActorsTurnsWithoutMemory")[1].split("- alert")[0]
    assert reason in rule.split('outcome=~"')[1].split('"')[0].split("|")
