"""Who may read the admin endpoint: the token, and a browser that was let in by whoever holds it."""

from __future__ import annotations

import pytest

from honcho_actors.ops.access import MOST_TICKETS, TICKET_SECONDS, Access, ticket

TOKEN = "-".join(("the", "owner's", "token"))


class Hand:
    """A wall clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def access(clock: Hand) -> Access:
    return Access(TOKEN, clock)


def test_the_token_opens_everything_and_nothing_else_opens_a_page_with_figures(access: Access) -> None:
    for path in ("/status", "/metrics", "/overview", "/settings"):
        assert access.allows(path, f"Bearer {TOKEN}")
        for wrong in ("", "Bearer ", "Bearer guess", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN} ", "Bearer \ud800"):
            assert not access.allows(path, wrong)


def test_the_page_itself_needs_nothing_because_it_holds_nothing(access: Access) -> None:
    assert access.allows("/", "")
    assert access.allows("/key", "")


def test_a_ticket_gives_a_key_that_opens_the_page_s_figures_and_no_other_path(access: Access, clock: Hand) -> None:
    key = access.key_for(f"Ticket {ticket(TOKEN, clock())}")
    assert key is not None
    assert access.allows("/overview", f"Bearer {key}")
    for path in ("/status", "/settings", "/metrics", "/sessions", "/overview/"):
        assert not access.allows(path, f"Bearer {key}")


def test_a_ticket_is_good_once(access: Access, clock: Hand) -> None:
    shown = f"Ticket {ticket(TOKEN, clock())}"
    assert access.key_for(shown) is not None
    assert access.key_for(shown) is None


def test_a_ticket_is_good_for_two_minutes(access: Access, clock: Hand) -> None:
    early, late = ticket(TOKEN, clock()), ticket(TOKEN, clock())
    clock.now += TICKET_SECONDS - 1
    assert access.key_for(f"Ticket {early}") is not None
    clock.now += 1
    assert access.key_for(f"Ticket {late}") is None


def test_two_tickets_of_one_moment_are_two(clock: Hand) -> None:
    assert ticket(TOKEN, clock()) != ticket(TOKEN, clock())


@pytest.mark.parametrize(
    "shown",
    ["", "Ticket", "Ticket ", "Ticket ..", "Ticket a.b.c", "Ticket 99999999999..", "Bearer x", "Ticket \ud800.é.ü"],
)
def test_what_is_no_ticket_gives_nothing_and_raises_nothing(access: Access, shown: str) -> None:
    assert access.key_for(shown) is None


def test_a_ticket_that_was_changed_or_made_with_another_token_gives_nothing(access: Access, clock: Hand) -> None:
    good = ticket(TOKEN, clock())
    until, nonce, signature = good.split(".")
    later = str(int(until) + 3600)
    for changed in (f"{later}.{nonce}.{signature}", f"{until}.x{nonce}.{signature}", ticket("another", clock())):
        assert access.key_for(f"Ticket {changed}") is None


def test_another_life_of_the_endpoint_knows_no_key_and_no_ticket_of_this_one(access: Access, clock: Hand) -> None:
    shown = f"Ticket {ticket(TOKEN, clock())}"
    key = access.key_for(shown)
    again = Access("the token of the next start", clock)
    assert not again.allows("/overview", f"Bearer {key}")
    assert again.key_for(shown) is None


def test_used_tickets_are_remembered_within_a_bound_and_forgotten_when_they_have_expired(
    access: Access, clock: Hand
) -> None:
    for _ in range(MOST_TICKETS):
        assert access.key_for(f"Ticket {ticket(TOKEN, clock())}") is not None
    assert access.key_for(f"Ticket {ticket(TOKEN, clock())}") is None
    clock.now += TICKET_SECONDS
    assert access.key_for(f"Ticket {ticket(TOKEN, clock())}") is not None
