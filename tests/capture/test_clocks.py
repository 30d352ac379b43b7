"""Time that survives restarts and steps: moments of a boot, ages, the time that a message bears."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from honcho_actors.capture.clocks import AgeClock, Moment, Reading, elapsed, from_us, remaining, said_at, to_us

DAY = 86_400.0


def reading(seconds: float, wall: float = 0.0, boot: str = "b1") -> Reading:
    return Reading(boot, seconds, int(wall * 1e6))


def test_a_moment_of_another_boot_says_nothing_of_how_long_ago_it_was() -> None:
    assert elapsed(Moment("b1", 10.0), reading(25.0)) == 15.0
    assert elapsed(Moment("b0", 10.0), reading(25.0)) is None
    assert remaining(Moment("b1", 30.0), reading(25.0)) == 5.0
    assert remaining(Moment("b0", 1e9), reading(25.0)) == 0.0


def test_a_wall_clock_that_is_stepped_ages_nothing_while_the_machine_runs() -> None:
    clock = AgeClock().at(reading(0.0, wall=1e9))
    clock = clock.at(reading(60.0, wall=1e9 + 365 * DAY))
    clock = clock.at(reading(120.0, wall=0.0))
    assert clock.age == 120.0


def test_a_reboot_ages_by_the_wall_but_never_by_more_than_a_week_and_never_backwards() -> None:
    clock = AgeClock().at(reading(1000.0, wall=1e9))
    assert clock.at(reading(5.0, wall=1e9 + DAY, boot="b2")).age == DAY
    assert clock.at(reading(5.0, wall=1e9 + 3650 * DAY, boot="b2")).age == 7 * DAY
    assert clock.at(reading(5.0, wall=0.0, boot="b2")).age == 0.0


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_every_time_is_kept_to_the_microsecond(moment: datetime) -> None:
    assert from_us(to_us(moment)) == moment.replace(tzinfo=UTC)


def test_a_time_with_a_zone_is_the_same_instant_and_a_naive_one_is_utc() -> None:
    east = datetime(2026, 3, 1, 12, 0, tzinfo=timezone(timedelta(hours=9)))
    assert from_us(to_us(east)) == datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    assert from_us(to_us(datetime(2026, 3, 1, 3, 0))) == datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_case_56_the_time_said_never_decreases_inside_a_conversation(times: list[int]) -> None:
    last, seen = 0, []
    for wanted in times:
        last = said_at(wanted, last)
        seen.append(last)
    assert seen == sorted(seen)


def test_a_time_outside_of_the_calendar_is_its_nearest_moment_inside() -> None:
    late, early = (timezone(timedelta(hours=hours)) for hours in (-14, 14))
    assert from_us(to_us(datetime.max.replace(tzinfo=late))) == datetime.max.replace(tzinfo=UTC)
    assert from_us(to_us(datetime.min.replace(tzinfo=early))) == datetime.min.replace(tzinfo=UTC)
