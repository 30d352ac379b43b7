"""The session context: what fits into a token budget, by Honcho's rules, at a cost that no session length changes."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from honcho_actors.local import conclusions, directory, messages, summaries, tokens
from honcho_actors.local.errors import Refused

Connection = sqlite3.Connection
DEFAULT_TOKENS = 100_000
SUMMARY_SHARE = 0.4
MAX_CONCLUSIONS = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """The query of a session context, with the defaults of the contract."""

    tokens: int | None = None
    summary: bool = True
    peer_target: str | None = None
    peer_perspective: str | None = None
    search_query: str | None = None
    search_top_k: int | None = None
    include_most_frequent: bool = False
    max_conclusions: int | None = None
    limit_to_session: bool = False


def session_context(db: Connection, workspace: str, session: str, wanted: Wanted) -> dict[str, Any]:
    """An unknown session is empty, not an error; an unknown target or perspective is 404."""
    if wanted.peer_perspective is not None and wanted.peer_target is None:
        raise Refused(422, "peer_target must be provided if peer_perspective is provided")
    representation: str | None = None
    card: str | None = None
    if wanted.peer_target is not None:
        observer = wanted.peer_perspective or wanted.peer_target
        for peer in (wanted.peer_target, observer):
            directory.need_peer(db, workspace, peer)
        representation = conclusions.written(
            conclusions.chosen(
                db,
                workspace,
                observer,
                wanted.peer_target,
                limit=wanted.max_conclusions or MAX_CONCLUSIONS,
                sessions=[session] if wanted.limit_to_session else None,
                explicit_only=wanted.limit_to_session,
                search_query=wanted.search_query,
                search_top_k=wanted.search_top_k,
                most_frequent=wanted.include_most_frequent,
            )
        )
        if not wanted.limit_to_session:
            card = conclusions.card(db, workspace, observer, wanted.peer_target)
    budget = DEFAULT_TOKENS if wanted.tokens is None else wanted.tokens
    lines = None if card is None else json.loads(card)
    budget -= tokens.count(representation or "") + tokens.count("\n".join(lines or ()))
    said: list[dict[str, Any]] = []
    summary: dict[str, Any] | None = None
    row = directory.find_session(db, workspace, session)
    if row is not None and budget > 0:
        first = 0
        if wanted.summary:
            chosen = summaries.fitting(db, row["pk"], budget * SUMMARY_SHARE)
            if chosen is not None:
                summary = summaries.shown(chosen)
                first = chosen["message"]
                budget -= chosen["token_count"]
        said = _newest(db, row["pk"], session, first, budget)
    return {
        "id": session,
        "messages": said,
        "summary": summary,
        "peer_representation": representation,
        "peer_card": lines,
    }


def _newest(db: Connection, key: int, session: str, first: int, budget: float) -> list[dict[str, Any]]:
    """Whole messages, contiguous from the newest, until the budget is used; oldest first."""
    taken: list[dict[str, Any]] = []
    rows = db.execute("SELECT * FROM messages WHERE session = ? AND pk >= ? ORDER BY pk DESC", (key, first))
    for row in rows:
        budget -= row["token_count"]
        if budget < 0:
            break
        taken.append(messages.shown(row, session))
    rows.close()
    taken.reverse()
    return taken


def peer_context(
    db: Connection,
    workspace: str,
    peer: str,
    *,
    target: str | None,
    limit: int,
    search_query: str | None,
    search_top_k: int | None,
    most_frequent: bool,
) -> dict[str, Any]:
    directory.need_peer(db, workspace, peer)
    observed = target or peer
    rows = conclusions.chosen(
        db,
        workspace,
        peer,
        observed,
        limit=limit,
        search_query=search_query,
        search_top_k=search_top_k,
        most_frequent=most_frequent,
    )
    card = conclusions.card(db, workspace, peer, observed)
    return {
        "peer_id": peer,
        "target_id": observed,
        "representation": conclusions.written(rows),
        "peer_card": None if card is None else json.loads(card),
    }
