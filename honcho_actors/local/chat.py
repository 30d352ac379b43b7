"""The dialectic: a question about a person, answered by a model where one is configured, by quotation where none is.

Without a model the answer is what was said and concluded that matches the question, under a line that says so;
`null` when nothing matches. It never makes anything up.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass

from honcho_actors.local import conclusions, directory, llm, search
from honcho_actors.local.extract import cut
from honcho_actors.local.llm import Model
from honcho_actors.local.store import Store
from honcho_actors.local.times import line_stamp

Connection = sqlite3.Connection
QUOTES = {"minimal": 3, "low": 5, "medium": 8, "high": 12, "max": 16}
QUOTE_CHARS = 300
HEAD = "Found in what was said (by search; this server has no model and concludes nothing):"


@dataclass(frozen=True, slots=True)
class Question:
    workspace: str
    peer: str
    query: str
    target: str | None = None
    session: str | None = None
    level: str = "low"
    sessions: tuple[str, ...] | None = None
    """The sessions that the answer may draw on; None for all."""


def prepare(db: Connection, question: Question) -> None:
    """Creates the workspace and the asking peer; an unknown target or session is 404."""
    directory.ensure_peer(db, question.workspace, question.peer)
    if question.target is not None:
        directory.need_peer(db, question.workspace, question.target)
    if question.session is not None:
        directory.need_session(db, question.workspace, question.session)


def evidence(db: Connection, question: Question) -> list[str]:
    """Lines that match, best first: conclusions of the pair, then messages of the person, none twice."""
    observed = question.target or question.peer
    limit = QUOTES[question.level]
    rows = conclusions.chosen(
        db,
        question.workspace,
        question.peer,
        observed,
        limit=limit,
        search_query=question.query,
        search_top_k=limit,
        sessions=question.sessions,
    )
    lines = [f"[{line_stamp(row['said_at'])}] {cut(row['content'], QUOTE_CHARS)}" for row in rows]
    scope, params = "messages.workspace = ? AND messages.peer = ?", [question.workspace, observed]
    if question.sessions is not None:
        marks = ",".join("?" * len(question.sessions))
        scope += f" AND messages.session IN (SELECT pk FROM sessions WHERE workspace = ? AND id IN ({marks}))"
        params = [*params, question.workspace, *question.sessions]
    told = " ".join(lines)
    for row in search.messages(db, question.workspace, question.query, limit, (scope, params)):
        text = cut(" ".join(row["content"].split()), QUOTE_CHARS)
        if text not in told:
            lines.append(f"[{line_stamp(row['created_at'])}] {observed} said: {text}")
    return lines[:limit]


async def answer(store: Store, model: Model | None, question: Question) -> str | None:
    """The answer, or None when nothing is known; raises what `prepare` raises, and `NoAnswer`."""
    await store.write(prepare, question)
    lines = await store.read(evidence, question)
    if not lines:
        return None
    found = "\n".join(f"- {line}" for line in lines)
    if model is None:
        return f"{HEAD}\n{found}"
    system = llm.ANSWER.format(peer=question.target or question.peer)
    user = f"Notes and quotations:\n{found}\n\nQuestion: {question.query}"
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(model.threads, model.complete, system, user)
