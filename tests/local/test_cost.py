"""A request costs no more when the session is long: counted in steps of SQLite's machine, whatever else runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.local_context import fill
from honcho_actors.local import context, messages, schema

SMALL, LARGE = 200, 2_000
WANTED = context.Wanted(tokens=1200, peer_target="alice", max_conclusions=25)
ABSENT = {"metadata": {"delivery_id": "absent"}}
BATCH = [{"peer_id": "alice", "content": "one more", "metadata": None, "configuration": None, "created_at": None}]
READS: dict[str, Callable[[sqlite3.Connection], Any]] = {
    "session context": lambda db: context.session_context(db, "bench", "long", WANTED),
    "session context, limited to the session": lambda db: context.session_context(
        db, "bench", "long", context.Wanted(tokens=1200, peer_target="alice", max_conclusions=25, limit_to_session=True)
    ),
    "peer context": lambda db: context.peer_context(
        db, "bench", "alice", target=None, limit=25, search_query=None, search_top_k=None, most_frequent=True
    ),
    "newest page": lambda db: messages.listed(db, "bench", "long", None, page=1, size=50, reverse=True),
    "look for a delivery": lambda db: messages.listed(db, "bench", "long", ABSENT, page=1, size=1, reverse=False),
    "write": lambda db: messages.add(db, "bench", "long", BATCH),
}


def steps(database: sqlite3.Connection, read: Callable[[sqlite3.Connection], Any]) -> int:
    counted = 0

    def tick() -> int:
        nonlocal counted
        counted += 1
        return 0

    read(database)
    database.set_progress_handler(tick, 10)
    read(database)
    database.set_progress_handler(None, 0)
    return counted


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = []
    for count in (SMALL, LARGE):
        folder: Path = tmp_path_factory.mktemp(f"cost{count}")
        fill(folder, count)
        opened.append(schema.connect(folder / schema.FILE, durable=False))
    yield opened
    for database in opened:
        database.close()


@pytest.mark.parametrize("read", READS)
def test_ten_times_the_messages_cost_no_more(databases: list[sqlite3.Connection], read: str) -> None:
    small, large = (steps(database, READS[read]) for database in databases)
    assert large <= 1.3 * small + 20
