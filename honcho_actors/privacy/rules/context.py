"""Credentials that their surroundings give away: assigned to a name, or said in prose beside a credential word.

For every credential word in the text, a bounded stretch after it (and before it) is read word by word; how much a
word there must look like a secret depends on the kind of credential word and on what joins the two. Time is linear:
the stretch is bounded, and of credential words that stand in one heap only the last is followed.
"""

from __future__ import annotations

import re
from typing import Final

from honcho_actors.privacy.rules import values, words
from honcho_actors.privacy.rules.words import HINT, KEY, NEITHER, PASSWORD, PIN, Word

AFTER_CHARS: Final = 72
BEFORE_CHARS: Final = 72
HEAP_CHARS: Final = 8
"""Credential words closer than this form a heap; what follows the last of them follows them all."""

_TOKEN: Final = re.compile(r"[!-~\u00c0-\u024f\u0370-\u052f]{4,256}")
_JOIN: Final = re.compile(
    r"(?:[_-]?(?:prod|dev|test|staging|stage|live|old|new|value|base64|b64|plain|main|\d{1,2}))?"
    r"[\\\"'`\]*?]{0,4}[ \t]{0,3}"
    r"(?P<op>=>|:=|={1,3}|:{1,2}|->|→|：|＝|>|,(?=[ \t]?\\?[\"'])|value=|(?<=[ \t]))[ \t]{0,3}"
    r"(?P<open>\\?[\"'`“«]{0,3})"
)
_PAUSE: Final = re.compile(r"[.;,!?\n。；，]")
_OPTION: Final = re.compile(r"(?:^|\s)--?[\w-]{0,40}$")
_UNQUOTED: Final = re.compile(r"[^\s\"'`<>“”»]{1,256}")
_CUTS: Final = re.compile(r"[;&,](?=\S{0,256})")


def find(text: str, low: str) -> str | None:
    """`assignment`, `password` or `secret` when a credential word has a credential beside it, or None."""
    for start, end, kind in _hits(text, low):
        if (
            rule := _assigned(text, low, start, end, kind)
            or _said(text, low, end, kind)
            or _said_before(text, start, kind)
        ):
            return rule
    return None


def _hits(text: str, low: str) -> list[tuple[int, int, int]]:
    """Start, end and kind of every credential word, the last of each heap."""
    found: dict[int, tuple[int, int]] = {}
    for word in words.WORDS:
        at = low.find(word.root)
        while at >= 0:
            match = word.pattern.match(low, at)
            if match:
                kind = _kind(text, low, at, word)
                known = found.get(at)
                if kind != NEITHER and (known is None or match.end() > known[0] or kind < known[1]):
                    found[at] = (match.end(), kind)
            at = low.find(word.root, at + len(word.root))
    if not found:
        return []
    hits = sorted((start, end, kind) for start, (end, kind) in found.items())
    return [
        hit
        for hit, following in zip(hits, [*hits[1:], (1 << 62, 0, 0)], strict=True)
        if following[0] - hit[1] >= HEAP_CHARS or following[0] < hit[1] or hit[2] == PASSWORD != following[2]
    ]


def _kind(text: str, low: str, at: int, word: Word) -> int:
    """The kind of a word in its place: what stands before it may raise it to a KEY or make it nothing at all."""
    before = low[max(0, at - 16) : at]
    glued = before[-1:].isalpha()
    if glued and word.bounded:
        return NEITHER
    if word.kind == PIN and word.root in ("code", "combination"):
        if words.BACKUP.search(before):
            return PASSWORD
        return PIN if words.CODES.search(before) else NEITHER
    if word.kind == HINT:
        if words.RAISES.search(before):
            return KEY
        if words.LOWERS.search(before):
            return NEITHER
        if glued and not text[at].isupper() and before.isascii():
            return NEITHER
        return KEY if word.root == "secret" or (text[at].isupper() and before.endswith("_")) else HINT
    if word.root == "pass" and word.bounded and words.LOWERS.search(before):
        return NEITHER
    return word.kind


def _assigned(text: str, low: str, start: int, end: int, kind: int) -> str | None:
    """A value that stands where the value of a credential's name stands."""
    join = _JOIN.match(text, end)
    if join is None:
        return None
    operator, opened = join["op"], join["open"].lstrip("\\")
    option = not operator and bool(_OPTION.search(low, max(0, start - 44), start))
    if not operator and not (option or kind == PASSWORD or opened):
        return None
    found = _UNQUOTED.match(text, join.end())
    if found is None:
        return None
    whole = found[0].rstrip("\\")
    value = values.trimmed(_CUTS.split(whole, 1)[0] or whole) if not opened else whole
    if kind == PIN:
        return "pin" if operator and value.isdigit() and 4 <= len(value) <= 8 else None
    much = values.strength(value)
    if kind == PASSWORD:
        if much >= values.FAIR and (
            operator or option or opened or (much >= values.FAIR and any(map(str.isdigit, value)))
        ):
            return "password"
        if much == values.WORD and operator not in ("", ">", "::"):
            return "password" if _stands_alone(text, join, found, value, opened) else None
        return None
    if not operator and not option:
        return None
    if kind == KEY:
        return "assignment" if much >= values.FAIR else None
    if much >= values.STRONG or (much == values.FAIR and (low.startswith("token", start) and len(value) >= 6)):
        return "assignment" if much == values.RANDOM or len(value) >= 12 or low.startswith("token", start) else None
    return None


def _stands_alone(text: str, join: re.Match[str], found: re.Match[str], value: str, opened: str) -> bool:
    """Whether a plain word is the whole value: in quotes, or the rest of its line with no room around an equals
    sign."""
    if values.is_common(value) or len(value) < 4:
        return False
    if value.isdigit() or opened:
        return opened == "" or text[found.end() : found.end() + 1] in ("'", '"', "`", "”", "»")
    spaced = join["op"].startswith("=") and text[join.start("op") - 1 : join.start("op")] in (" ", "\t")
    rest = text[found.end() : found.end() + 1]
    return not spaced and rest in ("", "\n", "\r") and value == found[0].rstrip(".,;!")


def _said(text: str, low: str, end: int, kind: int) -> str | None:
    """A credential said after its word, in a sentence."""
    words_between = 0
    for found in _TOKEN.finditer(text, end):
        at = found.start()
        if at >= end + AFTER_CHARS:
            break
        token = found[0]
        if token.isalpha() and (token.islower() or token.istitle()):
            words_between += 1
            continue
        value = values.trimmed(token)
        joined = False
        if value[:1] in (":", "=", "-", ">"):
            value, joined = value.lstrip(":=->"), True
        if kind == PIN:
            if value.isdigit() and 4 <= len(value) <= 8 and (joined or _connected(low, at)):
                return "pin"
            continue
        much = values.strength(value)
        if much < values.FAIR:
            if token[-1] in ".!?" and at > end:
                break
            words_between += 1
            continue
        near = joined or (not words_between and "\n" not in text[end:at]) or _connected(low, at)
        if kind == PASSWORD and (near or much == values.RANDOM or (much == values.STRONG and len(value) >= 10)):
            return "password"
        if kind == KEY and (much == values.RANDOM or (near and (much == values.STRONG or len(value) >= 10))):
            return "secret"
        if (
            kind == HINT
            and much == values.RANDOM
            and (near or (words_between <= 2 and not _PAUSE.search(text, end, at)))
        ):
            return "secret"
        words_between += 1
    return None


def _connected(low: str, at: int) -> bool:
    return words.CONNECTOR.search(low, max(0, at - 16), at) is not None


def _said_before(text: str, start: int, kind: int) -> str | None:
    """A credential said before its word: *... as the password*."""
    if kind == PIN:
        return None
    begin = max(0, start - BEFORE_CHARS)
    last: tuple[int, int, str] | None = None
    for found in _TOKEN.finditer(text, begin, start):
        token = found[0]
        if token.isalpha() and (token.islower() or token.istitle()):
            continue
        value = values.trimmed(token)
        much = values.strength(value)
        if much >= values.FAIR:
            last = (found.end(), much, value)
    if last is None:
        return None
    end, much, value = last
    enough = values.FAIR if kind == PASSWORD else values.STRONG if kind == KEY else values.RANDOM
    if much < enough or (much == values.FAIR and not any(map(str.isdigit, value))):
        return None
    between = text[end:start].lower()
    return "secret" if words.BACKWARDS.fullmatch(between.lstrip(".,;:!?")) and "\n" not in between else None
