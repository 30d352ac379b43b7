"""The two SQLite files: how they are opened, who may read them, what happens to one that is broken.

`outbox.db` holds what must not be lost (WAL, FULL: a commit is on the disk); `cache.db` may be deleted at any time
(WAL, NORMAL). A file belongs to one room, which brings its schema as a tuple of migrations; this module knows how to
open it. Promises: directories 0700 and files 0600 (write-ahead log and set-aside copies included); a file that can't
be read is never deleted or overwritten but set aside under a new name that says why; a locked file is waited for, not
mistaken for a broken one. Every failure is a `StoreFailed` with a reason from a closed vocabulary.

A connection is used by one thread at a time, that of its owner. No call here belongs on a turn or on an event loop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

BUSY_TIMEOUT = 1.0
"""Seconds that one statement waits for another process's write; callers retry above it."""

SMALL_BYTES = 8 * 1024 * 1024
"""A file up to this size is checked page by page when it is opened (milliseconds); a larger one when it is used: one
that was found broken then is looked through whole when it is opened next."""

_suspect: set[Path] = set()
"""Files of this process that were found broken while they were used."""

_OUTBOX_ID = 0x48414F42
_CACHE_ID = 0x48414343


class StoreReason(StrEnum):
    """Why a file can't be used. Closed."""

    LOCKED = "locked"
    """Another process holds it; trying again helps."""
    READ_ONLY = "read_only"
    NO_ROOM = "no_room"
    CORRUPT = "corrupt"
    NEWER = "newer"
    """Written by a later version of this program: left alone."""
    UNUSABLE = "unusable"
    """A directory, an unreadable path, an I/O error."""


class StoreFailed(Exception):
    """A file could not be opened or written. `reason` is closed; the text names the file, never its contents. One that
    is said to be corrupt is looked through when it is opened next, and set aside if it is."""

    def __init__(self, reason: StoreReason, path: Path, detail: str = "") -> None:
        super().__init__(f"{path.name}: {reason.value}" + (f" ({detail})" if detail else ""))
        self.reason = reason
        self.path = path
        if reason is StoreReason.CORRUPT:
            _suspect.add(path)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A broken file, kept under a new name."""

    path: Path
    reason: StoreReason


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file, and the broken one that it replaces, if there was one."""

    connection: sqlite3.Connection
    path: Path
    set_aside: SetAside | None = None


def open_outbox(path: Path, migrations: Sequence[str]) -> Opened:
    """Opens the file of what must not be lost, making it when absent. Raises StoreFailed."""
    return _open(path, migrations, synchronous="FULL", application_id=_OUTBOX_ID, newer_is_fatal=True)


def open_cache(path: Path, migrations: Sequence[str]) -> Opened:
    """Opens the file of what may be lost, making it when absent. Raises StoreFailed."""
    return _open(path, migrations, synchronous="NORMAL", application_id=_CACHE_ID, newer_is_fatal=False)


def open_reader(path: Path) -> sqlite3.Connection:
    """Opens an existing file for reading alone (operators' commands). Raises StoreFailed."""
    return _existing(path, "ro")


def open_beside(path: Path, migrations: int) -> sqlite3.Connection:
    """Opens an existing outbox to change a row of it, beside its owner or without one. Neither makes nor mends it: a
    broken one is its owner's to set aside, who takes over what can be read of it. Raises StoreFailed.
    """
    connection = _existing(path, "rw")
    try:
        found = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != _OUTBOX_ID or version == 0:
            raise StoreFailed(StoreReason.UNUSABLE, path, "not a file of ours")
        if version > migrations:
            raise StoreFailed(StoreReason.NEWER, path, f"schema {version}, this program knows {migrations}")
        connection.execute("PRAGMA synchronous=FULL")
    except sqlite3.Error as error:
        connection.close()
        raise StoreFailed(reason_of(error), path, _name(error)) from error
    except StoreFailed:
        connection.close()
        raise
    return connection


def _existing(path: Path, mode: str) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreFailed(StoreReason.UNUSABLE, path, "no such file")
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT, isolation_level=None
        )
    except sqlite3.Error as error:
        raise StoreFailed(reason_of(error), path, _name(error)) from error
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise StoreFailed(reason_of(error), path, _name(error)) from error
    return connection


def reason_of(error: sqlite3.Error | OSError) -> StoreReason:
    """What an error of SQLite or of the system means for the caller."""
    if isinstance(error, OSError):
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return StoreReason.READ_ONLY
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return StoreReason.NO_ROOM
        return StoreReason.UNUSABLE
    name = _name(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreReason.LOCKED
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_IOERR_SHORT_READ")):
        return StoreReason.CORRUPT
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN")):
        return StoreReason.READ_ONLY
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE")):
        return StoreReason.NO_ROOM
    return StoreReason.UNUSABLE


def private_directory(path: Path) -> None:
    """Makes a directory that only its owner may enter; tightens an existing one when it is empty or holds our files.

    Raises StoreFailed.
    """
    try:
        if not path.exists():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if not stat.S_ISDIR(state.st_mode):
            raise StoreFailed(StoreReason.UNUSABLE, path, "not a directory")
        ours = hasattr(os, "geteuid") and state.st_uid == os.geteuid() and not state.st_mode & stat.S_ISVTX
        if ours and stat.S_IMODE(state.st_mode) & 0o077:
            names = {entry.name for entry in path.iterdir()}
            if not names or names & {"outbox.db", "cache.db"}:
                path.chmod(0o700)
    except OSError as error:
        raise StoreFailed(reason_of(error), path, type(error).__name__) from error


def private_file(path: Path) -> None:
    """Makes an empty file that only its owner may read, or tightens an existing one. Raises StoreFailed.

    SQLite gives its write-ahead log and its shared memory the mode of the database, so this covers them too.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        if not path.is_dir() and path.exists() and reason_of(error) is StoreReason.READ_ONLY:
            raise StoreFailed(StoreReason.READ_ONLY, path, type(error).__name__) from error
        reason = StoreReason.UNUSABLE if path.is_dir() else reason_of(error)
        raise StoreFailed(reason, path, type(error).__name__) from error
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
    except OSError:
        pass  # a file system without modes, or a file of another owner: it opened, so it is used
    finally:
        os.close(descriptor)


def set_aside(path: Path, reason: StoreReason) -> SetAside:
    """Renames a broken file and its companions to the first free name that says why. Raises StoreFailed."""
    number = 1
    while (target := path.with_name(f"{path.stem}.{reason.value}-{number}{path.suffix}")).exists():
        number += 1
    try:
        os.replace(path, target)
        for companion in ("-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path.with_name(path.name + companion), target.with_name(target.name + companion))
    except OSError as error:
        raise StoreFailed(reason_of(error), path, type(error).__name__) from error
    return SetAside(target, reason)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds `<path>.lock` against other processes while a file is examined or set aside. Waits for BUSY_TIMEOUT, then
    StoreFailed; does nothing where the system has no such locks."""
    lock = path.with_name(path.name + ".lock")
    private_file(lock)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(lock, "rb") as held:
        until = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() >= until:
                    raise StoreFailed(StoreReason.LOCKED, path, "being opened by another process") from error
                time.sleep(0.02)
        yield


def _open(
    path: Path, migrations: Sequence[str], *, synchronous: str, application_id: int, newer_is_fatal: bool
) -> Opened:
    private_directory(path.parent)
    with exclusive(path):
        try:
            return Opened(_connect(path, migrations, synchronous, application_id), path)
        except StoreFailed as failed:
            replace = failed.reason is StoreReason.CORRUPT or (
                failed.reason is StoreReason.NEWER and not newer_is_fatal
            )
            if not replace:
                raise
            broken = set_aside(path, failed.reason)
        return Opened(_connect(path, migrations, synchronous, application_id), path, broken)


def _connect(path: Path, migrations: Sequence[str], synchronous: str, application_id: int) -> sqlite3.Connection:
    private_file(path)
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=256, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise StoreFailed(reason_of(error), path, _name(error)) from error
    try:
        _prepare(connection, path, migrations, synchronous, application_id)
    except sqlite3.Error as error:
        connection.close()
        raise StoreFailed(reason_of(error), path, _name(error)) from error
    except StoreFailed:
        connection.close()
        raise
    return connection


def _prepare(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[str], synchronous: str, application_id: int
) -> None:
    execute = connection.execute
    execute("PRAGMA temp_store=MEMORY")
    if path.stat().st_size == 0:
        execute("PRAGMA auto_vacuum=INCREMENTAL")
    found = execute("PRAGMA application_id").fetchone()[0]
    version = execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, application_id) or (found == 0 and _has_tables(connection)):
        raise StoreFailed(StoreReason.CORRUPT, path, "not a file of ours")
    if version > len(migrations):
        raise StoreFailed(StoreReason.NEWER, path, f"schema {version}, this program knows {len(migrations)}")
    check = "integrity_check" if path in _suspect else "quick_check" if path.stat().st_size <= SMALL_BYTES else ""
    if check and execute(f"PRAGMA {check}(1)").fetchone()[0] != "ok":
        raise StoreFailed(StoreReason.CORRUPT, path, check)
    _suspect.discard(path)
    execute("PRAGMA journal_mode=WAL")
    execute(f"PRAGMA synchronous={synchronous}")
    if version < len(migrations):
        execute("BEGIN IMMEDIATE")
        try:
            version = execute("PRAGMA user_version").fetchone()[0]
            for migration in migrations[version:]:
                for statement in _statements(migration):
                    execute(statement)
            execute(f"PRAGMA application_id={application_id}")
            execute(f"PRAGMA user_version={len(migrations)}")
            execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a migration one by one: `executescript` would commit the transaction around them."""
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            if pending.strip(" \n;"):
                yield pending
            pending = ""


def _name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", "") or type(error).__name__)
