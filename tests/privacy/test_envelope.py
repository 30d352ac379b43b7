"""The envelope: 128 bits tell ours from theirs, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from honcho_actors.privacy import envelope
from honcho_actors.privacy.envelope import Envelope, new_mark

OURS = Envelope(new_mark())


def test_an_id_is_128_bits_and_no_two_are_the_same() -> None:
    marks = {new_mark() for _ in range(1000)}
    assert len(marks) == 1000
    assert all(len(bytes.fromhex(mark)) == 16 and envelope.is_mark(mark) for mark in marks)


@pytest.mark.parametrize("odd", ["", "f" * 31, "F" * 32, "g" * 32, None, 7, "f" * 32 + "\n"])
def test_what_is_no_id_is_told(odd: object) -> None:
    assert not envelope.is_mark(odd)


def test_the_lines_say_what_it_is_and_pretend_to_be_nobody() -> None:
    assert OURS.opening.count(OURS.mark) == OURS.closing.count(OURS.mark) == 1
    for words in ("not written by the user", "background", "do not answer"):
        assert words in OURS.opening
    assert "system" not in OURS.opening.casefold(), "case 83: no pretended system note"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(min_size=1, max_size=60))
def test_what_was_added_is_taken_off_again_to_the_byte(typed: str, text: str) -> None:
    assert OURS.stripped(typed + OURS.beside(typed, text)) == typed


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_whatever_else_a_user_types_keeps_every_byte(typed: str) -> None:
    other = Envelope(new_mark())
    for text in (typed, other.around(typed), Envelope().around(typed), OURS.opening + typed, typed + OURS.opening):
        assert OURS.stripped(text) == text
    assert Envelope().stripped(Envelope().around(typed)) == Envelope().around(typed), "a plain one can't be told"


def test_a_user_who_types_our_lines_before_ours_keeps_them() -> None:
    typed = f"{OURS.opening}\nmine\n{OURS.closing}\n\n"
    assert OURS.stripped(typed + OURS.beside(typed, "recalled")) == typed


def test_nothing_to_say_adds_nothing() -> None:
    assert OURS.around("") == OURS.beside("hello", "") == ""


def test_every_envelope_weighs_the_same() -> None:
    assert len(envelope.SAMPLE) == len(OURS.beside("x", "y")) - 1
