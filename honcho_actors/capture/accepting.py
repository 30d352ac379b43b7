"""Putting into the outbox: one turn as one batch of messages, once, in the order in which it was admitted.

Functions on an open connection, inside the writer's transaction. A batch id that is already there, or that an import
brought in earlier, changes nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from honcho_actors.capture.clocks import said_at
from honcho_actors.capture.content import Draft, storable, turn_digest
from honcho_actors.capture.schema import ACCEPTED, NO_SERVER
from honcho_actors.model import Realm

_PLACE = "server=? AND workspace=? AND partition=? AND session=?"


@dataclass(frozen=True, slots=True)
class Accepted:
    """One turn in the outbox. `fresh` is False for a batch that was there before; `state` is then that batch's."""

    conversation: int
    fresh: bool
    state: int = ACCEPTED
    reason: str = ""
    earlier: bytes | None = None
    """The id under which it was accepted, where that is not the one that it has now."""


class Conversations:
    """Row numbers of conversations, remembered. `last_said` is kept here between rows of one transaction."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, str], list[int]] = {}

    def forget(self) -> None:
        """After a rollback, or when another process may have written: everything is read again."""
        self._known.clear()

    def find(self, connection: sqlite3.Connection, realm: Realm, session: str) -> list[int]:
        """[row number, last time said in microseconds], made when absent."""
        key = (realm.server, realm.workspace, storable(realm.partition), session)
        known = self._known.get(key)
        if known is not None:
            return known
        orphan = (NO_SERVER, *key[1:])
        if len(self._known) >= 50_000 or key == orphan:  # what goes to a server next looks for this one first
            self._known.clear()
        if key != orphan:
            waits = connection.execute(f"SELECT id FROM conversation WHERE {_PLACE}", orphan).fetchone()
            if waits is not None:  # said before there was a server, so it stands before
                self._known.pop(orphan, None)
                _adopt(connection, waits[0], key)
        connection.execute(
            "INSERT INTO conversation(server, workspace, partition, session) VALUES(?,?,?,?) ON CONFLICT DO NOTHING",
            key,
        )
        row = connection.execute(f"SELECT id, last_said FROM conversation WHERE {_PLACE}", key).fetchone()
        place = self._known[key] = [row[0], row[1]]
        return place


def accept(
    connection: sqlite3.Connection, conversations: Conversations, draft: Draft, *, wall_us: int, age: float, keep: bool
) -> Accepted:
    """Writes one turn. `keep`: its batch id is remembered for ever (imports), not only for the delivered window."""
    identity = draft.identity
    place = conversations.find(connection, identity.realm, identity.remote_session)
    earlier = None if draft.earlier is None else _accepted_before(connection, draft.earlier, place[0])
    if earlier is not None:
        return earlier
    if keep:
        made = connection.execute("INSERT INTO imported(id) VALUES(?) ON CONFLICT DO NOTHING", (draft.batch_id,))
        if made.rowcount == 0:
            return _known(connection, draft.batch_id)
    inserted = connection.execute(
        "INSERT INTO batch(id, conversation, key, user, audience, turn_id, open, accepted, born)"
        " VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO NOTHING",
        (
            draft.batch_id,
            place[0],
            storable(identity.session.key),
            identity.user_peer,
            identity.session.audience,
            draft.turn_id,
            len(draft.pieces),
            wall_us,
            age,
        ),
    )
    if inserted.rowcount == 0:
        return _known(connection, draft.batch_id)
    batch, said = inserted.lastrowid, place[1]
    rows = []
    for position, piece in enumerate(draft.pieces):
        said = said_at(draft.at_us + piece.offset_us, said)
        rows.append((place[0], batch, position, piece.peer, piece.text, said, piece.metadata))
    connection.executemany(
        "INSERT INTO message(conversation, batch, position, peer, text, said, metadata) VALUES(?,?,?,?,?,?,?)", rows
    )
    if said != place[1]:
        place[1] = said
        connection.execute("UPDATE conversation SET last_said=max(last_said, ?) WHERE id=?", (said, place[0]))
    return Accepted(place[0], True)


def _known(connection: sqlite3.Connection, batch_id: bytes) -> Accepted:
    row = connection.execute("SELECT conversation, state, reason FROM batch WHERE id=?", (batch_id,)).fetchone()
    return Accepted(0, False, 1) if row is None else Accepted(row[0], False, row[1], row[2])


def _accepted_before(connection: sqlite3.Connection, batch_id: bytes, conversation: int) -> Accepted | None:
    """The same turn of this conversation, if it was accepted before there was a server to name in its id."""
    row = connection.execute(
        "SELECT state, reason FROM batch WHERE id=? AND conversation=?", (batch_id, conversation)
    ).fetchone()
    return None if row is None else Accepted(conversation, False, row[0], row[1], batch_id)


def adopt(connection: sqlite3.Connection, server: str) -> int:
    """Gives what was accepted before any server was configured to this one. Returns the number of conversations; one
    whose turn has not come yet is left for the next time.
    """
    if server == NO_SERVER:
        return 0
    orphans = connection.execute(
        "SELECT id, workspace, partition, session FROM conversation WHERE server=?", (NO_SERVER,)
    ).fetchall()
    return sum(_adopt(connection, number, (server, *place)) for number, *place in orphans)


def _adopt(connection: sqlite3.Connection, number: int, place: tuple[str, ...]) -> bool:
    home = connection.execute(f"SELECT id FROM conversation WHERE {_PLACE}", place).fetchone()
    _remember_imports(connection, number, place)
    if home is None:
        connection.execute("UPDATE conversation SET server=? WHERE id=?", (place[0], number))
        return True
    overtaken = connection.execute(
        "SELECT 1 FROM message WHERE conversation=? AND delivery IS NOT NULL"
        " AND id > (SELECT min(id) FROM message WHERE conversation=?) LIMIT 1",
        (home[0], number),
    ).fetchone()
    if overtaken is not None:
        return False  # what is *sending* stands at the head of its conversation, where whoever comes next looks for it
    for table in ("message", "batch", "aside"):
        connection.execute(f"UPDATE {table} SET conversation=? WHERE conversation=?", (home[0], number))
    connection.execute("UPDATE OR IGNORE fork SET child=? WHERE child=?", (home[0], number))
    connection.execute("DELETE FROM fork WHERE child=?", (number,))
    connection.execute(
        "UPDATE conversation SET last_said=max(last_said, (SELECT last_said FROM conversation WHERE id=?)) WHERE id=?",
        (number, home[0]),
    )
    connection.execute("DELETE FROM conversation WHERE id=?", (number,))
    return True


def _remember_imports(connection: sqlite3.Connection, number: int, place: tuple[str, ...]) -> None:
    """What was imported before there was a server is known under the id that names this one, too, for ever."""
    server, workspace, partition, _ = place
    found = connection.execute(
        "SELECT b.key, b.user, b.turn_id FROM batch b JOIN imported i ON i.id=b.id WHERE b.conversation=?", (number,)
    ).fetchall()
    connection.executemany(
        "INSERT INTO imported(id) VALUES(?) ON CONFLICT DO NOTHING",
        [(turn_digest(server, workspace, partition, *row),) for row in found if row[2]],
    )
