"""Forks of a conversation: a durable record with zero network, then a copy of the parent, once, before the child's own
words.

Functions on an open connection, inside the writer's transaction. The copy stands in lane 0 of the child, before
everything that was said there; it is one batch like any other, so that it is delivered exactly once. Page by page it is
read from the server, and the page that comes next is committed with the rows of the one before.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from honcho_actors.capture.accepting import Conversations
from honcho_actors.capture.delivering import Lease, _check
from honcho_actors.privacy.identity import Identity


class FreshReason(StrEnum):
    """Why a child starts with nothing of its parent. Closed: ledger, `status` and `doctor` use these words."""

    NO_RECORD = "no_record"
    """The ledger does not know the parent, on this server and workspace."""
    NO_ANCHOR = "no_anchor"
    """The turn to fork at is not known, or no longer: it fell out of the window, or the server does not have it."""
    PARENT_EMPTY = "parent_empty"
    """Nothing of the parent up to that turn is on the server."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A fork whose copy is still to be made: read the parent's messages from `page` on, up to `anchor` (inclusive)."""

    fork_id: bytes
    session: str
    anchor: str
    page: int
    copied: int


@dataclass(frozen=True, slots=True)
class WaitForParent:
    """The parent has turns up to the fork that are not delivered yet."""

    parent: int


@dataclass(frozen=True, slots=True)
class Resolved:
    """There is nothing (more) to copy: the copy is complete, or the child starts fresh."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """One message of the parent, as it is to be copied."""

    source: str
    peer: str
    text: str
    said: int
    metadata: str


def record(
    connection: sqlite3.Connection,
    conversations: Conversations,
    child: Identity,
    parent: Identity,
    at: str | None,
    *,
    wall_us: int,
) -> bool:
    """Writes the record of a fork. False when the child already has one, or has already been spoken in."""
    place = conversations.find(connection, child.realm, child.remote_session)
    if connection.execute("SELECT 1 FROM batch WHERE conversation=? LIMIT 1", (place[0],)).fetchone():
        return False
    home = _find(connection, child, parent.remote_session)
    newest = None
    if at is None and home is not None:
        newest = connection.execute("SELECT max(seq) FROM batch WHERE conversation=?", (home,)).fetchone()[0]
    key = "\0".join((*child.realm, child.remote_session)).encode("utf-8", "surrogatepass")
    made = connection.execute(
        "INSERT INTO fork(child, id, parent_session, at_turn, at_seq, made) VALUES(?,?,?,?,?,?) ON CONFLICT DO NOTHING",
        (place[0], hashlib.sha256(b"fork" + key).digest()[:16], parent.remote_session, at, newest, wall_us),
    )
    return made.rowcount == 1


def consult(connection: sqlite3.Connection, lease: Lease) -> Pending | WaitForParent | Resolved:
    """What is to be done for a child before its first delivery; a fork that can't be is resolved here, with the
    reason."""
    _check(connection, lease)
    row = connection.execute(
        "SELECT id, parent_session, at_turn, at_seq, page, copied FROM fork WHERE child=? AND state='pending'",
        (lease.conversation,),
    ).fetchone()
    if row is None:
        return Resolved()
    fork_id, session, at_turn, at_seq, page, copied = row
    parent = connection.execute(
        "SELECT p.id FROM conversation p JOIN conversation c ON p.server=c.server AND p.workspace=c.workspace AND"
        " p.partition=c.partition WHERE c.id=? AND p.session=?",
        (lease.conversation, session),
    ).fetchone()
    if parent is None:
        return resolve(connection, lease, FreshReason.NO_RECORD)
    if at_turn is not None:
        found = connection.execute(
            "SELECT seq FROM batch WHERE conversation=? AND turn_id=? ORDER BY seq DESC LIMIT 1", (parent[0], at_turn)
        ).fetchone()
        if found is None:
            return resolve(connection, lease, FreshReason.NO_ANCHOR)
        at_seq = found[0]
    if at_seq is None:
        return resolve(connection, lease, FreshReason.PARENT_EMPTY)
    owed = connection.execute(
        "SELECT 1 FROM message WHERE conversation=? AND (batch<=? OR lane=0) LIMIT 1", (parent[0], at_seq)
    ).fetchone()
    forking = connection.execute("SELECT 1 FROM fork WHERE child=? AND state='pending'", (parent[0],)).fetchone()
    if owed or forking:
        return WaitForParent(parent[0])
    anchor = connection.execute(
        "SELECT anchor FROM batch WHERE conversation=? AND seq<=? AND anchor IS NOT NULL ORDER BY seq DESC LIMIT 1",
        (parent[0], at_seq),
    ).fetchone()
    if anchor is None:
        return resolve(connection, lease, FreshReason.PARENT_EMPTY)
    return Pending(fork_id, session, anchor[0], page, copied)


def copy_page(
    connection: sqlite3.Connection, lease: Lease, fork: Pending, copies: Sequence[Copy], *, complete: bool, wall_us: int
) -> Pending | Resolved:
    """Puts one page of the parent into lane 0 of the child; `complete`: it ended with the anchor."""
    if complete and not copies and not fork.copied:
        return resolve(connection, lease, FreshReason.PARENT_EMPTY)  # all of it was withheld
    _check(connection, lease)
    child = lease.conversation
    batch = connection.execute("SELECT seq FROM batch WHERE id=?", (fork.fork_id,)).fetchone()
    if batch is None:
        owner = connection.execute(
            "SELECT key, user, audience FROM batch WHERE conversation=? LIMIT 1", (child,)
        ).fetchone()
        key, user, audience = owner or ("", "", "private")
        born = connection.execute("SELECT coalesce(max(born), 0) FROM batch WHERE conversation=?", (child,)).fetchone()[
            0
        ]
        batch = (
            connection.execute(
                "INSERT INTO batch(id, conversation, key, user, audience, open, accepted, born)"
                " VALUES(?,?,?,?,?,0,?,?)",
                (fork.fork_id, child, key, user, audience, wall_us, born),
            ).lastrowid,
        )
    rows = [
        (
            child,
            batch[0],
            fork.copied + place,
            copy.peer,
            copy.text,
            copy.said,
            json.dumps({**json.loads(copy.metadata), "fork": fork.fork_id.hex(), "copied_from": copy.source}),
        )
        for place, copy in enumerate(copies)
    ]
    connection.executemany(
        "INSERT INTO message(conversation, lane, batch, position, peer, text, said, metadata, reasoning)"
        " VALUES(?,0,?,?,?,?,?,?,0)",
        rows,
    )
    connection.execute("UPDATE batch SET open=open+? WHERE seq=?", (len(rows), batch[0]))
    connection.execute(
        "UPDATE fork SET page=page+1, copied=copied+?, state=CASE WHEN ? THEN 'copied' ELSE 'pending' END"
        " WHERE child=?",
        (len(rows), complete, child),
    )
    if complete:
        return Resolved()
    return Pending(fork.fork_id, fork.session, fork.anchor, fork.page + 1, fork.copied + len(rows))


def resolve(connection: sqlite3.Connection, lease: Lease, reason: FreshReason) -> Resolved:
    """The child starts fresh, with the reason in the ledger; what was copied so far is taken back."""
    _check(connection, lease)
    connection.execute(
        "DELETE FROM message WHERE conversation=? AND lane=0 AND delivery IS NULL", (lease.conversation,)
    )
    connection.execute(
        "DELETE FROM batch WHERE id=(SELECT id FROM fork WHERE child=?) AND state=0", (lease.conversation,)
    )
    connection.execute(
        "UPDATE fork SET state='fresh', reason=?, copied=0 WHERE child=?", (reason.value, lease.conversation)
    )
    return Resolved(reason.value)


def _find(connection: sqlite3.Connection, like: Identity, session: str) -> int | None:
    row = connection.execute(
        "SELECT id FROM conversation WHERE server=? AND workspace=? AND partition=? AND session=?",
        (*like.realm, session),
    ).fetchone()
    return None if row is None else int(row[0])
