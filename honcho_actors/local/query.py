"""What a question asks for: its words without the small ones, the terms that only trigrams find, names and times."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

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
PART_CHARS = 5


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = re.compile(
    rf"\b(?:(?P<year>\d{{4}})-(?P<number>\d\d?)(?:-(?P<day>\d\d?))?"
    rf"|(?:(?P<first>\d\d?)(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH})"
    r"(?:\s+(?P<second>\d\d?)(?:st|nd|rd|th)?\b)?(?:,?\s+(?P<after>\d{4}))?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """`words` are matched by stem, `grams` (of scripts without spaces) anywhere; `bare` are too short for an index."""

    words: tuple[str, ...]
    grams: tuple[str, ...]
    bare: tuple[str, ...]
    when: tuple[int, int] | None = None
    """The day or month that the query names, as microseconds from and until; None without a year."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The words that are long enough to be looked for inside others."""
        return tuple(word for word in self.words if len(word) >= PART_CHARS)

    @property
    def empty(self) -> bool:
        return not (self.words or self.grams or self.bare)

    def without(self, names: set[str]) -> Query:
        """The query without these words, unless nothing else would be left."""
        kept = replace(self, words=tuple(word for word in self.words if word not in names))
        return self if kept.empty else kept


def named_time(text: str) -> tuple[int, int] | None:
    """The first day or month with a year in a text: `7 May 2023`, `May 2023`, `2023-05-07`."""
    for found in _DATES.finditer(text):
        part = found.groupdict()
        year = part["year"] or part["after"]
        if year is None:
            continue
        month = int(part["number"]) if part["number"] else 1 + _MONTHS.index(part["month"][:3].lower())
        day = part["day"] or part["first"] or part["second"]
        try:
            start = datetime(int(year), month, int(day or 1), tzinfo=UTC)
        except ValueError:
            continue
        following = start.replace(day=28) + timedelta(days=4)
        end = start + timedelta(days=1) if day else following.replace(day=1)
        return int(start.timestamp()) * 1_000_000, int(end.timestamp()) * 1_000_000
    return None


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
            words.update(dict.fromkeys(word.split("'")))
    strong = [word for word in words if word not in SMALL_WORDS]
    chosen = tuple(strong or words)[:MAX_TERMS]
    return Query(chosen, tuple(grams)[:MAX_TERMS], tuple(bare)[:MAX_TERMS], named_time(text))


def any_of(terms: tuple[str, ...]) -> str:
    """An FTS5 expression: any of the terms, each quoted."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
