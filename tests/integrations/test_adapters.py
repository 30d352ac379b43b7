"""Every adapter, the same behaviours: one table of drivers, one function a behaviour.

What the model got is read at the model (a loopback stub), what was captured at the server (a scripted Honcho).
"""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest

from honcho_actors import TurnRequest
from tests.integrations.drivers import DRIVERS
from tests.integrations.driving import STATIC, Driver, ratio, with_a_tool
from tests.integrations.keeper import ANN, BOB, Held, House, down, house, keeper, settled
from tests.support.memory_world import until
from tests.support.stub_model import Say, StubModel, echo

ANN_TALKS = TurnRequest(session_key="garden", user="ann")
ASKED = "what shall I do with the tomatoes this week?"
BROKEN = "the model is out of order"

Error = Exception


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each adapter; a behaviour that its framework cannot have is skipped, with the framework's own reason."""
    found: Driver = request.param.driver_or_skip()
    reason = found.cannot.get(request.node.originalname)
    if reason is not None:
        pytest.skip(f"{found.name}: {reason}")
    return found


def said(*pairs: tuple[str, str | None]) -> list[Held]:
    """What the server must hold: each (words, answer); None: unanswered."""
    found = []
    for words, answer in pairs:
        found.append(Held("ann", words, answer is None))
        if answer is not None:
            found.append(Held("assistant", answer, False))
    return found


def test_a_cold_turn_carries_what_is_known_and_is_captured_once(driver: Driver, home: House, model: StubModel) -> None:
    with driver.chat(home, model, ANN_TALKS) as chat:
        answer = chat.say(ASKED)
    (asked,) = model.calls
    assert driver.system(asked).startswith(STATIC)
    assert ANN in driver.system(asked)
    assert driver.users(asked) == [ASKED]
    assert home.holds("garden", said((ASKED, answer)))


def test_a_warm_turn_waits_for_nobody(driver: Driver, home: House, model: StubModel) -> None:
    home.warm("garden", "ann")
    home.remote.closed["session_context"] = gate = threading.Event()
    with driver.chat(home, model, ANN_TALKS) as chat:
        answer = chat.say(ASKED)
    assert ANN in driver.system(model.calls[0])
    gate.set()
    assert home.holds("garden", said((ASKED, answer)))


def test_of_an_unknown_person_nothing_is_said_and_all_is_captured(
    driver: Driver, home: House, model: StubModel
) -> None:
    with driver.chat(home, model, TurnRequest(session_key="new", user="cem")) as chat:
        answer = chat.say(ASKED)
    assert driver.system(model.calls[0]) == STATIC
    assert [(one.peer, one.text) for one in home.said("new")] == [("cem", ASKED), ("assistant", answer)]


def test_for_nobody_everything_goes_out_untouched_and_nothing_is_captured(
    driver: Driver, home: House, model: StubModel
) -> None:
    with driver.chat(home, model, None) as chat:
        chat.say(ASKED)
    assert driver.system(model.calls[0]) == STATIC
    assert driver.users(model.calls[0]) == [ASKED]
    assert home.memory.flush(20)
    assert (home.remote.held, home.remote.asked) == ({}, [])


def test_a_streamed_turn_arrives_whole_and_is_captured_once(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: Say("Water them in the morning, pinch out the side shoots.")
    with driver.chat(home, model, ANN_TALKS) as chat:
        assert chat.stream(ASKED) == "Water them in the morning, pinch out the side shoots."
    assert ANN in driver.system(model.calls[0])
    assert home.holds("garden", said((ASKED, "Water them in the morning, pinch out the side shoots.")))


def test_a_stream_that_is_left_in_the_middle_has_no_answer(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: Say("Water them in the morning.", hold=4)
    with driver.chat(home, model, ANN_TALKS) as chat:
        chat.leave(ASKED)
        assert home.holds("garden", said((ASKED, None)))


def test_cancelled_while_memory_is_awaited(driver: Driver, tmp_path: Path, model: StubModel) -> None:
    remote = keeper()
    remote.closed["session_context"] = gate = threading.Event()
    with house(tmp_path, remote, first_turn_wait=30.0) as home:
        with driver.chat(home, model, ANN_TALKS) as chat:
            chat.cancel(ASKED, lambda: remote.count("session_context") > 0)
        gate.set()
        assert model.calls == []
        assert home.holds("garden", said((ASKED, None)))


def test_cancelled_before_the_model_says_anything(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: Say("Too late.", hold=-1)
    with driver.chat(home, model, ANN_TALKS) as chat:
        chat.cancel(ASKED, model.holding.is_set)
        assert home.holds("garden", said((ASKED, None)))


def test_cancelled_in_the_middle_of_a_stream(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: Say("Water them in the morning.", hold=4)
    with driver.chat(home, model, ANN_TALKS) as chat:
        chat.cancel(ASKED, model.holding.is_set, stream=True)
        assert home.holds("garden", said((ASKED, None)))


def test_a_connection_that_breaks_in_the_middle_of_a_stream_leaves_no_answer(
    driver: Driver, home: House, model: StubModel
) -> None:
    model.script = lambda asked: Say("Water them in the morning.", cut=4)
    with driver.chat(home, model, ANN_TALKS) as chat:
        with pytest.raises(Error):
            chat.stream(ASKED)
        assert home.holds("garden", said((ASKED, None)))


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_a_tool_loop_is_one_turn_with_the_same_bytes(
    driver: Driver, home: House, model: StubModel, streamed: bool
) -> None:
    model.script = with_a_tool
    home.remote.answer = lambda query: "She waters at dawn."
    with driver.chat(home, model, ANN_TALKS) as chat:
        answer = chat.stream(ASKED) if streamed else chat.say(ASKED)
    first, second = model.calls
    assert answer == "The hose is in the shed."
    assert driver.system(first) == driver.system(second)
    assert ANN in driver.system(first)
    assert driver.items(second)[: len(driver.items(first))] == driver.items(first)
    assert home.holds("garden", said((ASKED, answer)))


def test_an_error_of_the_model_is_the_programs_and_the_turn_has_no_answer(
    driver: Driver, home: House, model: StubModel
) -> None:
    model.script = lambda asked: Say(BROKEN, status=400)
    with driver.chat(home, model, ANN_TALKS) as chat:
        with pytest.raises(Error, match=BROKEN):
            chat.say(ASKED)
        assert home.holds("garden", said((ASKED, None)))


def test_asked_again_after_an_error_the_words_are_captured_once(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: Say(BROKEN, status=400)
    with driver.chat(home, model, ANN_TALKS) as chat:
        with pytest.raises(Error):
            chat.say(ASKED)
        model.script = echo
        answer = chat.retry()
    assert home.holds("garden", [*said((ASKED, None)), Held("assistant", answer, False)])
    first, second = model.calls
    assert driver.items(first) == driver.items(second)


def test_with_memory_down_the_turn_is_what_it_was_without(driver: Driver, tmp_path: Path, model: StubModel) -> None:
    with down(tmp_path) as home:
        with driver.chat(home, model, ANN_TALKS) as chat:
            assert chat.say(ASKED)
        assert driver.system(model.calls[0]) == STATIC
        accepted = ("honcho_actors_captures_total", {"outcome": "accepted"})
        until(lambda: home.memory.meters.registry.get_sample_value(*accepted) == 1, 20.0)


def test_read_only_reads_and_captures_nothing(driver: Driver, tmp_path: Path, model: StubModel) -> None:
    with house(tmp_path, save_messages=False) as home:
        with driver.chat(home, model, ANN_TALKS) as chat:
            chat.say(ASKED)
        assert ANN in driver.system(model.calls[0])
        assert home.remote.held == {}


def test_a_subagent_gets_nothing_and_is_not_captured(driver: Driver, home: House, model: StubModel) -> None:
    with driver.chat(home, model, ANN_TALKS) as chat:
        chat.delegate("look the hose up")
        assert ANN not in model.calls[-1].raw.decode()
        answer = chat.say(ASKED)
    assert home.holds("garden", said((ASKED, answer)))


def test_what_the_program_keeps_holds_no_added_byte(driver: Driver, home: House, model: StubModel) -> None:
    home.remote.answer = lambda query: "She waters at dawn."
    words = [f"{ASKED} (bed {number})" for number in range(3)]
    with driver.chat(home, model, ANN_TALKS) as chat:
        for one in words:
            chat.say(one)
            settled(home)
        assert chat.transcript() == words
    assert any("She waters at dawn." in one for one in driver.users(model.calls[-1]))


def test_a_conversation_is_captured_exactly_once_and_in_order(driver: Driver, home: House, model: StubModel) -> None:
    pairs: list[tuple[str, str | None]] = []
    with driver.chat(home, model, ANN_TALKS) as chat:
        for number in range(4):
            words = "yes" if number % 2 else f"{ASKED} ({number})"
            pairs.append((words, chat.stream(words) if number > 1 else chat.say(words)))
    assert home.holds("garden", said(*pairs))


def test_the_prefix_stands_still_while_memory_does(driver: Driver, home: House, model: StubModel) -> None:
    model.script = lambda asked: with_a_tool(asked) if len(driver.users(asked)) % 4 == 0 else echo(asked)
    home.warm("garden", "ann")
    with driver.chat(home, model, ANN_TALKS) as chat:
        for number in range(20):
            chat.say(f"{ASKED} ({number})")
    assert len(model.calls) == 25
    assert ratio(driver, model.calls) == 1.0
    assert ANN in driver.system(model.calls[0])


def test_the_prefix_moves_only_where_what_is_known_did(driver: Driver, home: House, model: StubModel) -> None:
    home.remote.answer = lambda query: f"It is about {hash(query) % 1000}."
    home.warm("garden", "ann")
    published = 1
    with driver.chat(home, model, ANN_TALKS) as chat:
        for number in range(9):
            if number % 4 == 3:
                home.remote.persons["ann"] = (f"{ANN} It is week {number}.", ["Name: Ann"])
                published += 1
                home.memory.refresh(ANN_TALKS)
                settled(home)
            chat.say(f"{ASKED} ({number})")
            settled(home)
    systems = [driver.system(one) for one in model.calls]
    assert sum(one != other for one, other in pairwise(systems)) <= published - 1
    for one, other in pairwise(model.calls):
        assert driver.items(other)[: len(driver.items(one))] == driver.items(one)
    assert len({one for one in driver.users(model.calls[-1]) if "It is about" in one}) > 1


def test_two_people_at_once_never_meet(driver: Driver, home: House, model: StubModel) -> None:
    home.remote.about = {"ann": "A word about tomatoes.", "bob": "A word about bees."}
    with (
        driver.chat(home, model, ANN_TALKS) as ann,
        driver.chat(home, model, TurnRequest(session_key="hive", user="bob")) as bob,
    ):
        for number in range(4):
            ann.say(f"{ASKED} ({number})")
            bob.say(f"what do I do with the hives this week? ({number})")
            settled(home)
    anns, bobs = model.calls[::2], model.calls[1::2]
    assert all(ANN in driver.system(one) for one in anns)
    assert all(BOB in driver.system(one) for one in bobs)
    assert any("A word about bees." in one.raw.decode() for one in bobs)
    assert not any("bees" in one.raw.decode() for one in anns)
    assert not any("tomato" in one.raw.decode() for one in bobs)


def test_what_a_driver_cannot_is_a_behaviour_of_this_suite() -> None:
    for one in DRIVERS:
        for behaviour, reason in one.driver_or_skip().cannot.items():
            assert behaviour in globals(), (one.name, behaviour)
            assert len(reason) > 20
