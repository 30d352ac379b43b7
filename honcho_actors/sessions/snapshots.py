"""The file of snapshots: what was known of persons and conversations, for a process that comes after this one.

A cache: it may be deleted at any time. Rows are bound to server, workspace, partition and person. Reads and writes are
packed: one statement carries hundreds of rows as JSON, because every step of SQLite gives the interpreter away, and
beside one busy thread each costs milliseconds to get it back. Used by the keeper's thread alone; never on a turn.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import Any

from honcho_actors.host import kept
from honcho_actors.sessions.messages import PersonSnapshot, SessionSnapshot
from honcho_actors.sessions.table import Key, PersonId
from honcho_actors.store import Opened, SetAside, StoreFailed, open_cache, reason_of

FILE = "cache.db"

MIGRATIONS = (
    """
    CREATE TABLE person (
        server TEXT NOT NULL, workspace TEXT NOT NULL, part TEXT NOT NULL, observer TEXT NOT NULL,
        observed TEXT NOT NULL, representation TEXT NOT NULL, card TEXT NOT NULL, made_at INTEGER NOT NULL,
        text TEXT NOT NULL, made_with TEXT NOT NULL, saved_at INTEGER NOT NULL,
        PRIMARY KEY (server, workspace, part, observer, observed)
    );
    CREATE INDEX person_newest ON person (server, workspace, saved_at DESC);
    CREATE TABLE session (
        server TEXT NOT NULL, workspace TEXT NOT NULL, part TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL,
        audience TEXT NOT NULL, summary TEXT NOT NULL,
        text TEXT NOT NULL, made_with TEXT NOT NULL, saved_at INTEGER NOT NULL,
        PRIMARY KEY (server, workspace, part, name, user, audience)
    );
    CREATE INDEX session_newest ON session (server, workspace, saved_at DESC);
    """,
    kept.TABLES,
)
"""`saved_at` and `made_at` are microseconds of the wall clock."""

_PERSON = "server workspace part observer observed representation card made_at text made_with saved_at".split()  # noqa: SIM905
_SESSION = "server workspace part name user audience summary text made_with saved_at".split()  # noqa: SIM905


def _writes(table: str, columns: list[str]) -> str:
    """One statement that takes any number of rows as one JSON array of arrays."""
    values = ", ".join(f"json_extract(value, '$[{number}]')" for number in range(len(columns)))
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) SELECT {values} FROM json_each(?)"


def _reads(table: str, columns: list[str]) -> str:
    """One statement that gives a slice of rows, newest first, as one JSON array of arrays."""
    return (
        f"SELECT json_group_array(json_array({', '.join(columns)}, number)) FROM"
        f" (SELECT {', '.join(columns)}, rowid AS number FROM {table} WHERE server = :server AND workspace = :workspace"
        " AND saved_at <= :at AND (saved_at < :at OR rowid > :row) ORDER BY saved_at DESC, rowid LIMIT :size)"
    )


class SnapshotFile:
    """One open file. Every method may raise StoreFailed; the thread that opened it is the only one to use it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        opened: Opened = open_cache(self.path, MIGRATIONS)
        self._connection = opened.connection
        self.set_aside: SetAside | None = opened.set_aside

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        # A keeper that was abandoned never comes to `on_stop`; its file is let go of with it.
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()

    def save(self, persons: Iterable[PersonSnapshot], sessions: Iterable[SessionSnapshot]) -> None:
        """Writes or replaces rows, in one transaction of two statements."""
        people = [
            (
                *one.person,
                one.representation,
                json.dumps(one.card),
                _us(one.made_at),
                one.text,
                one.made_with,
                _us(one.saved_at),
            )
            for one in persons
        ]
        talks = [(*one.key, one.summary, one.text, one.made_with, _us(one.saved_at)) for one in sessions]
        with self._guarded():
            execute = self._connection.execute
            execute("BEGIN IMMEDIATE")
            try:
                if people:
                    execute(_writes("person", _PERSON), (_packed(people),))
                if talks:
                    execute(_writes("session", _SESSION), (_packed(talks),))
                execute("COMMIT")
            except sqlite3.Error:
                with contextlib.suppress(sqlite3.Error):
                    execute("ROLLBACK")
                raise

    def persons(self, server: str, workspace: str, size: int) -> Iterator[tuple[PersonSnapshot, ...]]:
        """What is known of persons there, newest first, in slices."""
        for rows in self._slices(_reads("person", _PERSON), server, workspace, size):
            yield tuple(map(_person_of, rows))

    def sessions(self, server: str, workspace: str, size: int) -> Iterator[tuple[SessionSnapshot, ...]]:
        """What is kept of conversations there, newest first, in slices."""
        for rows in self._slices(_reads("session", _SESSION), server, workspace, size):
            yield tuple(map(_session_of, rows))

    def person(self, key: PersonId) -> PersonSnapshot | None:
        """What is known of one person."""
        row = self._one("person", _PERSON, key)
        return None if row is None else _person_of(row)

    def session(self, key: Key) -> SessionSnapshot | None:
        """What is kept of one conversation."""
        row = self._one("session", _SESSION, key)
        return None if row is None else _session_of(row)

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
            self._connection.execute("DELETE FROM person WHERE ? IN (observed, observer)", (peer,))
            self._connection.execute("DELETE FROM session WHERE user = ?", (peer,))
            whose = "SELECT number FROM transcript WHERE owner = ?"
            self._connection.execute(f"DELETE FROM transcript_row WHERE transcript IN ({whose})", (peer,))
            self._connection.execute("DELETE FROM transcript WHERE owner = ?", (peer,))
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def count(self) -> tuple[int, int]:
        """Rows of persons and of conversations."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT (SELECT count(*) FROM person), (SELECT count(*) FROM session)"
            ).fetchone()
        return int(row[0]), int(row[1])

    def _one(self, table: str, columns: list[str], key: tuple[str, ...]) -> Sequence[Any] | None:
        where = " AND ".join(f"{column} = ?" for column in columns[: len(key)])
        with self._guarded():
            row: Sequence[Any] | None = self._connection.execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE {where}", key
            ).fetchone()
        return row

    def _slices(self, query: str, server: str, workspace: str, size: int) -> Iterator[list[list[Any]]]:
        place: dict[str, Any] = {"server": server, "workspace": workspace, "at": 1 << 62, "row": 0, "size": size}
        while True:
            with self._guarded():
                found = self._connection.execute(query, place).fetchone()
            rows: list[list[Any]] = json.loads(found[0])
            del found  # half a megabyte, which would lie between what is kept and what comes next
            if not rows:
                return
            place.update(at=int(rows[-1][-2]), row=int(rows[-1][-1]))
            yield rows

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(reason_of(error), self.path, type(error).__name__) from error


# The words of which there are a few are one object each, however many rows say them.


def _person_of(row: Sequence[Any]) -> PersonSnapshot:
    observer, observed = row[3], row[4]
    return PersonSnapshot(
        (intern(row[0]), intern(row[1]), intern(row[2]), observer, observer if observed == observer else observed),
        representation=row[5],
        card=_lines(row[6]),
        made_at=row[7] / 1e6,
        text=row[8],
        made_with=row[9],
        saved_at=row[10] / 1e6,
    )


def _session_of(row: Sequence[Any]) -> SessionSnapshot:
    return SessionSnapshot(
        (intern(row[0]), intern(row[1]), intern(row[2]), row[3], row[4], intern(row[5])),
        summary=row[6],
        text=row[7],
        made_with=row[8],
        saved_at=row[9] / 1e6,
    )


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
