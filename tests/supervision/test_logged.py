"""What a log line says of an error: its kind and its frames, and none of its words."""

from __future__ import annotations

import logging

import pytest

from supervision import ThreadActor, ThreadRuntime
from supervision.logged import unsaid

SECRET = "the-words-" + "of-somebody"


class Odd(ValueError):
    """An error of a test."""


def raised() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as first:
        raise Odd(SECRET) from first


def test_the_kind_the_frames_and_the_causes_are_there_and_no_word(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raised()
    except Odd:
        logging.getLogger("supervision").error("it failed", exc_info=unsaid())
    assert "Odd: (what it says is not logged)" in caplog.text
    assert "KeyError: (what it says is not logged)" in caplog.text
    assert "in raised" in caplog.text
    assert SECRET not in caplog.text


def test_without_an_error_there_is_nothing_to_say() -> None:
    assert unsaid() is None


def test_a_long_chain_of_causes_is_cut() -> None:
    error = Odd("0")
    for number in range(50):
        later = Odd(str(number))
        later.__cause__ = error
        error = later
    depth = 0
    shown: BaseException | None = unsaid(error)
    while shown is not None:
        shown, depth = shown.__cause__, depth + 1
    assert depth == 6


def test_an_actor_that_crashes_over_somebodys_words_does_not_log_them(caplog: pytest.LogCaptureFixture) -> None:
    class Touchy(ThreadActor):
        def on_receive(self, message: object) -> None:
            raise Odd(f"cannot take {message}")

    runtime = ThreadRuntime()
    try:
        ref = runtime.spawn(Touchy)
        with pytest.raises(Odd):
            ref.ask(SECRET, timeout=20.0)
    finally:
        runtime.close(10.0)
    assert "crashed: Odd" in caplog.text
    assert "in on_receive" in caplog.text
    assert SECRET not in caplog.text
