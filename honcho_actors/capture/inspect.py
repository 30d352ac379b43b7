"""What an operator sees of the outbox, and may do to it: list, show, export, retry.

Reading opens the file for reading alone and holds nothing up; what was said is shown only when it is asked for
(`reveal`). `retry` is one short write of its own. For commands and diagnostics: any process, any thread; raises
StoreFailed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from honcho_actors import store
from honcho_actors.capture.clocks import from_us
from honcho_actors.capture.schema import MIGRATIONS, NO_SERVER

_STATES = {0: "accepted", 1: "delivered", 2: "set_aside", 3: "expired"}
OPEN = frozenset({"accepted", "sending", "set_aside"})
"""What is neither on the server nor gone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of the outbox. `state`: accepted, sending, delivered, set_aside, expired."""

    batch_id: str
    state: str
    reason: str
    conversation: str
    remote_session: str
    workspace: str
    user: str
    accepted_at: str
    messages: int
    turn_id: str | None
    waits_for: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of a turn. `text` is None unless it was asked for."""

    position: int
    peer: str
    said_at: str
    state: str
    reason: str
    characters: int
    text: str | None
    metadata: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def entries(path: Path, *, states: frozenset[str] | None = None, limit: int = 100) -> list[Entry]:
    """Turns that are owed or were set aside (or, named in `states`, delivered ones still remembered), oldest first."""
    with _reading(path) as reader:
        return list(islice(_entries(reader, states or OPEN), limit))


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """One picture of the file, whatever is delivered meanwhile."""
    with closing(store.open_reader(path)) as reader:
        try:
            reader.execute("BEGIN")
            yield reader
        except sqlite3.Error as error:
            raise store.StoreFailed(store.reason_of(error), path, type(error).__name__) from error


def _entries(reader: sqlite3.Connection, wanted: frozenset[str]) -> Iterator[Entry]:
    numbers = [number for number, state in _STATES.items() if state in wanted or (number == 0 and "sending" in wanted)]
    for row in reader.execute(
        "SELECT b.id, b.state, b.reason, b.key, c.session, c.workspace, b.user, b.accepted, b.turn_id, c.failure,"
        " (SELECT count(*) FROM message m WHERE m.batch=b.seq),"
        " EXISTS(SELECT 1 FROM message m WHERE m.batch=b.seq AND m.delivery IS NOT NULL),"
        " (SELECT count(*) FROM aside a WHERE a.batch=b.seq)"
        f" FROM batch b JOIN conversation c ON c.id=b.conversation WHERE b.state IN ({','.join('?' * len(numbers))})"
        " ORDER BY b.seq",
        numbers,
    ):
        state = "sending" if row[1] == 0 and row[11] else _STATES[row[1]]
        if state in wanted:
            yield Entry(
                row[0].hex(),
                state,
                row[2],
                row[3],
                row[4],
                row[5],
                row[6],
                from_us(row[7]).isoformat(timespec="seconds"),
                row[10] + row[12],
                row[8],
                row[9] if row[1] == 0 else "",
            )


def owed(path: Path, server: str) -> int:
    """Messages that are to go to this server, or to the first one that is configured."""
    with _reading(path) as reader:
        found = reader.execute(
            "SELECT count(*) FROM message m JOIN conversation c ON c.id=m.conversation WHERE c.server IN (?, ?)",
            (server, NO_SERVER),
        )
        return int(found.fetchone()[0])


def show(path: Path, batch_id: str, *, reveal: bool = False) -> list[Shown]:
    """The messages of a turn that are still here; empty for one that is delivered, or unknown."""
    with _reading(path) as reader:
        return list(_shown(reader, _id(batch_id), reveal))


def _shown(reader: sqlite3.Connection, batch_id: bytes, reveal: bool) -> Iterator[Shown]:
    rows = reader.execute(
        "SELECT m.position, m.peer, m.said, CASE WHEN m.delivery IS NULL THEN 'accepted' ELSE 'sending' END, '',"
        " m.text, m.metadata FROM message m JOIN batch b ON b.seq=m.batch WHERE b.id=:batch"
        " UNION ALL SELECT a.position, a.peer, a.said, 'set_aside', a.reason, a.text, a.metadata"
        " FROM aside a JOIN batch b ON b.seq=a.batch WHERE b.id=:batch ORDER BY 1",
        {"batch": batch_id},
    )
    for position, peer, said, state, reason, text, metadata in rows:
        shown = (text, json.loads(metadata)) if reveal else (None, None)
        yield Shown(position, peer, from_us(said).isoformat(), state, reason, len(text), *shown)


def export(path: Path, *, reveal: bool = False) -> Iterator[dict[str, Any]]:
    """Every turn that is owed or set aside, with its messages, as JSON-able objects; texts only with `reveal`."""
    with _reading(path) as reader:
        for entry in _entries(reader, OPEN):
            parts = [one.as_dict() for one in _shown(reader, _id(entry.batch_id), reveal)]
            yield {**entry.as_dict(), "parts": parts}


def retry(path: Path, batch_id: str | None = None) -> int:
    """Makes what was set aside owed again (all of it, or one turn), and everything that waits for its time due now.

    Returns the number of messages that are owed again. They go behind what was captured since.
    """
    with closing(store.open_beside(path, len(MIGRATIONS))) as connection:
        only = "" if batch_id is None else " WHERE batch IN (SELECT seq FROM batch WHERE id=?)"
        values = () if batch_id is None else (_id(batch_id),)
        try:
            connection.execute("BEGIN IMMEDIATE")
            moved = connection.execute(
                "INSERT INTO message(conversation, lane, batch, position, peer, text, said, metadata, reasoning)"
                f" SELECT conversation, lane, batch, position, peer, text, said, metadata, reasoning FROM aside{only}",
                values,
            ).rowcount
            connection.execute(
                "UPDATE batch SET state=0, reason='', open=open+(SELECT count(*) FROM aside a WHERE a.batch=batch.seq)"
                f" WHERE seq IN (SELECT batch FROM aside{only})",
                values,
            )
            connection.execute(f"DELETE FROM aside{only}", values)
            connection.execute("UPDATE conversation SET due_boot='', due_at=0, attempts=0")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise store.StoreFailed(store.reason_of(error), path) from error
        return moved


def _id(batch_id: str) -> bytes:
    try:
        return bytes.fromhex(batch_id)
    except ValueError:
        return b""
