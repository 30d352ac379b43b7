"""Summaries of a session: a short one every 20 messages, a long one every 60, or as the configuration says."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from honcho_actors.local import directory, tokens
from honcho_actors.local.times import now_us, second_text

Row = sqlite3.Row
Connection = sqlite3.Connection
KINDS = {"short": "honcho_chat_summary_short", "long": "honcho_chat_summary_long"}


@dataclass(frozen=True, slots=True)
class Cadence:
    """Messages between two summaries of a kind."""

    enabled: bool
    short: int
    long: int


def cadence(*configurations: Mapping[str, Any]) -> Cadence:
    """From the session's configuration, else the workspace's, else Honcho's defaults, each value by itself."""
    found: dict[str, Any] = {}
    for configuration in reversed(configurations):
        given = configuration.get("summary")
        if isinstance(given, dict):
            found.update({key: value for key, value in given.items() if value is not None})
    return Cadence(
        enabled=bool(found.get("enabled", True)),
        short=int(found.get("messages_per_short_summary", 20)),
        long=int(found.get("messages_per_long_summary", 60)),
    )


def shown(row: Row) -> dict[str, Any]:
    return {
        "content": row["content"],
        "message_id": row["message_id"],
        "summary_type": KINDS[row["kind"]],
        "created_at": second_text(row["created_at"]),
        "token_count": row["token_count"],
    }


def _kept(db: Connection, session: int) -> dict[str, Row]:
    return {row["kind"]: row for row in db.execute("SELECT * FROM summaries WHERE session = ?", (session,))}


def fitting(db: Connection, session: int, share: float) -> Row | None:
    """The long one if it fits and is longer than the short one; else the short one if it fits; else none."""
    kept = _kept(db, session)
    short, long = kept.get("short"), kept.get("long")
    longer = long is not None and (short is None or long["token_count"] > short["token_count"])
    if long is not None and longer and long["token_count"] <= share:
        return long
    if short is not None and short["token_count"] <= share:
        return short
    return None


def both(db: Connection, workspace: str, session: str) -> dict[str, Any]:
    row = directory.find_session(db, workspace, session)
    kept = {} if row is None else _kept(db, row["pk"])
    return {
        "id": session,
        "short_summary": shown(kept["short"]) if "short" in kept else None,
        "long_summary": shown(kept["long"]) if "long" in kept else None,
    }


def store(db: Connection, session: int, kind: str, content: str, message: Row) -> None:
    db.execute(
        "INSERT OR REPLACE INTO summaries VALUES(?, ?, ?, ?, ?, ?, ?)",
        (session, kind, content, message["pk"], message["id"], now_us(), tokens.count(content)),
    )
