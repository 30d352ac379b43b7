"""What one turn makes due. Pure: an entry's marks, the settings and the clock in, a decision out.

Counted is a substantive turn that was served. A trivial turn counts for nothing and asks for nothing, except that a
conversation which has never been loaded is loaded by it, leaving the marks alone: the next real turn is as due as it
would have been.
"""

from __future__ import annotations

from typing import NamedTuple

from honcho_actors.sessions.cadence import SUMMARY_EVERY_TURNS, dialectic_cadence, due
from honcho_actors.sessions.table import P_MADE_AT, Entry, Person, representation_of
from honcho_actors.sessions.trivial import is_trivial
from honcho_actors.settings import Settings

CONCLUSION_TOKENS = 40
"""What one conclusion takes in a representation, for sizing how many are asked for."""
MIN_CONCLUSIONS, MAX_CONCLUSIONS = 5, 100
SUMMARY_TOKENS = 2_500
"""Room for a full summary: the server gives it two fifths of what representation and card leave of `tokens`."""


class Due(NamedTuple):
    """What a turn starts. `turn` counts substantive turns from 0; a turn that is not `counted` keeps the marks."""

    turn: int
    counted: bool
    base: bool
    dialectic: bool


def decide(entry: Entry, person: Person | None, query: object, settings: Settings, now: float) -> Due:
    """What this turn of this conversation makes due, whether or not it can be started now."""
    index = entry.turns
    if is_trivial(query):
        return Due(index, False, entry.block is None and now >= entry.retry_at, False)
    base = due(index, entry.base_mark, settings.context_cadence) or _stale(entry, person, settings, now)
    asks = due(index, entry.asked_mark, dialectic_cadence(settings.dialectic_cadence, entry.empties))
    return Due(index, True, base and now >= entry.retry_at, asks)


def _stale(entry: Entry, person: Person | None, settings: Settings, now: float) -> bool:
    """What is known of the person is old, and no read of it was started since it became so."""
    if person is None:
        return False
    return now - max(person[P_MADE_AT], entry.base_at) >= settings.representation_ttl


def wants_summary(entry: Entry, settings: Settings, index: int, established: bool) -> bool:
    """Whether this base read should bring the conversation's summary.

    A summary changes every 20 messages. A conversation that began warm and that the server is not known to have can't
    have one before that; of one that began cold nothing is known, so it is asked for once.
    """
    if not settings.session_summary or settings.context_tokens <= 0:
        return False
    if entry.summary_mark is None:
        return established or not entry.began_warm or bool(entry.summary) or index >= SUMMARY_EVERY_TURNS
    return index - entry.summary_mark >= SUMMARY_EVERY_TURNS


def max_conclusions(context_tokens: int) -> int:
    """How many conclusions a block of this budget can show: each costs the server time."""
    return max(MIN_CONCLUSIONS, min(MAX_CONCLUSIONS, context_tokens // CONCLUSION_TOKENS))


def server_tokens(person: Person | None, settings: Settings, summary: bool) -> int:
    """The server's `tokens`: 0 without a summary, else representation, card and a full summary."""
    if not summary:
        return 0
    if person is None:
        known = max_conclusions(settings.context_tokens) * CONCLUSION_TOKENS
    else:
        known = (len(representation_of(person).encode()) + sum(len(line.encode()) for line in person[1])) // 3
    return known + SUMMARY_TOKENS
