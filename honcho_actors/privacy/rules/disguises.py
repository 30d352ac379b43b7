"""Credentials in a disguise: broken over lines or literals, spread with spaces, percent-encoded, escaped, in base64 or
hexadecimal.

Each disguise is taken off only where the text shows its mark, once, and the plain form goes through the rules again.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final
from urllib.parse import unquote

from honcho_actors.privacy.rules import tokens

_PERCENT: Final = re.compile(r"%[2-7][0-9A-Fa-f]")
_ENTITY: Final = re.compile(r"&(?:#\d{2,4}|#x[0-9A-Fa-f]{2,4}|quot|amp|lt|gt|apos|colon|equals);")
_ESCAPED: Final = re.compile(
    r"\\(?:[\"'/nrt]|u00[0-7][0-9A-Fa-f]|u\{0{0,4}[0-7][0-9A-Fa-f]\}|x[0-7][0-9A-Fa-f]|[01][0-7]{2})"
)
_ESCAPE: Final = {"n": "\n", "r": "\n", "t": "\t"}
_B64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,4096}={0,2}(?![A-Za-z0-9+/_-])")
_HEX: Final = re.compile(r"(?:0x)?((?:[2-7][0-9A-Fa-f]){12,2048})")
_MOST_DECODED: Final = 64
_JOINED: Final = re.compile(
    r"[\"'`](?<=[A-Za-z0-9_-].)[ \t]{0,8}(?:[+.&]|\|\||\\)?\s{0,40}(?:[+.&][ \t]{0,8})?[\"'`](?=[A-Za-z0-9_-])"
)
"""Between two literals that a program joins."""
_SPELT: Final = re.compile(r" \S \S \S \S \S ")
_LETTERS: Final = re.compile(r"(?<!\S)(?:\S[ \t]){15,512}\S(?!\S)")
"""A word spelt out, letter by letter."""

_SPREAD_SIGNS: Final = ("sk-", "sk_", "ghp_", "github_pat_", "glpat-", "hch-v", "AIza", "xoxb-")
_SPREAD: Final = (
    *("sk-ant-", "sk-proj-", "sk-or-", "sk_live_", "sk_test_", "sk-", "ghp_", "github_pat_", "glpat-"),
    *("hch-v3-", "AIza", "xoxb-"),
)
"""The keys that people have; a spread key of another vendor is still seen beside a credential word."""

_SPREAD_GROUPS: Final = 24
_SPREAD_WORD: Final = 64
_TOKEN_END: Final = frozenset(string.ascii_letters + string.digits + "_-+/=\\\r \t")
_TOKEN_START: Final = frozenset(string.ascii_letters + string.digits + "_-+/= \t>|")
_LAST: Final = re.compile(r"[A-Za-z0-9_+/=.:-]{1,200}\Z")
_FIRST: Final = re.compile(r"[A-Za-z0-9_+/=.-]{1,200}")
_AWS: Final = re.compile(r"(?<![A-Z0-9])A(?:KIA|SIA)(?:[ \t\n-]{0,2}[A-Z0-9]){16}(?![A-Za-z0-9])")
_GROUP: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def plain_forms(text: str, long_words: str) -> Iterator[str]:
    """What the text says once a disguise is off; nothing for a text that shows none."""
    if "%" in text and _PERCENT.search(text):
        yield unquote(_lines_with("%", text), errors="replace")
    if "&" in text and ";" in text and _ENTITY.search(text):
        yield html.unescape(_lines_with("&", text))
    if "\\" in text and _ESCAPED.search(text):
        yield _ESCAPED.sub(_unescaped, _lines_with("\\", text))
    if joined := _unwrapped(text):
        yield joined
    if ('"' in text or "'" in text or "`" in text) and _JOINED.search(text):
        yield _JOINED.sub("", text)
    if _SPELT.search(text) and (spelt := _LETTERS.findall(text)):
        yield "\n".join(["".join(one.split()) for one in spelt])
    if long_words and (plain := _decoded(long_words)):
        yield plain
        if again := _decoded("\n".join([word for word in plain.split() if len(word) >= tokens.SHORTEST])):
            yield again


def _decoded(long_words: str) -> str:
    """What words in base64 or hexadecimal say, where that is readable."""
    found = []
    for one in islice(_B64.finditer(long_words), _MOST_DECODED):
        if pairs := _HEX.fullmatch(one[0]):
            found.append(bytes.fromhex(pairs[1]).decode("ascii"))
        elif plain := tokens.decoded(one[0].rstrip("=")):
            found.append(plain)
    return "\n".join(found)


def _lines_with(mark: str, text: str) -> str:
    return "\n".join([line for line in text.split("\n") if mark in line])


def _unescaped(found: re.Match[str]) -> str:
    body = found[0][1:]
    if body[0] in "ux":
        return chr(int(body[1:].strip("{}"), 16))
    if body.isdigit():
        return chr(int(body, 8))
    return _ESCAPE.get(body, body)


def _unwrapped(text: str) -> str:
    """The lines, joined, whose end and beginning are one word broken in two, neither half an ordinary word."""
    lines = text.split("\n")
    broken = [
        at
        for at, (before, after) in enumerate(pairwise(lines))
        if before[-1:] in _TOKEN_END and after[:1] in _TOKEN_START and _is_broken(before, after)
    ]
    if not broken:
        return ""
    pieces: list[str] = []
    last = -2
    for at in broken:
        left = (pieces.pop() if at == last + 1 and pieces else lines[at]).rstrip(" \t\r\\").removesuffix("=")
        pieces.append(left + lines[at + 1].lstrip(" \t>|"))
        last = at
    return "\n".join(pieces)


def _is_broken(before: str, after: str) -> bool:
    left = before[-200:].rstrip("\\ \t\r").rsplit(None, 1)
    if not left or len(left[-1]) < 8 or left[-1].isalpha():
        return left != [] and len(left[-1]) >= 12 and _odd(_LAST.search(left[-1]), 12) and _is_broken_after(after)
    return _odd(_LAST.search(left[-1]), 8) and _is_broken_after(after)


def _is_broken_after(after: str) -> bool:
    right = after[:200].lstrip(" \t>|").split(None, 1)
    return bool(right) and _odd(_FIRST.match(right[0]), 6)


def _odd(found: re.Match[str] | None, least: int) -> bool:
    if found is None or len(found[0]) < least:
        return False
    return not found[0].isalpha() or not (found[0].islower() or found[0].istitle())


def find_spread(text: str, all_words: list[str]) -> str | None:
    """A provider's key whose characters are kept apart by spaces or line ends."""
    if ("AKIA" in text or "A K I A" in text) and _AWS.search(text):
        return "provider_key"
    if not any(sign in text for sign in _SPREAD_SIGNS):
        return None
    for literal in [literal for literal in _SPREAD if literal in text]:
        for at in [at for at, word in enumerate(all_words) if len(word) < _SPREAD_WORD and word.startswith(literal)]:
            if _spread_from([all_words[at][len(literal) :], *all_words[at + 1 : at + _SPREAD_GROUPS]]):
                return "provider_key"
    return None


def _spread_from(groups: list[str]) -> bool:
    """Whether groups of token characters follow that are no words: at least 16 characters, two in three with a digit
    inside."""
    total = odd = count = 0
    for group in groups:
        found = _GROUP.match(group)
        if found is None:
            if group:
                break
            continue
        count += 1
        total += len(found[0])
        odd += not found[0].isalpha() or not (found[0].islower() or found[0].istitle())
        if len(found[0]) < len(group):
            break
    return total >= 16 and odd * 3 >= count * 2
