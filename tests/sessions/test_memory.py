"""What is read, shared, asked, kept and spent: base reads, persons, summaries, the dialectic, budgets."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from honcho_actors.model import Reason, SessionKey, State, TurnRequest
from supervision import ManualClock
from tests.support.memory_world import Remote, World, until
from tests.support.stopwatch import Stopwatch


def ask(key: str = "s1", user: str = "ann", query: str = "what about the garden?") -> TurnRequest:
    return TurnRequest(session_key=key, user=user, query=query)


def run(world: World, *queries: str, **more: Any) -> None:
    for query in queries:
        world.turn(query, **more)
        world.quiet()


# -- the base layer is one request ---------------------------------------------------------------------------------


def test_a_first_read_is_one_request_with_room_for_a_summary_and_conclusions_sized_by_the_budget() -> None:
    with World(context_tokens=1200, dialectic_cadence=99) as world:
        run(world, "what about the garden?")
        base = world.remote.asked[0]
        assert base.op == "session_context"
        assert base.query == {
            "peer_target": "ann",
            "max_conclusions": "30",
            "tokens": str(30 * 40 + 2500),
            "summary": "true",
            "include_most_frequent": "true",
        }


def test_a_small_budget_asks_for_few_conclusions_and_a_large_one_for_no_more_than_the_server_gives() -> None:
    for tokens, conclusions in ((200, "5"), (40_000, "100")):
        with World(context_tokens=tokens) as world:
            run(world, "what about the garden?")
            assert world.remote.last("session_context").query["max_conclusions"] == conclusions


def test_without_summaries_the_servers_tokens_are_zero() -> None:
    with World(session_summary=False) as world:
        run(world, "what about the garden?", "and the pond?")
        assert [one.query["tokens"] for one in world.remote.asked if one.op == "session_context"] == ["0", "0"]
        assert {one.query["summary"] for one in world.remote.asked if one.op == "session_context"} == {"false"}


def test_a_summary_is_asked_for_again_every_ten_turns() -> None:
    with World(dialectic_cadence=99) as world:
        run(world, *(f"what about bed {number}?" for number in range(21)))
        tokens = [one.query["tokens"] for one in world.remote.asked if one.op == "session_context"]
        assert [number for number, value in enumerate(tokens) if value != "0"] == [0, 10, 20]


def test_a_summary_that_could_not_be_read_is_asked_for_at_the_next_read() -> None:
    remote = Remote({"ann": ("Ann.", [])}, {"s1": "They spoke of bees."}, statuses={"session_context": 500})
    with World(remote, dialectic_cadence=99) as world:
        run(world, "what about the garden?")
        assert "bees" not in world.turn("ok").system
        remote.statuses.clear()
        run(world, "and the pond?")
        assert "bees" in world.turn("ok").system


def test_a_refused_read_is_made_up_for_by_one_read_of_the_person_alone() -> None:
    remote = Remote({"ann": ("Ann grows tomatoes.", [])}, statuses={"session_context": 500})
    with World(remote) as world:
        context = world.turn()
        assert (context.reason, "tomatoes" in context.system) == (Reason.FILLED, True)
        assert [one.op for one in world.remote.asked if one.op != "chat"] == ["session_context", "peer_context"]


@pytest.mark.parametrize(("status", "reason"), [(401, Reason.UNAUTHORIZED), (429, Reason.OVERLOADED)])
def test_a_read_that_would_fail_again_is_not_made_twice(status: int, reason: Reason) -> None:
    remote = Remote({"ann": ("Ann.", [])}, statuses={"session_context": status})
    with World(remote) as world:
        assert world.turn().reason is reason
        assert world.remote.count("peer_context") == 0


def test_an_unknown_person_is_a_good_empty_layer_and_is_not_asked_about() -> None:
    with World(dialectic_cadence=1) as world:
        first = world.turn(user="nobody")
        assert (first.state, first.reason, first.sections) == (State.COLD, Reason.NOTHING_KNOWN, ())
        world.quiet()
        second = world.turn(user="nobody")
        world.quiet()
        assert (second.state, second.reason) == (State.WARM, Reason.NOTHING_KNOWN)
        assert world.remote.count("chat") == 0


@pytest.mark.parametrize("representation", ["", "  \n", "\u200b"])
def test_a_person_whom_the_server_has_and_knows_nothing_of_is_no_matter_of_the_budget(representation: str) -> None:
    # As on a server whose deriver has not come to the first messages yet.
    with World(Remote({"ann": (representation, [])}, answer=lambda query: None)) as world:
        assert world.turn().reason is Reason.NOTHING_KNOWN
        assert world.turn("ok").reason is Reason.NOTHING_KNOWN
        assert world.turn(key="s2").reason is Reason.NOTHING_KNOWN


def test_what_is_known_and_has_no_room_says_that_it_is_the_budget() -> None:
    with World(context_tokens=20) as world:
        assert [world.turn().reason, world.turn("ok").reason, world.turn(key="s2").reason] == [Reason.BUDGET] * 3


def test_a_person_who_became_known_by_an_upload_is_read_again_at_the_next_turn_whatever_the_cadence() -> None:
    with World(context_cadence=50) as world:
        run(world, "hello there, who am I?", "and now?", user="new")
        assert world.remote.count("session_context") == 1
        world.remote.persons["new"] = ("New keeps bees.", [])
        world.sessions.note_upload(next(iter(session_keys(world))))
        run(world, "and now?", user="new")
        assert "bees" in world.turn("ok", user="new").system


def session_keys(world: World) -> list[SessionKey]:
    from honcho_actors.privacy.identity import Identity, resolve

    found = []
    for row in world.sessions.rows():
        identity = resolve(ask(row.key, row.user), world.cell.current)
        assert isinstance(identity, Identity)
        found.append(identity.session)
    return found


# -- persons are shared --------------------------------------------------------------------------------------------


def test_a_new_conversation_with_a_known_person_starts_warm_and_asks_for_no_summary_that_can_not_be() -> None:
    with World() as world:
        run(world, "what about the garden?")
        start = Stopwatch()
        context = world.sessions.serve(ask("s2"))
        assert start.seconds < 0.5
        assert (context.state, "tomatoes" in context.system) == (State.WARM, True)
        world.quiet()
        second = world.remote.last("session_context")
        assert (second.session, second.query["tokens"]) == ("s2", "0")


def test_a_conversation_that_joins_a_flight_asks_only_for_its_own_summary_and_only_if_it_can_have_one() -> None:
    gate = threading.Event()
    remote = Remote(
        {"ann": ("Ann.", [])}, {"old": "They spoke of bees.", "new": "impossible"}, closed={"session_context": gate}
    )
    with World(remote, established=lambda session: session.key == "old", first_turn_wait=0.5) as world:
        for key in ("first", "old", "new"):
            world.turn(key=key)
        gate.set()
        world.quiet()
        assert remote.count("session_context") == 1
        assert [one.session for one in remote.asked if one.op == "summaries"] == ["old"]
        assert "bees" in world.turn("ok", key="old").system
        assert "impossible" not in world.turn("ok", key="new").system


def test_what_one_conversation_reads_of_a_person_shows_in_the_others_next_block() -> None:
    with World() as world:
        run(world, "what about the garden?", key="s1")
        run(world, "what about the garden?", key="s2")
        world.remote.persons["ann"] = ("Ann grows pumpkins.", [])
        run(world, "and the pond?", key="s2")
        assert "pumpkins" in world.turn("ok", key="s1").system


def test_a_fact_that_a_tool_concluded_shows_in_the_next_block() -> None:
    with World(context_cadence=50) as world:
        run(world, "what about the garden?")
        world.remote.persons["ann"] = ("Ann is allergic to nuts.", [])
        world.sessions.refresh(ask())
        world.settle()
        world.quiet()
        assert "nuts" in world.turn("ok").system


def test_two_persons_never_share_whatever_their_conversations_are_called() -> None:
    remote = Remote({"ann": ("Ann grows tomatoes.", []), "bob": ("Bob sails.", [])})
    with World(remote) as world:
        assert "sails" not in world.turn(key="room", user="ann").system
        world.quiet()
        assert "tomatoes" not in world.turn(key="room", user="bob").system


def test_a_prewarmed_conversation_is_warm_at_its_first_turn_and_no_turn_was_counted() -> None:
    with World() as world:
        world.sessions.prewarm(ask())
        world.settle()
        world.quiet()
        assert world.sessions.rows()[0].turns == 0
        assert world.turn().state is State.WARM


# -- last good value, age, turn --------------------------------------------------------------------------------------


def test_a_failed_read_never_replaces_a_good_layer_and_the_age_goes_on() -> None:
    clock = ManualClock()
    with World(clock=clock) as world:
        run(world, "what about the garden?")
        world.remote.statuses.update(session_context=500, peer_context=500)
        for _ in range(3):
            clock.advance(5.0)
            run(world, "and the pond?")
        context = world.turn("ok")
        assert "tomatoes" in context.system
        assert context.age == pytest.approx(15.0, abs=1.0)
        assert context.sections[0].made_for_turn == 1


def test_case_77_what_a_reply_about_another_says_is_not_injected_and_the_last_good_block_stays() -> None:
    clock = ManualClock()
    with World(clock=clock, dialectic_cadence=99) as world:
        run(world, "what about the garden?")
        world.remote.misnamed = "bob"
        world.remote.persons["ann"] = ("Bob keeps bees.", ["Name: Bob"])
        world.remote.summaries["s1"] = "They spoke of Bob."
        run(world, "and the pond?")
        reads = [one.op for one in world.remote.asked if one.op != "chat"]
        assert reads == ["session_context", "session_context", "peer_context"]
        context = world.turn("ok")
        assert "tomatoes" in context.system
        assert "Bob" not in context.system + context.user_message
        world.quiet()
        world.remote.misnamed = ""
        world.remote.persons["ann"] = ("Ann has a boat.", [])
        clock.advance(60.0)
        run(world, "and the shed?")
        assert "boat" in world.turn("ok").system


def test_case_77_the_first_turn_of_a_person_gets_nothing_of_a_reply_about_another() -> None:
    with World(Remote({"ann": ("Bob keeps bees.", ["Name: Bob"])}, misnamed="bob")) as world:
        context = world.turn()
        assert (context.system, context.user_message, context.reason) == ("", "", Reason.SERVER_ERROR)


def test_case_84_a_supplement_made_for_another_turn_says_so_and_is_dropped_when_it_is_old() -> None:
    clock = ManualClock()
    with World(clock=clock, volatile_max_age=60.0, dialectic_cadence=2) as world:
        run(world, "topic one, the garden", "topic two, the pond")
        context = world.turn("ok")
        supplement = context.sections[1]
        assert supplement.made_for_turn == 1
        assert "at turn 1 of this conversation, not for the present message" in supplement.body
        clock.advance(59.0)
        assert world.turn("ok").user_message != ""
        clock.advance(2.0)
        late = world.turn("ok")
        assert late.user_message == ""
        assert late.system == context.system


def test_what_is_known_of_a_person_is_read_again_when_it_is_old_whatever_the_cadence() -> None:
    clock = ManualClock()
    with World(clock=clock, context_cadence=100, representation_ttl=600.0) as world:
        run(world, "what about the garden?", "and the pond?")
        clock.advance(601.0)
        run(world, "and the shed?", "and the fence?")
        assert world.remote.count("session_context") == 2


# -- the dialectic -----------------------------------------------------------------------------------------------------


def test_the_question_names_the_session_only_when_the_server_is_known_to_have_it() -> None:
    with World(dialectic_cadence=1) as world:
        run(world, "what about the garden?")
        assert world.remote.last("chat").body.get("session_id") is None
        world.sessions.note_upload(session_keys(world)[0])
        run(world, "and the pond?")
        assert world.remote.last("chat").body["session_id"] == "s1"
    with World(established=lambda session: True) as world:
        run(world, "what about the garden?")
        assert world.remote.last("chat").body["session_id"] == "s1"


def test_up_to_three_passes_build_on_each_other_and_the_last_one_counts() -> None:
    answers = iter(["first", "second", "third"])
    with World(Remote({"ann": ("Ann.", [])}, answer=lambda query: next(answers)), dialectic_depth=3) as world:
        run(world, "what about the garden?")
        queries = [one.body["query"] for one in world.remote.asked if one.op == "chat"]
        assert len(queries) == 3
        assert "first" in queries[1]
        assert "second" in queries[2]
        assert "third" in world.turn("ok").user_message
        assert world.gauge("dialectic_calls_total", trigger="cold") == 3


@pytest.mark.parametrize("answer", [None, "", "x" * 590])
def test_further_passes_are_not_bought_when_they_can_add_nothing(answer: str | None) -> None:
    with World(Remote({"ann": ("Ann.", [])}, answer=lambda query: answer), dialectic_depth=3) as world:
        run(world, "what about the garden?")
        assert world.remote.count("chat") == 1


def test_a_later_pass_that_fails_leaves_the_answer_before_it() -> None:
    remote = Remote({"ann": ("Ann.", [])})

    def once(query: str) -> str:
        remote.statuses["chat"] = 500
        return "the first answer"

    remote.answer = once
    with World(remote, dialectic_depth=2) as world:
        run(world, "what about the garden?")
        assert "the first answer" in world.turn("ok").user_message


def test_the_level_follows_the_length_of_the_message_under_its_cap() -> None:
    with World(dialectic_cadence=1, reasoning_level="low", reasoning_level_cap="medium") as world:
        run(world, "first, cold", "short question?", "a longer question " * 10, "a very long question " * 60)
        levels = [one.body["reasoning_level"] for one in world.remote.asked if one.op == "chat"]
        assert levels == ["low", "low", "medium", "medium"]


def test_an_hour_never_costs_more_questions_than_its_budget() -> None:
    clock = ManualClock()
    with World(clock=clock, dialectic_cadence=1, dialectic_per_hour=3) as world:
        run(world, *(f"what about bed {number}?" for number in range(6)))
        assert world.remote.count("chat") == 3
        assert world.gauge("refresh_total", layer="dialectic", outcome="budget") == 3
        clock.advance(3601.0)
        run(world, "and now?")
        assert world.remote.count("chat") == 4


def test_passes_that_were_not_needed_go_back_into_the_hours_budget() -> None:
    remote = Remote({"ann": ("Ann.", [])}, answer=lambda query: None)
    with World(remote, dialectic_cadence=1, dialectic_per_hour=3, dialectic_depth=3) as world:
        run(world, "what about bed 1?")
        assert (remote.count("chat"), world.gauge("refresh_total", layer="dialectic", outcome="budget")) == (1, 0)


def test_empty_answers_are_asked_for_less_and_less_often() -> None:
    with World(Remote({"ann": ("Ann.", [])}, answer=lambda query: None), dialectic_cadence=1) as world:
        run(world, *(f"what about bed {number}?" for number in range(8)))
        assert world.remote.count("chat") == 3, "at turns 0, 2 and 6, and then not before 14"


def test_a_dialectic_that_fails_keeps_the_last_good_answer() -> None:
    with World(dialectic_cadence=1) as world:
        run(world, "what about the garden?")
        before = world.turn("ok").user_message
        world.remote.statuses["chat"] = 500
        run(world, "and the pond?")
        assert world.turn("ok").user_message == before != ""


def test_a_slow_dialectic_never_holds_up_the_base_layer() -> None:
    with World(Remote({"ann": ("Ann.", [])}, closed={"chat": threading.Event()}), context_cadence=1) as world:
        assert world.turn().reason is Reason.FILLED
        world.remote.persons["ann"] = ("Ann sails.", [])
        world.turn()
        assert until(lambda: "sails" in world.turn("ok").system)


def test_one_hundred_and_four_turns_at_defaults_cost_what_the_operators_table_says() -> None:
    with World() as world:
        run(world, *(f"what about bed number {number}?" for number in range(104)))
        assert (world.remote.count("session_context"), world.remote.count("chat")) == (104, 52)
        assert len(world.remote.asked) == 156


def test_one_poisoned_conversation_never_hurts_another() -> None:
    def counter(text: str) -> int:
        if "poison" in text:
            raise ValueError("poison")
        return len(text) // 3

    remote = Remote({"ann": ("Ann.", []), "eve": ("poison", [])})
    with World(remote, counter=counter) as world:
        for _ in range(12):
            assert world.turn(key="bad", user="eve").sections == ()
            assert "Ann" in world.turn(key="good", user="ann").system
            world.quiet()
        assert world.sessions.status()["generation"] == 1
