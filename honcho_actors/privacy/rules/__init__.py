"""What a credential looks like: the rules of the egress gate. Own, bounded, linear in the text, always on.

`find` takes the inspected form of a text (`text.inspected`) and gives the kind of the first credential in it. Rules
are judged by kind, not by example: self-evident tokens (`tokens`), places (`places`), words with a value beside them
(`context`), and all of these once more with a disguise taken off (`disguises`). Figures on text that they were not
written for: `benchmarks/egress.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from honcho_actors.privacy.rules import context, disguises, places, tokens


@dataclass(frozen=True, slots=True)
class Seen:
    """A text in the forms that rules read: itself, in lower case (of the same length), and cut into words."""

    text: str
    low: str
    words: list[str]
    long_words: str
    """The words that are long enough for a provider's key, one a line."""
    mid_words: list[str]


def prepared(text: str) -> Seen:
    """The forms of a text, made once."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(lower if len(lower := char.lower()) == 1 else char for char in text)
    words = text.split()
    mid = [word for word in words if len(word) >= _MID_CHARS]
    return Seen(text, low, words, "\n".join([word for word in mid if len(word) >= tokens.SHORTEST]), mid)


_MID_CHARS: Final = 9

Rule = Callable[[Seen], str | None]
"""Gives the kind of what it found, or None. Bounded: time linear in the text, whatever the text."""

RULES: Final[dict[str, Rule]] = {
    "tokens": lambda seen: tokens.find(seen.text, seen.long_words),
    "addresses": lambda seen: places.find_address(seen.text) if ":" in seen.text else None,
    "manifests": lambda seen: places.find_manifest(seen.text),
    "headers": lambda seen: places.find_header(seen.text, seen.low),
    "context": lambda seen: context.find(seen.text, seen.low),
    "commands": lambda seen: places.find_command(seen.text),
    "pairs": lambda seen: places.find_pair(seen.text, seen.low, seen.mid_words),
    "mnemonics": lambda seen: tokens.find_mnemonic(seen.low),
    "spread": lambda seen: disguises.find_spread(seen.text, seen.words),
}

KINDS: Final = (
    "provider_key",
    "private_key",
    "url",
    "header",
    "cookie",
    "assignment",
    "password",
    "secret",
    "pin",
    "command",
    "pair",
    "mnemonic",
    "too_long",
    "rule_failed",
    "own_key",
    "screener",
    "screener_failed",
)
"""Every rule that a withheld text can be counted under; the last five are the gate's own."""


def find(text: str) -> str | None:
    """The kind of the first credential in `text`, or None."""
    seen = prepared(text)
    if kind := _first(seen):
        return kind
    for plain in disguises.plain_forms(text, seen.long_words):
        if kind := _first(prepared(plain)):
            return kind
    return None


def _first(seen: Seen) -> str | None:
    for rule in RULES.values():
        if kind := rule(seen):
            return kind
    return None
