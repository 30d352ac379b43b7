"""Serving turns: SM1 to SM42 of the original's table, over a real socket. Where a value is new, the test says why."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.sessions.jobs import Done
from honcho_actors.settings import Settings
from supervision import ManualClock
from tests.support.memory_world import Remote, World, until
from tests.support.stopwatch import Stopwatch


def remote(**more: Any) -> Remote:
    return Remote({"ann": ("Ann grows tomatoes.", ["Name: Ann"])}, **more)


# -- gates ---------------------------------------------------------------------------------------


def test_sm1_unconfigured_serves_nothing_and_asks_nothing() -> None:
    with World(base_url=None) as world:
        context = world.turn()
        assert (context.state, context.reason, context.sections) == (State.OFF, Reason.NOT_CONFIGURED, ())
        assert world.remote.asked == []


def test_sm2_tools_mode_injects_nothing_and_asks_nothing() -> None:
    with World(recall_mode="tools") as world:
        assert world.turn().reason is Reason.TOOLS_MODE
        assert world.remote.asked == []


def test_sm3_a_subagent_gets_nothing_by_default_and_asks_nothing() -> None:
    with World() as world:
        assert world.turn(scope="subagent").reason is Reason.SUBAGENT
        assert world.remote.asked == []


def test_sm4_a_subagent_is_served_where_the_settings_say_so() -> None:
    with World(inject_in_subagents=True) as world:
        assert world.turn(scope="subagent").reason is Reason.FILLED


@pytest.mark.parametrize(
    ("request_", "settings", "reason"),
    [
        (TurnRequest(session_key="s", user="ann", audience="shared"), {}, Reason.SHARED_AUDIENCE),
        (TurnRequest(session_key="s"), {"require_user": True}, Reason.NO_IDENTITY),
        (TurnRequest(session_key="s", user="ann"), {"enabled": False}, Reason.DISABLED),
        (TurnRequest(session_key="s", user="ann"), {"context_tokens": 0}, Reason.BUDGET),
        (TurnRequest(session_key=["s"], user="ann"), {"require_user": True}, None),  # type: ignore[arg-type]
        ({"session_key": "s"}, {}, Reason.NO_IDENTITY),
        (None, {}, Reason.NO_IDENTITY),
    ],
)
def test_every_other_gate_answers_off_with_its_reason(request_: Any, settings: Any, reason: Reason | None) -> None:
    with World(**settings) as world:
        context = world.sessions.serve(request_)
        assert context.sections == () or reason is None
        assert reason is None or (context.state, context.reason) == (State.OFF, reason)
        assert reason is None or world.remote.asked == []


# -- the first turn ---------------------------------------------------------------------------------------


def test_sm5_the_first_turn_waits_for_the_base_layer_and_never_for_the_dialectic() -> None:
    # New value: the original waited for the full block. A cold turn returns when the base layer has landed.
    never = threading.Event()
    with World(remote(closed={"chat": never})) as world:
        context = world.turn()
        assert (context.state, context.reason) == (State.COLD, Reason.FILLED)
        assert "tomatoes" in context.system
        assert context.user_message == ""
        assert 0 < context.waited < 10.0


def test_sm6_the_first_question_is_cold_the_next_warm_with_the_message_and_asked_of_the_users_own_peer() -> None:
    # New value: asked of the user's own peer without a target (one slot), not of the assistant about the user.
    with World() as world:
        for number in range(3):
            world.turn(f"what about bed number {number}?")
            world.quiet()
        first, second = [one for one in world.remote.asked if one.op == "chat"]
        assert first.peer == second.peer == "ann"
        assert "target" not in first.body
        assert "Who is this person" in first.body["query"]
        assert "bed number" not in first.body["query"]
        assert second.body["query"].endswith("what about bed number 2?")


def test_sm7_without_a_wait_the_first_turn_is_empty_and_the_second_has_the_block() -> None:
    with World(first_turn_wait=0.0) as world:
        first = world.turn()
        assert (first.reason, first.sections) == (Reason.LOADING, ())
        world.quiet()
        assert "tomatoes" in world.turn().system


def test_sm8_a_later_turn_never_waits_even_with_an_empty_block() -> None:
    never = threading.Event()
    with World(remote(closed={"session_context": never}), first_turn_wait=0.6) as world:
        assert world.turn().reason is Reason.DEADLINE
        start = Stopwatch()
        later = world.turn()
        assert start.seconds < 0.5
        assert (later.reason, later.waited) == (Reason.LOADING, 0.0)


# -- cadence ---------------------------------------------------------------------------------------


def test_sm9_cadences_of_3_and_2_over_six_turns_cost_two_base_reads_and_three_questions() -> None:
    # New value: one request a base read where the original made three, and no init at all.
    with World(context_cadence=3, dialectic_cadence=2) as world:
        for number in range(6):
            world.turn(f"about bed {number}?")
            world.quiet()
        assert world.remote.count("session_context") == 2
        assert world.remote.count("chat") == 3
        assert len(world.remote.asked) == 5


def test_sm10_cadences_of_1_and_1_over_three_turns_cost_three_and_three() -> None:
    with World(context_cadence=1, dialectic_cadence=1) as world:
        for number in range(3):
            world.turn(f"about bed {number}?")
            world.quiet()
        assert world.remote.count("session_context") == 3
        assert world.remote.count("chat") == 3


def test_sm11_the_system_half_is_the_same_to_the_byte_while_messages_and_supplements_move() -> None:
    with World(dialectic_cadence=1) as world:
        seen: list[Context] = []
        for number in range(6):
            seen.append(world.turn(f"and now about bed number {number}?"))
            world.quiet()
        assert len({one.system for one in seen}) == 1
        assert len({one.user_message for one in seen[1:]}) == 5


def test_sm12_base_reads_carry_no_query_whatever_was_said() -> None:
    with World() as world:
        for _ in range(3):
            world.turn("xylophone please?")
            world.quiet()
        reads = [one for one in world.remote.asked if one.op == "session_context"]
        assert all("xylophone" not in str(one.query) for one in reads)
        assert {tuple(sorted(one.query)) for one in reads} == {
            ("include_most_frequent", "max_conclusions", "peer_target", "summary", "tokens")
        }


def test_sm13_what_the_message_steers_shows_in_the_volatile_half_alone() -> None:
    with World(remote(answer=lambda query: "steered by " + query[-9:]), dialectic_cadence=1) as world:
        for _ in range(2):
            world.turn("the xylophone")
            world.quiet()
        context = world.turn("ok")
        assert "steered by xylophone" in context.user_message
        assert "xylophone" not in context.system


def test_sm16_sm17_a_message_with_a_credential_is_withheld_and_the_refresh_still_happens() -> None:
    secret = "sk-" + "a1B2" * 12
    with World(dialectic_cadence=1) as world:
        for _ in range(2):
            world.turn(f"use {secret} please")
            world.quiet()
        assert world.remote.count("chat") == 2
        assert world.remote.count("session_context") == 2
        assert all(secret[:12] not in str(one) for one in world.remote.asked)


# -- overruns ---------------------------------------------------------------------------------------


def test_sm19_a_dialectic_that_overruns_is_asked_once_at_a_time() -> None:
    # New value: where the original overran for 11 s, nothing is waited for here: one call is under way, ever.
    never = threading.Event()
    with World(remote(closed={"chat": never}), dialectic_cadence=1) as world:
        for number in range(8):
            world.turn(f"about bed {number}?")
        until(lambda: world.remote.count("session_context") >= 2)
        assert world.remote.count("chat") == 1


def test_sm20_a_late_result_of_an_abandoned_refresh_changes_nothing_and_is_counted() -> None:
    never = threading.Event()
    with World(remote(closed={"session_context": never}), first_turn_wait=0.6) as world:
        world.turn()
        assert world.sessions.forget("ann")
        assert world.sessions.rows() == ()
        manager = world.manager
        manager.tell(Done(1 << 32 | 1, representation="OLD"))
        world.settle()
        assert world.sessions.rows() == ()
        assert world.gauge("late_results_total", kind="refresh") == 1


def test_sm21_the_timer_of_a_finished_refresh_is_taken_back() -> None:
    with World() as world:
        before = len(world.runtime.timers)
        for number in range(4):
            world.turn(f"about bed {number}?")
            world.quiet()
        assert until(lambda: len(world.runtime.timers) <= before)


def test_sm22_an_absurd_time_limit_is_clamped_and_harms_nobody() -> None:
    with World(request_timeout=3600.0, dialectic_timeout=3600.0) as world:
        assert world.turn().reason is Reason.FILLED
        assert world.turn().state is State.WARM


def test_sm23_workers_end_with_the_manager() -> None:
    never = threading.Event()
    with World(remote(closed={"session_context": never}), first_turn_wait=0.5) as world:
        world.turn()
        until(lambda: len(world.workers()) == 1)
        manager = world.manager
        manager.kill()
        until(lambda: world.sessions.table.manager not in (None, manager))
        assert until(lambda: world.workers() == [])


def test_sm24_a_caller_that_goes_away_leaves_no_waiter_and_the_block_is_cached() -> None:
    # New value: a thread can't be killed; the caller that goes away is a cancelled task (case 119 takes five).
    import asyncio

    gate = threading.Event()

    async def leave(world: World) -> None:
        task = asyncio.create_task(world.sessions.aserve(TurnRequest(session_key="s1", user="ann", query="well?")))
        while world.remote.count("session_context") == 0:  # noqa: ASYNC110 (another thread counts)
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with World(remote(closed={"session_context": gate})) as world:
        asyncio.run(leave(world))
        world.settle()
        assert world.gauge("cold_waiters") == 0
        assert world.gauge("waiters_resolved_total", cause="cancelled") == 1
        gate.set()
        world.quiet()
        assert world.turn().state is State.WARM


def test_sm25_odd_lines_of_a_card_are_dropped_and_everything_goes_on() -> None:
    with World(Remote({"ann": ("Ann.", ["Name: Ann", {"a": 1}, None, ["x"], "Lives in Oslo"])})) as world:
        text = world.turn().system
        assert "- Name: Ann\n- Lives in Oslo" in text
        assert world.turn().state is State.WARM


def test_sm26_sm27_a_card_of_the_wrong_shape_costs_only_the_card_now_and_later() -> None:
    odd = Remote({"ann": ("Ann grows tomatoes.", {"Name": "Ann"})})  # type: ignore[dict-item]
    with World(odd) as world:
        for _ in range(3):
            text = world.turn().system
            assert "tomatoes" in text
            assert "Key facts" not in text
            world.quiet()


# -- live settings ---------------------------------------------------------------------------------------


def changed(world: World, **values: Any) -> None:
    now = world.cell.current
    world.cell.publish(Settings(**{"base_url": now.base_url, "first_turn_wait": now.first_turn_wait, **values}))


def test_sm28_another_recall_mode_takes_effect_at_the_next_turn() -> None:
    with World() as world:
        assert world.turn().sections
        changed(world, recall_mode="tools")
        assert world.turn().reason is Reason.TOOLS_MODE
        changed(world)
        assert world.turn().state is State.WARM


def test_another_budget_takes_effect_at_the_next_turn_before_any_refresh() -> None:
    long = Remote({"ann": ("observation " * 3000, [])})
    with World(long, context_cadence=50) as world:
        wide = world.turn().system
        changed(world, context_tokens=300, context_cadence=50)
        narrow = world.turn("ok").system
        assert len(narrow) < len(wide) / 2
        assert world.turn("ok").system == narrow


def test_nothing_of_the_old_server_is_served_for_a_new_one() -> None:
    with World() as world, World(Remote({"ann": ("Ann sails.", [])})) as other:
        assert "tomatoes" in world.turn().system
        changed(world, base_url=other.cell.current.base_url)
        world._clients.clear()
        fresh = world.turn()
        assert fresh.state is State.COLD
        assert "tomatoes" not in fresh.system


def test_a_turn_that_began_under_the_old_settings_leaves_nothing_of_them_for_the_new_ones() -> None:
    with World() as world, World(Remote({"ann": ("Ann sails.", [])})) as other:
        world.turn()
        world.quiet()
        world.turn("ok")
        gate = world.sessions._gate
        assert len(gate.known) == 1
        changed(world, base_url=other.cell.current.base_url)
        world._clients.clear()
        assert world.turn().state is State.COLD
        assert world.sessions._gate is not gate
        world.quiet()
        world.turn("ok")
        assert world.sessions._gate.known.keys() == gate.known.keys()
        assert {id(one) for one in world.sessions._gate.known.values()} & {
            id(one) for one in gate.known.values()
        } == set()


def test_sm30_wait_and_grant_come_from_one_reading_of_the_settings() -> None:
    with World(first_turn_wait=0.4) as world:
        turn = world.sessions.look(TurnRequest(session_key="s1", user="ann", query="well?"))
        changed(world, first_turn_wait=0.0)
        assert turn.settings.first_turn_wait == 0.4
        assert turn.context is None


# -- trivial turns ---------------------------------------------------------------------------------------


def test_sm31_a_trivial_turn_gets_the_cached_block_and_asks_nothing() -> None:
    with World() as world:
        world.turn()
        world.quiet()
        before = len(world.remote.asked)
        for word in ("ok", "thanks!", "", "👍", "/reset"):
            assert "tomatoes" in world.turn(word).system
        world.quiet()
        assert len(world.remote.asked) == before


def test_sm32_trivial_turns_do_not_move_the_cadence() -> None:
    with World(context_cadence=3, dialectic_cadence=3) as world:
        for word in ("what about bed 1?", "ok", "thanks", "ok", "and bed 2?", "ok", "and bed 3?", "yes"):
            world.turn(word)
            world.quiet()
        assert world.remote.count("session_context") == 1
        world.turn("and bed 4?")
        world.quiet()
        assert world.remote.count("session_context") == 2


def test_sm33_a_message_that_begins_with_an_acknowledgement_still_refreshes() -> None:
    with World() as world:
        for _ in range(2):
            world.turn("ok, and what about the greenhouse?")
            world.quiet()
        assert world.remote.count("session_context") == 2


def test_sm34_a_trivial_opener_loads_and_is_waited_for() -> None:
    with World() as world:
        assert world.turn("hi").reason is Reason.FILLED
        assert world.remote.count("chat") == 0


def test_sm35_that_load_happens_once_and_the_next_real_turn_is_as_due_as_it_would_have_been() -> None:
    # New value: in the original the first real turn after a trivial opener refreshed nothing: its marks had moved.
    with World() as world:
        for word in ("hi", "ok", "thanks"):
            world.turn(word)
            world.quiet()
        assert world.remote.count("session_context") == 1
        world.turn("what about the garden?")
        world.quiet()
        assert (world.remote.count("session_context"), world.remote.count("chat")) == (2, 1)


def test_while_the_load_of_a_trivial_opener_runs_later_calls_return_at_once() -> None:
    never = threading.Event()
    with World(remote(closed={"session_context": never}), first_turn_wait=0.6) as world:
        assert world.turn("hi").reason is Reason.DEADLINE
        for word in ("hello", "what about the garden?"):
            later = world.turn(word)
            assert (later.reason, later.waited) == (Reason.LOADING, 0.0)


# -- outages ---------------------------------------------------------------------------------------


def test_sm41_an_unreachable_server_costs_three_turns_their_memory_and_is_dialled_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "honcho_actors")
    with World(remote(statuses={"session_context": 500, "peer_context": 500})) as world:
        assert [world.turn().reason for _ in range(3)] == [Reason.SERVER_ERROR] * 3
        assert world.remote.count("session_context") == 1
        assert [one.levelname for one in caplog.records if "could not be loaded" in one.message] == ["INFO"]
        assert world.sessions.status()["manager"] == "running"


def test_a_conversation_that_could_not_be_loaded_is_tried_again_after_a_pause() -> None:
    clock = ManualClock()
    with World(remote(statuses={"session_context": 500, "peer_context": 500}), clock=clock) as world:
        assert world.turn().reason is Reason.SERVER_ERROR
        clock.advance(29.0)
        world.turn()
        assert world.remote.count("session_context") == 1
        world.remote.statuses.clear()
        clock.advance(2.0)
        world.turn()
        world.quiet()
        assert "tomatoes" in world.turn().system


def test_sm42_a_slow_server_is_waited_for_inside_the_bound() -> None:
    with World(remote(delays={"session_context": 1.5}), first_turn_wait=0.4) as world:
        start = Stopwatch()
        context = world.turn()
        assert context.reason is Reason.DEADLINE
        assert start.elapsed > 0.3
        assert start.seconds < 1.2
        world.quiet()
        assert "tomatoes" in world.turn().system
