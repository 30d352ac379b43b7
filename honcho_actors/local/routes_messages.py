"""The routes of messages and of search: what was said."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from honcho_actors.local import directory, messages, search, tokens, upload, work
from honcho_actors.local.errors import Faults, Loc, Refused
from honcho_actors.local.filters import Condition, compile_filters
from honcho_actors.local.routes_directory import ANY_FILTERS
from honcho_actors.local.rules import Field, array, boolean, integer, mapping, metadata, moments, record, text
from honcho_actors.local.web import PAGE, Call, page_of, reply, route

MAX_QUERY_TOKENS = 8_192


def _plain_message(given: dict[str, Any], value: Any, loc: Loc, faults: Faults) -> None:
    messages.check_tokens(given["content"], value, loc, faults)


_REASONING = record({"enabled": Field(boolean), "custom_instructions": Field(text())})
MESSAGE = record(
    {
        "peer_id": Field(text(), required=True),
        "content": Field(text(0, messages.MAX_CHARS, strip_nul=True), required=True),
        "metadata": Field(metadata),
        "configuration": Field(record({"reasoning": Field(_REASONING)})),
        "created_at": Field(moments),
    },
    after=_plain_message,
)
MESSAGES = record({"messages": Field(array(MESSAGE, 1, messages.MAX_BATCH), required=True)})
MESSAGE_UPDATE = record({"metadata": Field(metadata)})
SEARCH = record(
    {
        "query": Field(text(), required=True),
        "filters": Field(mapping),
        "limit": Field(integer(1, 100), default=10, nullable=False),
    }
)


async def add_messages(call: Call) -> Response:
    made = await call.store.write(messages.add, call.workspace, call.path["session"], call.body["messages"])
    call.server.deriver.wake()
    return reply(made, 201)


def _form(value: Any, loc: Loc, faults: Faults) -> Any:
    batch = upload.messages_of(value)
    return MESSAGES({"messages": batch}, loc, faults)


async def list_messages(call: Call) -> Response:
    items, total = await call.store.read(
        messages.listed, call.workspace, call.path["session"], call.body["filters"], **call.page
    )
    return page_of(items, total, call)


async def get_message(call: Call) -> Response:
    return reply(await call.store.read(messages.get, call.workspace, call.path["session"], call.path["message"]))


async def update_message(call: Call) -> Response:
    shown = await call.store.write(
        messages.update, call.workspace, call.path["session"], call.path["message"], call.body["metadata"]
    )
    return reply(shown)


# --- search -------------------------------------------------------------------------------------------------------


def _search(db: directory.Connection, call: Call, session: str | None, peer: str | None) -> list[dict[str, Any]]:
    parts: list[Any] = [call.workspace]
    scope = "messages.workspace = ?"
    key: int | None = None
    if session is not None:
        found = directory.find_session(db, call.workspace, session)
        key = -1 if found is None else found["pk"]
        scope += " AND messages.session = ?"
        parts.append(key)
    if peer is not None:
        scope += " AND messages.peer = ?"
        parts.append(peer)
    filters = {name: value for name, value in (call.body["filters"] or {}).items() if name != "workspace_id"}
    sql, params = compile_filters(filters, messages.COLUMNS, "Message", session=key)
    where: Condition = (f"{scope} AND ({sql})", [*parts, *params])
    rows = search.messages(db, call.workspace, call.body["query"], call.body["limit"], where)
    names: dict[int, str] = {}
    for row in rows:
        if row["session"] not in names:
            names[row["session"]] = work.session_name(db, row["session"]) or ""
    return [messages.shown(row, names[row["session"]]) for row in rows]


def refuse_tokens(query: str) -> None:
    """Honcho says the same of a query that is too long, of one that spells a control token and of one that is no
    text."""
    spelt = any(token in query for token in messages.SPECIAL_TOKENS)
    if spelt or messages.has_surrogate(query) or tokens.count(query) > MAX_QUERY_TOKENS:
        raise Refused(422, f"Query exceeds maximum token limit of {MAX_QUERY_TOKENS}.")


async def search_workspace(call: Call) -> Response:
    refuse_tokens(call.body["query"])
    return reply(await call.store.read(_search, call, None, None))


async def search_session(call: Call) -> Response:
    refuse_tokens(call.body["query"])
    return reply(await call.store.read(_search, call, call.path["session"], None))


async def search_peer(call: Call) -> Response:
    refuse_tokens(call.body["query"])
    return reply(await call.store.read(_search, call, None, call.path["peer"]))


_W = "/v3/workspaces/{workspace}"
_S = _W + "/sessions/{session}"
ROUTES: list[Route] = [
    route("POST", _S + "/messages", add_messages, body=MESSAGES),
    route("POST", _S + "/messages/", add_messages, body=MESSAGES),
    route("POST", _S + "/messages/upload", add_messages, body=_form),
    route("POST", _S + "/messages/list", list_messages, query=PAGE, body=ANY_FILTERS, optional=True),
    route("GET", _S + "/messages/{message}", get_message),
    route("PUT", _S + "/messages/{message}", update_message, body=MESSAGE_UPDATE),
    route("POST", _W + "/search", search_workspace, body=SEARCH),
    route("POST", _S + "/search", search_session, body=SEARCH),
    route("POST", _W + "/peers/{peer}/search", search_peer, body=SEARCH),
]
