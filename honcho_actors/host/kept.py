"""Histories in a file: the storage port over SQLite, for hosts that have no storage of their own.

The file is a cache (`cache.db`): it may be deleted at any time, and then conversations begin new prefixes. `save` only
queues; one daemon thread, started by the first change, writes, so that a turn never meets the file. A change is on disk
some milliseconds later: a process that is killed in between leaves a history that lacks its last message, never one
with a gap. What can't be written for long is given up as a whole, conversation by conversation, within a bound.

Text is stored as JSON in ASCII, so that every string comes back as it was, lone surrogates and NUL included.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from honcho_actors.host.history import Kept
from honcho_actors.store import Opened, SetAside, StoreFailed, open_cache, reason_of

TABLES: Final = """
    CREATE TABLE transcript (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, head TEXT NOT NULL,
        saved_at INTEGER NOT NULL
    );
    CREATE INDEX transcript_owner ON transcript (owner);
    CREATE INDEX transcript_newest ON transcript (saved_at DESC);
    CREATE TABLE transcript_row (
        transcript INTEGER NOT NULL REFERENCES transcript (number) ON DELETE CASCADE, at INTEGER NOT NULL,
        row TEXT NOT NULL, PRIMARY KEY (transcript, at)
    ) WITHOUT ROWID;
    """
"""A migration of the file that holds them. `saved_at` is in microseconds of the wall clock."""

MAX_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Changes that may wait while the file can't be written; what is more gives up the conversation that it belongs to."""

RETRY_AFTER: Final = 2.0
"""Seconds until a file that failed is tried again."""

BATCH: Final = 256
"""Changes of one transaction."""

PRUNE_EVERY: Final = 512
"""Transactions between two looks for what is too old."""

KEEP_SECONDS: Final = 7 * 86_400.0
MAX_KEPT: Final = 10_000
"""How long, and how many, conversations are kept."""

MAX_FILE_BYTES: Final = 1024 * 1024 * 1024
"""What the file may hold, whatever else lies in it; above, the oldest eighth of the histories leaves until it does."""

_log = logging.getLogger("honcho_actors.host")


class _Change(NamedTuple):
    """`at` of -1: the conversation is dropped. `owner` alone set (`name` ""): everything of that person."""

    name: str
    owner: str
    head: str | None
    at: int
    rows: tuple[str, ...]

    @property
    def weight(self) -> int:
        return 200 + len(self.name) + len(self.head or "") + sum(map(len, self.rows))


class SqliteTranscripts:
    """The storage port over one file. `migrations` are the whole file's, `TABLES` among them. Any thread; one object
    for a process and file. `wall` gives wall clock seconds."""

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str] = (TABLES,),
        *,
        keep_seconds: float = KEEP_SECONDS,
        most: int = MAX_KEPT,
        most_bytes: int = MAX_FILE_BYTES,
        retry_after: float = RETRY_AFTER,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.set_aside: SetAside | None = None
        """A broken file that was replaced, under its new name."""
        self._migrations = tuple(migrations)
        self._keep_seconds = keep_seconds
        self._most = most
        self._most_bytes = most_bytes
        self._retry_after = retry_after
        self._wall = wall
        self._waiting: deque[_Change] = deque()
        self._weight = 0
        self._given_up: set[str] = set()
        """Conversations of which a change was lost: dropped from the file, since what is there has a gap."""
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._woken = False
        self._file = threading.Lock()
        """Held while the file is used; never by `save`."""
        self._starting = threading.Lock()
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._batches = 0
        self._trouble: str | None = None

    # -- the port ----------------------------------------------------------------------------------------------------

    def load(self, name: str) -> Kept | None:
        """What was kept, changes that still wait included. Raises StoreFailed."""
        if self._closed or os.getpid() != self._process:
            return None
        with self._file:
            try:
                self._write_all()
            except StoreFailed as failed:
                if any(one.name in (name, "") for one in list(self._waiting)):
                    raise  # what is in the file lacks something of it, or should be gone
                self._failed(failed)
            with self._guarded() as connection:
                found = connection.execute(
                    "SELECT number, head FROM transcript WHERE name = ?", (_packed(name),)
                ).fetchone()
                if found is None:
                    return None
                rows = connection.execute(
                    "SELECT at, row FROM transcript_row WHERE transcript = ? ORDER BY at", (found[0],)
                ).fetchall()
        if not found[1]:
            return None
        return Kept(found[1], tuple(row for number, (at, row) in enumerate(rows) if number == at))

    def save(self, name: str, owner: str, head: str | None, at: int, rows: Sequence[str]) -> None:
        if name in self._given_up:
            if head is None or at != 0:
                return
            self._given_up.discard(name)
        self._queue(_Change(name, owner, head, at, tuple(rows)))

    def drop(self, name: str) -> None:
        self._given_up.discard(name)
        self._queue(_Change(name, "", None, -1, ()))

    # -- beside it ---------------------------------------------------------------------------------------------------

    def forget(self, owner: str) -> None:
        """Drops everything of a person, and overwrites what it held. Never waits; see `flush`."""
        self._queue(_Change("", owner, None, -1, ()))

    @property
    def trouble(self) -> str | None:
        """Why the file can't be written at present, in a word; None when it can."""
        return self._trouble

    def flush(self, timeout: float) -> bool:
        """Writes what waits, here and now. True when everything that was saved before is on disk; tries again for at
        most `timeout` seconds."""
        end = time.monotonic() + timeout
        while os.getpid() == self._process and self._file.acquire(timeout=max(0.0, end - time.monotonic())):
            try:
                self._write_all()
                return True
            except StoreFailed as failed:
                self._failed(failed)
            finally:
                self._file.release()
            if time.monotonic() + self._retry_after / 10 > end:
                break
            time.sleep(self._retry_after / 10)
        return False

    def close(self, timeout: float = 2.0) -> bool:
        """As `flush`, and lets go of the file; what is saved later is not kept. Waits at most twice `timeout`."""
        done = not self._waiting or self.flush(timeout)
        self._closed = True
        self._wake.put(None)
        if os.getpid() == self._process and self._file.acquire(timeout=timeout):
            try:
                self._let_go()
            finally:
                self._file.release()
        return done

    def __del__(self) -> None:
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()

    # -- private -----------------------------------------------------------------------------------------------------

    def _queue(self, change: _Change) -> None:
        if self._closed or os.getpid() != self._process:
            return  # a forked child keeps nothing: the file and its thread are the parent's
        if change.at >= 0 and self._weight + change.weight > MAX_WAITING_BYTES:
            self._given_up.add(change.name)
            change = _Change(change.name, "", None, -1, ())
        self._weight += change.weight
        self._waiting.append(change)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="honcho-transcripts", daemon=True)
                    self._thread.start()
        if not self._woken:
            self._woken = True
            self._wake.put(None)

    def _work(self) -> None:
        again: float | None = None
        while not self._closed:
            with contextlib.suppress(Empty):
                self._wake.get(timeout=again)
            self._woken, again = False, None
            with self._file:
                try:
                    self._write_all()
                except StoreFailed as failed:
                    self._failed(failed)
                    again = self._retry_after

    def _write_all(self) -> None:
        """Writes what waits, in groups. The file is held by the caller."""
        waiting = self._waiting
        while waiting and not self._closed:
            batch = [waiting[at] for at in range(min(BATCH, len(waiting)))]
            with self._guarded() as connection:
                self._write(connection, batch)
            for _ in batch:
                waiting.popleft()
            self._weight = sum(one.weight for one in list(waiting)) if waiting else 0
        self._trouble = None

    def _write(self, connection: sqlite3.Connection, batch: list[_Change]) -> None:
        execute = connection.execute
        now = round(self._wall() * 1e6)
        execute("BEGIN IMMEDIATE")
        try:
            for one in batch:
                if one.at < 0:
                    self._remove(connection, one)
                    continue
                name = _packed(one.name)
                execute(
                    "INSERT INTO transcript (name, owner, head, saved_at) VALUES (?, ?, ?, ?) ON CONFLICT (name)"
                    " DO UPDATE SET saved_at = excluded.saved_at",
                    (name, one.owner, one.head or "", now),
                )
                number = execute("SELECT number FROM transcript WHERE name = ?", (name,)).fetchone()[0]
                if one.head is not None:
                    execute("UPDATE transcript SET head = ?, owner = ? WHERE number = ?", (one.head, one.owner, number))
                execute("DELETE FROM transcript_row WHERE transcript = ? AND at >= ?", (number, one.at))
                connection.executemany(
                    "INSERT INTO transcript_row (transcript, at, row) VALUES (?, ?, ?)",
                    [(number, at, row) for at, row in enumerate(one.rows, one.at)],
                )
            if self._batches % PRUNE_EVERY == 0:
                self._prune(connection, now)
            self._batches += 1
            self._shrink(connection)
            execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise
        if any(one.at < 0 and not one.name for one in batch):
            execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _remove(self, connection: sqlite3.Connection, one: _Change) -> None:
        connection.execute("PRAGMA secure_delete=ON")
        if one.name:
            connection.execute("DELETE FROM transcript WHERE name = ?", (_packed(one.name),))
        else:
            connection.execute("DELETE FROM transcript WHERE owner = ?", (one.owner,))

    def _prune(self, connection: sqlite3.Connection, now: int) -> None:
        """Drops what is older than it may be, and the oldest above the number that may be kept."""
        connection.execute("DELETE FROM transcript WHERE saved_at < ?", (now - round(self._keep_seconds * 1e6),))
        connection.execute(
            "DELETE FROM transcript WHERE number IN"
            " (SELECT number FROM transcript ORDER BY saved_at DESC LIMIT -1 OFFSET ?)",
            (self._most,),
        )

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Drops the oldest for as long as the file holds more than it may. Two numbers of its header, when it does
        not."""
        while _held(connection) > self._most_bytes:
            dropped = connection.execute(
                "DELETE FROM transcript WHERE number IN (SELECT number FROM transcript ORDER BY saved_at LIMIT"
                " (SELECT 1 + count(*) / 8 FROM transcript))"
            ).rowcount
            if dropped == 0:
                return

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            opened: Opened = open_cache(self.path, self._migrations)
            self._connection = opened.connection
            self._connection.execute("PRAGMA foreign_keys=ON")
            if opened.set_aside is not None:
                self.set_aside = opened.set_aside
                _log.warning("histories were unreadable and were set aside as %s", opened.set_aside.path.name)
        try:
            yield self._connection
        except sqlite3.Error as error:
            self._let_go()
            raise StoreFailed(reason_of(error), self.path, type(error).__name__) from error

    def _failed(self, failed: StoreFailed) -> None:
        if self._trouble != failed.reason.value:
            _log.warning("histories can't be kept at present: %s", failed)
        self._trouble = failed.reason.value

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _held(connection: sqlite3.Connection) -> int:
    """Bytes of the file that are in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _packed(name: str) -> str:
    return json.dumps(name)
