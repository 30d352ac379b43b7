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
AROUND_CHARS: Final = 128

_TOKEN: Final = re.compile(r"[!-~\u00c0-\u024f\u0370-\u052f]{4,256}")
_VARIANT: Final = (
    r"prod|dev|test|staging|stage|live|old|new|value|base64|base|b64|hex|plain|main|primary|secondary|"
    r"fallbacks?|\d{1,2}"
)
"""What the name of a credential may end in and still name it."""
_JOIN: Final = re.compile(
    rf"(?i:[_-]?(?:{_VARIANT}))?"
    r"[\\\"'`\]*?]{0,4}[ \t]{0,3}"
    r"(?P<op>=>|:=|={1,3}|:{1,2}|->|→|：|＝|>|,(?=[ \t]?\\?[\"'])|value=|(?<=[ \t]))[ \t]{0,3}"
    r"(?P<open>\\?[\"'`“«]{0,3})"
)
_ASSIGNS: Final = re.compile(
    r"[\w\\\"'`\]*?-]{0,12}[ \t]{0,3}(?:[=:>→：＝,\"'`“«]|value=|(?<=[ \t])(?![a-zA-Z]{1,40}(?![!-~]))\S)"
)
_ODD: Final = re.compile(r"\d|[a-z][A-Z]|\w[!@#$%^&*+=~?|][\w!]|[\"'`“«]\w")
_LONG: Final = re.compile(r"[!-~]{16}")
_DIGITS: Final = re.compile(r"\d{4}")
_PAUSE: Final = re.compile(r"[.;,!?\n。；，]")
_JUST_AFTER: Final = re.compile(r"[ \t:=\"'`(\[{<>*_«“是]{0,8}")
_NEXT_LINE: Final = re.compile(r"[ \t:*\"'`]{0,4}\r?\n[ \t]{0,8}[\"'`*]{0,2}")
_FAR_CHARS: Final = {PASSWORD: 10, KEY: 16, HINT: 16, PIN: 1 << 30}
"""A shorter word is no candidate unless something joins it to the credential word."""

_GOES_ON: Final = re.compile(rf"_(?!(?:{_VARIANT}|[ .,:;=])(?![a-z]))[a-z]{{2}}")
"""A name goes on after the credential word: `password_hash`, `token_type`."""

_OTHER_LABEL: Final = re.compile(
    r"(?:(?:user ?names?|benutzername|nombre de usuario|nom d'utilisateur|用户名)[\"'`]?\s{0,2}"
    r"(?:is|:|=|es|ist|est|é|è|是|为)"
    r"|(?:users?|e-?mails?|logins?|accounts?|usuario|usuário|benutzer|identifiant|utente|логин|账号|帐号)[\"'`]?\s{0,2}[:=])"
    r"\s{0,2}[\"'`]?$"
)
"""The value of another thing begins here."""

_BASE32: Final = re.compile(r"[A-Z2-7]{16,128}=*")
_BASE32_GROUPS: Final = re.compile(
    r"(?:[^\n]{0,40}?[:=]|(?:[ \t]{1,2}\w{1,16}){0,4}?[ \t])[ \t\"'`(]{0,4}"
    r"(?=(?:[a-z]{4}[ -]){0,15}[a-z2-7]{0,3}[2-7])(?:[a-z2-7]{4}[ -]){3,15}[a-z2-7]{4}(?![a-z2-7])"
)
"""Groups of four with a digit in them; groups of letters alone are words."""
_TOTP: Final = re.compile(r"totp|2fa|mfa|authenticator|two-factor|otp")
_NOTHING_YET: Final = re.compile(r"[\s:=>|+\"'`(\[{*_-]{0,16}(?:is|are)?[\s:=]{0,4}")
_PIN_DIGITS: Final = re.compile(r"[#*]?\d{4,8}[#*]?")
_CODE_GROUPS: Final = re.compile(r"[0-9A-Za-z]{3,6}(?:-[0-9A-Za-z]{3,6}){1,5}")
_FEWEST_DIGITS: Final = {PASSWORD: 4, KEY: 8, HINT: 16}
_PHRASE: Final = re.compile(
    r"(?:[ \t]{1,2}(?:is|was|es|ist|est|lautet)[ \t]{1,2}|[ \t]{0,2}[:=][ \t]{0,2})"
    r"(?:[\"'`“«][a-z]{3,12}(?:[ -][a-z]{3,12}){2,9}[\"'`”»]"
    r"|[a-z]{3,12}(?:-[a-z]{3,12}){2,9}(?![\w-])"
    r"|[a-z]{3,12}(?: [a-z]{3,12}){3,9}(?: \d{1,4})?[.]?(?:\n|\Z))"
)
"""A passphrase of words: in quotes, joined by hyphens, or the rest of the line."""
_TABLE: Final = re.compile(r"[^\n|]{0,24}\|[^\n]{0,120}\n[ \t|:+-]{3,160}\n([^\n]{1,240})")
"""From the head of a column to the first row of its table."""

_SENTENCE: Final = re.compile(
    r"\b(?:the|and|for|are|was|has|have|not|but|its|our|his|her|you|your|this|that|with|from|must|should|can|will|may|too|very|"
    r"required|needed|stored|wrong|correct|only|when|where|before|after|que|con|los|las|und|der|die|das|les|des|pour|est)\b"
)
_OPTION: Final = re.compile(r"(?:^|\s)--?[\w-]{0,40}$")
_UNQUOTED: Final = re.compile(r"[^\s\"'`<>“”»]{1,256}")
_CUTS: Final = re.compile(r"[;&,](?=\S{0,256})")
_BACK: Final = (
    *(
        " as ",
        " is ",
        " als ",
        " ist ",
        " es ",
        " est ",
        " como ",
        " comme ",
        " come ",
        " for ",
        " jako ",
        " как ",
        " это ",
    ),
    *("'s ", "’s ", " which ", "é ", "è ", "(", "— ", "- ", "作为", "作為", "是", "が", "は"),
)


def find(text: str, low: str) -> str | None:
    """`assignment`, `password`, `secret` or `pin` when a credential word has a credential beside it, or None."""
    hits = _hits(text, low)
    size = len(text)
    before = 0
    for (start, end, kind), (following, _, following_kind) in zip(hits, [*hits[1:], (size, size, PIN)], strict=False):
        if rule := _assigned(text, low, start, end, kind):
            return rule
        if kind == PASSWORD and (phrase := _PHRASE.match(low, end)) and not _SENTENCE.search(phrase[0], 5):
            return "password"
        if kind in (KEY, HINT) and _TOTP.search(low, max(0, start - 24), end + 40) and _is_seed(text, low, end):
            return "secret"
        if kind in (PASSWORD, KEY) and (table := _TABLE.match(text, end)) and _is_tabled(table[1]):
            return "password" if kind == PASSWORD else "secret"
        stop = min(size, end + AFTER_CHARS)
        if following_kind <= kind:
            stop = min(stop, following)
        if _promising(text, end, stop, kind) and (rule := _said(text, low, end, stop, kind)):
            return rule
        begin = max(before, start - BEFORE_CHARS)
        if begin < start and _promising(text, begin, start, kind):
            near = low[max(0, start - 40) : start]
            if any(mark in near for mark in _BACK) and (rule := _said_before(text, begin, start, kind)):
                return rule
        before = end
    return None


def _is_seed(text: str, low: str, end: int) -> bool:
    """Whether the seed of one-time codes follows: base32, whole or in groups of four."""
    if _BASE32_GROUPS.match(low, end):
        return True
    return any(
        _BASE32.fullmatch(values.trimmed(found[0])) for found in _TOKEN.finditer(text, end, end + AFTER_CHARS + 64)
    )


def _is_tabled(row: str) -> bool:
    """Whether a cell of a row looks like a credential by itself."""
    return any(values.strength(values.trimmed(found[0])) >= values.STRONG for found in _TOKEN.finditer(row))


def _promising(text: str, begin: int, end: int, kind: int) -> bool:
    """Whether a value can begin in a stretch at all: the quick question before the slow one."""
    if kind == HINT:
        return _LONG.search(text, begin, end + 16) is not None
    return (_DIGITS if kind == PIN else _ODD).search(text, begin, end + 16) is not None


def _hits(text: str, low: str) -> list[tuple[int, int, int]]:
    """Start, end and kind of every credential word, in order; of words in one and the same surroundings only the
    first."""
    found: dict[int, tuple[int, int]] = {}
    known: set[tuple[str, str]] = set()
    for at, root in words.roots_in(low):
        around = (text[max(0, at - BEFORE_CHARS) : at], text[at : at + AROUND_CHARS])
        if around not in known:
            known.add(around)
            _classify(words.ROOTS[root], text, low, at, found)
    return sorted((start, end, kind) for start, (end, kind) in found.items())


def _classify(entries: tuple[Word, ...], text: str, low: str, at: int, found: dict[int, tuple[int, int]]) -> None:
    for word in entries:
        match = word.pattern.match(low, at)
        if match is None:
            continue
        known = found.get(at)
        if known is not None and match.end() <= known[0] and word.kind >= known[1]:
            continue
        kind = _kind(text, low, at, word)
        if kind != NEITHER and not _GOES_ON.match(low, match.end()):
            found[at] = (match.end(), kind)


def _kind(text: str, low: str, at: int, word: Word) -> int:
    """The kind of a word in its place: what stands before it may raise it to a KEY or make it nothing at all."""
    glued = at > 0 and low[at - 1].isalpha()
    if glued and word.bounded:
        return NEITHER
    if word.kind == PASSWORD and word.root != "pass":
        return PASSWORD
    before = low[max(0, at - 24) : at]
    if word.kind == PIN:
        if word.root not in ("code", "combination"):
            return NEITHER if before.endswith(("gpio ", "digital ", "analog ", "header ")) else PIN
        if words.BACKUP.search(before):
            return PASSWORD
        return PIN if words.CODES.search(before) else NEITHER
    bare = before[:-1] if before[-1:] in (" ", "_", ".", "-") else before
    if len(bare) < 24:
        bare = " " + bare
    if word.kind == HINT:
        if bare.endswith(words.RAISES):
            return KEY
        if bare.endswith(words.LOWERS):
            return NEITHER
        if glued and not text[at].isupper() and before.isascii():
            return NEITHER
        return KEY if word.root == "secret" or (text[at].isupper() and before.endswith("_")) else HINT
    if word.kind == PASSWORD and word.bounded and bare.endswith(words.LOWERS):
        return NEITHER
    return word.kind


def _assigned(text: str, low: str, start: int, end: int, kind: int) -> str | None:
    """A value that stands where the value of a credential's name stands."""
    if not _ASSIGNS.match(text, end):
        return None
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
        return "pin" if operator and _PIN_DIGITS.fullmatch(value) else None
    much = values.strength(value)
    if kind == PASSWORD:
        if much >= values.FAIR and (
            operator or option or opened or (much >= values.FAIR and any(map(str.isdigit, value)))
        ):
            return "password"
        if much == values.WORD and operator not in ("", ">", "::") and not low.startswith("clave", start):
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


def _said(text: str, low: str, end: int, stop: int, kind: int) -> str | None:
    """A credential said after its word, in a sentence."""
    words_between = 0
    line_end = text.find("\n", end, stop)
    if line_end >= 0 and not _NOTHING_YET.fullmatch(text, end, line_end):
        stop = line_end
    elif line_end >= 0:
        following = _TOKEN.search(text, line_end, stop)
        stop = following.start() + 1 if following else line_end
    for found in _TOKEN.finditer(text, end):
        at = found.start()
        if at >= stop:
            break
        token = found[0]
        if token.isalpha() and (token.islower() or token.istitle()):
            words_between += 1
            continue
        joined = token[0] in ":=->" and at == end
        if _OTHER_LABEL.search(low, max(end, at - 28), at):
            words_between += 1
            continue
        near = (
            joined
            or _connected(low, at)
            or (not words_between and end < at and _JUST_AFTER.fullmatch(text, end, at))
            or (text[found.end() : found.end() + 1] in ("", "\n", "\r") and _NEXT_LINE.fullmatch(text, end, at))
        )
        foreign = kind == PASSWORD and low[end - 1] > "\u02af"
        if not near and not foreign and len(token) < _FAR_CHARS[kind]:
            if token[-1] in ".!?" and at > end:
                break
            words_between += 1
            continue
        value = values.trimmed(token.lstrip(":=->") if joined else token)
        if kind == PIN:
            if near and _PIN_DIGITS.fullmatch(value):
                return "pin"
            continue
        if near and value.isdigit() and len(value) >= _FEWEST_DIGITS[kind] and words_between <= 3:
            return "password" if kind == PASSWORD else "secret"
        if near and kind == PASSWORD and "code" in low[end - 5 : end] and _CODE_GROUPS.fullmatch(value):
            return "password"
        much = values.strength(value)
        near = near or (much == values.STRONG and low[end - 1] > "\u02af")
        if _is_enough(kind, much, len(value), bool(near)) or (
            kind == HINT and much == values.RANDOM and words_between <= 2 and not _PAUSE.search(text, end, at)
        ):
            return "password" if kind == PASSWORD else "secret"
        words_between += 1
    return None


def _is_enough(kind: int, much: int, size: int, near: bool) -> bool:
    """Whether a value beside a word of a kind, joined to it or not, is a credential."""
    if kind == PASSWORD:
        return (
            much == values.RANDOM or (much == values.STRONG and (near or size >= 10)) or (much == values.FAIR and near)
        )
    if kind == KEY:
        return much == values.RANDOM or (near and (much == values.STRONG or (much == values.FAIR and size >= 10)))
    return near and much == values.RANDOM


def _connected(low: str, at: int) -> bool:
    return words.CONNECTOR.search(low, max(0, at - 16), at) is not None


def _said_before(text: str, begin: int, start: int, kind: int) -> str | None:
    """A credential said before its word: *... as the password*."""
    enough = values.FAIR if kind == PASSWORD else values.STRONG if kind == KEY else values.RANDOM
    end = 0
    for found in _TOKEN.finditer(text, begin, start):
        token = found[0]
        if token.isalpha() and (token.islower() or token.istitle()):
            continue
        value = values.trimmed(token)
        if kind == PIN:
            end = found.end() if _PIN_DIGITS.fullmatch(value) else end
            continue
        much = values.strength(value)
        if much >= enough and (much > values.FAIR or any(map(str.isdigit, value))):
            end = found.end()
    between = text[end:start].lower().lstrip(".,;:!?")
    if not end or "\n" in between or not words.BACKWARDS.fullmatch(between):
        return None
    return "pin" if kind == PIN else "secret"
