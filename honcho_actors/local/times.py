"""Points in time as whole microseconds since 1970 (UTC), and as the ISO text that Honcho shows."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"[+-]?\d{1,20}(\.\d+)?([eE][+-]?\d{1,3})?")
_MOST_SECONDS = 2e10
"""A number beyond it counts milliseconds, as many a program has them."""
_MICROSECOND = timedelta(microseconds=1)


class NotATime(ValueError):
    """The value names no point in time."""


class Moment(NamedTuple):
    """A point in time, and the text in which a creation echoes it: the caller's own offset, or none."""

    us: int
    echo: str


def now_us() -> int:
    return time.time_ns() // 1000


def _text(when: datetime) -> str:
    written = when.isoformat()
    return written[:-6] + "Z" if written.endswith("+00:00") else written


def iso(us: int) -> str:
    """`2026-11-30T10:37:16.856176Z`; no fraction when it is zero."""
    return _text(_EPOCH + timedelta(microseconds=us))


def line_stamp(us: int) -> str:
    """`2026-11-30 10:37:16`, as in a representation."""
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%S")


def second_text(us: int) -> str:
    """A summary's `created_at`: second precision."""
    return (_EPOCH + timedelta(seconds=us // 1_000_000)).isoformat().replace("+00:00", "Z")


def moment(value: Any) -> Moment:
    """ISO text, a date, or a number of seconds (of milliseconds where it is large); a naive time is UTC. Raises
    `NotATime`, also for what lies outside the years 1 to 9999 in UTC: it could be stored and never be shown.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise NotATime("invalid type")
    try:
        if isinstance(value, str):
            written = value.strip()
            if _NUMBER.fullmatch(written):
                return moment(float(written))
            if len(written) < 10:
                raise NotATime("input is too short")
            if not _DAY.match(written):
                raise NotATime("invalid character in year, month or day")
            if len(written) == 10:
                when = datetime.combine(date.fromisoformat(written), datetime.min.time())
            else:
                when = datetime.fromisoformat(written.upper())
        else:
            when = _EPOCH + timedelta(seconds=value if abs(value) <= _MOST_SECONDS else value / 1000)
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return Moment((aware.astimezone(UTC) - _EPOCH) // _MICROSECOND, _text(when))
    except NotATime:
        raise
    except (ValueError, OverflowError) as fault:
        raise NotATime("invalid characters or range") from fault
