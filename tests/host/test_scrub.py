"""Case 85: an echo of what was added never reaches people, however an answer is cut, and nothing else is lost."""

from __future__ import annotations

import random

import pytest

from honcho_actors.host import Scrubber
from honcho_actors.privacy.envelope import Envelope, new_mark

OURS = Envelope(new_mark())
TEXT = "## What bears\n\n<recalled-memory>\nShe likes tea; 80 \u00b0C.\n</recalled-memory>"
ADDED = OURS.beside("hello", TEXT)
ECHO = OURS.around(TEXT)


def said(pieces: list[str], added: tuple[str, ...] = (ADDED,)) -> str:
    scrubber = Scrubber(OURS, added)
    return "".join([*(scrubber.feed(piece) for piece in pieces), scrubber.end()])


def test_case_85_an_echo_cut_at_every_place_shows_nothing_of_the_block_and_swallows_nothing_after_it() -> None:
    answer = f"Sure: {ECHO}\nSo, tea it is."
    for at in range(len(answer) + 1):
        assert said([answer[:at], answer[at:]]) == "Sure: \nSo, tea it is.", at


def test_case_85_one_character_at_a_time() -> None:
    assert said(list(f"Sure: {ECHO} and {ECHO}.")) == "Sure:  and ."


def test_case_85_an_echo_that_is_never_closed_ends_where_the_answer_stops_repeating() -> None:
    for at in range(len(OURS.opening), len(ECHO) - len(OURS.closing)):
        answer = f"Sure: {ECHO[:at]}\x00Then we go on."
        for cut in (0, 3, at, at + 6, at + 7, len(answer)):
            assert said([answer[:cut], answer[cut:]]) == "Sure: \x00Then we go on.", (at, cut)


def test_case_85_an_answer_that_ends_in_the_middle_of_an_echo_shows_nothing_of_it() -> None:
    for at in range(len("[context ") + 4, len(ECHO)):
        assert said(["Sure: ", ECHO[:at]]) == "Sure: ", at


def test_what_merely_begins_like_an_echo_is_shown() -> None:
    for answer in ("Sure: [", "Sure: [context ", "Sure: [context of this]", "Sure: [end of context", "[context: x]"):
        assert said(list(answer)) == answer


def test_an_echo_of_an_older_turn_is_known_too_and_of_another_conversation_is_not_ours() -> None:
    older = OURS.beside("hi", "older words")
    assert said([f"a {OURS.around('older words')} b"], (older, ADDED)) == "a  b"
    foreign = Envelope(new_mark()).around("x")
    assert said([foreign]) == foreign


def test_a_line_of_the_envelope_that_stands_alone_is_taken_out() -> None:
    assert said([f"a {OURS.closing} b {OURS.opening} c"]) == "a  b  c"


def test_an_answer_without_an_echo_is_passed_on_at_once() -> None:
    scrubber = Scrubber(OURS, (ADDED,))
    assert scrubber.feed("Sure, ") == "Sure, "
    assert scrubber.feed("tea [1].") == "tea [1]."
    assert scrubber.end() == ""


@pytest.mark.parametrize("seed", range(20))
def test_any_pieces_give_what_one_piece_gives(seed: int) -> None:
    dice = random.Random(seed)
    parts = [
        dice.choice(["words ", ECHO, ECHO[: dice.randrange(len(ECHO))], OURS.closing, "[", "\n"]) for _ in range(8)
    ]
    answer = "".join(parts)
    cuts = sorted(dice.randrange(len(answer) + 1) for _ in range(dice.randrange(12)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    assert said(pieces) == said([answer])
    assert OURS.mark not in said([answer])


STABLE = "## Background remembered about the user\n\n" + "Known for long. " * 20 + "</recalled-memory>"


def test_case_82_an_echo_of_the_stable_half_is_known_by_how_it_begins() -> None:
    answer = f"My notes: {STABLE}\nThat is all. {STABLE[:150]}! {STABLE[:60]}?"
    for at in range(0, len(answer) + 1, 7):
        scrubber = Scrubber(OURS, (ADDED,), STABLE)
        shown = scrubber.feed(answer[:at]) + scrubber.feed(answer[at:]) + scrubber.end()
        assert shown == f"My notes: \nThat is all. ! {STABLE[:60]}?", at
    assert Scrubber(OURS, (), "short").feed("short") == "short"
