"""A ledger's prompt for a turn whose message has no place yet, as an adapter meets it."""

from __future__ import annotations

from honcho_actors.host import Replays
from honcho_actors.host.history import digest_of
from honcho_actors.model import Context, Placement, Reason, Section, State

KNOWN = Context(
    (Section("What is known", "She sails.", Placement.SYSTEM), Section("Now", "It rains.", Placement.USER_MESSAGE)),
    State.WARM,
    Reason.HIT,
    system="## What is known\n\nShe sails.",
    user_message="## Now\n\nIt rains.",
)


def test_a_turn_without_a_place_has_the_bytes_that_the_place_then_keeps() -> None:
    ledger = Replays().open("talk")
    begun = ledger.begun("Static.", KNOWN, "hello")
    assert ledger.get(0, digest_of("hello")) is None
    assert ledger.keep(0, digest_of("hello"), begun.added) == begun.added
    again = ledger.compose("Static.", KNOWN, "hello", 0)
    assert (again.system, again.user) == (begun.system, begun.user)
