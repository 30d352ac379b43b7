"""The policy of delivery as tables: what a reply means, when to try again, what a look proves, whose turn it is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honcho_actors.capture import decide, dispatch
from honcho_actors.capture.decide import Act
from honcho_actors.capture.looking import Seen, look
from honcho_actors.capture.retry import RetryPolicy
from honcho_actors.honcho.outcomes import Failure, FailureKind
from tests.support.calls import client, within
from tests.support.stub_honcho import Said, StubHoncho


def failure(kind: FailureKind, status: int | None = None, **more: object) -> Failure:
    return Failure(kind, "add_messages", status, **more)  # type: ignore[arg-type]


REPLIES = [
    (failure(FailureKind.REFUSED, 400), Act.SPLIT, Act.SET_ASIDE),
    (failure(FailureKind.UNAUTHORIZED, 401), Act.PAUSE, Act.PAUSE),
    (failure(FailureKind.UNAUTHORIZED, 403), Act.PAUSE, Act.PAUSE),
    (failure(FailureKind.REFUSED, 404), Act.ESTABLISH, Act.ESTABLISH),
    (failure(FailureKind.REFUSED, 408), Act.RETRY, Act.RETRY),
    (failure(FailureKind.REFUSED, 409), Act.RETRY, Act.RETRY),
    (failure(FailureKind.REFUSED, 413), Act.SPLIT, Act.SET_ASIDE),
    (failure(FailureKind.REFUSED, 422), Act.SPLIT, Act.SET_ASIDE),
    (failure(FailureKind.REFUSED, 425), Act.RETRY, Act.RETRY),
    (failure(FailureKind.RATE_LIMITED, 429), Act.RETRY, Act.RETRY),
    (failure(FailureKind.UNKNOWN_OUTCOME, 500), Act.LOOK, Act.LOOK),
    (failure(FailureKind.UNKNOWN_OUTCOME, 502), Act.LOOK, Act.LOOK),
    (failure(FailureKind.UNKNOWN_OUTCOME, 503), Act.LOOK, Act.LOOK),
    (failure(FailureKind.UNKNOWN_OUTCOME, 504), Act.LOOK, Act.LOOK),
    (failure(FailureKind.UNKNOWN_OUTCOME), Act.LOOK, Act.LOOK),
    (failure(FailureKind.TRANSPORT, bytes_sent=False), Act.RETRY, Act.RETRY),
    (failure(FailureKind.TRANSPORT, bytes_sent=True), Act.LOOK, Act.LOOK),
    (failure(FailureKind.TIMED_OUT, bytes_sent=False), Act.RETRY, Act.RETRY),
    (failure(FailureKind.TIMED_OUT, bytes_sent=True), Act.LOOK, Act.LOOK),
    (failure(FailureKind.BAD_REPLY, 200), Act.LOOK, Act.LOOK),
    (failure(FailureKind.BREAKER_OPEN, bytes_sent=False), Act.PAUSE, Act.PAUSE),
    (failure(FailureKind.NOT_CONFIGURED, bytes_sent=False), Act.PAUSE, Act.PAUSE),
]


@pytest.mark.parametrize(
    ("reply", "many", "alone"), REPLIES, ids=[f"case 41-{reply.kind}-{reply.status}" for reply, _, _ in REPLIES]
)
def test_every_failure_of_a_post_has_one_meaning(reply: Failure, many: Act, alone: Act) -> None:
    assert decide.after_post(reply, size=10, established_again=False).act is many
    assert decide.after_post(reply, size=1, established_again=False).act is alone


def test_every_kind_of_failure_is_decided_and_none_is_taken_for_delivered() -> None:
    for kind in FailureKind:
        for status in (None, 400, 401, 404, 500, 503):
            for sent in (True, False):
                verdict = decide.after_post(failure(kind, status, bytes_sent=sent), size=3, established_again=False)
                assert verdict.act is not Act.DELIVERED


def test_a_second_404_in_a_row_waits_instead_of_establishing_for_ever() -> None:
    reply = failure(FailureKind.REFUSED, 404)
    assert decide.after_post(reply, size=1, established_again=True).act is Act.RETRY


def test_a_look_before_the_settle_time_never_leads_to_a_resend() -> None:
    assert decide.after_look(3, [], elapsed=None, settle=15.0).wait == 15.0
    early = decide.after_look(3, [], elapsed=14.0, settle=15.0)
    assert not early.resend
    assert early.wait == pytest.approx(1.0)
    assert decide.after_look(3, [], elapsed=15.0, settle=15.0).resend


def test_what_is_found_is_never_sent_again_and_a_second_copy_is_counted() -> None:
    whole = decide.after_look(3, [0, 1, 2, 1], elapsed=99.0, settle=15.0)
    assert not whole.resend
    assert whole.doubled == 1
    part = decide.after_look(3, [0, 2], elapsed=99.0, settle=15.0)
    assert part.present == {0, 2}
    assert part.resend


def test_a_bad_message_among_a_hundred_stands_alone_after_seven_halvings() -> None:
    size, requests = 100, 0
    while size > 1:
        verdict = decide.after_post(failure(FailureKind.REFUSED, 422), size=size, established_again=False)
        assert verdict.act is Act.SPLIT
        size = decide.next_size(size, verdict)
        requests += 1
    assert requests <= 7
    assert decide.after_post(failure(FailureKind.REFUSED, 422), size=1, established_again=False).act is Act.SET_ASIDE


def test_a_lone_message_is_set_aside_at_the_second_500_and_not_at_the_first() -> None:
    assert decide.after_strike(size=1, strikes=1).act is Act.RETRY
    assert decide.after_strike(size=1, strikes=2).act is Act.SET_ASIDE
    assert decide.after_strike(size=2, strikes=9).act is Act.SPLIT


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.one_of(st.none(), st.floats()))
def test_no_delay_is_negative_endless_or_earlier_than_the_server_asked(
    attempts: int, random: float, wish: float | None
) -> None:
    policy = RetryPolicy()
    delay = policy.delay(attempts, random, wish)
    assert 0.0 <= delay <= policy.cap + policy.longest
    if wish is not None and 0 < wish <= policy.longest:
        assert delay >= wish


def test_the_ceiling_doubles_and_is_capped() -> None:
    policy = RetryPolicy(first=0.5, cap=60.0)
    assert [policy.ceiling(attempts) for attempts in (0, 1, 2, 3, 8, 9, 10_000)] == [
        0.0,
        0.5,
        1.0,
        2.0,
        60.0,
        60.0,
        60.0,
    ]


# -- dispatch ----------------------------------------------------------------------------------------------------------


def starts(effects: list[dispatch.Effect]) -> list[int]:
    return [effect.conversation for effect in effects if isinstance(effect, dispatch.Start)]


def test_more_room_starts_who_waits_and_less_room_ends_nobody() -> None:
    state = dispatch.State(limit=2)
    for conversation in range(1, 7):
        dispatch.step(state, dispatch.Work(conversation))
    assert starts(dispatch.step(state, dispatch.Room(5))) == [3, 4, 5]
    assert starts(dispatch.step(state, dispatch.Room(1))) == []
    assert state.running == {1, 2, 3, 4, 5}
    assert starts(dispatch.step(state, dispatch.Ended(1))) == []


def test_a_capture_that_meets_an_ending_worker_starts_the_next_one() -> None:
    state = dispatch.State(limit=4)
    assert starts(dispatch.step(state, dispatch.Work(1))) == [1]
    assert starts(dispatch.step(state, dispatch.Work(1))) == []
    assert starts(dispatch.step(state, dispatch.Ended(1))) == [1]
    assert starts(dispatch.step(state, dispatch.Ended(1))) == []
    assert state.is_idle()


def test_the_first_success_wakes_everything_that_waits_for_the_server_and_nothing_else() -> None:
    state = dispatch.State(limit=4)
    for conversation in (1, 2, 3):
        dispatch.step(state, dispatch.Work(conversation))
    dispatch.step(state, dispatch.Ended(1, again=60.0, waits_for_server=True))
    dispatch.step(state, dispatch.Ended(2, again=60.0))
    effects = dispatch.step(state, dispatch.Ended(3, succeeded=True))
    assert starts(effects) == [1]
    assert dispatch.CancelWake(1) in effects
    assert set(state.timed) == {2}


def test_nothing_starts_behind_the_fence_and_everything_does_when_it_falls() -> None:
    state = dispatch.State(limit=4)
    dispatch.step(state, dispatch.Fence(True))
    for conversation in (1, 2):
        assert starts(dispatch.step(state, dispatch.Work(conversation))) == []
    assert starts(dispatch.step(state, dispatch.Fence(False))) == [1, 2]


def test_what_runs_over_the_waiting_list_is_read_again_from_the_outbox() -> None:
    state = dispatch.State(limit=1)
    for conversation in range(dispatch.REMEMBERED + 5):
        dispatch.step(state, dispatch.Work(conversation))
    assert len(state.waiting) <= dispatch.REMEMBERED
    seen: list[dispatch.Effect] = []
    running = next(iter(state.running))
    while state.running:
        effects = dispatch.step(state, dispatch.Ended(running))
        seen += [effect for effect in effects if isinstance(effect, dispatch.ReadMore)]
        running = next(iter(state.running), -1)
    assert seen == [dispatch.ReadMore()]


def test_what_waits_for_its_time_is_bounded_too() -> None:
    state = dispatch.State(limit=1)
    timers = 0
    for conversation in range(dispatch.REMEMBERED + 50):
        dispatch.step(state, dispatch.Work(conversation))
        effects = dispatch.step(state, dispatch.Ended(conversation, again=60.0, waits_for_server=True))
        timers += sum(isinstance(effect, dispatch.WakeAfter) for effect in effects)
    assert timers == len(state.timed) == dispatch.REMEMBERED


events = st.lists(
    st.one_of(
        st.builds(dispatch.Work, st.integers(0, 5)),
        st.builds(dispatch.Due, st.integers(0, 5)),
        st.builds(dispatch.Ended, st.integers(0, 5), st.sampled_from([None, 0.0, 1.0]), st.booleans(), st.booleans()),
        st.builds(dispatch.Fence, st.booleans()),
        st.just(dispatch.WakeAll()),
    ),
    max_size=60,
)


@given(events)
def test_no_conversation_is_ever_delivered_twice_at_once_nor_forgotten(history: list[dispatch.Event]) -> None:
    state = dispatch.State(limit=3)
    running: set[int] = set()
    owed: set[int] = set()
    for event in history:
        if isinstance(event, dispatch.Ended):
            if event.conversation not in running:
                continue
            running.discard(event.conversation)
            owed.discard(event.conversation)
            if event.again is not None:
                owed.add(event.conversation)
            if event.conversation in state.again:
                owed.add(event.conversation)
        if isinstance(event, dispatch.Work):
            owed.add(event.conversation)
        for conversation in starts(dispatch.step(state, event)):
            assert conversation not in running
            assert not state.fenced
            running.add(conversation)
        assert running == state.running
        assert len(running) <= 3
        assert owed - running <= set(state.waiting) | set(state.timed)


@pytest.mark.parametrize(
    ("body", "proves"),
    [({"detail": "Session s not found in workspace w"}, True), (b"404 page not found", False), (b"", False)],
    ids=["honcho", "a gateway whose server restarts", "nothing"],
)
def test_a_look_that_is_answered_404_proves_absence_only_in_honchos_own_words(body: object, proves: bool) -> None:
    async def looked() -> list[Seen] | Failure:
        async with StubHoncho(lambda seen: Said(body, 404)) as stub, client(stub.url) as honcho:
            return await look(honcho, "w", "s", b"delivery", 0, 1, within())

    found = asyncio.run(looked())
    assert found == [] if proves else isinstance(found, Failure)
