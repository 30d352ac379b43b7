"""What the outbox holds, for how long, and what it says of itself: work lists, retention, compaction, selection,
forgetting.

Functions on an open connection, inside the writer's transaction unless they only read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from honcho_actors.capture.clocks import Moment, Reading, remaining
from honcho_actors.capture.delivering import Ended
from honcho_actors.capture.schema import ACCEPTED, DELIVERED, EXPIRED, SET_ASIDE
from honcho_actors.model import Realm, SessionKey

RECHECKS = (1.0, 4.0)
"""After a resend, a double is looked for at once and then after these many settle times."""


@dataclass(frozen=True, slots=True)
class Due:
    """A conversation with work, and the seconds until it may be tried."""

    conversation: int
    wait: float
    failure: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What the outbox holds now. `oldest` in seconds on the outbox's own clock, None when nothing is owed."""

    turns: int
    messages: int
    oldest: float | None
    set_aside: int
    expired: int
    conversations: int
    delivered: int
    doubled: int
    last_delivery: float | None
    file_bytes: int
    forks_pending: int
    forks_failed: Mapping[str, int]
    """Children that began with nothing of their parent, by reason."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """A group that was sent twice, to be counted on the server."""

    delivery: bytes
    conversation: int
    first: int
    last: int
    round: int
    found: int
    server: str
    workspace: str
    session: str


def due(connection: sqlite3.Connection, now: Reading, *, after: int, limit: int) -> list[Due]:
    """Conversations with work in order of their number, from `after` on: one index probe each, however long the
    backlog.
    """
    found = connection.execute(
        "WITH RECURSIVE work(c) AS ("
        " SELECT (SELECT min(conversation) FROM message WHERE conversation > ?)"
        " UNION ALL SELECT (SELECT min(conversation) FROM message WHERE conversation > c) FROM work"
        " WHERE c IS NOT NULL)"
        " SELECT c.id, c.due_boot, c.due_at, c.failure FROM work JOIN conversation c ON c.id=work.c LIMIT ?",
        (after, limit),
    )
    return [Due(row[0], remaining(Moment(row[1], row[2]), now), row[3]) for row in found]


def forking(connection: sqlite3.Connection) -> set[int]:
    """Children that wait for their parents: delivered after everybody else."""
    return {row[0] for row in connection.execute("SELECT child FROM fork WHERE state='pending'")}


def counts(connection: sqlite3.Connection, age: float) -> Counts:
    """Counts what is there: index scans and one row, milliseconds for a million messages."""
    one = connection.execute
    oldest = one("SELECT born FROM batch WHERE state=0 ORDER BY seq LIMIT 1").fetchone()
    states = dict(one("SELECT state, count(*) FROM aside GROUP BY state").fetchall())
    total = one("SELECT count(*), sum(delivered), sum(doubled), max(last_delivery) FROM conversation").fetchone()
    return Counts(
        turns=one("SELECT count(*) FROM batch WHERE state=0").fetchone()[0],
        messages=one("SELECT count(*) FROM message").fetchone()[0],
        oldest=None if oldest is None else max(0.0, age - oldest[0]),
        set_aside=states.get(2, 0),
        expired=(one("SELECT value FROM meta WHERE name='expired'").fetchone() or (0,))[0],
        conversations=total[0],
        delivered=total[1] or 0,
        doubled=total[2] or 0,
        last_delivery=total[3] / 1e6 if total[3] else None,
        file_bytes=used_bytes(connection),
        forks_pending=one("SELECT count(*) FROM fork WHERE state='pending'").fetchone()[0],
        forks_failed=dict(one("SELECT reason, count(*) FROM fork WHERE state='fresh' GROUP BY reason").fetchall()),
    )


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something."""
    one = connection.execute
    pages = one("PRAGMA page_count").fetchone()[0] - one("PRAGMA freelist_count").fetchone()[0]
    return int(pages * one("PRAGMA page_size").fetchone()[0])


def owed_until(connection: sqlite3.Connection, mark: int) -> bool:
    """Whether a batch up to this sequence number is still owed. One index probe."""
    row = connection.execute("SELECT seq FROM batch WHERE state=0 ORDER BY seq LIMIT 1").fetchone()
    return row is not None and row[0] <= mark


def newest(connection: sqlite3.Connection) -> int:
    """The highest sequence number that was ever given out."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name='batch'").fetchone()
    return 0 if row is None else int(row[0])


def states(connection: sqlite3.Connection, batch_ids: Sequence[bytes]) -> dict[bytes, tuple[int, str]]:
    """The state and reason of these batches, as far as the outbox still knows them."""
    found: dict[bytes, tuple[int, str]] = {}
    for batch_id in batch_ids:
        row = connection.execute("SELECT state, reason FROM batch WHERE id=?", (batch_id,)).fetchone()
        if row is not None:
            found[batch_id] = (row[0], row[1] if row[0] else "")
    return found


def expire_old(connection: sqlite3.Connection, *, born_before: float, limit: int) -> list[Ended]:
    """Ends turns that were accepted too long ago, oldest first. What is *sending* is never touched."""
    return _expire(connection, ACCEPTED, born_before, limit=limit, reason="retention_age")


def make_room(connection: sqlite3.Connection, *, limit: int) -> tuple[list[Ended], bool]:
    """The file is over its size: drops what can best be spared, and says whether there was anything. The oldest of what
    the ledger remembers of delivered turns, then the oldest that were set aside, then the oldest that are owed.
    """
    remembered = f"SELECT seq FROM batch WHERE state={DELIVERED} ORDER BY seq LIMIT ?"
    if connection.execute(f"DELETE FROM batch WHERE seq IN ({remembered})", (10 * limit,)).rowcount:
        return [], True
    for state in (SET_ASIDE, ACCEPTED):
        ended = _expire(connection, state, float("inf"), limit=limit, reason="retention_bytes")
        if ended:
            return ended, True
    return [], False


def _expire(connection: sqlite3.Connection, state: int, born_before: float, *, limit: int, reason: str) -> list[Ended]:
    # The oldest are looked at, not all: in the order of their numbers turns are in the order of their ages.
    batches = connection.execute(
        f"SELECT b.seq FROM (SELECT seq, born FROM batch WHERE state={state} ORDER BY seq LIMIT ?) b WHERE b.born<?"
        " AND NOT EXISTS(SELECT 1 FROM message m WHERE m.batch=b.seq AND m.delivery IS NOT NULL)",
        (limit, born_before),
    ).fetchall()
    ended: list[Ended] = []
    for (seq,) in batches:
        row = connection.execute(
            "SELECT b.id, b.key, b.user, b.audience, c.partition, c.server, c.workspace FROM batch b"
            " JOIN conversation c ON c.id=b.conversation WHERE b.seq=?",
            (seq,),
        ).fetchone()
        # Nothing of an expired turn is hoarded, or the records of what was dropped would fill the file themselves.
        for table, column in (("message", "batch"), ("aside", "batch"), ("batch", "seq")):
            connection.execute(f"DELETE FROM {table} WHERE {column}=?", (seq,))
        if row is not None:
            connection.execute("DELETE FROM imported WHERE id=?", (row[0],))  # brought in again, it is sent
            ended.append(Ended(row[0], EXPIRED, reason, *row[1:]))
    connection.execute(
        "INSERT INTO meta VALUES('expired', ?) ON CONFLICT(name) DO UPDATE SET value=value+excluded.value",
        (len(ended),),
    )
    return ended


def compact(connection: sqlite3.Connection, *, window: int, after: int, limit: int = 200) -> int | None:
    """Drops what the ledger remembers beyond its window, for some conversations; returns where to go on, None at the
    end.
    """
    numbers = [
        row[0]
        for row in connection.execute("SELECT id FROM conversation WHERE id>? ORDER BY id LIMIT ?", (after, limit))
    ]
    for number in numbers:
        edge = connection.execute(
            "SELECT seq FROM batch WHERE conversation=? ORDER BY seq DESC LIMIT 1 OFFSET ?", (number, window)
        ).fetchone()
        if edge is not None:
            connection.execute(
                "DELETE FROM batch WHERE conversation=? AND seq<=? AND state NOT IN (0, 2)", (number, edge[0])
            )
    return numbers[-1] if len(numbers) == limit else None


def forget(connection: sqlite3.Connection, user: str) -> tuple[int, int, list[str]]:
    """Removes everything of one person, by remote peer id: (turns that were owed, turns of the ledger, remote
    sessions).
    """
    sessions = [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT c.session FROM batch b JOIN conversation c ON c.id=b.conversation WHERE b.user=?"
            " AND (c.delivered>0 OR c.members!='{}') ORDER BY 1",
            (user,),
        )
    ]
    owed = connection.execute("SELECT count(*) FROM batch WHERE user=? AND state=0", (user,)).fetchone()[0]
    whole = connection.execute("SELECT count(*) FROM batch WHERE user=?", (user,)).fetchone()[0]
    touched = [row[0] for row in connection.execute("SELECT DISTINCT conversation FROM batch WHERE user=?", (user,))]
    for table in ("message", "aside"):
        connection.execute(f"DELETE FROM {table} WHERE batch IN (SELECT seq FROM batch WHERE user=?)", (user,))
    connection.execute("DELETE FROM imported WHERE id IN (SELECT id FROM batch WHERE user=?)", (user,))
    connection.execute("DELETE FROM batch WHERE user=?", (user,))
    for number in touched:
        if connection.execute("SELECT 1 FROM batch WHERE conversation=?", (number,)).fetchone() is None:
            for table, column in (("fork", "child"), ("recheck", "conversation"), ("doubled", "conversation")):
                connection.execute(f"DELETE FROM {table} WHERE {column}=?", (number,))
            connection.execute("DELETE FROM conversation WHERE id=?", (number,))
    return owed, whole - owed, sessions


def later_look(
    connection: sqlite3.Connection,
    *,
    delivery: bytes,
    conversation: int,
    first: int,
    last: int,
    after: float,
    now: Reading,
) -> None:
    """Notes that this group, which was sent twice, is to be counted on the server in `after` seconds."""
    connection.execute(
        "INSERT OR REPLACE INTO recheck VALUES(?,?,?,?,0,0,?,?)",
        (delivery, conversation, first, last, now.boot, now.seconds + after),
    )


def rechecks(connection: sqlite3.Connection, now: Reading, limit: int = 50) -> tuple[list[Recheck], float | None]:
    """Looks that are due now, and the seconds until the next one."""
    ready: list[Recheck] = []
    soonest: float | None = None
    for row in connection.execute(
        "SELECT r.delivery, r.conversation, r.first, r.last, r.round, r.found, c.server, c.workspace,"
        " c.session, r.due_boot, r.due_at FROM recheck r JOIN conversation c ON c.id=r.conversation LIMIT 1000"
    ):
        wait = remaining(Moment(row[9], row[10]), now)
        if wait <= 0 and len(ready) < limit:
            ready.append(Recheck(*row[:9]))
        else:
            soonest = wait if soonest is None else min(soonest, wait)
    return ready, soonest


def counted(connection: sqlite3.Connection, check: Recheck, extra: int, *, now: Reading, again: float | None) -> int:
    """Records how many copies beyond the first the server holds of a resent group; returns how many of them are new."""
    new = max(0, extra - check.found)
    if new:
        connection.execute("UPDATE conversation SET doubled=doubled+? WHERE id=?", (new, check.conversation))
        connection.execute(
            "INSERT OR REPLACE INTO doubled VALUES(?,?,?,?)", (check.delivery, check.conversation, extra, now.wall_us)
        )
    if again is None:
        connection.execute("DELETE FROM recheck WHERE delivery=?", (check.delivery,))
    else:
        connection.execute(
            "UPDATE recheck SET round=round+1, found=?, due_boot=?, due_at=? WHERE delivery=?",
            (max(extra, check.found), now.boot, now.seconds + again, check.delivery),
        )
    return new


def opted_out(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """The conversations that are not captured, by the caller's own key and partition."""
    return {(row[0], row[1]) for row in connection.execute("SELECT key, partition FROM opted_out")}


def on_server(connection: sqlite3.Connection, limit: int) -> list[SessionKey]:
    """The conversations to which something was delivered, at most `limit` of the latest, the latest last."""
    rows = connection.execute(
        "SELECT c.server, c.workspace, c.partition, b.key, b.user, b.audience FROM batch b"
        " JOIN conversation c ON c.id=b.conversation WHERE b.state=? GROUP BY 1, 2, 3, 4, 5, 6"
        " ORDER BY max(b.seq) DESC LIMIT ?",
        (DELIVERED, limit),
    ).fetchall()
    return [
        SessionKey(Realm(*row[:3]), row[3], row[4], "shared" if row[5] == "shared" else "private")
        for row in reversed(rows)
    ]


def opt(connection: sqlite3.Connection, key: str, partition: str, *, out: bool) -> None:
    """Selects a conversation out or in, durably."""
    if out:
        connection.execute("INSERT INTO opted_out VALUES(?,?) ON CONFLICT DO NOTHING", (key, partition))
    else:
        connection.execute("DELETE FROM opted_out WHERE key=? AND partition=?", (key, partition))
