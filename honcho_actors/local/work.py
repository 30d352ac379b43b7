"""The queue of what is still to be derived, and how it is worked off without a model."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from honcho_actors.local import conclusions, extract, summaries

Row = sqlite3.Row
Connection = sqlite3.Connection

WAITING, TAKEN, DONE = 0, 1, 2
MAX_DONE = 5_000
"""Finished items that are kept for the counts of `queue/status`."""
SUMMARY_MESSAGES = {"short": 60, "long": 200}
"""Messages that one summary looks back over, at most."""


def waiting(db: Connection, limit: int) -> list[Row]:
    return db.execute("SELECT * FROM work WHERE state = ? ORDER BY pk LIMIT ?", (WAITING, limit)).fetchall()


def mark(db: Connection, items: Sequence[Row], state: int, *, failed: bool = False) -> None:
    db.executemany(
        "UPDATE work SET state = ?, tries = tries + ? WHERE pk = ?",
        [(state, int(failed), item["pk"]) for item in items],
    )
    if state == DONE:
        db.execute(
            "DELETE FROM work WHERE state = ? AND pk <= (SELECT max(pk) FROM work) - ?",
            (DONE, MAX_DONE),
        )


def give_back(db: Connection, most: int) -> None:
    """After an unforeseen fault: what was taken waits again, and what is at the head has been tried once more."""
    db.execute("UPDATE work SET state = ? WHERE state = ?", (WAITING, TAKEN))
    head = waiting(db, 1)
    mark(db, head, DONE if head and head[0]["tries"] + 1 >= most else WAITING, failed=True)


def session_name(db: Connection, key: int) -> str | None:
    row = db.execute("SELECT id FROM sessions WHERE pk = ? AND is_active", (key,)).fetchone()
    return None if row is None else str(row["id"])


def message(db: Connection, key: int) -> Row | None:
    found: Row | None = db.execute("SELECT * FROM messages WHERE pk = ?", (key,)).fetchone()
    return found


def heard(db: Connection, item: Row) -> list[tuple[str, str]]:
    """(peer, text) of the messages that a summary covers, oldest first."""
    rows = db.execute(
        "SELECT peer, content FROM messages WHERE session = ? AND pk <= ? ORDER BY pk DESC LIMIT ?",
        (item["session"], item["message"], SUMMARY_MESSAGES[item["kind"]]),
    ).fetchall()
    return [(row["peer"], row["content"]) for row in reversed(rows)]


def extract_items(db: Connection, limit: int) -> int:
    """Works off up to `limit` waiting items by extraction; returns how many. Of several summaries, only the newest."""
    items = waiting(db, limit)
    newest = {(item["session"], item["kind"]): item["pk"] for item in items}
    for item in items:
        if item["kind"] == "observe" or newest[item["session"], item["kind"]] == item["pk"]:
            extract_one(db, item)
    mark(db, items, DONE)
    return len(items)


def extract_one(db: Connection, item: Row) -> None:
    said = message(db, item["message"])
    name = session_name(db, item["session"])
    if said is None or name is None:
        return
    if item["kind"] == "observe":
        line = extract.said(item["observed"], said["content"])
        if line is not None:
            keep(db, item, name, [line], said["created_at"])
    else:
        text = extract.summary(item["kind"], heard(db, item))
        summaries.store(db, item["session"], item["kind"], text, said)


def keep(db: Connection, item: Row, session: str, lines: Sequence[str], said_at: int) -> None:
    for observer in json.loads(item["observers"]):
        for line in lines:
            conclusions.derive(
                db, item["workspace"], observer, item["observed"], line, session=session, said_at=said_at
            )


def status(
    db: Connection, workspace: str, *, session: str | None, observer: str | None, sender: str | None
) -> dict[str, Any]:
    """Honcho's counts; `observer` and `sender` combine with OR, and one session's answer has no map."""
    where, params = "w.workspace = ?", [workspace]
    if session is not None:
        where += " AND s.id = ?"
        params.append(session)
    if observer is not None or sender is not None:
        where += " AND (instr(w.observers, ?) > 0 OR w.observed = ?)"
        params += [json.dumps(observer), sender or ""]
    rows = db.execute(
        "SELECT s.uid, w.state, count(*) AS n FROM work w JOIN sessions s ON s.pk = w.session "
        f"WHERE {where} GROUP BY 1, 2",
        params,
    ).fetchall()
    by_session: dict[str, dict[int, int]] = {}
    for row in rows:
        by_session.setdefault(row["uid"], {})[row["state"]] = row["n"]
    total: dict[int, int] = {}
    for counts in by_session.values():
        for state, count in counts.items():
            total[state] = total.get(state, 0) + count
    sessions = {uid: {"session_id": uid, **_units(counts)} for uid, counts in by_session.items()}
    return {**_units(total), "sessions": sessions if sessions and session is None else None}


def _units(counts: Mapping[int, int]) -> dict[str, int]:
    return {
        "total_work_units": sum(counts.values()),
        "completed_work_units": counts.get(DONE, 0),
        "in_progress_work_units": counts.get(TAKEN, 0),
        "pending_work_units": counts.get(WAITING, 0),
    }
