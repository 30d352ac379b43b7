"""Text as it travels and text as it is inspected: cleaning, clipping by graphemes, cutting, and the form that rules
see.

Everything here is linear in the length of its input, whatever the input is. Nothing here decides what is a credential.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import regex

POINTS_PER_GRAPHEME = 16
"""A clip of n graphemes holds at most 16 n code points: without a cap one letter with a megabyte of accents is one
grapheme."""

_GRAPHEME = regex.compile(r"\X")
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_SPECIAL_TOKEN = re.compile(r"<\|([A-Za-z0-9_]{1,32})\|>")
"""Honcho answers 422 to a whole batch whose text holds such a token of its tokenizer."""


def travelling(text: str) -> str:
    """The text in the form that can be sent: trimmed, no NUL, no lone surrogate, no tokenizer control word.
    Idempotent."""
    return sendable(text).strip()


def sendable(text: str) -> str:
    """As `travelling`, with the blanks at both ends: those of a piece stood inside the text that it was cut from."""
    if "\x00" in text or not _encodable(text):
        text = _UNSENDABLE.sub(lambda found: "" if found[0] == "\x00" else "\ufffd", text)
    if "<|" in text:
        text = _SPECIAL_TOKEN.sub(r"<| \1 |>", text)
    return text


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clip(text: str, budget: int) -> str:
    """At most `budget` user-perceived characters from the start of `text`; no character is ever split."""
    if len(text) <= budget:
        return text
    head = text[: budget * POINTS_PER_GRAPHEME + 1]
    if head.isascii() and "\r" not in head:
        return text[:budget]
    end = 0
    for count, found in enumerate(_GRAPHEME.finditer(head)):
        if count >= budget or found.end() > budget * POINTS_PER_GRAPHEME:
            break
        end = found.end()
    return text[:end]


def clip_bytes(text: str, most: int) -> str:
    """At most `most` bytes of UTF-8 from the start of `text`; no character is ever split."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    end = len(data[: max(0, most)].decode("utf-8", "ignore"))
    if end and text[:end].isascii() and text[end].isascii() and text[end - 1] != "\r":
        return text[:end]
    return text[: _boundary(text, 0, end)] if end else ""


def cut(text: str, size: int) -> Iterator[str]:
    """Pieces of at most `size` code points that join to exactly `text`.

    A cut prefers the last paragraph, line, sentence or word end in the last quarter of a piece and never splits a
    character, unless that one character alone is longer than `size`.
    """
    start = 0
    while len(text) - start > size:
        end = start + size
        floor = start + size - size // 4
        for mark in ("\n\n", "\n", ". ", "。", " "):
            found = text.rfind(mark, floor, end)
            if found > start:
                end = found + len(mark)
                break
        else:
            end = _boundary(text, start, end)
        yield text[start:end]
        start = end
    yield text[start:]


def _boundary(text: str, start: int, end: int) -> int:
    """The last grapheme boundary at or before `end`, looked for from a little way back; `end` itself when there is
    none."""
    base = max(start, end - 64)
    while base > start and _FLAG[0] <= text[base] <= _FLAG[1] and _FLAG[0] <= text[base - 1] <= _FLAG[1]:
        base -= 1  # letters of flags go in pairs, counted from where their row begins
    best = 0
    for found in _GRAPHEME.finditer(text[base : end + 64]):
        if base + found.start() > end:
            break
        best = base + found.start()
    return best if best > start else end


_FLAG = ("\U0001f1e6", "\U0001f1ff")
_INVISIBLE_EXTRA = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_LOOKALIKE = str.maketrans(
    dict(
        zip(
            "АВЕЅІЈКМНОРСТХУасеѕіјорхуԁԛԝһкүѵӏӀҮΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαικνρυ",
            "ABESIJKMHOPCTXYacesijopxydqwhkyvlIYABEZHIKMNOPTYXoaikvpu",
            strict=True,
        )
    )
)
"""Cyrillic and Greek letters that read as Latin ones; applied only inside a word that holds both."""


_LOOKED_AT = (
    (0x80, 0x3400),
    (0xA640, 0xAC00),
    (0xF900, 0x10000),
    (0x110BD, 0x110CE),
    (0x13430, 0x13460),
    (0x1BCA0, 0x1BCA4),
    (0x1D173, 0x1D17B),
    (0x1D400, 0x1D800),
    (0x1F100, 0x1F200),
    (0xE0000, 0xE0080),
)
"""Where format characters and compatibility characters live; ideographs, syllables and private use hold none."""


@cache
def _table() -> dict[int, str | None]:
    """What is removed or replaced before rules look.

    Removed: everything invisible (format characters, variation selectors, fillers, controls other than white space).
    Replaced: every compatibility character whose plain form is ASCII (full width, mathematical, circled,
    superscript), hyphens and the minus of typesetters, other white space by a space, and letter I with dot (its lower
    case would change the length of the text).
    """
    table: dict[int, str | None] = {0x0130: "I", 0x7F: None, **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2212), "-")}
    table |= {point: None for point in range(0x20) if chr(point) not in "\t\n\r\x0b\x0c"}
    for point in (point for first, end in _LOOKED_AT for point in range(first, end)):
        char = chr(point)
        category = unicodedata.category(char)
        if category in ("Cf", "Cc") and point != 0x85:
            table[point] = None
        elif category in ("Zs", "Zl", "Zp"):
            table[point] = " " if category == "Zs" else "\n"
        elif category[0] not in "CM":
            plain = unicodedata.normalize("NFKC", char)
            if plain != char and plain.isascii() and plain.strip():
                table[point] = plain
    table |= dict.fromkeys((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x180B, 0x1810)))
    return table | dict.fromkeys(_INVISIBLE_EXTRA)


_UNUSUAL = re.compile(
    "[^\t\n\r -~\xa1-\xa9\xab\xac\xae\xb0\xb1\xb4-\xb8\xbb-\u012f\u0131-\u024f\u0370-\u052f\u2013-\u2027\u2030-\u205e"
    "\u20a0-\u20cf\u2190-\u2211\u2213-\u23ff\u2500-\u27ff\u3001-\u3003\u3008-\u3011\u3040-\u3098\u309b-\u3130\u3400-\u9fff\uac00-\ud7a3]"
)
"""Every character that may be in the table, and some that are not: a quick first question."""

_CONTROLS = bytes(point for point in (*range(0x20), 0x7F) if point not in b"\t\n\r\x0b\x0c")
_DASHED = re.compile("(?<=[A-Za-z0-9])\u2013(?=[A-Za-z0-9])")
"""An en dash inside a word: a hyphen that a word processor has improved."""
_MARKS = frozenset(map(chr, (*range(0x0300, 0x0370), *range(0x1161, 0x1176), 0x3099, 0x309A)))
_APART = re.compile(
    "[^\\W\\d_][\u0300-\u036f]{1,4}|[\u3046-\u30fd][\u3099\u309a]|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"
)
"""A letter and its marks, or the parts of a syllable, as some systems write what others write as one character. In
pieces, because composing a long row of marks takes the square of its length."""
_EASTERN = re.compile("[\u0370-\u052f]")
_MIXED = re.compile("[A-Za-z][\u0370-\u052f]|[\u0370-\u052f][A-Za-z]")
_WORD = re.compile("[A-Za-z0-9\u0370-\u052f_-]{2,64}")


def inspected(text: str) -> str:
    """The form that rules look at: what a person reads, in plain characters. Never sent, never stored."""
    if text.isascii():
        plain = text.encode().translate(None, _CONTROLS)
        return text if len(plain) == len(text) else plain.decode()
    unusual = set(_UNUSUAL.findall(text))
    if unusual:
        table = _table()
        if any(ord(char) in table for char in unusual):
            text = text.translate(table)
        if not _MARKS.isdisjoint(unusual):
            text = _APART.sub(_composed, text)
    if "\u2013" in text:
        text = _DASHED.sub("-", text)
    if _EASTERN.search(text) and _MIXED.search(text):
        text = _WORD.sub(_plain_word, text)
    return text


def _composed(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", found[0])


def _plain_word(found: re.Match[str]) -> str:
    word = found[0]
    return word.translate(_LOOKALIKE) if _MIXED.search(word) else word
