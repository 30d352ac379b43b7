"""Finding what was said, without a model: stemmed words and trigrams, their rankings fused by rank.

Nothing that matches nothing is returned, unlike a search by embeddings, which always has a nearest. An empty query
gives the newest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from honcho_actors.local.filters import Condition
from honcho_actors.local.query import Query, analyse, any_of

Row = sqlite3.Row
Connection = sqlite3.Connection
FUSION = 60
"""The constant of reciprocal rank fusion: how little the first places count more than the next."""
POOL = 200
"""Candidates taken from each ranking."""


def _fused(rankings: Iterable[tuple[float, list[int]]]) -> list[int]:
    scores: dict[int, float] = {}
    for weight, ranking in rankings:
        for place, key in enumerate(ranking):
            scores[key] = scores.get(key, 0.0) + weight / (FUSION + place)
    return sorted(scores, key=lambda key: (-scores[key], -key))


def _ranking(db: Connection, table: str, index: str, expression: str, where: Condition) -> list[int]:
    sql, params = where
    return [
        row[0]
        for row in db.execute(
            f"SELECT {table}.pk FROM {index} JOIN {table} ON {table}.pk = {index}.rowid "
            f"WHERE {index} MATCH ? AND ({sql}) ORDER BY bm25({index}), {table}.pk DESC LIMIT ?",
            [expression, *params, POOL],
        )
    ]


def _scan(db: Connection, table: str, terms: tuple[str, ...], where: Condition) -> list[int]:
    """Terms too short for the index, found by reading: two Chinese characters, say."""
    sql, params = where
    any_term = " OR ".join(f"instr(lower({table}.content), ?) > 0" for _ in terms)
    return [
        row[0]
        for row in db.execute(
            f"SELECT {table}.pk FROM {table} WHERE ({sql}) AND ({any_term}) ORDER BY {table}.pk DESC LIMIT ?",
            [*params, *terms, POOL],
        )
    ]


def _ranked(db: Connection, table: str, query: Query, where: Condition) -> list[int]:
    rankings: list[tuple[float, list[int]]] = []
    if query.words:
        rankings.append((1.0, _ranking(db, table, f"{table}_words", any_of(query.words), where)))
    if query.grams:
        rankings.append((0.3, _ranking(db, table, f"{table}_grams", any_of(query.grams), where)))
    if query.bare:
        rankings.append((1.0, _scan(db, table, query.bare, where)))
    return _fused(rankings)


def _rows(db: Connection, table: str, keys: list[int]) -> list[Row]:
    marks = ",".join("?" * len(keys))
    found = {row["pk"]: row for row in db.execute(f"SELECT * FROM {table} WHERE pk IN ({marks})", keys)}
    return [found[key] for key in keys]


def _newest(db: Connection, table: str, where: Condition, limit: int) -> list[Row]:
    sql, params = where
    return db.execute(f"SELECT * FROM {table} WHERE {sql} ORDER BY pk DESC LIMIT ?", [*params, limit]).fetchall()


def messages(db: Connection, text: str, limit: int, where: Condition) -> list[Row]:
    """The messages that match best, best first; `where` is the scope and the caller's filter."""
    query = analyse(text)
    if not (query.words or query.grams or query.bare):
        return _newest(db, "messages", where, limit) if not text.strip() else []
    return _rows(db, "messages", _ranked(db, "messages", query, where)[:limit])


def conclusions(
    db: Connection, workspace: str, observer: str, observed: str, text: str, limit: int, where: Condition
) -> list[Row]:
    sql, params = where
    scope: list[Any] = [workspace, observer, observed, *params]
    own = ("conclusions.workspace = ? AND conclusions.observer = ? AND conclusions.observed = ?", scope)
    within: Condition = (f"{own[0]} AND ({sql})", scope)
    query = analyse(text)
    if not (query.words or query.grams or query.bare):
        return _newest(db, "conclusions", within, limit)
    return _rows(db, "conclusions", _ranked(db, "conclusions", query, within)[:limit])
