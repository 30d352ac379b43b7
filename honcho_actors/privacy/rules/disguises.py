"""Credentials in a disguise: broken over lines, spread with spaces, percent-encoded, escaped, in base64.

Each disguise is taken off only where the text shows its mark, once, and the plain form goes through the rules again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from honcho_actors.privacy.rules import tokens

_PERCENT: Final = re.compile(r"%[2-7][0-9A-Fa-f]")
_ENTITY: Final = re.compile(r"&(?:#\d{2,4}|#x[0-9A-Fa-f]{2,4}|quot|amp|lt|gt|apos|colon|equals);")
_ESCAPED: Final = re.compile(r"\\(?:[\"'/nrt]|u00[0-7][0-9A-Fa-f]|x[0-7][0-9A-Fa-f])")
_ESCAPE: Final = {"n": "\n", "r": "\n", "t": "\t"}
_B64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,4096}={0,2}(?![A-Za-z0-9+/_-])")
_MOST_DECODED: Final = 64

_SPREAD: Final = tuple(
    literal
    for literal, _ in tokens.SHAPES
    if len(literal) >= 3 and (literal[-1] in "-_." or literal == "AIza") and literal not in tokens.BOUNDED
)
_SPREAD_CHARS: Final = 160
_AWS: Final = re.compile(r"(?<![A-Z0-9])A(?:KIA|SIA)(?:[ \t\n-]{0,2}[A-Z0-9]){16}(?![A-Za-z0-9])")
_WRAPPED: Final = re.compile(r"([A-Za-z0-9_+/=.:-]{8,200})[ \t]{0,4}\\?\r?\n[ \t>|]{0,8}([A-Za-z0-9_+/=.-]{6,200})")
_GAP: Final = re.compile(r"[\s\\]+")
_GROUP: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def plain_forms(text: str) -> Iterator[str]:
    """What the text says once a disguise is off; nothing for a text that shows none."""
    if "%" in text and _PERCENT.search(text):
        yield unquote(text, errors="replace")
    if "&" in text and _ENTITY.search(text):
        yield html.unescape(text)
    if "\\" in text and _ESCAPED.search(text):
        yield _ESCAPED.sub(_unescaped, text)
    if "\n" in text and (joined := _WRAPPED.sub(_unwrapped, text)) != text:
        yield joined
    for count, found in enumerate(_B64.finditer(text)):
        if count >= _MOST_DECODED:
            break
        if plain := tokens.decoded(found[0].rstrip("=")):
            yield plain


def _unescaped(found: re.Match[str]) -> str:
    body = found[0][1:]
    if body[0] in "ux":
        return chr(int(body[1:], 16))
    return _ESCAPE.get(body, body)


def _unwrapped(found: re.Match[str]) -> str:
    """Both ends of a broken line as one word when neither is an ordinary word."""
    odd = all(not part.isalpha() or not (part.islower() or part.istitle()) for part in found.groups())
    return found[1] + found[2] if odd else found[0]


def find_spread(text: str) -> str | None:
    """A provider's key whose characters are kept apart by spaces or line ends."""
    if "A" in text and ("AKIA" in text or "ASIA" in text or "A K" in text) and _AWS.search(text):
        return "provider_key"
    for literal in _SPREAD:
        at = text.find(literal)
        if at >= 0 and _spread_from(text, at + len(literal)):
            return "provider_key"
    return None


def _spread_from(text: str, at: int) -> bool:
    """Whether groups of token characters follow that are no words: at least 16 characters, most groups with a digit
    inside."""
    total = odd = groups = 0
    for group in _GAP.split(text[at : at + _SPREAD_CHARS]):
        found = _GROUP.match(group)
        if found is None:
            break
        groups += 1
        total += len(found[0])
        odd += not found[0].isalpha() or not (found[0].islower() or found[0].istitle())
        if len(found[0]) < len(group):
            break
    return total >= 16 and odd * 3 >= groups * 2
