"""Which messages ask for nothing: a greeting, a thank-you, a lone emoji, a command of the host.

A trivial turn is served the cached block, is not counted, and refreshes nothing. The rule goes by content alone and is
total: whatever is not a string is trivial.
"""

from __future__ import annotations

import unicodedata

TRIVIAL_MAX_BYTES = 24
"""A longer message is never trivial and is not looked at further."""

_AGREED = "yes yep yeah yup ok okay k sure no nope nah"
_GREETED = "hi hello hey thanks thx ty great nice cool perfect awesome good"
_GOES_ON = "done next continue proceed"
WORDS = frozenset(f"{_AGREED} {_GREETED} {_GOES_ON}".split())
PHRASES = frozenset({"thank you", "go ahead", "got it", "sounds good"})

_DROPPED = ("P", "S", "Z", "C")
"""Unicode classes that may trail an acknowledgement: punctuation, symbols (emoji), separators, controls and joiners."""


def is_trivial(query: object) -> bool:
    """True for a non-string, blank text, a slash command, and a bare acknowledgement, greeting or symbol."""
    if not isinstance(query, str):
        return True
    text = query.strip()
    if not text or text.startswith("/"):
        return True
    if len(text) > TRIVIAL_MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > TRIVIAL_MAX_BYTES:
        return False
    words = _bare(text)
    return not words or words in WORDS or words in PHRASES


def _bare(text: str) -> str:
    """Lower-cased, without trailing marks, blanks collapsed; "" when nothing but marks is left."""
    lowered = text.casefold()
    end = len(lowered)
    while end and (unicodedata.category(lowered[end - 1])[0] in _DROPPED or lowered[end - 1] in "\ufe0f\u20e3"):
        end -= 1
    return " ".join(lowered[:end].split())
