"""The breaker: pure, on a clock that the test moves; and which outcomes blame the server."""

from __future__ import annotations

import asyncio

import pytest

from honcho_actors.honcho.breaker import Area, Breaker, BreakerPolicy, Breakers, BreakerState, Permit
from honcho_actors.honcho.client import HonchoClient, OutMessage
from honcho_actors.honcho.outcomes import FailureKind, Ok
from tests.support.calls import client, endpoint, failure, read_context, text, within
from tests.support.stub_honcho import Answer, Raw, Said, StubHoncho

POLICY = BreakerPolicy(failures=3, open_for=2.0, open_max=10.0, probe_lease=30.0)


def middle() -> float:
    """Jitter that changes nothing."""
    return 0.5


def broken(breaker: Breaker, now: float = 0.0) -> Breaker:
    for _ in range(POLICY.failures):
        permit = breaker.admit(now)
        assert permit is Permit.ORDINARY
        breaker.record(permit, now, good=False)
    return breaker


def test_it_opens_after_failures_in_a_row_and_only_in_a_row() -> None:
    breaker = Breaker(POLICY, middle)
    for good in (False, False, True, False, False):
        breaker.record(Permit.ORDINARY, 0.0, good)
    assert breaker.state(0.0) is BreakerState.CLOSED
    breaker.record(Permit.ORDINARY, 0.0, good=False)
    assert breaker.state(0.0) is BreakerState.OPEN
    assert not breaker.admit(1.9)
    assert breaker.retry_in(1.5) == 0.5


def test_half_open_lets_one_probe_through_and_a_good_one_closes_it() -> None:
    breaker = broken(Breaker(POLICY, middle))
    assert breaker.state(2.0) is BreakerState.HALF_OPEN
    assert [breaker.admit(2.0) for _ in range(3)] == [Permit.PROBE, None, None]
    breaker.record(Permit.PROBE, 2.1, good=True)
    assert breaker.state(2.1) is BreakerState.CLOSED
    broken(breaker, 3.0)
    assert breaker.retry_in(3.0) == 2.0, "the interval starts small again"


def test_each_failed_probe_doubles_the_interval_up_to_a_bound() -> None:
    breaker, now = broken(Breaker(POLICY, middle)), 0.0
    intervals = []
    for _ in range(5):
        now += breaker.retry_in(now)
        assert breaker.admit(now) is Permit.PROBE
        breaker.record(Permit.PROBE, now, good=False)
        intervals.append(breaker.retry_in(now))
    assert intervals == [4.0, 8.0, 10.0, 10.0, 10.0]


def test_a_probe_whose_caller_was_killed_frees_its_place() -> None:
    breaker = broken(Breaker(POLICY, middle))
    assert breaker.admit(2.0) is Permit.PROBE
    breaker.forget(Permit.ORDINARY)
    assert breaker.admit(2.0) is None, "another call's end frees nothing"
    breaker.forget(Permit.PROBE)
    assert breaker.admit(2.0) is Permit.PROBE
    assert not breaker.admit(31.9)
    assert breaker.admit(32.0), "one that never reports is given up after its lease"


def test_late_results_of_calls_from_before_decide_nothing() -> None:
    breaker = broken(Breaker(POLICY, middle))
    for good in (False, True) * 25:
        breaker.record(Permit.ORDINARY, 0.5, good)
    assert (breaker.retry_in(0.5), breaker.opened) == (1.5, 1)
    assert breaker.admit(2.0) is Permit.PROBE
    breaker.record(Permit.ORDINARY, 2.1, good=False)
    assert breaker.state(2.1) is BreakerState.HALF_OPEN
    breaker.record(Permit.PROBE, 2.2, good=True)
    assert breaker.state(2.2) is BreakerState.CLOSED


def test_the_servers_own_wish_lengthens_the_interval_within_the_bound() -> None:
    breaker = Breaker(POLICY, middle)
    for _ in range(3):
        breaker.record(Permit.ORDINARY, 0.0, good=False, retry_after=7.0)
    assert breaker.retry_in(0.0) == 7.0
    breaker = Breaker(POLICY, middle)
    for _ in range(3):
        breaker.record(Permit.ORDINARY, 0.0, good=False, retry_after=300.0)
    assert breaker.retry_in(0.0) == 10.0


@pytest.mark.parametrize(("dice", "seconds"), [(0.0, 1.5), (1.0, 2.5)])
def test_intervals_are_spread_so_that_not_everybody_comes_back_at_once(dice: float, seconds: float) -> None:
    assert broken(Breaker(POLICY, lambda: dice)).retry_in(0.0) == seconds


def failing() -> StubHoncho:
    return StubHoncho(lambda seen: Said({}, 500))


BLAMED: list[Answer] = [
    Raw(b"", "reset"),
    Said({"detail": "x"}, 500),
    Said({"detail": "x"}, 503),
    Said(b"<html>"),
    Said({"detail": "x"}, 429),
]
NOT_BLAMED: list[Answer] = [
    Said({}),
    Said({"detail": "Peer user not found in workspace w"}, 404),
    Said({"detail": "x"}, 404),
    Said({"detail": "x"}, 422),
    Said({"detail": "x"}, 401),
]


def lasting(failures: int = 5) -> Breakers:
    """Breakers whose pause outlasts any test."""
    return Breakers(BreakerPolicy(failures=failures, open_for=60.0), middle)


def end_of_pause(breakers: Breakers) -> None:
    breakers[Area.READ]._until = asyncio.get_running_loop().time()


@pytest.mark.parametrize("answer", BLAMED, ids=["reset", "500", "503", "html", "429"])
async def test_what_blames_the_server_opens_its_part_and_no_other(answer: Answer) -> None:
    async with StubHoncho(lambda seen: answer) as stub, HonchoClient(endpoint(stub.url), breakers=lasting()) as honcho:
        for _ in range(5):
            failure(await read_context(honcho))
        refused = failure(await read_context(honcho))
        assert (refused.kind, refused.bytes_sent, len(stub.seen)) == (FailureKind.BREAKER_OPEN, False, 5)
        assert refused.retry_after is not None
        stub.script = lambda seen: Said({"content": "x"})
        assert (await honcho.chat("w", "user", text("x"), call=within())).ok, "the dialectic is another part"
        states = honcho.breakers.states(asyncio.get_running_loop().time())
        assert (states["read"], states["chat"]) == ("open", "closed")


@pytest.mark.parametrize("answer", NOT_BLAMED, ids=["200", "nothing known", "404", "422", "401"])
async def test_an_answer_that_says_no_blames_nobody(answer: Answer) -> None:
    async with StubHoncho(lambda seen: answer) as stub, client(stub.url) as honcho:
        for _ in range(12):
            await read_context(honcho)
        assert len(stub.seen) == 12


async def test_a_short_deadline_blames_its_caller_and_a_long_one_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubHoncho(lambda seen: Said({}, delay=30))
    async with stub, HonchoClient(endpoint(stub.url), breakers=lasting()) as honcho:
        for _ in range(6):
            assert failure(await read_context(honcho, within(0.03))).kind is FailureKind.TIMED_OUT
        monkeypatch.setattr("honcho_actors.honcho.exchange.BLAMES_SERVER_AFTER", 0.0)
        for _ in range(5):
            assert failure(await read_context(honcho, within(0.1))).kind is FailureKind.TIMED_OUT
        assert failure(await read_context(honcho)).kind is FailureKind.BREAKER_OPEN


async def test_after_a_while_one_probe_goes_and_all_is_well_again() -> None:
    breakers = lasting(failures=2)
    async with failing() as stub, HonchoClient(endpoint(stub.url), breakers=breakers) as honcho:
        await asyncio.gather(*(read_context(honcho) for _ in range(2)))
        assert failure(await read_context(honcho)).kind is FailureKind.BREAKER_OPEN
        stub.script = lambda seen: Said({}, delay=0.05)
        end_of_pause(breakers)
        outcomes = await asyncio.gather(*(read_context(honcho) for _ in range(10)))
        assert sum(isinstance(outcome, Ok) for outcome in outcomes) == 1
        assert (await read_context(honcho)).ok


async def test_a_killed_probe_leaves_the_way_free_for_the_next() -> None:
    breakers = lasting(failures=1)
    async with failing() as stub, HonchoClient(endpoint(stub.url), breakers=breakers) as honcho:
        await read_context(honcho)
        end_of_pause(breakers)
        stub.script = lambda seen: Said({}, delay=30)
        probe = asyncio.create_task(read_context(honcho))
        await asyncio.sleep(0.03)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        stub.script = lambda seen: Said({})
        assert (await read_context(honcho)).ok


async def test_a_probe_that_times_out_keeps_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honcho_actors.honcho.exchange.BLAMES_SERVER_AFTER", 0.0)
    breakers = lasting(failures=1)
    async with failing() as stub, HonchoClient(endpoint(stub.url), breakers=breakers) as honcho:
        await read_context(honcho)
        end_of_pause(breakers)
        stub.script = lambda seen: Said({}, delay=30)
        assert failure(await read_context(honcho, within(0.2))).kind is FailureKind.TIMED_OUT
        assert failure(await read_context(honcho)).kind is FailureKind.BREAKER_OPEN
        assert breakers[Area.READ].opened == 2


async def test_a_write_counts_in_its_own_part() -> None:
    stub = StubHoncho(lambda seen: Said({}, 500))
    async with stub, HonchoClient(endpoint(stub.url), breakers=lasting()) as honcho:
        for _ in range(6):
            lost = failure(await honcho.add_messages("w", "s", [OutMessage("u", text("x"))], within()))
        assert (lost.kind, lost.bytes_sent, len(stub.seen)) == (FailureKind.BREAKER_OPEN, False, 5)
        stub.script = lambda seen: Said({})
        assert (await read_context(honcho)).ok
