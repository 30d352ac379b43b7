"""The registry: budgets, isolation, shapes, sizes, order. Contributors here are plain objects of the host's world."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from honcho_actors.host import (
    Collected,
    ContextRegistry,
    Contribution,
    MemoryTranscripts,
    OutcomeState,
    Plan,
    Prefix,
    Transcript,
    compose_prompt,
)
from honcho_actors.host.prompt import stripped
from honcho_actors.model import Placement, Section, TurnRequest
from supervision import Waiter
from tests.support.stopwatch import Stopwatch

REQUEST = TurnRequest(session_key="s", user="ann", query="well?")


def section(title: str = "T", body: str = "B", placement: Placement = Placement.SYSTEM) -> Section:
    return Section(title, body, placement)


class Says:
    """A contributor that gives `answer` (or what calling it gives), wanting `wants` seconds."""

    def __init__(self, answer: Any, wants: Any = 0.0, before: Callable[[], object] = lambda: None) -> None:
        self._answer = answer
        self._wants = wants
        self._before = before
        self.deadlines: list[float] = []

    def plan(self, request: TurnRequest) -> Plan:
        self._before()
        return Plan(self._wants, self._run)

    def _run(self, deadline: float) -> Any:
        self.deadlines.append(deadline)
        return self._answer() if callable(self._answer) else self._answer


def collect(registry: ContextRegistry, how: str, ceiling: float | None = None) -> Collected:
    if how == "thread":
        return registry.collect(REQUEST, ceiling)
    return asyncio.run(registry.acollect(REQUEST, ceiling))


def later(value: Any, seconds: float) -> Callable[[], Waiter[Any]]:
    def make() -> Waiter[Any]:
        waiter: Waiter[Any] = Waiter()
        threading.Timer(seconds, waiter.resolve, (value,)).start()
        return waiter

    return make


both_ways = pytest.mark.parametrize("how", ["thread", "loop"])
both_kinds = pytest.mark.parametrize("inline", [True, False], ids=["inline", "foreign"])


@both_ways
def test_nothing_registered_gives_nothing_and_starts_no_thread(how: str) -> None:
    before = threading.active_count()
    assert collect(ContextRegistry(), how) == Collected()
    assert threading.active_count() == before


@both_ways
@both_kinds
def test_sections_come_in_order_of_registration_and_a_replacement_keeps_its_place(how: str, inline: bool) -> None:
    registry = ContextRegistry()
    for name in ("a", "b", "c"):
        registry.register(name, Says(Contribution((section(name),))), inline)
    registry.register("b", Says([section("b1"), section("b2")]), inline)
    assert [one.title for one in collect(registry, how).sections] == ["a", "b1", "b2", "c"]
    registry.unregister("b")
    registry.unregister("nobody")
    assert registry.names == ("a", "c")
    assert [one.title for one in collect(registry, how).sections] == ["a", "c"]


@both_ways
def test_all_waiters_are_waited_for_at_once(how: str) -> None:
    registry = ContextRegistry()
    for number in range(5):
        registry.register(f"c{number}", Says(later(section(str(number)), 0.2), 1.0), inline=number % 2 == 0)
    start = Stopwatch()
    assert len(collect(registry, how).sections) == 5
    assert start.seconds < 0.9


@both_ways
@both_kinds
def test_a_late_contributor_costs_its_grant_and_the_others_nothing(how: str, inline: bool) -> None:
    registry = ContextRegistry()
    registry.register("late", Says(lambda: Waiter(), 0.2), inline)
    registry.register("good", Says(section("good")), inline)
    start = Stopwatch()
    collected = collect(registry, how)
    assert start.elapsed > 0.15
    assert start.seconds < 3.0
    assert [one.title for one in collected.sections] == ["good"]
    assert [one.state for one in collected.outcomes] == [OutcomeState.LATE, OutcomeState.OK]


def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


class Fatal(BaseException):
    pass


def fatal(*_: Any) -> Any:
    raise Fatal


@both_ways
@both_kinds
@pytest.mark.parametrize("contributor", [Says(boom), Says(None, before=boom), object()], ids=["run", "plan", "no plan"])
def test_a_failing_contributor_costs_only_itself(how: str, inline: bool, contributor: Any) -> None:
    registry = ContextRegistry()
    registry.register("bad", contributor, inline)
    registry.register("good", Says(section("good")), inline)
    collected = collect(registry, how)
    assert [one.title for one in collected.sections] == ["good"]
    assert collected.outcomes[0].state is OutcomeState.FAILED


def test_a_registry_that_nobody_holds_leaves_no_thread_behind() -> None:
    before = lanes()
    registry = ContextRegistry()
    for number in range(5):
        registry.register(f"c{number}", Says(section()))
    registry.collect(REQUEST)
    assert lanes() == before + 5
    del registry
    gc.collect()
    end = time.monotonic() + 20
    while lanes() > before:
        assert time.monotonic() < end
        time.sleep(0.005)


@both_ways
def test_a_foreign_contributor_may_even_raise_what_ends_programs(how: str) -> None:
    registry = ContextRegistry()
    registry.register("bad", Says(fatal))
    registry.register("good", Says(section("good")))
    for _ in range(2):
        assert [one.title for one in collect(registry, how).sections] == ["good"]


def lanes() -> int:
    """Threads that registries hold."""
    return sum(1 for thread in threading.enumerate() if thread.name.startswith("context-"))


@both_ways
def test_a_stuck_foreign_plan_costs_50_ms_once_and_is_passed_over_until_it_is_back(how: str) -> None:
    hold = threading.Event()
    registry = ContextRegistry()
    registry.register("stuck", Says(section("stuck"), before=lambda: hold.wait(30)))
    registry.register("good", Says(section("good")))
    before = lanes()
    for _ in range(5):
        start = Stopwatch()
        collected = collect(registry, how)
        assert start.seconds < 5.0
        assert [one.title for one in collected.sections] == ["good"]
        assert collected.outcomes[0].state is OutcomeState.BUSY
    assert lanes() <= before + 2
    hold.set()
    end = time.monotonic() + 30
    while len(collect(registry, how).sections) < 2:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("wants", [None, True, float("nan"), -1.0, 0.0, "soon"])
def test_a_wish_that_makes_no_sense_counts_as_the_default(wants: Any) -> None:
    registry = ContextRegistry()
    registry.register("odd", Says(None, wants), inline=True)
    assert registry.collect(REQUEST).outcomes[0].granted == 0.25


@pytest.mark.parametrize(
    ("wants", "ceiling", "granted"),
    [
        (1.0, None, 1.0),
        (99.0, None, 3.0),
        (1.0, 0.5, 0.5),
        (1.0, 9.0, 1.0),
        (1.0, 0, 0.25),
        (1.0, -1, 0.25),
        (0.1, 1.0, 0.1),
    ],
)
def test_a_grant_is_what_is_wanted_inside_every_bound(wants: float, ceiling: Any, granted: float) -> None:
    registry = ContextRegistry()
    registry.register("one", Says(None, wants), inline=True)
    assert registry.collect(REQUEST, ceiling).outcomes[0].granted == granted


def test_the_deadline_that_run_is_given_is_the_grant_from_the_start() -> None:
    says = Says(None, 0.7)
    registry = ContextRegistry()
    registry.register("one", says, inline=True)
    start = time.monotonic()
    registry.collect(REQUEST)
    assert says.deadlines[0] - start == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(
    "answer",
    [
        [section(" T ", " B "), section("", "x"), section("x", "  "), "text", None, 7],
        [replace(section(), placement="system"), replace(section(), placement="elsewhere"), section()],  # type: ignore[arg-type]
        [Section(7, "x", Placement.SYSTEM), section()],  # type: ignore[arg-type]
    ],
)
def test_a_bad_section_costs_only_itself_and_nothing_is_coerced(answer: Any) -> None:
    registry = ContextRegistry()
    registry.register("one", Says(answer), inline=True)
    collected = registry.collect(REQUEST)
    assert collected.sections == (section(),)
    assert collected.outcomes[0].dropped == len(answer) - 1


def test_an_answer_without_a_shape_is_told_apart_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    registry = ContextRegistry()
    registry.register("shapeless", Says(7), inline=True)
    registry.register("nothing", Says(None), inline=True)
    with caplog.at_level(logging.WARNING):
        states = [one.state for one in registry.collect(REQUEST).outcomes]
    assert states == [OutcomeState.BAD_SHAPE, OutcomeState.NOTHING]
    assert "shapeless" in caplog.text


def test_at_most_eight_sections_and_16384_bytes_the_longest_run_from_the_start() -> None:
    registry = ContextRegistry()
    registry.register("many", Says([section(str(n)) for n in range(12)]), inline=True)
    registry.register("big", Says([section("a", "x" * 9000), section("b", "é" * 4000), section("c", "y")]), inline=True)
    collected = registry.collect(REQUEST)
    assert [one.title for one in collected.sections] == [*"01234567", "a"]
    assert [one.dropped for one in collected.outcomes] == [4, 2]


def test_split_gives_the_two_placements() -> None:
    user = section("U", placement=Placement.USER_MESSAGE)
    assert Collected((section(), user)).split() == ((section(),), (user,))


def test_concurrent_collections_do_not_mix() -> None:
    registry = ContextRegistry()
    registry.register("who", Echo(), inline=True)
    registry.register("foreign", Echo())
    wrong: list[Any] = []

    def run(name: str) -> None:
        for _ in range(40):
            for one in registry.collect(TurnRequest(session_key=name)).sections:
                if one.body != name:
                    wrong.append(one)

    threads = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


class Echo:
    def plan(self, request: TurnRequest) -> Plan:
        return Plan(0.0, lambda deadline: Contribution((section("who", request.session_key or ""),)))


# -- prompt and transcript ------------------------------------------------------------------------------------


def test_without_anything_collected_the_prompt_is_what_the_host_and_the_user_wrote() -> None:
    prompt = compose_prompt("static", Collected(), "hello  ")
    assert (prompt.system, prompt.user, prompt.typed, prompt.added) == ("static", "hello  ", "hello  ", "")


def test_composing_takes_what_was_collected_and_nothing_else() -> None:
    with pytest.raises(TypeError):
        compose_prompt("static", [section()], "hello")  # type: ignore[arg-type]


def test_the_transcript_shows_what_was_typed_and_replays_what_was_sent_also_after_a_restart() -> None:
    store = MemoryTranscripts()
    first = Transcript("s", store)
    assert first.fresh
    assert len(first.mark) == 32
    moving = Collected((section("System"), section("Now", "volatile", Placement.USER_MESSAGE)))
    prompt = compose_prompt("static", moving, "what was it?", first.mark)
    first.user(prompt)
    first.assistant("This.")
    assert first.shown() == (("user", "what was it?"), ("assistant", "This."))
    assert first.replay()[0] == ("user", prompt.user)
    assert "volatile" in prompt.user
    again = Transcript("s", store)
    assert not again.fresh
    assert (again.mark, again.replay(), again.shown()) == (first.mark, first.replay(), first.shown())
    assert again.compose("static", moving, "and now?").prefix is Prefix.CONTINUED
    assert Transcript("s").fresh


def test_stripping_goes_by_the_mark_alone_and_the_users_own_bytes_stay() -> None:
    moving = Collected((section("Now", "volatile", Placement.USER_MESSAGE),))
    typed = "[context beef: supplied by the system] is what I typed\n\n"
    prompt = compose_prompt("", moving, typed, "f00d")
    assert stripped(prompt.user, "f00d") == typed
    assert stripped(prompt.user, "beef") == prompt.user
    assert stripped(typed, "f00d") == typed
    assert stripped(prompt.user + " more", "f00d") == prompt.user + " more"
    assert stripped(prompt.user, "") == prompt.user


def test_a_contributor_that_fails_at_every_turn_is_warned_of_once_until_it_does_something_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = "what " * 2 + "somebody wrote"

    class Moody:
        fails = True

        def plan(self, request: TurnRequest) -> Plan:
            if self.fails:
                raise ValueError(written)
            return Plan(0.0, lambda deadline: Contribution())

    moody = Moody()
    registry = ContextRegistry()
    registry.register("moody", moody, inline=True)

    def turns(number: int) -> list[str]:
        caplog.clear()
        for _ in range(number):
            registry.collect(TurnRequest(session_key="one"))
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert turns(5) == ["contributor moody: it failed in plan"]
    assert written not in caplog.text
    assert turns(5) == []
    moody.fails = False
    assert turns(1) == []
    moody.fails = True
    assert turns(3) == ["contributor moody: it failed in plan"]
