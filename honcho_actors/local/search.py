"""Finding what was said, without a model.

A message's score is how well its words match (by stem, BM25; parts of words where few do, by trigrams), and what its
neighbours in the conversation score: an answer often repeats no word of its question. Names of peers in the query are
not searched for but favour what that peer said; a date in the query favours what was said then. Nothing that matches
nothing is returned, unlike a search by embeddings, which always has a nearest. An empty query gives the newest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from honcho_actors.local.filters import Condition
from honcho_actors.local.query import Query, analyse, any_of

Row = sqlite3.Row
Connection = sqlite3.Connection

WIDTH = 1600
"""Best matches of an index that are looked at before the scope is applied."""
POOL = 400
"""Candidates taken from each index."""
FEW = 50
PARTS = 0.3
"""With fewer matches by word than this, parts of words are looked for too, at this weight."""
SEEDS = 60
"""Best candidates whose neighbours are looked at."""
AFTER, BEFORE, NEAR = 0.45, 0.3, 0.1
"""Share of its score that a message lends to the next, to the one before, and to those two away."""
SPEAKER, WHEN = 1.6, 1.5
"""Factors for what the named peer said, and for what was said at the named time."""
NEIGHBOUR_CHARS = 25
"""What matches no word itself and is shorter (a bare "ok") is no neighbour worth returning."""


def messages(db: Connection, workspace: str, text: str, limit: int, where: Condition) -> list[Row]:
    """The messages that match best, best first; `where` is the scope and the caller's filter."""
    query = analyse(text)
    if query.empty:
        return _newest(db, "messages", where, limit) if not text.strip() else []
    speakers = _named(db, workspace, query)
    own = _scores(db, "messages", query.without({name.lower() for name in speakers}), where)
    lent = _lent(db, own)
    keys = list(own.keys() | lent.keys())
    scores: dict[int, float] = {}
    for row in _facts(db, keys, where):
        if row["pk"] not in own and row["chars"] < NEIGHBOUR_CHARS:
            continue
        score = own.get(row["pk"], 0.0) + lent.get(row["pk"], 0.0)
        if len(speakers) == 1 and row["peer"] in speakers:
            score *= SPEAKER
        if query.when is not None and query.when[0] <= row["created_at"] < query.when[1]:
            score *= WHEN
        scores[row["pk"]] = score
    return _rows(db, "messages", _best(scores, limit))


def conclusions(
    db: Connection, workspace: str, observer: str, observed: str, text: str, limit: int, where: Condition
) -> list[Row]:
    """The conclusions of one collection that match best; its peers' names are in every line and are not searched."""
    sql, params = where
    scope = "conclusions.workspace = ? AND conclusions.observer = ? AND conclusions.observed = ?"
    within: Condition = (f"{scope} AND ({sql})", [workspace, observer, observed, *params])
    query = analyse(text)
    if query.empty:
        return _newest(db, "conclusions", within, limit)
    scores = _scores(db, "conclusions", query.without({observer.lower(), observed.lower()}), within)
    return _rows(db, "conclusions", _best(scores, limit))


def _named(db: Connection, workspace: str, query: Query) -> set[str]:
    marks = ",".join("?" * len(query.words))
    found = db.execute(
        f"SELECT id FROM peers WHERE workspace = ? AND lower(id) IN ({marks})", [workspace, *query.words]
    )
    return {row["id"] for row in found}


def _scores(db: Connection, table: str, query: Query, where: Condition) -> dict[int, float]:
    """Each index's scores as shares of its best, weighted and added."""
    by_word = _matches(db, table, "words", query.words, where)
    if table == "conclusions":  # one collection is small enough to be read for what no word index finds
        found = [(1.0, by_word), (1.0, _scan(db, table, (*query.bare, *query.grams), where))]
    else:
        found = [(1.0, by_word), (1.0, _scan(db, table, query.bare, where))]
        found.append((1.0, _matches(db, table, "grams", query.grams, where)))
        if len(by_word) < FEW:
            found.append((PARTS, _matches(db, table, "grams", query.parts, where)))
    total: dict[int, float] = {}
    for weight, scores in found:
        best = max(scores.values(), default=0.0) or 1.0
        for key, score in scores.items():
            total[key] = total.get(key, 0.0) + weight * score / best
    return total


def _matches(db: Connection, table: str, index: str, terms: tuple[str, ...], where: Condition) -> dict[int, float]:
    """Scores of the best matches within the scope: the best of the whole index first, all of it where those are few."""
    if not terms:
        return {}
    for width in (WIDTH, -1):
        seen, scores = _within(db, table, f"{table}_{index}", any_of(terms), where, width)
        if seen < width or len(scores) >= POOL // 4:
            break
    return scores


def _within(
    db: Connection, table: str, index: str, expression: str, where: Condition, width: int
) -> tuple[int, dict[int, float]]:
    """How many matches of the index were looked at (-1: all), and the scores of those in the scope."""
    sql, params = where
    best = f"SELECT rowid AS key, rank AS score FROM {index} WHERE {index} MATCH ? ORDER BY rank LIMIT ?"
    rows = db.execute(
        f"WITH best AS MATERIALIZED ({best}) SELECT best.key, best.score, {table}.pk IS NOT NULL AS inside "
        f"FROM best LEFT JOIN {table} ON {table}.pk = best.key AND ({sql}) ORDER BY best.score",
        [expression, width, *params],
    ).fetchall()
    inside = [row for row in rows if row["inside"]][:POOL]
    return len(rows), {row["key"]: max(-row["score"], 1e-9) for row in inside}


def _scan(db: Connection, table: str, terms: tuple[str, ...], where: Condition) -> dict[int, float]:
    """Terms too short for the index, found by reading: two Chinese characters, say."""
    if not terms:
        return {}
    sql, params = where
    counted = " + ".join(f"(instr(lower({table}.content), ?) > 0)" for _ in terms)
    rows = db.execute(
        f"SELECT {table}.pk, {counted} AS score FROM {table} WHERE ({sql}) AND score > 0 "
        f"ORDER BY score DESC, {table}.pk DESC LIMIT ?",
        [*terms, *params, POOL],
    )
    return {row["pk"]: float(row["score"]) for row in rows}


def _lent(db: Connection, own: dict[int, float]) -> dict[int, float]:
    """What the best candidates lend to their neighbours in the same session."""
    total: dict[int, float] = {}
    for key in _best(own, SEEDS):
        for order, sign, first in (("ASC", ">", AFTER), ("DESC", "<", BEFORE)):
            near = db.execute(
                f"SELECT pk FROM messages WHERE session = (SELECT session FROM messages WHERE pk = ?) AND pk {sign} ? "
                f"ORDER BY pk {order} LIMIT 2",
                (key, key),
            )
            for row, share in zip(near, (first, NEAR), strict=False):
                total[row["pk"]] = total.get(row["pk"], 0.0) + share * own[key]
    return total


def _best(scores: dict[int, float], limit: int) -> list[int]:
    return sorted(scores, key=lambda key: (-scores[key], -key))[:limit]


def _facts(db: Connection, keys: list[int], where: Condition) -> Iterable[Row]:
    sql, params = where
    marks = ",".join("?" * len(keys))
    return db.execute(
        f"SELECT pk, peer, created_at, length(content) AS chars FROM messages WHERE pk IN ({marks}) AND ({sql})",
        [*keys, *params],
    )


def _rows(db: Connection, table: str, keys: list[int]) -> list[Row]:
    marks = ",".join("?" * len(keys))
    found = {row["pk"]: row for row in db.execute(f"SELECT * FROM {table} WHERE pk IN ({marks})", keys)}
    return [found[key] for key in keys]


def _newest(db: Connection, table: str, where: Condition, limit: int) -> list[Row]:
    sql, params = where
    values: list[Any] = [*params, limit]
    return db.execute(f"SELECT * FROM {table} WHERE {sql} ORDER BY pk DESC LIMIT ?", values).fetchall()
