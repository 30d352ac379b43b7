"""What a question asks for: its words without the small ones, the terms that only trigrams find, names and times."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LISTED = (
    "a about above after again against all also am an and any are as at be because been before being "
    "below between both but by can could did do does doing down during each few for from further had has "
    "have having he her here hers herself him himself his how i if in into is it its itself just let me "
    "more most my myself no nor not now of off on once only or other our ours ourselves out over own same "
    "she should so some such than that the their theirs them themselves then there these they this those "
    "through to too under until up us very was we were what when where which while who whom whose why "
    "will with would you your yours yourself yourselves s t d ll m re ve don didn doesn isn wasn weren "
    "won might may must shall "
)
SMALL_WORDS = frozenset(_LISTED.split())
_WORDS = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\u3040-\u30ff\uf900-\ufaff\u0e00-\u0e7f]+")
MAX_TERMS = 40


@dataclass(frozen=True, slots=True)
class Query:
    """`words` are matched by stem, `grams` as they are written, anywhere in a text; `bare` is too short for either."""

    words: tuple[str, ...]
    grams: tuple[str, ...]
    bare: tuple[str, ...]


def analyse(text: str) -> Query:
    words: dict[str, None] = {}
    grams: dict[str, None] = {}
    bare: dict[str, None] = {}
    for found in _WORDS.finditer(text.lower()):
        word = found.group().removesuffix("'s")
        wide = _WIDE.findall(word)
        for run in wide:
            if len(run) >= 3:
                grams.update(dict.fromkeys(run[at : at + 3] for at in range(len(run) - 2)))
            else:
                bare[run] = None
        if not wide:
            for part in word.split("'"):
                words[part] = None
    strong = {word: None for word in words if word not in SMALL_WORDS}
    chosen = tuple(strong or words)[:MAX_TERMS]
    long_words = [word for word in chosen if len(word) >= 5]
    return Query(chosen, (*tuple(grams)[:MAX_TERMS], *long_words), tuple(bare)[:MAX_TERMS])


def any_of(terms: tuple[str, ...]) -> str:
    """An FTS5 expression: any of the terms, each quoted."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
