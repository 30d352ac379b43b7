"""One ranking out of several: what each provider held for best stays in front, whoever gave it. Pure.

Reciprocal rank fusion: a hit counts 1 / (60 + its place) in every list that holds it, and equal sums go by the better
place, then by the order of the lists. Scores of different providers are not comparable and times say nothing of
relevance, so neither is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from honcho_actors.model import Document

DAMPING: Final = 60
"""The usual constant of the method (Cormack, Clarke and Büttcher, SIGIR 2009)."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def fused(lists: Sequence[Sequence[Document]], limit: int) -> tuple[Document, ...]:
    """The best `limit` of all lists, each hit once. Hits are the same when id and text are; the first list's is
    kept."""
    scores: dict[tuple[str, str], float] = {}
    firsts: dict[tuple[str, str], tuple[int, int, Document]] = {}
    for number, hits in enumerate(lists):
        seen: set[tuple[str, str]] = set()
        for place, hit in enumerate(hits, 1):
            key = (hit.id, hit.text)
            if key in seen:
                continue
            seen.add(key)
            scores[key] = scores.get(key, 0.0) + 1.0 / (DAMPING + place)
            known = firsts.get(key)
            if known is None:
                firsts[key] = (place, number, hit)
            elif place < known[0]:
                firsts[key] = (place, known[1], known[2])
    ranked = sorted(firsts, key=lambda key: (-scores[key], firsts[key][0], firsts[key][1]))
    return tuple(firsts[key][2] for key in ranked[: max(0, limit)])


def newest_first(documents: Iterable[Document]) -> tuple[Document, ...]:
    """By time, for a host that shows history; what has no time that could be read comes last, in its order."""
    return tuple(sorted(documents, key=lambda one: one.created_at or _NEVER, reverse=True))
