"""The file of snapshots: what was known of persons and conversations, for a process that comes after this one.

A cache: it may be deleted at any time. Rows are bound to server, workspace, partition and person. Reads and writes are
packed: one statement carries hundreds of rows as JSON, because every step of SQLite gives the interpreter away, and
beside one busy thread each costs milliseconds to get it back. Used by the keeper's thread alone; never on a turn.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from honcho_actors.sessions.messages import PersonSnapshot, SessionSnapshot
from honcho_actors.store import Opened, SetAside, StoreFailed, open_cache, reason_of

FILE = "cache.db"

MIGRATIONS = (
    """
    CREATE TABLE person (
        server TEXT NOT NULL, workspace TEXT NOT NULL, part TEXT NOT NULL, observer TEXT NOT NULL, observed TEXT NOT
        NULL, representation TEXT NOT NULL, card TEXT NOT NULL, made_at INTEGER NOT NULL, saved_at INTEGER NOT NULL, PRIMARY
        KEY (server, workspace, part, observer, observed)
    );
    CREATE INDEX person_newest ON person (server, workspace, saved_at DESC);
    CREATE TABLE session (
        server TEXT NOT NULL, workspace TEXT NOT NULL, part TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL,
        audience TEXT NOT NULL, summary TEXT NOT NULL, saved_at INTEGER NOT NULL,
        PRIMARY KEY (server, workspace, part, name, user, audience)
    );
    CREATE INDEX session_newest ON session (server, workspace, saved_at DESC);
    """,
)

_PERSON = (
    "INSERT OR REPLACE INTO person SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6,"
    " value->>7, value->>8 FROM json_each(?)"
)
_SESSION = (
    "INSERT OR REPLACE INTO session SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6,"
    " value->>7 FROM json_each(?)"
)
_READ_PERSONS = (
    "SELECT json_group_array(json_array(server, workspace, part, observer, observed, representation, card, made_at,"
    " saved_at, rowid)) FROM (SELECT *, rowid FROM person WHERE server = ? AND workspace = ?"
    " AND (saved_at, rowid) < (?, ?) ORDER BY saved_at DESC, rowid DESC LIMIT ?)"
)
_READ_SESSIONS = (
    "SELECT json_group_array(json_array(server, workspace, part, name, user, audience, summary, saved_at, rowid))"
    " FROM (SELECT *, rowid FROM session WHERE server = ? AND workspace = ? AND (saved_at, rowid) < (?, ?)"
    " ORDER BY saved_at DESC, rowid DESC LIMIT ?)"
)
_NEWEST = (1 << 62, 1 << 62)


class SnapshotFile:
    """One open file. Every method may raise StoreFailed; the thread that opened it is the only one to use it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        opened: Opened = open_cache(self.path, MIGRATIONS)
        self._connection = opened.connection
        self.set_aside: SetAside | None = opened.set_aside

    def close(self) -> None:
        self._connection.close()

    def save(self, persons: Iterable[PersonSnapshot], sessions: Iterable[SessionSnapshot]) -> None:
        """Writes or replaces rows, in one transaction of two statements."""
        people = [
            (*one.person, one.representation, json.dumps(one.card), _us(one.made_at), _us(one.saved_at))
            for one in persons
        ]
        talks = [(*one.key, one.summary, _us(one.saved_at)) for one in sessions]
        with self._guarded():
            execute = self._connection.execute
            execute("BEGIN IMMEDIATE")
            try:
                if people:
                    execute(_PERSON, (_packed(people),))
                if talks:
                    execute(_SESSION, (_packed(talks),))
                execute("COMMIT")
            except sqlite3.Error:
                with contextlib.suppress(sqlite3.Error):
                    execute("ROLLBACK")
                raise

    def persons(self, server: str, workspace: str, size: int) -> Iterator[tuple[PersonSnapshot, ...]]:
        """What is known of persons there, newest first, in slices."""
        for rows in self._slices(_READ_PERSONS, server, workspace, size):
            yield tuple(
                PersonSnapshot(
                    (row[0], row[1], row[2], row[3], row[4]), row[5], _lines(row[6]), row[7] / 1e6, row[8] / 1e6
                )
                for row in rows
            )

    def sessions(self, server: str, workspace: str, size: int) -> Iterator[tuple[SessionSnapshot, ...]]:
        """What is kept of conversations there, newest first, in slices."""
        for rows in self._slices(_READ_SESSIONS, server, workspace, size):
            yield tuple(
                SessionSnapshot((row[0], row[1], row[2], row[3], row[4], row[5]), row[6], row[7] / 1e6) for row in rows
            )

    def prune(self, older_than: float, most: int) -> None:
        """Drops what was saved before a moment (wall clock), and the oldest above a number of rows."""
        with self._guarded():
            for table in ("person", "session"):
                self._connection.execute(f"DELETE FROM {table} WHERE saved_at < ?", (_us(older_than),))
                self._connection.execute(
                    f"DELETE FROM {table} WHERE rowid IN"
                    f" (SELECT rowid FROM {table} ORDER BY saved_at DESC LIMIT -1 OFFSET ?)",
                    (most,),
                )

    def forget(self, peer: str) -> None:
        """Drops every row about a remote peer, and overwrites what they held."""
        with self._guarded():
            self._connection.execute("PRAGMA secure_delete=ON")
            self._connection.execute("DELETE FROM person WHERE observed = ?1 OR observer = ?1", (peer,))
            self._connection.execute("DELETE FROM session WHERE user = ?", (peer,))
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def count(self) -> tuple[int, int]:
        """Rows of persons and of conversations."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT (SELECT count(*) FROM person), (SELECT count(*) FROM session)"
            ).fetchone()
        return int(row[0]), int(row[1])

    def _slices(self, query: str, server: str, workspace: str, size: int) -> Iterator[list[list[Any]]]:
        after = _NEWEST
        while True:
            with self._guarded():
                found = self._connection.execute(query, (server, workspace, *after, size)).fetchone()
            rows: list[list[Any]] = json.loads(found[0])
            if not rows:
                return
            after = (int(rows[-1][-2]), int(rows[-1][-1]))
            yield rows

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(reason_of(error), self.path, type(error).__name__) from error


def _us(seconds: float) -> int:
    """Wall clock as whole microseconds: SQLite's JSON would round a float, and paging by it would never end."""
    return round(seconds * 1e6)


def _packed(rows: list[tuple[Any, ...]]) -> str:
    """Rows as JSON that SQLite takes: no NUL and no lone surrogate."""
    return json.dumps([[_plain(value) if isinstance(value, str) else value for value in row] for row in rows])


def _plain(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def _lines(packed: str) -> tuple[str, ...]:
    try:
        lines = json.loads(packed)
    except ValueError:
        return ()
    return tuple(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ()
