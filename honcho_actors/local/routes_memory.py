"""The routes of contexts, conclusions, cards, chat and the queue: what is known, as far as it is."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from honcho_actors.local import chat, conclusions, context, directory, messages, summaries, tokens, work
from honcho_actors.local.errors import Faults, Loc, Refused, ServerFault
from honcho_actors.local.llm import NoAnswer
from honcho_actors.local.routes_directory import ANY_FILTERS
from honcho_actors.local.routes_messages import refuse_tokens
from honcho_actors.local.rules import (
    Field,
    array,
    boolean,
    integer,
    literal,
    mapping,
    number,
    record,
    text,
)
from honcho_actors.local.web import PAGE, Call, page_of, reply, route

MAX_CONCLUSION_CHARS = 65_535
MAX_CONCLUSION_TOKENS = 8_192
MAX_QUERY_CHARS = 10_000
MAX_CONTEXT_TOKENS = 100_000
REPRESENTATION_DEFAULT = 25
MAX_SESSIONS_IN_FILTER = 1_000
_log = logging.getLogger("honcho_actors.local")


def _plain_conclusion(given: dict[str, Any], value: Any, loc: Loc, faults: Faults) -> None:
    messages.check_tokens(given["content"], value, loc, faults)
    cost = tokens.count(given["content"])
    if cost > MAX_CONCLUSION_TOKENS:
        message = (
            f"Value error, Content exceeds maximum embedding token limit of {MAX_CONCLUSION_TOKENS} (about {cost})"
        )
        faults.add("value_error", loc, message, value, {"error": {}})


CONCLUSION = record(
    {
        "content": Field(text(1, MAX_CONCLUSION_CHARS, strip_nul=True), required=True),
        "observer_id": Field(text(), required=True),
        "observed_id": Field(text(), required=True),
        "session_id": Field(text()),
    },
    after=_plain_conclusion,
)
CONCLUSIONS = record({"conclusions": Field(array(CONCLUSION, 1, 100), required=True, alias="observations")})
CONCLUSION_QUERY = record(
    {
        "query": Field(text(), required=True),
        "top_k": Field(integer(1, 100), default=10, nullable=False),
        "distance": Field(number(0.0, 1.0)),
        "filters": Field(mapping),
    }
)
CARD = record({"peer_card": Field(array(text(strip_nul=True)), required=True)})
TARGET = record({"target": Field(text())})
_SEARCHED = {
    "search_query": Field(text()),
    "search_top_k": Field(integer(1, 100)),
    "search_max_distance": Field(number(0.0, 1.0)),
}
CONTEXT = record(
    {
        **_SEARCHED,
        "tokens": Field(integer(None, MAX_CONTEXT_TOKENS)),
        "summary": Field(boolean, default=True),
        "peer_target": Field(text()),
        "peer_perspective": Field(text()),
        "include_most_frequent": Field(boolean, default=False),
        "max_conclusions": Field(integer(1, 100)),
        "limit_to_session": Field(boolean, default=False),
    }
)
PEER_CONTEXT = record(
    {
        **_SEARCHED,
        "target": Field(text()),
        "include_most_frequent": Field(boolean, default=True),
        "max_conclusions": Field(integer(1, 100), default=context.MAX_CONCLUSIONS),
    }
)
REPRESENTATION = record(
    {
        **_SEARCHED,
        "target": Field(text()),
        "session_id": Field(text()),
        "filters": Field(mapping),
        "include_most_frequent": Field(boolean, default=False),
        "max_conclusions": Field(integer(1, 100), default=REPRESENTATION_DEFAULT),
    }
)
CHAT = record(
    {
        "query": Field(text(1, MAX_QUERY_CHARS), required=True),
        "stream": Field(boolean, default=False, nullable=False),
        "session_id": Field(text()),
        "target": Field(text()),
        "reasoning_level": Field(literal("minimal", "low", "medium", "high", "max"), default="low", nullable=False),
        "filters": Field(mapping),
        "response_format": Field(mapping),
    }
)
QUEUE = record({"session_id": Field(text()), "observer_id": Field(text()), "sender_id": Field(text())})
DREAM = record(
    {
        "observer": Field(text(), required=True),
        "observed": Field(text()),
        "dream_type": Field(literal("omni", "card_refresh", kind="enum"), required=True),
        "session_id": Field(text()),
        "rebuild": Field(boolean, default=False),
    }
)


# --- contexts -----------------------------------------------------------------------------------------------------


async def session_context(call: Call) -> Response:
    wanted = {name: value for name, value in call.query.items() if name != "search_max_distance"}
    for name in ("peer_target", "peer_perspective"):
        wanted[name] = wanted[name] or None
    shown = await call.store.read(
        context.session_context, call.workspace, call.path["session"], context.Wanted(**wanted)
    )
    return reply(shown)


async def session_summaries(call: Call) -> Response:
    return reply(await call.store.read(summaries.both, call.workspace, call.path["session"]))


async def peer_context(call: Call) -> Response:
    shown = await call.store.read(
        context.peer_context,
        call.workspace,
        call.path["peer"],
        target=call.query["target"],
        limit=call.query["max_conclusions"],
        search_query=call.query["search_query"],
        search_top_k=call.query["search_top_k"],
        most_frequent=call.query["include_most_frequent"],
    )
    return reply(shown)


def _sessions_of(filters: dict[str, Any] | None, session: str | None) -> list[str] | None:
    """The allowlist that a representation or a chat is held to; None for no limit."""
    unknown = [key for key in filters or {} if key != "session_id"]
    if unknown:
        raise Refused(422, f"Unsupported filter key(s) for this endpoint: {unknown}. Only 'session_id' is supported.")
    given = (filters or {}).get("session_id")
    if isinstance(given, dict) and list(given) == ["in"]:
        given = given["in"]
    allowed: list[str] | None = None
    if isinstance(given, str):
        allowed = [given]
    elif isinstance(given, list) and all(isinstance(name, str) for name in given):
        allowed = given[: MAX_SESSIONS_IN_FILTER + 1]
    elif given is not None:
        raise Refused(422, 'filters.session_id must be a session id, a list of session ids, or {"in": [...]}')
    if allowed is not None and len(allowed) > MAX_SESSIONS_IN_FILTER:
        raise Refused(422, f"At most {MAX_SESSIONS_IN_FILTER} sessions may be named")
    if session is None:
        return allowed
    if allowed is not None and session not in allowed:
        raise Refused(422, "session_id must be included in filters.session_id")
    return [session]


async def representation(call: Call) -> Response:
    given = call.body
    peer = call.path["peer"]
    rows = await call.store.read(
        conclusions.chosen,
        call.workspace,
        peer,
        given["target"] or peer,
        limit=given["max_conclusions"],
        sessions=_sessions_of(given["filters"], given["session_id"]),
        search_query=given["search_query"],
        search_top_k=given["search_top_k"],
        most_frequent=given["include_most_frequent"],
    )
    return reply({"representation": conclusions.written(rows)})


# --- cards and conclusions ----------------------------------------------------------------------------------------


async def get_card(call: Call) -> Response:
    def do(db: directory.Connection) -> str | None:
        peer = call.path["peer"]
        directory.need_peer(db, call.workspace, peer)
        return conclusions.card(db, call.workspace, peer, call.query["target"] or peer)

    lines = await call.store.read(do)
    return reply({"peer_card": None if lines is None else json.loads(lines)})


async def put_card(call: Call) -> Response:
    peer, lines = call.path["peer"], call.body["peer_card"]
    await call.store.write(conclusions.set_card, call.workspace, peer, call.query["target"] or peer, json.dumps(lines))
    return reply({"peer_card": lines})


async def create_conclusions(call: Call) -> Response:
    return reply(await call.store.write(conclusions.create, call.workspace, call.body["conclusions"]), 201)


async def list_conclusions(call: Call) -> Response:
    items, total = await call.store.read(conclusions.listed, call.workspace, call.body["filters"], **call.page)
    return page_of(items, total, call)


async def query_conclusions(call: Call) -> Response:
    given = call.body
    refuse_tokens(given["query"])
    found = await call.store.read(conclusions.query, call.workspace, given["query"], given["top_k"], given["filters"])
    return reply(found)


async def delete_conclusion(call: Call) -> Response:
    await call.store.write(conclusions.delete, call.workspace, call.path["conclusion"])
    return Response(status_code=204)


# --- chat and queue -----------------------------------------------------------------------------------------------


async def ask(call: Call) -> Response:
    given = call.body
    if given["response_format"] is not None and given["response_format"].get("type") != "object":
        raise Refused(422, "Invalid response_format: root schema must have type 'object'")
    sessions = _sessions_of(given["filters"], given["session_id"] or None)
    question = chat.Question(
        call.workspace,
        call.path["peer"],
        given["query"],
        target=given["target"],
        session=given["session_id"] or None,
        level=given["reasoning_level"],
        sessions=None if sessions is None else tuple(sessions),
    )
    if given["stream"]:
        return StreamingResponse(_streamed(call, question), media_type="text/event-stream")
    return reply({"content": await chat.answer(call.store, call.server.model, question)})


async def _streamed(call: Call, question: chat.Question) -> AsyncIterator[str]:
    """As in Honcho, a failure inside a stream has no status: the stream ends and `done: true` never came."""
    try:
        answer = await chat.answer(call.store, call.server.model, question)
    except (Refused, NoAnswer, ServerFault, UnicodeEncodeError) as fault:
        _log.warning("chat stream ended without an answer: %s", fault)
        return
    for piece in re.findall(r"\S+\s*", answer or ""):
        yield f"data: {json.dumps({'delta': {'content': piece}, 'done': False})}\n\n"
        await asyncio.sleep(0)
    yield f"data: {json.dumps({'done': True})}\n\n"


async def queue_status(call: Call) -> Response:
    shown = await call.store.read(
        work.status,
        call.workspace,
        session=call.query["session_id"],
        observer=call.query["observer_id"],
        sender=call.query["sender_id"],
    )
    return reply(shown)


async def schedule_dream(call: Call) -> Response:
    """Taken and not done: this server has no dreams; what it derives, it derives at once."""
    return Response(status_code=204)


async def make_key(call: Call) -> Response:
    raise Refused(405, "Feature is disabled")


_W = "/v3/workspaces/{workspace}"
_S = _W + "/sessions/{session}"
_P = _W + "/peers/{peer}"
ROUTES: list[Route] = [
    route("GET", _S + "/context", session_context, query=CONTEXT),
    route("GET", _S + "/summaries", session_summaries),
    route("GET", _P + "/context", peer_context, query=PEER_CONTEXT),
    route("POST", _P + "/representation", representation, body=REPRESENTATION),
    route("GET", _P + "/card", get_card, query=TARGET),
    route("PUT", _P + "/card", put_card, query=TARGET, body=CARD),
    route("POST", _P + "/chat", ask, body=CHAT),
    route("POST", _W + "/conclusions", create_conclusions, body=CONCLUSIONS),
    route("POST", _W + "/conclusions/list", list_conclusions, query=PAGE, body=ANY_FILTERS, optional=True),
    route("POST", _W + "/conclusions/query", query_conclusions, body=CONCLUSION_QUERY),
    route("DELETE", _W + "/conclusions/{conclusion}", delete_conclusion),
    route("GET", _W + "/queue/status", queue_status, query=QUEUE),
    route("POST", _W + "/schedule_dream", schedule_dream, body=DREAM),
    route("POST", "/v3/keys", make_key),
]
