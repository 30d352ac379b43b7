"""Workspaces, peers, sessions and members: get-or-create, update, list, delete, with Honcho's merge rules.

| object | metadata given for an existing one | configuration given for an existing one |
|---|---|---|
| workspace, created again | ignored | ignored |
| workspace, updated | replaced | merged by top-level key |
| peer, created again or updated | replaced | replaced |
| session, created again or updated | replaced | merged by top-level key |
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from honcho_actors.local.errors import Refused, ServerFault, no_peer, no_session, not_found
from honcho_actors.local.filters import Column, Condition
from honcho_actors.local.ids import new_id
from honcho_actors.local.rules import ID, ID_CHARS, ID_PATTERN
from honcho_actors.local.times import iso, now_us

MAX_OBSERVERS = 10
"""Peers with `observe_others` in one session (Honcho's default setting)."""

Row = sqlite3.Row
Connection = sqlite3.Connection

WORKSPACE_COLUMNS = {
    "id": Column("id", "text"),
    "created_at": Column("created_at", "time"),
    "metadata": Column("metadata", "json"),
}
PEER_COLUMNS = {**WORKSPACE_COLUMNS, "workspace_id": Column("workspace", "text")}
SESSION_COLUMNS = {**PEER_COLUMNS, "is_active": Column("is_active", "flag")}


def shown_workspace(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "metadata": json.loads(row["metadata"]),
        "configuration": json.loads(row["configuration"]),
        "created_at": iso(row["created_at"]),
    }


def shown_peer(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "workspace_id": row["workspace"],
        "created_at": iso(row["created_at"]),
        "metadata": json.loads(row["metadata"]),
        "configuration": json.loads(row["configuration"]),
    }


def shown_session(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "is_active": bool(row["is_active"]),
        "workspace_id": row["workspace"],
        "metadata": json.loads(row["metadata"]),
        "configuration": json.loads(row["configuration"]),
        "created_at": iso(row["created_at"]),
    }


# --- looking without creating -------------------------------------------------------------------------------------


def find_workspace(db: Connection, workspace: str) -> Row | None:
    found: Row | None = db.execute("SELECT * FROM workspaces WHERE id = ?", (workspace,)).fetchone()
    return found


def find_peer(db: Connection, workspace: str, peer: str) -> Row | None:
    found: Row | None = db.execute("SELECT * FROM peers WHERE workspace = ? AND id = ?", (workspace, peer)).fetchone()
    return found


def need_peer(db: Connection, workspace: str, peer: str) -> Row:
    found = find_peer(db, workspace, peer)
    if found is None:
        raise no_peer(peer, workspace)
    return found


def find_session(db: Connection, workspace: str, session: str) -> Row | None:
    """The session, or None when it never was; a deleted one is refused with 404, whoever asks."""
    found: Row | None = db.execute(
        "SELECT * FROM sessions WHERE workspace = ? AND id = ?", (workspace, session)
    ).fetchone()
    if found is not None and not found["is_active"]:
        raise no_session(session, workspace)
    return found


def need_session(db: Connection, workspace: str, session: str) -> Row:
    found = find_session(db, workspace, session)
    if found is None:
        raise no_session(session, workspace)
    return found


def listed(
    db: Connection, table: str, where: Condition, *, page: int, size: int, reverse: bool, key: str = "pk"
) -> tuple[list[Row], int]:
    """One page of a table in order of creation, and how many rows there are in all."""
    sql, params = where
    total = db.execute(f"SELECT count(*) FROM {table} WHERE {sql}", params).fetchone()[0]
    order = "DESC" if reverse else "ASC"
    rows = db.execute(
        f"SELECT * FROM {table} WHERE {sql} ORDER BY {key} {order} LIMIT ? OFFSET ?",
        [*params, size, (page - 1) * size],
    ).fetchall()
    return rows, total


# --- get or create ------------------------------------------------------------------------------------------------


def sound(name: str) -> bool:
    """Whether a name keeps the id rule; a path may name anything."""
    return len(name) <= ID_CHARS and ID.fullmatch(name) is not None


def ensure_workspace(
    db: Connection, workspace: str, metadata: Mapping[str, Any] | None = None, configuration: Any = None
) -> tuple[Row, bool]:
    """An existing workspace is returned unchanged, whatever is given."""
    if not sound(workspace):
        raise ServerFault(workspace)
    made = db.execute(
        "INSERT INTO workspaces VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (workspace, json.dumps(metadata or {}), json.dumps(configuration or {}), now_us()),
    )
    row = find_workspace(db, workspace)
    assert row is not None
    return row, made.rowcount == 1


def update_workspace(db: Connection, workspace: str, metadata: Any, configuration: Any) -> Row:
    row, _ = ensure_workspace(db, workspace)
    db.execute(
        "UPDATE workspaces SET metadata = ?, configuration = ? WHERE id = ?",
        (
            row["metadata"] if metadata is None else json.dumps(metadata),
            json.dumps({**json.loads(row["configuration"]), **(configuration or {})}),
            workspace,
        ),
    )
    return ensure_workspace(db, workspace)[0]


def ensure_peer(
    db: Connection, workspace: str, peer: str, metadata: Any = None, configuration: Any = None
) -> tuple[Row, bool]:
    check_peer_names([peer])
    ensure_workspace(db, workspace)
    made = db.execute(
        "INSERT INTO peers(workspace, id, metadata, configuration, created_at) VALUES(?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (workspace, peer, json.dumps(metadata or {}), json.dumps(configuration or {}), now_us()),
    )
    if made.rowcount != 1:
        for column, value in (("metadata", metadata), ("configuration", configuration)):
            if value is not None:
                db.execute(
                    f"UPDATE peers SET {column} = ? WHERE workspace = ? AND id = ?",
                    (json.dumps(value), workspace, peer),
                )
    return need_peer(db, workspace, peer), made.rowcount == 1


def ensure_session(
    db: Connection, workspace: str, session: str, metadata: Any = None, configuration: Any = None
) -> tuple[Row, bool]:
    ensure_workspace(db, workspace)
    if not sound(session):
        raise not_found("Session not found")
    row = find_session(db, workspace, session)
    if row is None:
        db.execute(
            "INSERT INTO sessions(uid, workspace, id, is_active, metadata, configuration, created_at) "
            "VALUES(?, ?, ?, 1, ?, ?, ?)",
            (new_id(), workspace, session, json.dumps(metadata or {}), json.dumps(configuration or {}), now_us()),
        )
        return need_session(db, workspace, session), True
    if metadata is not None or configuration is not None:
        db.execute(
            "UPDATE sessions SET metadata = ?, configuration = ? WHERE pk = ?",
            (
                row["metadata"] if metadata is None else json.dumps(metadata),
                json.dumps({**json.loads(row["configuration"]), **(configuration or {})}),
                row["pk"],
            ),
        )
        row = need_session(db, workspace, session)
    return row, False


# --- members ------------------------------------------------------------------------------------------------------


def check_peer_names(names: list[str]) -> None:
    bad = [name for name in names if not sound(name)]
    if bad:
        raise Refused(422, f"Peer name(s) {bad} must match pattern {ID_PATTERN}")


def join(db: Connection, session: Row, members: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds members; one that is a member already keeps its stored observation flags, one that had left takes the new
    ones."""
    check_peer_names(list(members))
    stamp = now_us()
    for peer, flags in members.items():
        ensure_peer(db, session["workspace"], peer)
        db.execute(
            "INSERT INTO members VALUES(?, ?, ?, ?, ?, NULL) ON CONFLICT DO UPDATE SET "
            "observe_me = excluded.observe_me, observe_others = excluded.observe_others, "
            "joined_at = excluded.joined_at, left_at = NULL WHERE left_at IS NOT NULL",
            (session["pk"], peer, flags.get("observe_me"), flags.get("observe_others"), stamp),
        )
    observers = db.execute(
        "SELECT count(*) FROM members WHERE session = ? AND left_at IS NULL AND observe_others", (session["pk"],)
    ).fetchone()[0]
    if observers > MAX_OBSERVERS:
        raise Refused(
            400,
            f"Cannot create session {session['id']} with {observers} observers. Maximum allowed is {MAX_OBSERVERS} "
            "observers per session. Observers are peers with 'observe_others' set to true.",
        )


def replace_members(db: Connection, session: Row, members: Mapping[str, Mapping[str, Any]]) -> None:
    """All leave and the named ones join anew, those who were members with their new flags, too."""
    db.execute("UPDATE members SET left_at = ? WHERE session = ? AND left_at IS NULL", (now_us(), session["pk"]))
    join(db, session, members)


def leave(db: Connection, session: Row, peers: list[str]) -> None:
    """Who has left is no member; the flags, and that the session was one of theirs, are kept as in Honcho."""
    stamp = now_us()
    db.executemany(
        "UPDATE members SET left_at = ? WHERE session = ? AND peer = ? AND left_at IS NULL",
        [(stamp, session["pk"], peer) for peer in peers],
    )


def member_flags(db: Connection, workspace: str, session: str, peer: str) -> Row:
    """Also of one that has left."""
    row: Row | None = db.execute(
        "SELECT m.* FROM members m JOIN sessions s ON s.pk = m.session "
        "WHERE s.workspace = ? AND s.id = ? AND s.is_active AND m.peer = ?",
        (workspace, session, peer),
    ).fetchone()
    if row is None:
        need_peer(db, workspace, peer)
        raise not_found(f"Session peer {peer} not found in session {session} in workspace {workspace}")
    return row


def set_member_flags(db: Connection, workspace: str, session: str, peer: str, flags: Mapping[str, Any]) -> None:
    """Merges: what is not given stays. Somebody who never was a member becomes one; one that has left stays away."""
    found = need_session(db, workspace, session)
    need_peer(db, workspace, peer)
    db.execute(
        "INSERT INTO members(session, peer, joined_at) VALUES(?, ?, ?) ON CONFLICT DO NOTHING",
        (found["pk"], peer, now_us()),
    )
    for name in ("observe_me", "observe_others"):
        if flags.get(name) is not None:
            db.execute(
                f"UPDATE members SET {name} = ? WHERE session = ? AND peer = ?", (flags[name], found["pk"], peer)
            )
    join(db, found, {})


# --- deletion -----------------------------------------------------------------------------------------------------


def delete_session(db: Connection, workspace: str, session: str) -> None:
    """Erases what was said and concluded in it; its id answers 404 until the server starts again."""
    row = need_session(db, workspace, session)
    for table in ("messages", "members", "summaries", "work"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (row["pk"],))
    db.execute("DELETE FROM conclusions WHERE workspace = ? AND session = ?", (workspace, session))
    db.execute("UPDATE sessions SET is_active = 0, message_count = 0 WHERE pk = ?", (row["pk"],))


def delete_workspace(db: Connection, workspace: str) -> None:
    if find_workspace(db, workspace) is None:
        raise not_found(f"Workspace {workspace} not found")
    active = db.execute("SELECT 1 FROM sessions WHERE workspace = ? AND is_active LIMIT 1", (workspace,)).fetchone()
    if active is not None:
        raise Refused(
            409, f"Cannot delete workspace '{workspace}': active session(s) remain. Delete all sessions first."
        )
    for table in ("conclusions", "cards", "peers", "sessions"):
        db.execute(f"DELETE FROM {table} WHERE workspace = ?", (workspace,))
    db.execute("DELETE FROM workspaces WHERE id = ?", (workspace,))
