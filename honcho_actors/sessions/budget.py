"""How much text a budget holds, and how text is cut to it without breaking a character or, where it can, a word.

A counter gives the tokens of a text. The built-in one counts a token per three bytes of UTF-8: a CJK character is one
token, an emoji at least one, English comes out a little high, and no tokenizer has to be loaded. What is measured is
always the finished text, ellipsis included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regex

Counter = Callable[[str], int]
"""Tokens of a text. Must be total, deterministic, and never smaller for a longer text."""

ELLIPSIS = " …"

_CLUSTER = regex.compile(r"\X")
_LOOK_BACK = 4096
"""Characters that are searched backwards for a certain cluster boundary before the whole text is walked."""


def utf8_thirds(text: str) -> int:
    """Tokens by the default estimate: a third of the UTF-8 bytes, rounded up. A lone surrogate counts as one."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


def bpe_counter() -> Counter:
    """An exact counter for recent OpenAI models, from the extra `tokens`. Raises ImportError without it."""
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")

    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return count


def grapheme_floor(text: str, index: int) -> int:
    """The greatest position <= `index` that does not stand inside a user-perceived character."""
    if index <= 0:
        return 0
    if index >= len(text):
        return len(text)
    start = _certain_boundary(text, index)
    last = start
    for match in _CLUSTER.finditer(text, start):
        end: int = match.end()
        if end > index:
            return last
        last = end
        if end == index:
            return index
    return last


def _certain_boundary(text: str, index: int) -> int:
    """A position at or before `index` where a cluster surely begins: an ASCII character (but never between CR and
    LF)."""
    for position in range(index, max(-1, index - _LOOK_BACK), -1):
        if text[position] < "\x7f" and text[position] != "\n":
            return position
    return 0


def word_floor(text: str, index: int) -> int:
    """The end of the last whole word in `text[:index]`; `index` itself where no blank is near (one long word, CJK)."""
    if index >= len(text) or text[index].isspace():
        return len(text[:index].rstrip())
    floor = max(0, index - 200)
    for position in range(index - 1, floor - 1, -1):
        if text[position].isspace():
            kept = len(text[: position + 1].rstrip())
            return kept if kept else index
    return index


def cut_chars(text: str, limit: int, ellipsis: str = ELLIPSIS) -> str:
    """`text` in at most `limit` characters, cut after a whole word; "" when not even the ellipsis would fit beside
    text."""
    if len(text) <= limit:
        return text
    room = limit - len(ellipsis)
    if room <= 0:
        return ""
    return _finish(text, room, ellipsis)


def cut_tokens(text: str, limit: int, counter: Counter = utf8_thirds, ellipsis: str = ELLIPSIS) -> str:
    """`text` in at most `limit` tokens by `counter`, cut after a whole word, the ellipsis counted in; "" when nothing
    fits."""
    if limit <= 0 or not text:
        return ""
    if counter(text) <= limit:
        return text
    low, high = 0, min(len(text), limit * 64)
    while low < high:
        middle = (low + high + 1) // 2
        if counter(text[:middle] + ellipsis) <= limit:
            low = middle
        else:
            high = middle - 1
    cut = _finish(text, low, ellipsis)
    while cut and counter(cut) > limit:
        low -= 1
        cut = _finish(text, low, ellipsis)
    return cut


def _finish(text: str, room: int, ellipsis: str) -> str:
    index = word_floor(text, grapheme_floor(text, room))
    kept = text[:index].rstrip()
    return kept + ellipsis if kept else ""


def share(needs: Sequence[int], weights: Sequence[int], room: int) -> list[int]:
    """Divides `room` among parts: each gets what it needs when its weighted share allows, and surplus flows on.

    The result depends on the arguments alone and never adds up to more than `room`. A part always gets
    min(need, its share), so a huge part starves none.
    """
    given = [0] * len(needs)
    open_parts = [i for i, need in enumerate(needs) if need > 0]
    left = max(0, room)
    while open_parts and left > 0:
        total = sum(weights[i] for i in open_parts)
        shares = {i: left * weights[i] // total for i in open_parts}
        satisfied = [i for i in open_parts if needs[i] <= shares[i]]
        if not satisfied:
            for i in open_parts:
                given[i] = shares[i]
            return given
        for i in satisfied:
            given[i] = needs[i]
            left -= needs[i]
        open_parts = [i for i in open_parts if i not in satisfied]
    return given
