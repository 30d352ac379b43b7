"""Conclusions by (observer, observed): two collections share nothing. And the text that a prompt is given of them."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from honcho_actors.local import directory, search
from honcho_actors.local.errors import Refused, not_found
from honcho_actors.local.filters import ANYTHING, Column, compile_filters
from honcho_actors.local.ids import new_id
from honcho_actors.local.times import iso, line_stamp, now_us

Row = sqlite3.Row
Connection = sqlite3.Connection

HEADINGS = (
    ("explicit", "## Explicit Observations"),
    ("deductive", "## Deductive Observations"),
    ("inductive", "## Inductive Observations"),
    ("contradiction", "## Contradictions"),
)
COLUMNS = {
    "id": Column("conclusions.id", "text"),
    "workspace_id": Column("conclusions.workspace", "text"),
    "session_id": Column("conclusions.session", "text"),
    "observer_id": Column("conclusions.observer", "text"),
    "observer": Column("conclusions.observer", "text"),
    "observed_id": Column("conclusions.observed", "text"),
    "observed": Column("conclusions.observed", "text"),
    "level": Column("conclusions.level", "text", frozenset(level for level, _ in HEADINGS)),
    "content": Column("conclusions.content", "text"),
    "metadata": Column("'{}'", "json"),
    "created_at": Column("conclusions.created_at", "time"),
}


def shown(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "content": row["content"],
        "observer_id": row["observer"],
        "observed_id": row["observed"],
        "session_id": row["session"],
        "level": row["level"],
        "created_at": iso(row["created_at"]),
    }


def store(
    db: Connection,
    workspace: str,
    observer: str,
    observed: str,
    content: str,
    *,
    session: str | None,
    said_at: int,
    level: str = "explicit",
) -> Row:
    key = new_id()
    digest = zlib.crc32(content.encode())
    db.execute(
        "INSERT INTO conclusions"
        "(id, workspace, observer, observed, session, content, level, created_at, said_at, digest) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, workspace, observer, observed, session, content, level, now_us(), said_at, digest),
    )
    row: Row = db.execute("SELECT * FROM conclusions WHERE id = ?", (key,)).fetchone()
    return row


def derive(
    db: Connection, workspace: str, observer: str, observed: str, content: str, *, session: str, said_at: int
) -> None:
    """Stores what was derived; the same again in the same session is counted, not stored twice."""
    known = db.execute(
        "UPDATE conclusions SET derived = derived + 1 WHERE digest = ? AND content = ? AND workspace = ? "
        "AND observer = ? AND observed = ? AND session = ?",
        (zlib.crc32(content.encode()), content, workspace, observer, observed, session),
    )
    if known.rowcount == 0:
        store(db, workspace, observer, observed, content, session=session, said_at=said_at)


def create(db: Connection, workspace: str, batch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Unlike messages, conclusions create nothing else: peers and sessions must exist."""
    for item in batch:
        directory.need_peer(db, workspace, item["observer_id"])
        directory.need_peer(db, workspace, item["observed_id"])
        if item["session_id"] is not None:
            directory.need_session(db, workspace, item["session_id"])
    stamp = now_us()
    return [
        shown(
            store(
                db,
                workspace,
                item["observer_id"],
                item["observed_id"],
                item["content"],
                session=item["session_id"],
                said_at=stamp,
            )
        )
        for item in batch
    ]


def listed(
    db: Connection, workspace: str, filters: Any, *, page: int, size: int, reverse: bool
) -> tuple[list[dict[str, Any]], int]:
    """Newest first; `reverse` turns it round."""
    sql, params = compile_filters(filters, COLUMNS, "Document")
    where = (f"workspace = ? AND ({sql})", [workspace, *params])
    rows, total = directory.listed(db, "conclusions", where, page=page, size=size, reverse=not reverse)
    return [shown(row) for row in rows], total


def delete(db: Connection, workspace: str, conclusion: str) -> None:
    done = db.execute("DELETE FROM conclusions WHERE workspace = ? AND id = ?", (workspace, conclusion))
    if done.rowcount != 1:
        raise not_found(f"Document {conclusion} not found or does not belong to workspace {workspace}")


def query(
    db: Connection, workspace: str, text: str, top_k: int, filters: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    given = dict(filters or {})
    observer = given.pop("observer", None) or given.pop("observer_id", None)
    observed = given.pop("observed", None) or given.pop("observed_id", None)
    if not isinstance(observer, str) or not isinstance(observed, str) or ANYTHING in (observer, observed):
        raise Refused(
            422,
            "observer and observed must be specified for semantic search. Pass them inside 'filters', "
            "as 'observer' or 'observer_id' and 'observed' or 'observed_id'.",
        )
    where = compile_filters(given, COLUMNS, "Document")
    found = search.conclusions(db, workspace, observer, observed, text, top_k, where)
    return [shown(row) for row in found]


def chosen(
    db: Connection,
    workspace: str,
    observer: str,
    observed: str,
    *,
    limit: int,
    sessions: Sequence[str] | None = None,
    explicit_only: bool = False,
    search_query: str | None = None,
    search_top_k: int | None = None,
    most_frequent: bool = False,
) -> list[Row]:
    """Up to `limit` conclusions: a share that matches, a share that was derived most often, the rest the newest."""
    scope = "workspace = ? AND observer = ? AND observed = ?"
    params: list[Any] = [workspace, observer, observed]
    if sessions is not None:
        scope += f" AND session IN ({','.join('?' * len(sessions))})"
        params.extend(sessions)
    if explicit_only:
        scope += " AND level = 'explicit'"
    matching = 0
    if search_query:
        matching = min(limit, max(1, search_top_k if search_top_k is not None else limit // 3))
    frequent = min(limit // 3 if matching else limit // 2, limit - matching) if most_frequent else 0
    rows: dict[int, Row] = {}
    if matching and search_query:
        condition = (scope, params)
        for row in search.conclusions(db, workspace, observer, observed, search_query, matching, condition):
            rows.setdefault(row["pk"], row)
    if frequent:
        order = f"SELECT * FROM conclusions WHERE {scope} ORDER BY derived DESC, pk DESC LIMIT ?"
        for row in db.execute(order, [*params, frequent]):
            rows.setdefault(row["pk"], row)
    newest = f"SELECT * FROM conclusions WHERE {scope} ORDER BY pk DESC LIMIT ?"
    for row in db.execute(newest, [*params, limit - matching - frequent]):
        rows.setdefault(row["pk"], row)
    return list(rows.values())


def written(rows: Iterable[Row]) -> str:
    """Markdown for a prompt: a heading for each level, lines in order of time; the empty string for no conclusions."""
    ordered = sorted(rows, key=lambda row: (row["said_at"], row["pk"]))
    blocks: list[str] = []
    for level, heading in HEADINGS:
        lines = dict.fromkeys(
            f"[{line_stamp(row['said_at'])}] {row['content']}" for row in ordered if row["level"] == level
        )
        if lines:
            blocks.append(f"{heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(blocks)


# --- cards --------------------------------------------------------------------------------------------------------


def card(db: Connection, workspace: str, observer: str, observed: str) -> str | None:
    """The stored lines as JSON, or None where no card was ever written."""
    row = db.execute(
        "SELECT lines FROM cards WHERE workspace = ? AND observer = ? AND observed = ?", (workspace, observer, observed)
    ).fetchone()
    return None if row is None else str(row["lines"])


def set_card(db: Connection, workspace: str, observer: str, observed: str, lines: str) -> None:
    directory.check_peer_names([observer])
    directory.ensure_peer(db, workspace, observer)
    db.execute(
        "INSERT INTO cards VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET lines = excluded.lines",
        (workspace, observer, observed, lines),
    )
