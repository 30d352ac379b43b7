"""The two files: private, versioned, set aside when broken, patient when locked."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from honcho_actors import store
from honcho_actors.store import StoreFailed, StoreReason
from tests.support.stopwatch import Stopwatch

SCHEMA = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);",)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fill(path: Path, rows: int = 200) -> None:
    opened = store.open_outbox(path, SCHEMA)
    opened.connection.execute("BEGIN")
    opened.connection.executemany("INSERT INTO t(b) VALUES(?)", [("x" * 500,)] * rows)
    opened.connection.execute("COMMIT")
    opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.connection.close()


def test_a_new_file_and_its_directory_are_private_and_so_is_the_write_ahead_log(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        opened = store.open_outbox(tmp_path / "deep" / "state" / "outbox.db", SCHEMA)
        opened.connection.execute("INSERT INTO t(b) VALUES('x')")
        folder = tmp_path / "deep" / "state"
        assert mode(folder) == 0o700
        assert {entry.name: mode(entry) for entry in folder.iterdir()} == {
            "outbox.db": 0o600,
            "outbox.db-wal": 0o600,
            "outbox.db-shm": 0o600,
            "outbox.db.lock": 0o600,
        }
        opened.connection.close()
    finally:
        os.umask(previous)


def test_an_existing_wide_file_is_tightened_but_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "README").write_text("not ours")
    (folder / "outbox2.db").touch(mode=0o644)
    store.open_outbox(folder / "outbox2.db", SCHEMA).connection.close()
    assert mode(folder) == 0o755
    assert mode(folder / "outbox2.db") == 0o600


def test_the_outbox_is_full_and_the_cache_is_normal_and_both_are_wal(tmp_path: Path) -> None:
    for opener, level in ((store.open_outbox, 2), (store.open_cache, 1)):
        connection = opener(tmp_path / f"{level}.db", SCHEMA).connection
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == level
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        connection.close()


def test_an_older_schema_is_migrated_and_its_rows_stay(tmp_path: Path) -> None:
    fill(tmp_path / "outbox.db", rows=3)
    opened = store.open_outbox(
        tmp_path / "outbox.db", (*SCHEMA, "ALTER TABLE t ADD COLUMN c TEXT; CREATE INDEX i ON t(c);")
    )
    assert opened.connection.execute("SELECT count(*), count(c) FROM t").fetchone() == (3, 0)
    assert opened.connection.execute("PRAGMA user_version").fetchone()[0] == 2
    opened.connection.close()


def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path / "outbox.db", rows=3)
    with pytest.raises(StoreFailed):
        store.open_outbox(tmp_path / "outbox.db", (*SCHEMA, "CREATE TABLE u(a); CREATE TABLE t(a);"))
    opened = store.open_outbox(tmp_path / "outbox.db", SCHEMA)
    assert opened.connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("t",)]
    opened.connection.close()


def test_an_outbox_of_a_later_version_is_left_alone_and_a_cache_is_set_aside(tmp_path: Path) -> None:
    for name, opener in (("outbox.db", store.open_outbox), ("cache.db", store.open_cache)):
        opener(tmp_path / name, (*SCHEMA, "CREATE TABLE u(a);")).connection.close()
    with pytest.raises(StoreFailed) as failed:
        store.open_outbox(tmp_path / "outbox.db", SCHEMA)
    assert failed.value.reason is StoreReason.NEWER
    opened = store.open_cache(tmp_path / "cache.db", SCHEMA)
    assert opened.set_aside is not None
    assert opened.set_aside.path.name == "cache.newer-1.db"
    opened.connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"this is no database at all, only text\n" * 50, id="text"),
        pytest.param(lambda data: data[: len(data) // 2], id="truncated"),
        pytest.param(lambda data: data[:4096] + os.urandom(len(data) - 4096), id="overwritten"),
        pytest.param(lambda data: b"\0" * len(data), id="zeroes"),
    ],
)
def test_a_broken_file_is_set_aside_under_a_new_name_and_a_fresh_one_is_used(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "outbox.db"
    for number in (1, 2):
        fill(path)
        data = damage(path.read_bytes())
        path.write_bytes(data)
        opened = store.open_outbox(path, SCHEMA)
        assert opened.set_aside is not None
        assert opened.set_aside.reason is StoreReason.CORRUPT
        assert opened.set_aside.path.name == f"outbox.corrupt-{number}.db"
        assert opened.set_aside.path.read_bytes() == data
        assert mode(opened.set_aside.path) == 0o600
        assert opened.connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        opened.connection.close()


def test_somebody_elses_database_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE precious(a)")
    foreign.commit()
    foreign.close()
    opened = store.open_outbox(path, SCHEMA)
    assert opened.set_aside is not None
    kept = sqlite3.connect(opened.set_aside.path)
    assert kept.execute("SELECT name FROM sqlite_schema").fetchall() == [("precious",)]
    kept.close()
    opened.connection.close()


def test_a_locked_file_is_waited_for_and_never_taken_for_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    fill(path)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, lambda: other.execute("COMMIT")).start()
    opened = store.open_outbox(path, (*SCHEMA, "CREATE TABLE u(a);"))
    assert opened.set_aside is None
    other.execute("BEGIN IMMEDIATE")
    started = Stopwatch()
    with pytest.raises(sqlite3.OperationalError) as busy:
        opened.connection.execute("INSERT INTO t(b) VALUES('x')")
    assert store.reason_of(busy.value) is StoreReason.LOCKED
    assert started.seconds < store.BUSY_TIMEOUT + 1.0
    other.execute("COMMIT")
    opened.connection.execute("INSERT INTO t(b) VALUES('x')")
    other.close()
    opened.connection.close()


def test_a_path_that_is_a_directory_and_a_parent_that_is_a_file_are_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "outbox.db", tmp_path / "file" / "outbox.db"):
        with pytest.raises(StoreFailed) as failed:
            store.open_outbox(path, SCHEMA)
        assert failed.value.reason is StoreReason.UNUSABLE


def test_a_reader_opens_what_is_there_and_can_not_write(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        store.open_reader(tmp_path / "outbox.db")
    fill(tmp_path / "outbox.db", rows=2)
    reader = store.open_reader(tmp_path / "outbox.db")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("DELETE FROM t")
    reader.close()
