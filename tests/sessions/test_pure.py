"""Trivial messages, questions, cadence, levels, spend: decisions without a clock, a thread or a socket."""

from __future__ import annotations

import pytest
import regex

from honcho_actors.sessions import questions
from honcho_actors.sessions.cadence import SpendBudget, dialectic_cadence, due, level_for
from honcho_actors.sessions.questions import MESSAGE_MAX_CHARS, enough, question, screened_message
from honcho_actors.sessions.trivial import is_trivial


def asked(message: object, *, cold: bool = False) -> str:
    found = question(screened_message(message), cold=cold)
    assert found is not None
    return found.text


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\n\t", "/reset", "  /help me please with this long thing", "...", "?!", "👍", "👍🏽", "❤️", None],
)
def test_sm36_blank_commands_marks_and_emoji_are_trivial(query: object) -> None:
    assert is_trivial(query)


@pytest.mark.parametrize(
    "query", ["ok", "OK!", "Thanks...", "thank you!", "YES", "Got it 👍", "hello", "Sounds   good.", "next", "no"]
)
def test_sm37_acknowledgements_in_any_case_and_punctuation_are_trivial(query: str) -> None:
    assert is_trivial(query)


@pytest.mark.parametrize(
    "query", ["ok but why", "thanks, now the garden", "yesterday", "nothing", "okra", "hello Ann", "no way"]
)
def test_sm38_an_acknowledgement_with_more_text_or_a_look_alike_is_not_trivial(query: str) -> None:
    assert not is_trivial(query)


@pytest.mark.parametrize("query", ["what did we say?", "ok " * 10, "x" * 100_000, "1 + 1", "why?"])
def test_sm39_ordinary_and_very_long_text_is_not_trivial(query: str) -> None:
    assert not is_trivial(query)


@pytest.mark.parametrize("query", [None, 7, 2.5, True, b"hello there", ["hello"], {"a": 1}, object()])
def test_sm40_whatever_is_not_text_is_trivial(query: object) -> None:
    assert is_trivial(query)


def test_cx22_the_cold_question_is_general_and_omits_the_message() -> None:
    assert "tomatoes" not in asked("when do I water my tomatoes?", cold=True)
    assert "Who is this person" in asked("when do I water my tomatoes?", cold=True)


def test_cx23_the_warm_question_holds_the_message() -> None:
    assert asked("when do I water my tomatoes?").endswith("when do I water my tomatoes?")


@pytest.mark.parametrize("blank", ["", "   ", "\u200b"])
def test_cx24_a_blank_message_keeps_the_warm_framing(blank: str) -> None:
    assert asked(blank) == questions.WARM


def test_cx25_no_message_is_fine_for_both() -> None:
    assert asked(None) == questions.WARM
    assert asked(None, cold=True) == questions.COLD


def test_cx26_sm14_a_long_message_is_cut_to_1500_at_a_word() -> None:
    message = "wonderful " * 500
    sent = screened_message(message)
    assert len(sent) <= MESSAGE_MAX_CHARS
    assert message.startswith(sent.removesuffix(" …") + " ")


def test_sm15_the_cut_never_falls_inside_a_character() -> None:
    family = "👩‍👩‍👧"
    sent = screened_message("tell me " + family * 900).removesuffix(" …")
    assert all(cluster in (family, *"tell me ") for cluster in regex.findall(r"\X", sent))


def test_sm16_a_message_with_a_credential_is_withheld_and_the_question_still_asked() -> None:
    secret = "sk-" + "a1B2" * 12
    assert screened_message(f"my key is {secret}") == ""
    assert asked(f"my key is {secret}") == questions.WARM


def test_sm17_a_credential_behind_the_cut_does_not_leave_in_part() -> None:
    message = "x " * 740 + "sk-" + "a1B2" * 12
    assert "sk-" not in asked(message)


def test_sm18_no_message_means_no_message_section() -> None:
    assert questions.MESSAGE.strip() not in asked(None)


def test_a_cadence_is_due_at_once_and_then_by_turns() -> None:
    assert [turn for turn in range(6) if due(turn, None if turn == 0 else (turn - 1) // 3 * 3, 3)] == [0, 3]
    assert due(0, None, 5)
    assert not due(4, 0, 5)
    assert due(5, 0, 5)


def test_empty_answers_stretch_the_cadence_up_to_a_bound() -> None:
    assert [dialectic_cadence(2, empties) for empties in range(6)] == [2, 4, 8, 16, 16, 16]


def test_a_longer_message_thinks_harder_up_to_the_cap() -> None:
    assert level_for(None, "low", "high") == "low"
    assert level_for("short", "low", "high") == "low"
    assert level_for("x" * 120, "low", "high") == "medium"
    assert level_for("x" * 5000, "low", "high") == "high"
    assert level_for("x" * 5000, "low", "medium") == "medium"
    assert level_for("x" * 5000, "high", "low") == "high", "the cap bounds the scaling, never the level that was chosen"
    assert level_for("x" * 5000, "max", "max") == "max"


def test_an_hour_never_holds_more_calls_than_its_budget() -> None:
    budget = SpendBudget()
    assert budget.reserve(2, 0.0, 3) == 2
    assert budget.reserve(2, 10.0, 3) == 1
    assert budget.reserve(1, 20.0, 3) == 0
    budget.give_back(1)
    assert budget.reserve(5, 30.0, 3) == 1
    assert budget.reserve(1, 3599.0, 3) == 0
    assert budget.reserve(3, 3600.0, 3) == 2
    assert budget.reserve(7, 3600.0, None) == 7
    assert budget.reserve(1, 3600.0, 0) == 0


def test_another_pass_is_not_bought_when_it_can_add_nothing() -> None:
    assert enough("", "", 600)
    assert enough(None, "before", 600)
    assert enough("same", "same", 600)
    assert enough("x" * 590, "", 600)
    assert not enough("a short answer", "", 600)


def test_a_deeper_question_shows_the_answer_so_far_and_is_screened_as_a_whole() -> None:
    deeper = question("tea?", cold=False, answer="She likes tea.")
    final = question("tea?", cold=False, answer="She likes tea.", last=True)
    assert deeper is not None
    assert final is not None
    assert "She likes tea." in deeper.text
    assert deeper.text != final.text
    assert question("", cold=True, answer="her token: " + "gh" + "p_" + "A1b2C3d4E5" * 4) is None
