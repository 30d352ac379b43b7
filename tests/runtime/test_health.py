"""The health machine alone: signs and a time that the test says, and what comes of them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from honcho_actors.model import Cause
from honcho_actors.runtime.health import Change, Health, Limits, Signs, step

FINE = Signs()
EXAMPLES: dict[Cause, Signs] = {
    Cause.GIVEN_UP: Signs(lost=("the write side",)),
    Cause.UNAUTHORIZED: Signs(failed_reads=1, failed_why="unauthorized"),
    Cause.STORE: Signs(store="the outbox can't be written: no room"),
    Cause.BREAKER_OPEN: Signs(breakers={"read": "open", "write": "closed"}),
    Cause.REFRESH_FAILING: Signs(failed_reads=2, failed_why="server_error"),
    Cause.OUTBOX_STUCK: Signs(oldest=1000.0, taken=1, waiting={"transport": 2}),
    Cause.NOTHING_CAPTURED: Signs(skipped={"no_identity": 9, "blank": 1}),
    Cause.DISK: Signs(free_bytes=1_000_000),
}


class Watched:
    """A machine and its time."""

    def __init__(self, **limits: Any) -> None:
        self.limits = Limits(**limits)
        self.health = Health()
        self.now = 1000.0

    def see(self, signs: Signs, after: float = 1.0) -> tuple[Change, ...]:
        self.now += after
        self.health, changes = step(self.health, signs, self.now, self.limits)
        return changes

    def causes(self) -> tuple[Cause, ...]:
        return self.health.causes

    def since(self) -> float | None:
        return self.health.since


def test_nothing_wrong_is_no_cause_and_no_change() -> None:
    watched = Watched()
    assert [watched.see(FINE) for _ in range(5)] == [()] * 5
    assert (watched.causes(), watched.since(), watched.health.sentence) == ((), None, "")


@pytest.mark.parametrize("cause", EXAMPLES, ids=str)
def test_each_cause_begins_at_once_says_what_and_what_to_do_and_ends(cause: Cause) -> None:
    watched = Watched()
    watched.see(FINE)
    (began,) = watched.see(EXAMPLES[cause])
    assert (began.began, began.trouble.cause, watched.causes()) == (True, cause, (cause,))
    assert began.trouble.text
    assert began.trouble.fix
    assert watched.since() == watched.now
    assert watched.see(EXAMPLES[cause], 60.0) == ()
    assert watched.see(FINE) == (), "it has to stay away for a moment"
    (ended,) = watched.see(FINE, 2.0)
    assert (ended.began, ended.trouble.cause, ended.lasted) == (False, cause, 63.0)
    assert (watched.causes(), watched.since()) == ((), None)


@pytest.mark.parametrize(
    "signs",
    [
        Signs(failed_reads=1, failed_why="server_error"),
        Signs(oldest=899.0),
        Signs(oldest=9999.0, read_only=True),
        Signs(skipped={"read_only": 99}, read_only=True),
        Signs(skipped={"blank": 9}),
        Signs(skipped={"blank": 99}, taken=1),
        Signs(free_bytes=10**12),
        Signs(breakers={"read": "closed"}),
        Signs(waiting={"transport": 5}),
        Signs(served=10_000, taken=1),
    ],
)
def test_what_is_no_cause(signs: Signs) -> None:
    watched = Watched()
    assert [watched.see(signs, 600.0) for _ in range(3)] == [()] * 3


def test_a_breaker_that_may_be_probed_again_has_not_recovered() -> None:
    watched = Watched()
    watched.see(Signs(breakers={"read": "open"}))
    assert "left alone" in watched.health.sentence
    assert watched.see(Signs(breakers={"read": "half_open"}), 30.0) == ()
    assert watched.causes() == (Cause.BREAKER_OPEN,)
    assert "has not been asked again" in watched.health.sentence


def test_a_rejected_key_is_one_cause_whether_reading_or_delivering_meets_it() -> None:
    for signs in (Signs(failed_reads=5, failed_why="unauthorized"), Signs(waiting={"unauthorized": 1})):
        watched = Watched()
        watched.see(signs)
        assert watched.causes() == (Cause.UNAUTHORIZED,)


def test_turns_that_are_served_and_never_handed_over_are_told_after_a_while() -> None:
    watched = Watched()
    watched.see(Signs(served=1))
    watched.see(Signs(served=500), 299.0)
    assert watched.causes() == ()
    watched.see(Signs(served=501), 1.0)
    assert watched.causes() == (Cause.NOTHING_CAPTURED,)
    assert "none was ever handed over" in watched.health.sentence
    watched.see(Signs(served=502, taken=1), 1.0)
    watched.see(Signs(served=502, taken=1), 2.0)
    assert watched.causes() == ()


def test_a_few_turns_without_a_capture_are_nobodys_business() -> None:
    watched = Watched()
    for served in range(19):
        watched.see(Signs(served=served), 600.0)
    assert watched.causes() == ()


def test_what_falls_and_rises_together_is_one_death_and_three_in_a_minute_are_a_cause() -> None:
    watched = Watched()
    watched.see(Signs(restarts=5))
    watched.see(Signs(restarts=10), 20.0)
    assert watched.causes() == ()
    watched.see(Signs(restarts=11), 20.0)
    assert watched.causes() == (Cause.RESTARTS,)
    watched.see(Signs(restarts=11), 25.0)
    watched.see(Signs(restarts=11), 5.0)
    assert watched.causes() == (), "the first of them is longer ago than a minute"


def test_deaths_that_lie_far_apart_are_none() -> None:
    watched = Watched()
    for restarts in range(1, 20):
        watched.see(Signs(restarts=restarts), 31.0)
    assert watched.causes() == ()


def test_several_causes_stand_together_the_gravest_first_and_end_one_by_one() -> None:
    watched = Watched()
    both = Signs(free_bytes=1, lost=("the read side",), store="no room")
    began = watched.see(both)
    assert [change.trouble.cause for change in began] == [Cause.GIVEN_UP, Cause.STORE, Cause.DISK]
    since = watched.since()
    assert watched.health.sentence.startswith("the read side gave up")
    watched.see(Signs(free_bytes=1), 5.0)
    watched.see(Signs(free_bytes=1), 5.0)
    assert (watched.causes(), watched.since()) == ((Cause.DISK,), since)


def test_memory_that_is_switched_off_is_not_degraded() -> None:
    watched = Watched()
    watched.see(EXAMPLES[Cause.BREAKER_OPEN])
    (ended,) = watched.see(replace(EXAMPLES[Cause.BREAKER_OPEN], off=True))
    assert not ended.began
    assert watched.see(replace(EXAMPLES[Cause.STORE], off=True), 60.0) == ()


def test_what_flaps_every_few_seconds_for_an_hour_is_told_a_few_times_and_not_hidden() -> None:
    watched = Watched()
    told = 0
    degraded = 0
    for second in range(3600):
        shut = second % 20 < 5
        told += len(watched.see(Signs(breakers={"read": "open" if shut else "closed"})))
        degraded += bool(watched.causes())
    assert told <= 12
    assert degraded > 3000, "after the first few rounds it counts as one long trouble"


def test_what_comes_back_after_a_long_quiet_time_is_as_new() -> None:
    watched = Watched()
    for _ in range(6):
        watched.see(EXAMPLES[Cause.STORE])
        for _ in range(700):
            watched.see(FINE)
        watched.see(EXAMPLES[Cause.STORE])
        watched.see(FINE)
        assert watched.see(FINE, 2.0), "two seconds are enough again"
        watched.see(FINE, 700.0)


def test_any_walk_of_signs_keeps_the_books() -> None:
    for seed in range(40):
        dice = random.Random(seed)
        watched = Watched()
        open_causes: set[Cause] = set()
        for _ in range(300):
            signs = Signs(
                off=dice.random() < 0.02,
                breakers={"read": dice.choice(["open", "closed", "half_open"])},
                failed_reads=dice.randrange(4),
                failed_why=dice.choice(["server_error", "unauthorized"]),
                lost=dice.choice([(), (), ("the read side",)]),
                store=dice.choice(["", "", "no room"]),
                oldest=dice.choice([None, 1.0, 5000.0]),
                free_bytes=dice.choice([None, 1, 10**12]),
                skipped={"blank": dice.randrange(20)},
            )
            for change in watched.see(signs, dice.choice([0.0, 0.5, 1.0, 30.0])):
                cause = change.trouble.cause
                assert (cause in open_causes) is not change.began
                assert change.lasted >= 0.0
                open_causes.symmetric_difference_update({cause})
            assert set(watched.causes()) == open_causes
            assert list(watched.causes()) == sorted(watched.causes(), key=list(Cause).index)
            assert (watched.since() is None) is not bool(open_causes)
            assert len(watched.health.records) <= len(Cause)
