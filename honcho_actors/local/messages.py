"""What was said: kept in the order of arrival, a batch whole or not at all, found by page, filter and metadata."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from honcho_actors.local import directory, summaries, tokens
from honcho_actors.local.errors import Faults, Loc, ServerFault, not_found
from honcho_actors.local.filters import Column, compile_filters, indexed_pairs
from honcho_actors.local.ids import new_id
from honcho_actors.local.times import Moment, iso, now_us

Row = sqlite3.Row
Connection = sqlite3.Connection

MAX_BATCH = 100
MAX_CHARS = 25_000
COLUMNS = {
    "workspace_id": Column("messages.workspace", "text"),
    "peer_id": Column("messages.peer", "text"),
    "token_count": Column("messages.token_count", "number"),
    "created_at": Column("messages.created_at", "time"),
    "metadata": Column("messages.metadata", "json", indexed="messages.pk"),
    "session_id": Column("(SELECT s.id FROM sessions s WHERE s.pk = messages.session)", "text"),
}


def shown(row: Row, session: str) -> dict[str, Any]:
    return {
        "id": row["id"],
        "content": row["content"],
        "peer_id": row["peer"],
        "session_id": session,
        "metadata": json.loads(row["metadata"]),
        "created_at": iso(row["created_at"]),
        "workspace_id": row["workspace"],
        "token_count": row["token_count"],
    }


def observers_of(db: Connection, session: Row, peer: str) -> list[str]:
    """Who keeps a view of what `peer` says here: itself, then the members that observe others; none if unobserved."""
    row = db.execute("SELECT * FROM members WHERE session = ? AND peer = ?", (session["pk"], peer)).fetchone()
    observe_me = None if row is None else row["observe_me"]
    if observe_me is None:
        configuration = json.loads(directory.need_peer(db, session["workspace"], peer)["configuration"])
        stored = configuration.get("observe_me")
        observe_me = stored if isinstance(stored, bool) else True
    if not observe_me:
        return []
    others = db.execute(
        "SELECT peer FROM members WHERE session = ? AND left_at IS NULL AND observe_others AND peer <> ? "
        "ORDER BY joined_at, peer",
        (session["pk"], peer),
    )
    return [peer, *(other["peer"] for other in others)]


def reasoning_on(*configurations: Any) -> bool:
    """The first of message, session and workspace that says anything decides; silence means on."""
    for configuration in configurations:
        enabled = ((configuration or {}).get("reasoning") or {}).get("enabled")
        if enabled is not None:
            return bool(enabled)
    return True


def _queue(db: Connection, session: Row, message: int | None, kind: str, peer: str, observers: list[str]) -> None:
    db.execute(
        "INSERT INTO work(session, workspace, message, kind, observed, observers) VALUES(?, ?, ?, ?, ?, ?)",
        (session["pk"], session["workspace"], message, kind, peer, json.dumps(observers)),
    )


def add(db: Connection, workspace: str, session: str, batch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stores a batch, creating what it names, and queues what is to be derived from it."""
    directory.check_peer_names([message["peer_id"] for message in batch])
    if not directory.sound(session):
        raise ServerFault(session)
    row, _ = directory.ensure_session(db, workspace, session)
    speakers = list(dict.fromkeys(message["peer_id"] for message in batch))
    directory.join(db, row, {peer: {} for peer in speakers})
    observers = {peer: observers_of(db, row, peer) for peer in speakers}
    session_configuration = json.loads(row["configuration"])
    workspace_row, _ = directory.ensure_workspace(db, workspace)
    workspace_configuration = json.loads(workspace_row["configuration"])
    pace = summaries.cadence(session_configuration, workspace_configuration)
    spoken = row["message_count"]
    stamp = now_us()
    answer: list[dict[str, Any]] = []
    for message in batch:
        said: Moment | None = message["created_at"]
        metadata = message["metadata"] or {}
        peer = message["peer_id"]
        cost = tokens.count(message["content"])
        key = new_id()
        done = db.execute(
            "INSERT INTO messages(id, session, workspace, peer, content, metadata, created_at, token_count) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                row["pk"],
                workspace,
                peer,
                message["content"],
                json.dumps(metadata),
                said.us if said is not None else stamp,
                cost,
            ),
        )
        pk = done.lastrowid
        db.executemany(
            "INSERT INTO message_keys VALUES(?, ?, ?, ?)",
            [(row["pk"], name, value, pk) for name, value in indexed_pairs(metadata)],
        )
        on = reasoning_on(message["configuration"], session_configuration, workspace_configuration)
        if on and observers[peer] and message["content"].strip():
            _queue(db, row, pk, "observe", peer, observers[peer])
        spoken += 1
        for kind, every in (("short", pace.short), ("long", pace.long)):
            if pace.enabled and spoken % every == 0:
                _queue(db, row, pk, kind, peer, [])
        answer.append(
            {
                "id": key,
                "content": message["content"],
                "peer_id": peer,
                "session_id": session,
                "metadata": metadata,
                "created_at": said.echo if said is not None else iso(stamp),
                "workspace_id": workspace,
                "token_count": cost,
            }
        )
    db.execute("UPDATE sessions SET message_count = message_count + ? WHERE pk = ?", (len(batch), row["pk"]))
    return answer


def listed(
    db: Connection, workspace: str, session: str, filters: Any, *, page: int, size: int, reverse: bool
) -> tuple[list[dict[str, Any]], int]:
    """One page in order of arrival (`reverse`: newest first). The count of an unfiltered list costs nothing."""
    row = directory.find_session(db, workspace, session)
    key = -1 if row is None else row["pk"]
    sql, params = compile_filters(filters, COLUMNS, "Message", session=key)
    if row is None:
        return [], 0
    where = f"messages.session = ? AND ({sql})"
    if sql == "1":
        total: int = row["message_count"]
    else:
        total = db.execute(f"SELECT count(*) FROM messages WHERE {where}", [key, *params]).fetchone()[0]
    offset = (page - 1) * size
    if offset >= total:
        return [], total
    order = "DESC" if reverse else "ASC"
    rows = db.execute(
        f"SELECT * FROM messages WHERE {where} ORDER BY pk {order} LIMIT ? OFFSET ?", [key, *params, size, offset]
    ).fetchall()
    return [shown(found, session) for found in rows], total


def need(db: Connection, workspace: str, session: str, message: str, refusal: str) -> Row:
    owner = directory.find_session(db, workspace, session)
    found: Row | None = None
    if owner is not None:
        found = db.execute("SELECT * FROM messages WHERE id = ? AND session = ?", (message, owner["pk"])).fetchone()
    if found is None:
        raise not_found(refusal)
    return found


def get(db: Connection, workspace: str, session: str, message: str) -> dict[str, Any]:
    return shown(need(db, workspace, session, message, f"Message with ID {message} not found"), session)


def update(db: Connection, workspace: str, session: str, message: str, metadata: Any) -> dict[str, Any]:
    found = need(db, workspace, session, message, "Message not found")
    if metadata is not None:
        db.execute("UPDATE messages SET metadata = ? WHERE pk = ?", (json.dumps(metadata), found["pk"]))
        db.execute("DELETE FROM message_keys WHERE message = ?", (found["pk"],))
        db.executemany(
            "INSERT INTO message_keys VALUES(?, ?, ?, ?)",
            [(found["session"], name, value, found["pk"]) for name, value in indexed_pairs(metadata)],
        )
    return get(db, workspace, session, message)


def clone(db: Connection, workspace: str, session: str, until: str | None) -> Row:
    """A new session with copies of the messages (up to `until`, inclusive) and members.

    As in Honcho, copies carry the clone's time and count as 0 tokens, and nothing is derived from them.
    """
    origin = directory.find_session(db, workspace, session)
    if origin is None:
        raise not_found("Original session not found")
    last = None
    if until is not None:
        last = db.execute("SELECT pk FROM messages WHERE id = ? AND session = ?", (until, origin["pk"])).fetchone()
        if last is None:
            raise not_found("Session not found")
    made, _ = directory.ensure_session(
        db, workspace, new_id(), json.loads(origin["metadata"]), json.loads(origin["configuration"])
    )
    db.execute(
        "INSERT INTO members SELECT ?, peer, observe_me, observe_others, joined_at, NULL FROM members "
        "WHERE session = ? AND left_at IS NULL",
        (made["pk"], origin["pk"]),
    )
    rows = db.execute(
        "SELECT * FROM messages WHERE session = ? AND pk <= ? ORDER BY pk",
        (origin["pk"], last["pk"] if last is not None else 1 << 62),
    ).fetchall()
    for row in rows:
        done = db.execute(
            "INSERT INTO messages(id, session, workspace, peer, content, metadata, created_at, token_count) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, 0)",
            (new_id(), made["pk"], workspace, row["peer"], row["content"], row["metadata"], made["created_at"]),
        )
        db.executemany(
            "INSERT INTO message_keys VALUES(?, ?, ?, ?)",
            [(made["pk"], *pair, done.lastrowid) for pair in indexed_pairs(json.loads(row["metadata"]))],
        )
    db.execute("UPDATE sessions SET message_count = ? WHERE pk = ?", (len(rows), made["pk"]))
    return made


SPECIAL_TOKENS = ("<|endoftext|>", "<|endofprompt|>")
_SURROGATE = re.compile("[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether the text holds half of a character: no encoding has a form for it."""
    return _SURROGATE.search(text) is not None


def check_tokens(text: str, value: Any, loc: Loc, faults: Faults) -> None:
    """Honcho's tokenizer refuses a text that spells one of its control tokens; so does this server."""
    for token in SPECIAL_TOKENS:
        if token in text:
            message = f"Value error, the text spells the tokenizer's control token '{token}', which is not accepted"
            faults.add("value_error", loc, message, value, {"error": {}})
