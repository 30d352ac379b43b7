"""The contributor under a host's registry: CC1 to CC17 and SM58 to SM61 of the original's table."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from honcho_actors.host import Collected, ContextRegistry, OutcomeState, compose_prompt
from honcho_actors.model import Placement, TurnRequest
from honcho_actors.satellite import ContextContributor
from honcho_actors.satellite.contributor import NAME
from tests.support.memory_world import Remote, World, until
from tests.support.stopwatch import Stopwatch


def ask(key: str = "s1", query: Any = "what about the garden?", **more: Any) -> TurnRequest:
    return TurnRequest(session_key=key, user="ann", query=query, **more)


def registered(world: World, **limits: Any) -> ContextRegistry:
    registry = ContextRegistry(clock=world.runtime.clock, **limits)
    registry.register(NAME, ContextContributor(world.sessions), inline=True)
    return registry


def collect(world: World, registry: ContextRegistry, request: TurnRequest | None = None) -> Collected:
    collected = registry.collect(request or ask())
    world.quiet()
    return collected


def wants(world: World, request: Any = None) -> float:
    return ContextContributor(world.sessions).plan(request or ask()).wants


def test_cc1_cc15_without_a_manager_there_is_nothing_to_say_and_no_time_is_wanted() -> None:
    with World() as world:
        registry = registered(world)
        world.root.stop(5)
        start = Stopwatch()
        assert registry.collect(ask()).sections == ()
        assert start.seconds < 5.0


def test_cc2_an_empty_block_is_nothing_to_say() -> None:
    with World(Remote({"ann": ("", [])})) as world:
        assert collect(world, registered(world)).outcomes[0].state is OutcomeState.NOTHING


@pytest.mark.parametrize("odd", [None, 7, "text", {"session_key": "s1"}, object()])
def test_cc3_cc16_what_is_no_request_has_nothing_to_say_and_wants_no_time(odd: Any) -> None:
    with World() as world:
        assert ContextContributor(world.sessions).plan(odd).wants == 0.0
        assert registered(world).collect(odd).sections == ()
        assert world.remote.asked == []


def test_cc4_two_sections_in_two_placements_the_dialectic_in_the_second_alone() -> None:
    with World(dialectic_cadence=1) as world:
        registry = registered(world)
        collect(world, registry)
        system, user = collect(world, registry).sections
        assert (system.placement, user.placement) == (Placement.SYSTEM, Placement.USER_MESSAGE)
        assert "tomatoes" in system.body
        assert "About:" in user.body
        assert "About:" not in system.body


def test_cc5_titles_and_bodies_do_not_name_the_service_and_say_that_it_is_no_instruction() -> None:
    with World(dialectic_cadence=1) as world:
        registry = registered(world)
        collect(world, registry)
        for section in collect(world, registry).sections:
            assert "honcho" not in (section.title + section.body).lower()
            assert "not an instruction" in section.body


def test_cc6_without_a_dialectic_there_is_one_bare_system_section() -> None:
    with World(Remote({"ann": ("Ann.", [])}, answer=lambda query: None)) as world:
        registry = registered(world)
        collect(world, registry)
        (only,) = collect(world, registry).sections
        assert only.placement is Placement.SYSTEM


@pytest.mark.parametrize("honours", [False, True])
def test_cc7_cc8_over_twenty_turns_the_stable_bytes_stand_still_and_the_volatile_move(honours: bool) -> None:
    # CC8: a server that would honour a query is sent none, so there is nothing that it could steer the stable half by.
    numbers = iter(range(1000))
    remote = Remote(
        {"ann": ("Ann.", ["a"])}, answer=lambda query: query[-20:] if honours else f"answer {next(numbers)}"
    )
    with World(remote, dialectic_cadence=1) as world:
        registry = registered(world)
        seen = []
        for number in range(20):
            seen.append(collect(world, registry, ask(query=f"turn number {number}?")))
            until(lambda asked=number + 1: remote.count("chat") == asked, 20.0)  # type: ignore[misc]
            world.quiet(20.0)
        assert len({one.split()[0][0].body for one in seen}) == 1
        assert len({one.split()[1][0].body for one in seen[1:]}) == 19


def test_cc9_sm58_a_cold_conversation_wants_the_first_turn_wait_and_the_headroom() -> None:
    # New value: the original added 200 ms of its own; here it is the headroom that the settings name.
    with World(first_turn_wait=1.0, headroom=0.05) as world:
        assert wants(world) == pytest.approx(1.05)


def test_cc10_sm59_the_host_clamps_what_is_wanted_to_its_own_ceiling() -> None:
    # New value: the contributor knows no constant of the host; the registry grants exactly 3 s.
    never = threading.Event()
    with World(Remote(closed={"session_context": never}), first_turn_wait=30.0) as world:
        assert wants(world) == pytest.approx(30.05)
        outcome = registered(world, max_timeout=0.3).collect(ask()).outcomes[0]
        assert outcome.granted == 0.3


def test_cc11_with_two_hundred_conversations_a_plan_takes_no_time() -> None:
    with World(Remote({}), first_turn_wait=0.0) as world:
        for number in range(200):
            world.sessions.serve(ask(f"s{number}"))
        start = Stopwatch()
        for number in range(200):
            wants(world, ask(f"s{number}"))
        assert start.seconds / 200 < 0.02


def test_cc12_with_a_block_at_hand_no_time_is_wanted_and_the_host_grants_its_default() -> None:
    with World() as world:
        registry = registered(world)
        collect(world, registry)
        assert wants(world) == 0.0
        assert collect(world, registry).outcomes[0].granted == 0.25


def test_cc13_sm60_with_the_wait_switched_off_no_time_is_wanted() -> None:
    with World(first_turn_wait=0.0) as world:
        assert wants(world) == 0.0


def test_cc14_unconfigured_no_time_is_wanted() -> None:
    with World(base_url=None) as world:
        assert wants(world) == 0.0


def test_cc17_for_a_subagent_that_gets_nothing_no_time_is_wanted() -> None:
    with World() as world:
        assert wants(world, ask(scope="subagent")) == 0.0


def test_sm61_the_wait_ends_before_the_grant_and_uses_most_of_it() -> None:
    never = threading.Event()
    with World(Remote(closed={"session_context": never}), first_turn_wait=5.0, headroom=0.5) as world:
        registry = registered(world, max_timeout=1.5)
        start = time.monotonic()
        collected = registry.collect(ask())
        took = time.monotonic() - start
        assert took > 0.8
        assert collected.outcomes[0].state is OutcomeState.NOTHING, "it answered by itself, it was not cut off"


def test_a_plan_that_is_never_run_counts_nothing_and_starts_nothing() -> None:
    with World() as world:
        for _ in range(3):
            wants(world)
        world.settle()
        assert (world.remote.asked, world.sessions.rows()) == ([], ())


def test_the_same_on_an_event_loop() -> None:
    with World() as world:
        registry = registered(world)
        assert "tomatoes" in asyncio.run(registry.acollect(ask())).sections[0].body
        world.quiet()
        assert world.gauge("turns_total", path="cold", outcome="filled") == 1


def test_on_a_loops_own_thread_the_sync_form_waits_for_nobody() -> None:
    never = threading.Event()
    with World(Remote({"ann": ("Ann.", [])}, closed={"session_context": never}), first_turn_wait=60.0) as world:
        registry = registered(world, max_timeout=60.0)

        async def blocking() -> float:
            start = time.monotonic()
            assert registry.collect(ask()).sections == ()
            return time.monotonic() - start

        assert asyncio.run(blocking()) < 20.0
        world.settle()
        assert len(world.sessions.rows()) == 1, "it was served, so it counts, and its load has begun"


def test_a_prompt_is_composed_of_what_was_collected() -> None:
    with World(dialectic_cadence=1) as world:
        registry = registered(world)
        collect(world, registry)
        context = world.turn("ok")
        collected = collect(world, registry, ask(query="ok"))
        prompt = compose_prompt("You are helpful.", collected, "ok", "f00d")
        assert prompt.system == "You are helpful.\n\n" + context.system
        assert prompt.user.startswith("ok\n\n[context f00d:")
        assert context.user_message in prompt.user
        assert compose_prompt("You are helpful.", context, "ok", "f00d") == prompt
