"""The ledger of delivery: who delivers a conversation, what is on its way, what ended and how.

Functions on an open connection, inside the writer's transaction. Each that changes a conversation names the lease under
which it acts; a worker whose lease was taken over gets `LeaseLost` and changes nothing. *Sending* is committed before
the first byte leaves; the moment since which a connection is known to be gone is committed at the first claim that
finds *sending*.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from honcho_actors.capture.clocks import Moment, Reading, remaining
from honcho_actors.capture.decide import GROUP
from honcho_actors.capture.schema import DELIVERED, SET_ASIDE

GROUP_CHARS = 400_000
"""Characters of one request: well under what a server or a proxy takes in one body, and what the writer looks at once
more in one go."""

HELD_POLL = 1.0
"""Seconds after which a conversation that another process delivers is looked at again."""


class LeaseLost(Exception):
    """Another process has taken this conversation over, or its rows are gone."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to deliver one conversation: who, and the how-manieth holder."""

    conversation: int
    owner: str
    number: int


@dataclass(frozen=True, slots=True)
class Row:
    """One message that is owed to the server."""

    id: int
    lane: int
    batch: int
    batch_id: bytes
    position: int
    peer: str
    text: str
    said: int
    metadata: str
    reasoning: int
    strikes: int
    user: str
    delivery: bytes | None


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that go, or went, out together under one delivery id."""

    delivery: bytes
    rows: tuple[Row, ...]

    @property
    def first(self) -> int:
        return min(row.said for row in self.rows)

    @property
    def last(self) -> int:
        return max(row.said for row in self.rows)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A conversation that this process may deliver now. `group` is what was found *sending*: its outcome is unknown
    since `gone`.
    """

    lease: Lease
    server: str
    workspace: str
    session: str
    members: Mapping[str, tuple[bool, bool]]
    size: int
    attempts: int
    group: Group | None
    gone: Moment | None
    strike: bool
    resends: int
    fork: bool


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing to be done now. `again` in seconds; None when nothing is left."""

    again: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A batch that reached its end."""

    batch_id: bytes
    state: int
    reason: str
    key: str
    user: str
    audience: str
    partition: str
    server: str
    workspace: str


def claim(
    connection: sqlite3.Connection,
    conversation: int,
    *,
    owner: str,
    alive: Callable[[str], bool],
    now: Reading,
    lease_time: float,
    ignore_schedule: bool = False,
) -> Claimed | NotNow:
    """Takes the lease of a conversation that has work and whose time has come.

    Taken over from a dead process or an expired lease, what is *sending* is unknown from this moment on, whatever was
    stored before: the other process may have been about to send.
    """
    row = connection.execute(
        "SELECT server, workspace, session, members, size, attempts, due_boot, due_at, gone_boot, gone_at, strike,"
        " resends, owner, owner_boot, owner_until, lease FROM conversation WHERE id=?",
        (conversation,),
    ).fetchone()
    if row is None:
        return NotNow(None, "gone")
    (server, workspace, session, members, size, attempts, due_boot, due_at, gone_boot, gone_at, strike, resends) = row[
        :12
    ]
    holder, holder_boot, holder_until, number = row[12:]
    head = connection.execute(
        "SELECT delivery FROM message WHERE conversation=? ORDER BY lane, id LIMIT 1", (conversation,)
    ).fetchone()
    fork = connection.execute("SELECT 1 FROM fork WHERE child=? AND state='pending'", (conversation,)).fetchone()
    if head is None:
        return NotNow(None, "empty")
    if holder and holder != owner and remaining(Moment(holder_boot, holder_until), now) > 0 and alive(holder):
        return NotNow(HELD_POLL, "held")
    wait = remaining(Moment(due_boot, due_at), now)
    if wait > 0 and not ignore_schedule:
        return NotNow(wait, "scheduled")
    taken_over = holder not in ("", owner)
    number += 1
    connection.execute(
        "UPDATE conversation SET owner=?, owner_boot=?, owner_until=?, lease=? WHERE id=?",
        (owner, now.boot, now.seconds + lease_time, number, conversation),
    )
    group = _group(connection, conversation, head[0]) if head[0] is not None else None
    gone: Moment | None = None
    if group is not None:
        if gone_boot is None or gone_boot != now.boot or (taken_over and holder_boot == now.boot and alive(holder)):
            gone = now.moment
            connection.execute(
                "UPDATE conversation SET gone_boot=?, gone_at=? WHERE id=?", (gone.boot, gone.seconds, conversation)
            )
        else:
            gone = Moment(gone_boot, gone_at)
    known = {peer: (bool(flags[0]), bool(flags[1])) for peer, flags in json.loads(members).items()}
    return Claimed(
        Lease(conversation, owner, number),
        server,
        workspace,
        session,
        known,
        size,
        attempts,
        group,
        gone,
        bool(strike),
        resends,
        fork is not None,
    )


@dataclass(frozen=True, slots=True)
class Missing:
    """Peers of the next messages that are not members yet; True: it is the person, False: the assistant."""

    peers: Mapping[str, bool]


def take(
    connection: sqlite3.Connection,
    lease: Lease,
    members: Collection[str],
    *,
    size: int,
    now: Reading,
    lease_time: float,
) -> Group | Missing | None:
    """Marks the next messages as *sending* under a fresh delivery id. None: nothing is left, and the lease is given
    back.
    """
    _hold(connection, lease, now, lease_time)
    rows = _rows(connection, "m.conversation=?", (lease.conversation,), min(size, GROUP))
    if rows and rows[0].delivery is not None:
        raise LeaseLost  # an entry of a predecessor came through late: what it marked is looked for first, in order
    if not rows:
        connection.execute("UPDATE conversation SET owner='', owner_until=0 WHERE id=?", (lease.conversation,))
        return None
    strangers = {row.peer: row.peer == row.user for row in rows if row.peer not in members}
    if strangers:
        return Missing(strangers)
    chars = 0
    kept: list[Row] = []
    for row in rows:
        chars += len(row.text) + len(row.metadata)
        if kept and chars > GROUP_CHARS:
            break
        kept.append(row)
    delivery = os.urandom(16)
    connection.executemany("UPDATE message SET delivery=? WHERE id=?", [(delivery, row.id) for row in kept])
    connection.execute(
        "UPDATE conversation SET gone_boot=NULL, gone_at=NULL, strike=0, resends=0 WHERE id=?", (lease.conversation,)
    )
    return Group(delivery, tuple(kept))


def established(
    connection: sqlite3.Connection,
    lease: Lease,
    members: Mapping[str, tuple[bool, bool]],
    now: Reading,
    lease_time: float,
) -> None:
    """Records with which observation flags the members of a conversation were established; {} when it must be done
    anew.
    """
    _hold(connection, lease, now, lease_time)
    connection.execute(
        "UPDATE conversation SET members=? WHERE id=?",
        (json.dumps({peer: list(flags) for peer, flags in members.items()}), lease.conversation),
    )


def finish(
    connection: sqlite3.Connection,
    lease: Lease,
    rows: Sequence[Row],
    remote_ids: Sequence[str],
    *,
    size: int,
    now: Reading,
    lease_time: float,
) -> list[Ended]:
    """Records that these messages are on the server; their texts leave the outbox. Returns the batches that ended."""
    _hold(connection, lease, now, lease_time)
    present = _still_there(connection, rows)
    connection.executemany("DELETE FROM message WHERE id=?", [(row.id,) for row in present])
    counts: dict[int, list[Any]] = {}
    anchors = dict(zip((row.id for row in rows), remote_ids, strict=False))
    for row in present:
        entry = counts.setdefault(row.batch, [0, None])
        entry[0] += 1
        entry[1] = anchors.get(row.id) or entry[1]
    connection.executemany(
        "UPDATE batch SET open=open-?, anchor=coalesce(?, anchor) WHERE seq=?",
        [(count, anchor, batch) for batch, (count, anchor) in counts.items()],
    )
    connection.execute(
        "UPDATE conversation SET last_delivery=?, delivered=delivered+?, attempts=0, failure='', due_boot='', due_at=0,"
        " size=?, gone_boot=NULL, gone_at=NULL, strike=0 WHERE id=?",
        (now.wall_us, len(present), size, lease.conversation),
    )
    return _end(connection, list(counts))


def release(
    connection: sqlite3.Connection,
    lease: Lease,
    delivery: bytes | None,
    *,
    again: float,
    attempts: int,
    failure: str,
    size: int,
    now: Reading,
) -> None:
    """Gives a conversation back: what was *sending* under this id is accepted again, and is due in `again` seconds."""
    _check(connection, lease)
    if delivery is not None:
        connection.execute(
            "UPDATE message SET delivery=NULL WHERE conversation=? AND delivery=?", (lease.conversation, delivery)
        )
    connection.execute(
        "UPDATE conversation SET owner='', owner_until=0, due_boot=?, due_at=?, attempts=?, failure=?, size=?,"
        " gone_boot=CASE WHEN ? THEN NULL ELSE gone_boot END, gone_at=CASE WHEN ? THEN NULL ELSE gone_at END,"
        " strike=CASE WHEN ? THEN 0 ELSE strike END WHERE id=?",
        (
            now.boot,
            now.seconds + again,
            attempts,
            failure,
            size,
            *(delivery is not None,) * 3,
            lease.conversation,
        ),
    )


def unsend(connection: sqlite3.Connection, lease: Lease, delivery: bytes, *, size: int | None = None) -> None:
    """What was *sending* under this id is certainly not on the server: accepted again, under the same lease."""
    _check(connection, lease)
    connection.execute(
        "UPDATE message SET delivery=NULL WHERE conversation=? AND delivery=?", (lease.conversation, delivery)
    )
    connection.execute(
        "UPDATE conversation SET gone_boot=NULL, gone_at=NULL, strike=0, size=coalesce(?, size) WHERE id=?",
        (size, lease.conversation),
    )


def still_unknown(connection: sqlite3.Connection, lease: Lease, gone: Moment | None) -> None:
    """Part of a group was found; of the rest, the outcome is unknown since the same moment."""
    if gone is not None:
        connection.execute(
            "UPDATE conversation SET gone_boot=?, gone_at=? WHERE id=?", (gone.boot, gone.seconds, lease.conversation)
        )


def unknown(connection: sqlite3.Connection, lease: Lease, *, strike: bool, now: Reading, lease_time: float) -> Moment:
    """Records that the connection of what is *sending* is gone since now, and whether the server answered 500."""
    _hold(connection, lease, now, lease_time)
    connection.execute(
        "UPDATE conversation SET gone_boot=?, gone_at=?, strike=? WHERE id=?",
        (now.boot, now.seconds, int(strike), lease.conversation),
    )
    return now.moment


def resend(connection: sqlite3.Connection, lease: Lease, group: Group, *, now: Reading, lease_time: float) -> Group:
    """Marks what is absent as sent once more under the same id: a late copy of the first try will show beside it."""
    _hold(connection, lease, now, lease_time)
    connection.execute(
        "UPDATE conversation SET gone_boot=NULL, gone_at=NULL, strike=0, resends=resends+1 WHERE id=?",
        (lease.conversation,),
    )
    return Group(group.delivery, tuple(_still_there(connection, group.rows)))


def strike(connection: sqlite3.Connection, lease: Lease, group: Group) -> int:
    """Counts a 500 against each message of a group that is known to be absent; returns the most that one has."""
    _check(connection, lease)
    connection.executemany("UPDATE message SET strikes=strikes+1 WHERE id=?", [(row.id,) for row in group.rows])
    return max((row.strikes for row in group.rows), default=0) + 1


def put_aside(
    connection: sqlite3.Connection, lease: Lease, rows: Sequence[Row], *, reason: str, size: int, now: Reading
) -> list[Ended]:
    """Sets messages aside: kept with the reason, no longer owed. Returns the batches that ended."""
    _check(connection, lease)
    ended = move_aside(connection, [row.id for row in rows], state=SET_ASIDE, reason=reason, wall_us=now.wall_us)
    connection.execute(
        "UPDATE conversation SET size=?, attempts=0, gone_boot=NULL, gone_at=NULL, strike=0 WHERE id=?",
        (size, lease.conversation),
    )
    return ended


def move_aside(
    connection: sqlite3.Connection, ids: Sequence[int], *, state: int, reason: str, wall_us: int
) -> list[Ended]:
    """Moves messages out of what is owed, with the state and the reason of their end."""
    batches: dict[int, int] = {}
    for number in ids:
        row = connection.execute("SELECT batch FROM message WHERE id=?", (number,)).fetchone()
        if row is None:
            continue
        connection.execute(
            "INSERT INTO aside(conversation, lane, batch, position, peer, text, said, metadata, reasoning, state,"
            " reason, ended) SELECT conversation, lane, batch, position, peer, text, said, metadata, reasoning, ?, ?, ?"
            " FROM message WHERE id=?",
            (state, reason, wall_us, number),
        )
        connection.execute("DELETE FROM message WHERE id=?", (number,))
        batches[row[0]] = batches.get(row[0], 0) + 1
    connection.executemany(
        "UPDATE batch SET open=open-?, reason=? WHERE seq=?",
        [(count, f"{state}:{reason}", batch) for batch, count in batches.items()],
    )
    return _end(connection, list(batches))


def _end(connection: sqlite3.Connection, batches: Sequence[int]) -> list[Ended]:
    """Closes the batches that have no message left. A batch with a message set aside or expired says so."""
    ended = []
    for batch in batches:
        row = connection.execute(
            "SELECT b.id, b.open, b.reason, b.key, b.user, b.audience, c.partition, c.server, c.workspace, b.state"
            " FROM batch b JOIN conversation c ON c.id=b.conversation WHERE b.seq=?",
            (batch,),
        ).fetchone()
        if row is None or row[1] > 0 or row[9] != 0:
            continue
        state, reason = DELIVERED, ""
        if row[2]:
            number, _, reason = row[2].partition(":")
            state = int(number)
        connection.execute("UPDATE batch SET state=?, reason=? WHERE seq=?", (state, reason, batch))
        ended.append(Ended(row[0], state, reason, *row[3:9]))
    return ended


def _check(connection: sqlite3.Connection, lease: Lease) -> None:
    row = connection.execute("SELECT owner, lease FROM conversation WHERE id=?", (lease.conversation,)).fetchone()
    if row is None or row[0] != lease.owner or row[1] != lease.number:
        raise LeaseLost


def _hold(connection: sqlite3.Connection, lease: Lease, now: Reading, lease_time: float) -> None:
    _check(connection, lease)
    connection.execute(
        "UPDATE conversation SET owner_boot=?, owner_until=? WHERE id=?",
        (now.boot, now.seconds + lease_time, lease.conversation),
    )


def _still_there(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[Row]:
    """Without those that were forgotten or expired meanwhile."""
    if not rows:
        return []
    marks = ",".join("?" * len(rows))
    found = {
        row[0] for row in connection.execute(f"SELECT id FROM message WHERE id IN ({marks})", [row.id for row in rows])
    }
    return [row for row in rows if row.id in found]


def _group(connection: sqlite3.Connection, conversation: int, delivery: bytes) -> Group:
    return Group(
        delivery, tuple(_rows(connection, "m.conversation=? AND m.delivery=?", (conversation, delivery), GROUP))
    )


def _rows(connection: sqlite3.Connection, where: str, values: tuple[object, ...], limit: int) -> list[Row]:
    found = connection.execute(
        "SELECT m.id, m.lane, m.batch, b.id, m.position, m.peer, m.text, m.said, m.metadata, m.reasoning, m.strikes,"
        f" b.user, m.delivery FROM message m JOIN batch b ON b.seq=m.batch WHERE {where} ORDER BY m.lane, m.id LIMIT ?",
        (*values, limit),
    )
    return [Row(*row) for row in found]
