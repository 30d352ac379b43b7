"""What a credential looks like: the rules of the egress gate. Own, bounded, linear in the text, always on.

`find` takes the inspected form of a text (`text.inspected`) and gives the kind of the first credential in it. Rules
are judged by kind, not by example: self-evident tokens (`tokens`), places (`places`), words with a value beside them
(`context`), and all of these once more with a disguise taken off (`disguises`). Figures on text that they were not
written for: `benchmarks/egress.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from honcho_actors.privacy.rules import context, disguises, places, tokens

Rule = Callable[[str, str], str | None]
"""Takes a text and its lower case, both of one length; gives the kind of what it found, or None."""

RULES: Final[dict[str, Rule]] = {
    "tokens": lambda text, low: tokens.find(text),
    "addresses": lambda text, low: places.find_address(text) if "://" in text and "@" in text else None,
    "headers": places.find_header,
    "context": context.find,
    "commands": lambda text, low: places.find_command(text),
    "pairs": places.find_pair,
    "mnemonics": tokens.find_mnemonic,
    "spread": lambda text, low: disguises.find_spread(text),
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
    "own_key",
    "screener",
    "screener_failed",
)
"""Every rule that a withheld text can be counted under; the last three are the gate's own."""


def find(text: str) -> str | None:
    """The kind of the first credential in `text`, or None."""
    if kind := _find(text):
        return kind
    for plain in disguises.plain_forms(text):
        if kind := _find(plain):
            return kind
    return None


def _find(text: str) -> str | None:
    low = text.lower()
    if len(low) != len(text):
        low = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    for rule in RULES.values():
        if kind := rule(text, low):
            return kind
    return None
