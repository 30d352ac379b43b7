"""The egress gate: what passes, what is withheld, and that nothing else makes `Screened` (EG, field cases 67 to 72,
131)."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Blank, Field, Gate, Screened, Withheld
from honcho_actors.privacy.text import POINTS_PER_GRAPHEME
from tests.privacy.canaries import alnum, capitals, hexdigits, url_safe

AWS = "AK" + "IA" + capitals(16)
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"


def text_of(value: Screened | None) -> str:
    assert value is not None
    return value.text


def test_EG1_short_text_passes_trimmed() -> None:
    assert text_of(egress.screen("  hello there \n", 100)) == "hello there"


def test_EG2_text_is_clipped_to_the_budget() -> None:
    assert text_of(egress.screen("abcdefgh", 3)) == "abc"


def test_EG3_graphemes_are_counted_and_never_split() -> None:
    assert text_of(egress.screen(FAMILY * 3, 2)) == FAMILY * 2
    assert text_of(egress.screen("e\u0301e\u0301e\u0301", 2)) == "e\u0301e\u0301"
    assert text_of(egress.screen("a\r\nb\r\nc", 2)) == "a"


def test_EG3_one_letter_with_endless_accents_does_not_pass_for_one_grapheme() -> None:
    clipped = text_of(egress.screen("x" + "e" + "\u0301" * 100_000, 5))
    assert len(clipped) <= 5 * POINTS_PER_GRAPHEME


def test_EG4_trimming_comes_before_clipping() -> None:
    assert text_of(egress.screen("   abcdef", 3)) == "abc"


@pytest.mark.parametrize(
    "text",
    [
        f"use {'s' + 'k-'}{alnum(24)} for it",
        AWS,
        "pass" + "word: hunter2",
        "api" + "_key=abc123def",
        "Auth" + "orization: Bearer " + alnum(40),
        "-----BEGIN EC PRIV" + "ATE KEY-----\nMHc",
        "ey" + "J" + url_safe(40),
        "tok" + "en = " + alnum(20),
        "secr" + "et: Tr0ub4dor",
        "access" + "-key: " + alnum(12),
    ],
)
def test_EG5_credential_looking_text_gives_none(text: str) -> None:
    assert egress.screen(text, 1500) is None


def test_EG6_a_credential_beyond_the_cut_withholds() -> None:
    """New value: the source sent such a text, and with it up to 22 of 43 characters of a credential that the cut
    divided (A14 number 11). The whole text is looked at first.
    """
    text = "x " * 400 + AWS
    assert egress.screen(text, 100) is None
    assert egress.screen("y" * 90 + " " + AWS, 101) is None


def test_EG7_a_credential_that_survives_the_cut_withholds() -> None:
    assert egress.screen(AWS + " x" * 400, 100) is None


def test_EG8_nothing_of_a_withheld_text_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    """New value: the source wrote a debug line; here the verdict and the gate's observer say it, and no line is
    written."""
    with caplog.at_level(logging.DEBUG):
        verdict = egress.verdict(f"my words {AWS}", 100)
    assert isinstance(verdict, Withheld)
    assert caplog.records == []
    assert AWS not in repr(verdict) + str(verdict)
    assert "my words" not in repr(egress.verdict("my words", 100))


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b\u200d", "\ufeff", "\u00ad", "\x00"])
def test_EG9_blank_text_gives_none(text: str) -> None:
    assert egress.screen(text, 10) is None
    assert egress.verdict(text, 10) == Blank()


@pytest.mark.parametrize("text", [None, 7, b"bytes", ["x"], {"a": 1}, object(), 1.5])
def test_EG10_what_is_no_string_gives_none(text: object) -> None:
    assert egress.screen(text, 10) is None
    assert egress.split(text, 10) is None


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, None, "10", float("nan")])
def test_EG11_a_budget_that_is_no_positive_whole_number_gives_none(budget: Any) -> None:
    assert egress.screen("text", budget) is None
    assert egress.split("text", budget) is None


OWN_KEY = "own-" + "deployment-" + "value"


@pytest.mark.parametrize(
    "text",
    [
        "xAK" + "IA" + capitals(16),
        "tokengh" + "p_" + alnum(36),
        "gh" + "p_" + alnum(80),
        "tv" + "ly-" + alnum(32),
        '"api' + f'_key": "{hexdigits(32)}"',
        "pass" + "word=Tr0ub4dor&3",
        "Authorization: Bea" + "rer " + alnum(40),
        "-----BEGIN RSA PRI" + "VATE KEY-----\n" + alnum(64),
        "postgres://u:p4" + "ss@h/db",
        "xo" + "xb-123456789012-" + alnum(24),
        ".".join(("ey" + "J" + url_safe(30), "ey" + "J" + url_safe(40), url_safe(43))),
        "hk-" + alnum(24),
        "hc" + "h-v3-" + alnum(32).lower(),
        f"so the value is {OWN_KEY} then",
        "\u200b".join(OWN_KEY),
    ],
)
def test_case_67_glued_prefixed_and_long_credentials_are_withheld(text: str) -> None:
    gate = Gate(secrets=[OWN_KEY, None, ""])
    assert isinstance(gate.verdict(text, 1500), Withheld)


@pytest.mark.parametrize(
    "text",
    [
        f"Fixed in commit {hexdigits(40)} today",
        "123e4567-e89b-12d3-a456-426614174000",
        "pip install sk-learn",
        "task-1234567890-abcdef",
        "my password is in the vault",
        "the bearer of bad news",
        "the word was aGVsbG8= in base64",
        "我把密码忘了,怎么重置?",
        "https://example.org/" + "path/" * 50 + "?page=3&sort=name",
    ],
)
def test_case_68_innocent_text_is_sent_unchanged(text: str) -> None:
    assert text_of(egress.screen(text, 1500)) == text


def test_case_72_a_withheld_text_is_in_no_representation_and_no_traceback() -> None:
    class Broken:
        def __call__(self, text: str, /) -> bool:
            raise RuntimeError(f"could not read {text}")

    gate = Gate(secrets=[OWN_KEY], screener=Broken())
    verdict = gate.verdict("some quiet words", 100)
    assert verdict == Withheld("screener_failed")
    shown = repr(gate) + repr(verdict) + "".join(traceback.format_stack())
    assert "quiet" not in repr(verdict)
    assert OWN_KEY not in shown


def test_case_131_lone_surrogates_and_nul_are_made_sendable() -> None:
    assert text_of(egress.screen("hi \ud83d there\x00", 100)) == "hi \ufffd there"
    assert [part.text for part in egress.split("a\x00b\udcff", 100) or ()] == ["ab\ufffd"]


def test_a_control_word_of_the_servers_tokenizer_is_broken_up() -> None:
    assert text_of(egress.screen("before <|endoftext|> after", 100)) == "before <| endoftext |> after"


def test_a_screener_is_united_with_the_rules_and_one_that_fails_withholds() -> None:
    says_no = Gate(screener=lambda text: "ferret" in text)
    assert says_no.verdict("a ferret", 100) == Withheld("screener")
    assert isinstance(says_no.verdict("a cat", 100), Screened)
    odd: Any = lambda text: None  # noqa: E731
    assert Gate(screener=odd).verdict("a cat", 100) == Withheld("screener")


def test_every_verdict_is_told_to_the_observer_by_field_without_text() -> None:
    told: list[tuple[Field, str, str]] = []

    def observe(field: Field, outcome: Literal["passed", "blank", "withheld"], rule: str) -> None:
        told.append((field, outcome, rule))

    gate = Gate(observe=observe)
    gate.screen("hello", 10, field=Field.QUERY)
    gate.screen(" ", 10, field=Field.CARD)
    gate.split(AWS, 1000)
    gate.again(AWS, field=Field.CONCLUSION)
    assert told == [
        (Field.QUERY, "passed", ""),
        (Field.CARD, "blank", ""),
        (Field.MESSAGE, "withheld", "provider_key"),
        (Field.CONCLUSION, "withheld", "provider_key"),
    ]


def test_nothing_but_the_gate_makes_screened() -> None:
    made = egress.screen("hello", 10)
    assert made is not None
    for forge in (
        lambda: Screened("x", object()),
        lambda: Screened("x", None),
        lambda: pickle.dumps(made),
        lambda: setattr(made, "text", "x"),
        lambda: delattr(made, "text"),
        lambda: type("Mine", (Screened,), {}),
    ):
        with pytest.raises((TypeError, AttributeError)):
            forge()
    assert copy.deepcopy(made) is made
    assert copy.copy(made) is made
    assert made == egress.screen(" hello ", 10)
    assert made != "hello"
    assert {made: 1}[made] == 1
    assert len(made) == 5


def test_a_split_looks_at_the_whole_text_however_long_and_at_every_piece() -> None:
    clean = "a few ordinary words. " * 100_000
    assert "".join(part.text for part in egress.split(clean, 25_000) or ()) == clean.strip()
    assert egress.split(clean + AWS, 25_000) is None
    assert egress.split(AWS + clean, 25_000) is None


def test_a_credential_on_the_edge_of_a_window_is_seen() -> None:
    for before in range(egress.WINDOW_CHARS - 60, egress.WINDOW_CHARS + 20, 7):
        assert egress.split("word " * (before // 5) + "x" * (before % 5) + " " + AWS + " more" * 3000, 25_000) is None


def test_a_long_text_of_invisible_characters_with_one_word_at_its_end_is_not_blank() -> None:
    assert isinstance(egress.verdict("\u200b" * 200_000 + "word", 300_000), Screened)
    assert egress.verdict("\u200b" * 200_000, 10) == Blank()


def test_a_credential_across_a_cut_withholds_the_whole() -> None:
    text = "w" * 90 + " " + AWS + " " + "w" * 90
    for size in range(90, 125, 5):
        assert egress.split(text, size) is None


words = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


@settings(max_examples=150, deadline=None)
@given(words, st.integers(1, 60))
def test_screening_is_total_bounded_and_changes_nothing_when_repeated(text: str, budget: int) -> None:
    verdict = egress.verdict(text, budget)
    if isinstance(verdict, Screened):
        assert 0 < len(verdict.text) <= budget * POINTS_PER_GRAPHEME
        assert verdict.text == verdict.text.strip()
        assert egress.screen(verdict.text, budget) == verdict
        assert egress.again(verdict.text) == verdict


@settings(max_examples=150, deadline=None)
@given(words, st.integers(1, 60))
def test_pieces_of_a_split_join_to_the_trimmed_text_and_keep_the_size(text: str, size: int) -> None:
    pieces = egress.split(text, size)
    whole = egress.split(text, 10_000)
    if pieces is not None:
        assert whole is not None
        assert "".join(piece.text for piece in pieces) == whole[0].text
        assert all(0 < len(piece.text) <= size for piece in pieces)


def test_a_split_keeps_characters_whole_and_prefers_ends_of_words() -> None:
    pieces = egress.split((FAMILY + "!") * 20, 32)
    assert pieces is not None
    assert all(piece.text.count("\U0001f467") == piece.text.count(FAMILY) for piece in pieces)
    prose = egress.split("one two three four five six seven eight nine ten " * 5, 60)
    assert prose is not None
    assert all(piece.text.endswith(" ") for piece in prose[:-1])


def test_a_guard_makes_every_gate_stricter_and_its_release_takes_that_back() -> None:
    keys = [OWN_KEY]
    told: list[str] = []
    release = egress.guard(lambda: keys, observe=lambda field, outcome, rule: told.append(f"{field} {outcome} {rule}"))
    try:
        assert egress.verdict(f"it is {OWN_KEY}", 100, field=Field.QUERY) == Withheld("own_key")
        assert Gate().verdict(OWN_KEY, 100) == Withheld("own_key")
        keys[:] = ["rotated-" + "value"]
        assert isinstance(egress.verdict(f"it is {OWN_KEY}", 100), Screened)
        assert egress.verdict("rotated-" + "value", 100) == Withheld("own_key")
    finally:
        release()
    assert isinstance(egress.verdict("rotated-" + "value", 100), Screened)
    assert told[0] == "query withheld own_key"
    assert len(told) == 4


def test_a_guard_whose_screener_fails_closes_every_gate() -> None:
    def broken(text: str, /) -> bool:
        raise OSError(text)

    release = egress.guard(tuple, broken)
    try:
        assert egress.verdict("hello", 10) == Withheld("screener_failed")
    finally:
        release()
    assert isinstance(egress.verdict("hello", 10), Screened)
