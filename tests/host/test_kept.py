"""Histories in `cache.db`: real files, real locks, real deaths."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from honcho_actors import Settings
from honcho_actors.host import Prefix, Replays, Transcripts, kept
from honcho_actors.host.kept import TABLES, SqliteTranscripts
from honcho_actors.model import Context, Realm, SessionKey
from honcho_actors.sessions.histories import histories
from honcho_actors.sessions.snapshots import FILE, MIGRATIONS, SnapshotFile
from honcho_actors.store import StoreFailed, open_cache
from tests.support.memory_world import World, until

SESSION = SessionKey(Realm("server", "w"), "telegram:1", "ann")
PATIENCE = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / FILE


@pytest.fixture
def store(path: Path) -> Iterator[SqliteTranscripts]:
    made = SqliteTranscripts(path, retry_after=0.05)
    yield made
    made.close(PATIENCE)


def reread(store: SqliteTranscripts, **changed: Any) -> SqliteTranscripts:
    """The file as the next process finds it."""
    assert store.close(PATIENCE)
    return SqliteTranscripts(store.path, **changed)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=20), rows=st.lists(st.text(max_size=40), max_size=5))
def test_any_text_comes_back_as_it_was(store: SqliteTranscripts, name: str, rows: list[str]) -> None:
    talk = Transcripts(store).open("s" + name)
    for row in rows:
        talk.tool(row)
    assert [text for _, text in Transcripts(store).open("s" + name).replay()[-len(rows) or 99 :]] == rows
    Transcripts(store).drop("s" + name)


def test_a_restart_finds_the_id_and_every_byte_and_the_file_is_private(store: SqliteTranscripts) -> None:
    talk = Transcripts(store).open(SESSION)
    prompt = talk.compose("S", Context((), user_message="moves \ud83d \x00"), "typed \udcff")
    talk.user(prompt)
    talk.assistant("answer")
    again = reread(store)
    back = Transcripts(again).open(SESSION)
    assert (back.mark, back.replay(), back.shown()) == (talk.mark, talk.replay(), talk.shown())
    assert back.compose("S", Context(), "on").prefix is Prefix.CONTINUED
    again.close()
    assert all(one.stat().st_mode & 0o077 == 0 for one in (store.path.parent, *store.path.parent.iterdir()))


def test_a_turn_never_waits_for_the_file(store: SqliteTranscripts, path: Path) -> None:
    talk = Transcripts(store).open("a")
    assert store.flush(PATIENCE)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        started = threading.Event()
        done = threading.Event()

        def turns() -> None:
            started.set()
            for number in range(100):
                talk.tool(f"message {number}")
            done.set()

        threading.Thread(target=turns, daemon=True).start()
        assert done.wait(PATIENCE), "the file is locked by another process, and nobody waits for it"
        assert not store.flush(0.05)
        until(lambda: store.trouble == "locked", PATIENCE)
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert store.flush(PATIENCE)
    assert store.trouble is None
    assert len(Transcripts(reread(store)).open("a").replay()) == 100


def test_a_file_that_can_only_be_read_still_gives_what_it_holds(store: SqliteTranscripts, path: Path) -> None:
    talk = Transcripts(store).open("one")
    talk.tool("all of it")
    assert store.flush(PATIENCE)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        Transcripts(store).open("two").tool("not on disk yet")
        back = Transcripts(store).open("one")
        assert (back.mark, back.replay(), back.fresh) == (talk.mark, talk.replay(), False)
        assert Transcripts(store).open("two").fresh
    finally:
        other.close()


def test_what_waits_too_long_is_given_up_conversation_by_conversation(
    store: SqliteTranscripts, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = Transcripts(store).open("small"), Transcripts(store).open("large")
    assert store.flush(PATIENCE)
    monkeypatch.setattr(kept, "MAX_WAITING_BYTES", 20_000)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        small.tool("kept")
        for _ in range(50):
            large.tool("x" * 1_000)
    finally:
        other.execute("ROLLBACK")
        other.close()
    again = reread(store)
    assert Transcripts(again).open("small").replay() == (("tool", "kept"),)
    lost = Transcripts(again).open("large")
    assert (lost.fresh, lost.replay()) == (True, ()), "a history with a gap is none"
    again.close()


def test_a_broken_file_is_set_aside_and_conversations_begin_anew(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4000)
    store = SqliteTranscripts(path)
    talk = Transcripts(store).open("a")
    assert talk.compose("S", Context(), "hi").prefix is Prefix.NEW
    assert store.set_aside is not None
    talk.tool("x")
    again = reread(store)
    assert Transcripts(again).open("a").replay() == (("tool", "x"),)
    again.close()


def test_a_directory_that_can_not_be_used_costs_histories_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a directory")
    store = SqliteTranscripts(tmp_path / "cache" / FILE, retry_after=0.01)
    with pytest.raises(StoreFailed):
        store.load("a")
    talk = Transcripts(store).open("a")
    assert talk.compose("S", Context(), "hi").prefix is Prefix.STORE_FAILED
    talk.tool("x")
    assert talk.replay() == (("tool", "x"),)
    assert store.close(0.1) is False


def test_a_file_that_is_deleted_under_a_running_process_leaves_no_history_with_a_gap(
    store: SqliteTranscripts, path: Path
) -> None:
    talk = Transcripts(store).open("a")
    talk.tool("one")
    assert store.flush(PATIENCE)
    store._let_go()
    for one in list(path.parent.iterdir()):
        one.unlink()
    talk.tool("two")
    back = Transcripts(reread(store)).open("a")
    assert (back.fresh, back.replay()) == (True, ())


def test_old_and_surplus_conversations_leave_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "PRUNE_EVERY", 1)
    now = [1_000_000.0]
    store = SqliteTranscripts(path, keep_seconds=100.0, most=3, wall=lambda: now[0])
    for number in range(6):
        now[0] += 1
        Transcripts(store).open(str(number)).tool("x")
        assert store.flush(PATIENCE)
    assert [number for number in range(6) if store.load(f"{number}")] == [3, 4, 5]
    now[0] += 101
    Transcripts(store).open("new").tool("x")
    assert store.flush(PATIENCE)
    assert [name for name in ("3", "4", "5", "new") if store.load(name)] == ["new"]
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM transcript_row").fetchone() == (1,)
    connection.close()


def test_the_file_is_bounded_in_bytes_and_the_oldest_leave_first(path: Path) -> None:
    now = [1_000_000.0]
    store = SqliteTranscripts(path, most_bytes=1 << 20, wall=lambda: now[0])
    for number in range(40):
        now[0] += 1
        Transcripts(store).open(str(number)).tool("x" * 50_000)
        assert store.flush(PATIENCE)
    left = [number for number in range(40) if store.load(f"{number}")]
    assert left == list(range(left[0], 40))
    assert 10 <= len(left) <= 20
    store.close()
    assert path.stat().st_size < 2 << 20


def test_many_threads_leave_changes_and_none_is_lost(store: SqliteTranscripts) -> None:
    replays = Replays(store)

    def work(first: int) -> None:
        for number in range(200):
            replays.keep(f"talk {first}", number, b"d" * 16, f"block {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    again = reread(store)
    back = Replays(again)
    for first in range(4):
        assert [back.get(f"talk {first}", at, b"d" * 16) for at in range(200)] == [f"block {at}" for at in range(200)]
    again.close()


KILLED = """
import sys, time
from pathlib import Path
from honcho_actors.host import Transcripts
from honcho_actors.host.kept import SqliteTranscripts
store = SqliteTranscripts(Path(sys.argv[1]))
talk = Transcripts(store).open("a")
for number in range(50):
    talk.tool(f"message {number}")
store.flush(20)
print(talk.mark, flush=True)
for number in range(50, 100000):
    talk.tool(f"message {number}")
"""


def test_a_process_that_is_killed_leaves_a_history_without_a_gap(path: Path) -> None:
    running = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    mark = running.stdout.readline().strip()
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=PATIENCE)
    store = SqliteTranscripts(path)
    back = Transcripts(store).open("a")
    assert back.mark == mark
    texts = [text for _, text in back.replay()]
    assert len(texts) >= 50
    assert texts == [f"message {number}" for number in range(len(texts))]
    store.close()


FORKED = """
import os, sys
from pathlib import Path
from honcho_actors.host import Transcripts
from honcho_actors.host.kept import SqliteTranscripts
store = SqliteTranscripts(Path(sys.argv[1]))
talk = Transcripts(store).open("a")
talk.tool("before")
store.flush(20)
child = os.fork()
if child == 0:
    talk.tool("in the child")
    Transcripts(store).open("b").tool("in the child")
    os._exit(0 if not store.flush(0.1) and store.load("a") is None else 1)
assert os.waitpid(child, 0)[1] == 0
talk.tool("after")
assert store.close(20)
"""


def test_a_forked_child_keeps_nothing_and_harms_nothing(path: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED, str(path)], check=True, timeout=60)
    store = SqliteTranscripts(path)
    assert [text for _, text in Transcripts(store).open("a").replay()] == ["before", "after"]
    store.close()


# -- beside the snapshots ----------------------------------------------------------------------------------------------


def test_it_is_one_file_with_the_snapshots_and_an_older_one_is_taken_over(tmp_path: Path) -> None:
    opened = open_cache(tmp_path / "cache" / FILE, MIGRATIONS[:1])
    opened.connection.execute("INSERT INTO session VALUES ('s', 'w', '', 'n', 'ann', 'private', 'sum', 't', 'm', 1)")
    opened.connection.close()
    store = histories(Settings(cache_dir=tmp_path / "cache"))
    snapshots = SnapshotFile(tmp_path / "cache")
    Transcripts(store).open(SESSION).tool("x")
    assert store.flush(PATIENCE)
    assert snapshots.count() == (0, 1)
    assert MIGRATIONS[1] == TABLES
    snapshots.forget("ann")
    assert snapshots.count() == (0, 0)
    assert store.load('[["server","w",""],"telegram:1","ann","private"]') is None
    snapshots.close()
    store.close()


def test_forgetting_a_person_takes_their_histories_out_of_the_file(tmp_path: Path) -> None:
    with World(cache_dir=tmp_path / "c") as world:
        until(lambda: world.sessions.table.snapshots != "loading", PATIENCE)
        store = histories(world.cell.current)
        talks = Transcripts(store)
        for user in ("ann", "bob"):
            talk = talks.open(SESSION._replace(user=user))
            talk.user(talk.compose("S", Context((), system=f"{user}-quirinia"), f"{user}-typed"))
        assert store.flush(PATIENCE)
        assert world.sessions.forget("ann")
        talks.forget("ann")
        assert store.close(PATIENCE)
    left = b"".join(one.read_bytes() for one in (tmp_path / "c").iterdir())
    assert b"ann-" not in left
    assert b"bob-typed" in left


def test_closing_twice_is_fine_and_what_comes_later_is_not_kept(store: SqliteTranscripts) -> None:
    talk = Transcripts(store).open("a")
    assert store.close(PATIENCE)
    assert store.close(PATIENCE)
    talk.tool("late")
    assert store.load("a") is None
