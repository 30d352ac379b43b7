"""Taking over from a broken outbox what can still be read.

The broken file was set aside and stays as it is. What it still gives, row by row from both ends, goes into the new one:
what was accepted is not given up because one page of a file is bad. Rows carry their delivery ids and batch ids with
them, so that once-only holds across the change of files.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

TABLES = ("conversation", "batch", "message", "aside", "fork", "opted_out", "imported", "recheck", "doubled", "meta")
_CHUNK = 1_000


def salvage(broken: Path, connection: sqlite3.Connection) -> int:
    """Copies what is readable; returns the number of messages that were saved. Never raises for what it can't read."""
    saved = 0
    try:
        source = sqlite3.connect(f"{broken.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return 0
    try:
        for table in TABLES:
            with contextlib.suppress(sqlite3.Error):
                count = _copy(source, connection, table)
                saved += count if table == "message" else 0
        _mend(connection)
    finally:
        source.close()
    return saved


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> int:
    columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    theirs = {row[1] for row in source.execute(f"PRAGMA table_info({table})")}
    shared = [name for name in columns if name in theirs]
    if not shared:
        return 0
    names = ", ".join(shared)
    key = shared[0]
    before = target.total_changes
    insert = f"INSERT OR IGNORE INTO {table}({names}) VALUES({','.join('?' * len(shared))})"
    for direction in ("ASC", "DESC"):
        whole = _read(source, f"SELECT {names} FROM {table} ORDER BY {key} {direction}", target, insert)
        if whole:
            break
    return target.total_changes - before


def _read(source: sqlite3.Connection, query: str, target: sqlite3.Connection, insert: str) -> bool:
    """Reads until the end or the first bad page; what was read is kept either way. True at the end."""
    rows: list[Any] = []
    try:
        for row in source.execute(query):
            rows.append(row)
            if len(rows) >= _CHUNK:
                target.executemany(insert, rows)
                rows = []
    except sqlite3.Error:
        target.executemany(insert, rows)
        return False
    target.executemany(insert, rows)
    return True


def _mend(connection: sqlite3.Connection) -> None:
    """Makes the counters true again. A message whose batch or conversation was lost is kept in `aside`, and what was
    lost gets a row that stands for it: it is listed, and no number is given out again.
    """
    connection.execute(
        "INSERT INTO aside(conversation, lane, batch, position, peer, text, said, metadata, reasoning, state,"
        " reason, ended) SELECT conversation, lane, batch, position, peer, text, said, metadata, reasoning, 2,"
        " 'salvaged', said FROM message"
        " WHERE batch NOT IN (SELECT seq FROM batch) OR conversation NOT IN (SELECT id FROM conversation)"
    )
    connection.execute(
        "DELETE FROM message WHERE batch NOT IN (SELECT seq FROM batch)"
        " OR conversation NOT IN (SELECT id FROM conversation)"
    )
    connection.execute(
        "INSERT INTO batch(seq, id, conversation, key, user, audience, state, open, accepted, born, reason)"
        " SELECT batch, randomblob(16), conversation, '',"
        " (SELECT peer FROM aside p WHERE p.batch=aside.batch ORDER BY position LIMIT 1), 'private', 2, 0, min(said),"
        " (SELECT coalesce(max(born), 0) FROM batch), 'salvaged'"
        " FROM aside WHERE batch NOT IN (SELECT seq FROM batch) GROUP BY batch"
    )
    connection.execute(
        "INSERT INTO conversation(id, server, workspace, partition, session) SELECT DISTINCT conversation, 'lost', '',"
        " '', 'lost-' || conversation FROM batch WHERE conversation NOT IN (SELECT id FROM conversation)"
    )
    connection.execute("UPDATE batch SET open=(SELECT count(*) FROM message m WHERE m.batch=batch.seq) WHERE state=0")
    connection.execute("UPDATE batch SET state=2, reason='salvaged' WHERE state=0 AND open=0")
