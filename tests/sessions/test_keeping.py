"""Snapshots when the file, the settings or a forgetting comes in between: kept as soon as they can be, no longer."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import store
from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.sessions import keeper
from honcho_actors.sessions.messages import PersonSnapshot, TurnRecord
from honcho_actors.sessions.snapshots import FILE, SnapshotFile
from honcho_actors.sessions.table import flat
from honcho_actors.settings import Settings
from honcho_actors.store import StoreFailed, StoreReason
from tests.support.memory_world import Remote, Server, World, until


@pytest.fixture
def server() -> Any:
    with Server(Remote({"ann": ("Ann grows tomatoes.", []), "bob": ("Bob rows.", [])})) as server:
        yield server


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "RETRY_AFTER", 0.05)
    monkeypatch.setattr(keeper, "WRITE_AFTER", 0.01)


def word(world: World) -> str:
    return str(world.sessions.status()["snapshots"])


def test_a_runtime_that_gets_its_server_later_serves_what_was_kept(server: Server, tmp_path: Path) -> None:
    with World(server=server, cache_dir=tmp_path) as world:
        world.turn()
    server.remote.closed["session_context"] = threading.Event()
    with World(server=server, cache_dir=tmp_path, base_url=None) as world:
        assert world.turn("ok").reason is Reason.NOT_CONFIGURED
        world.cell.publish(Settings(base_url=server.url, cache_dir=tmp_path))
        until(lambda: word(world) == "loaded")
        world.settle()
        assert world.turn("ok", budget=0.0).state is State.RESTORED


def test_a_large_file_that_is_found_broken_in_use_is_set_aside_and_snapshots_go_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SMALL_BYTES", 0)  # as if it were larger
    with World(server=server, cache_dir=tmp_path) as world:
        settings = world.cell.current
        until(lambda: word(world) == "loaded")
    file = SnapshotFile(tmp_path)
    now = time.time()
    place = (settings.server_id, settings.workspace, "")
    file.save([PersonSnapshot((*place, f"p{n}", f"p{n}"), "x" * 4000, (), now, now) for n in range(200)], [])
    file.close()
    path = tmp_path / FILE
    size = path.stat().st_size
    with path.open("r+b") as raw:
        raw.seek(size // 3 // 4096 * 4096)
        raw.write(b"\xff" * (size // 3))
    with World(server=server, cache_dir=tmp_path) as world:
        until(lambda: word(world) == "loaded" and (tmp_path / "cache.corrupt-1.db").exists())
        world.turn()
    with World(server=server, cache_dir=tmp_path) as world:
        until(lambda: word(world) == "loaded")
        world.settle()
        assert world.turn("ok", budget=0.0).state is State.RESTORED


@pytest.mark.parametrize("fault", [StoreFailed(StoreReason.NO_ROOM, Path("cache.db")), RuntimeError("unforeseen")])
def test_what_could_not_be_written_is_written_later_and_the_status_says_when_all_is_well(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    save, seen = SnapshotFile.save, threading.Event()

    def fails_once(self: SnapshotFile, *rows: Any) -> None:
        if not seen.is_set():
            seen.set()
            raise fault
        save(self, *rows)

    monkeypatch.setattr(SnapshotFile, "save", fails_once)
    monkeypatch.setattr(keeper, "BATCH", 1)
    with World(server=server, cache_dir=tmp_path) as world:
        until(lambda: word(world) == "loaded")
        world.turn()
        world.turn(key="s2", user="bob")
        assert seen.wait(20)
        until(lambda: word(world) == "loaded" and not world.sessions.table.unsaved)


def test_what_can_not_be_opened_is_forgotten_only_if_it_is_not_there(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "c" / FILE).mkdir(parents=True)
    with World(server=server, cache_dir=tmp_path / "file") as nothing_there:
        assert nothing_there.sessions.forget("ann", 20.0) is True
    with World(server=server, cache_dir=tmp_path / "c") as something_there:
        assert something_there.sessions.forget("ann", 20.0) is False


def test_turns_that_were_served_before_a_person_was_forgotten_read_nothing_of_them_afterwards(server: Server) -> None:
    with World(server=server) as world:
        ann = TurnRequest(session_key="s1", user="ann", query="what about the garden?")
        identity = world.sessions.known(ann)
        assert identity is None
        world.turn()
        identity = world.sessions.known(ann)
        assert identity is not None
        world.quiet()
        asked = world.remote.count("session_context")
        server.remote.closed["session_context"] = threading.Event()
        served = TurnRecord(flat(identity.session), ann, world.cell.current, world.runtime.clock.now(), Context())
        world.sessions.table.feed.extend([served] * 600)  # more than are counted at once
        assert world.sessions.forget("ann", 20.0)
        server.remote.closed.pop("session_context").set()
        world.turn(key="s2", user="bob")
        world.quiet()
        assert [row.user for row in world.sessions.rows()] == ["bob"]
        assert world.remote.count("session_context") <= asked + 2
        assert not any("ann" in str(key) for key in world.sessions.table.unsaved)
        assert world.sessions.status()["served_turns"] == 602


def test_a_file_that_was_found_broken_is_looked_through_whole_when_it_is_opened_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SMALL_BYTES", 0)
    schema, path = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);",), tmp_path / "outbox.db"
    opened = store.open_outbox(path, schema)
    opened.connection.executemany("INSERT INTO t(b) VALUES(?)", [("x" * 500,)] * 200)
    opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.connection.close()
    with path.open("r+b") as raw:
        raw.seek(3 * 4096)
        raw.write(b"\xff" * 3 * 4096)
    opened = store.open_outbox(path, schema)
    assert opened.set_aside is None
    with pytest.raises(sqlite3.DatabaseError) as error:
        opened.connection.execute("SELECT sum(length(b)) FROM t").fetchone()
    opened.connection.close()
    assert StoreFailed(store.reason_of(error.value), path).reason is StoreReason.CORRUPT
    opened = store.open_outbox(path, schema)
    assert opened.set_aside is not None
    opened.connection.close()
