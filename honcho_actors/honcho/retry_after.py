"""A server's `Retry-After`, in whatever shape, as a number that is safe to wait for. Never raises, never negative,
never unbounded.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER = 300.0
"""Seconds. A longer wish is cut to this: the server may say a day, the item is tried again after five minutes."""


def parse(value: str | None, now: datetime) -> float | None:
    """Seconds to wait from `now` (aware), clamped to 0 .. MAX_RETRY_AFTER. None: absent or unusable, use your own
    back-off.

    Takes seconds (also with a fraction) and HTTP dates. `nan` is unusable; an infinite or overflowing number is the
    cap.
    """
    text = (value or "").strip()[:64]
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return _from_date(text, now)
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _from_date(text: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
