"""What can be said of a text without a model, and no more: which of its sentences state something.

Deterministic and labelled: every line says "<peer> said: ...". It concludes nothing; it leaves out what is a question,
a greeting or a bare yes, and cuts what is long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from honcho_actors.local.query import SMALL_WORDS

MAX_CHARS = 400
SUMMARY_LINES = {"short": 8, "long": 20}
SUMMARY_LINE_CHARS = 200

_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*|\n")
_WIDE = re.compile(r"[\u2e80-\uffff]")
_WORD = re.compile(r"[^\W_]+")
_QUESTION = ("?", "？")
_LISTED = (
    "hi hello hey thanks thank you yes no yeah yep nope ok okay sure good morning evening night afternoon "
    "bye goodbye please great cool nice wow sounds right well oh hmm haha lol there so very much for that "
    "it is awesome perfect alright cheers welcome see later soon "
)
_PLEASANTRIES = frozenset(_LISTED.split())


def sentences(text: str) -> list[str]:
    return [piece.strip() for piece in _SENTENCE.findall(text) if piece.strip()]


def states_something(sentence: str) -> bool:
    if sentence.endswith(_QUESTION):
        return False
    words = [word.lower() for word in _WORD.findall(sentence)]
    if not words:
        return False
    if _WIDE.search(sentence):
        return len(sentence) >= 4
    return len(words) >= 2 and not all(word in _PLEASANTRIES for word in words)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, ending at a word where that costs little."""
    if len(text) <= limit:
        return text
    short = text[: limit - 1]
    space = short.rfind(" ")
    return (short[:space] if space > limit * 0.6 else short) + "…"


def said(peer: str, text: str) -> str | None:
    """One line about one message, or None where nothing was stated."""
    stated = " ".join(sentence for sentence in sentences(text) if states_something(sentence))
    stated = " ".join(stated.split())
    return f"{peer} said: {cut(stated, MAX_CHARS)}" if stated else None


def summary(kind: str, messages: Sequence[tuple[str, str]]) -> str:
    """The sentences with the most frequent rare words, in their order, under a line that says what this is."""
    counts: Counter[str] = Counter()
    stated: list[tuple[int, str, str, list[str]]] = []
    for peer, text in messages:
        for sentence in sentences(text):
            if states_something(sentence):
                words = [
                    word for word in (found.lower() for found in _WORD.findall(sentence)) if word not in SMALL_WORDS
                ]
                counts.update(set(words))
                stated.append((len(stated), peer, sentence, words))

    def weight(item: tuple[int, str, str, list[str]]) -> float:
        words = item[3]
        return sum(counts[word] for word in words if counts[word] > 1) / (len(words) + 3) + item[0] / (len(stated) + 1)

    best = sorted(stated, key=weight, reverse=True)[: SUMMARY_LINES[kind]]
    lines = [f"- {peer}: {cut(sentence, SUMMARY_LINE_CHARS)}" for _, peer, sentence, _ in sorted(best)]
    head = f"Picked from the last {len(messages)} messages, word for word (no model made this summary):"
    return "\n".join([head, *lines]) if lines else f"The last {len(messages)} messages state nothing."
