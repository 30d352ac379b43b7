"""The routes of workspaces, peers, sessions and members."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from honcho_actors.local import directory, messages
from honcho_actors.local.errors import Faults, Loc
from honcho_actors.local.filters import compile_filters
from honcho_actors.local.rules import (
    ID_CHARS,
    Field,
    array,
    boolean,
    identifier,
    integer,
    map_of,
    mapping,
    metadata,
    record,
    text,
)
from honcho_actors.local.web import PAGE, Call, page_of, reply, route

FLAGS = record({"observe_me": Field(boolean), "observe_others": Field(boolean)})
MEMBERS = map_of(FLAGS)


def _summary_order(given: dict[str, Any], value: Any, loc: Loc, faults: Faults) -> None:
    short, long = given["messages_per_short_summary"], given["messages_per_long_summary"]
    if short is not None and long is not None and short >= long:
        message = "Value error, messages_per_short_summary must be less than messages_per_long_summary"
        faults.add("value_error", loc, message, value, {"error": {}})


_KNOWN = {
    "reasoning": record({"enabled": Field(boolean), "custom_instructions": Field(text())}),
    "peer_card": record({"use": Field(boolean), "create": Field(boolean)}),
    "summary": record(
        {
            "enabled": Field(boolean),
            "messages_per_short_summary": Field(integer(10)),
            "messages_per_long_summary": Field(integer(20)),
        },
        after=_summary_order,
    ),
    "dream": record({"enabled": Field(boolean)}),
}


def configuration(value: Any, loc: Loc, faults: Faults) -> Any:
    """Of a workspace or session: known keys are checked and lose what is unknown in them, unknown keys are kept."""
    if not isinstance(value, dict):
        return record({})(value, loc, faults)
    result: dict[str, Any] = {}
    for key, part in value.items():
        if part is None:
            continue
        if key not in _KNOWN:
            result[key] = part
        else:
            checked = _KNOWN[key](part, (*loc, key), faults)
            result[key] = {name: inner for name, inner in checked.items() if inner is not None}
    return result


ANY_FILTERS = record({"filters": Field(mapping)})
WORKSPACE = record(
    {
        "id": Field(identifier(), required=True),
        "metadata": Field(metadata, nullable=False),
        "configuration": Field(configuration, nullable=False),
    }
)
UPDATE = record({"metadata": Field(metadata), "configuration": Field(configuration)})
PEER = record({"id": Field(identifier(), required=True), "metadata": Field(metadata), "configuration": Field(mapping)})
PEER_UPDATE = record({"metadata": Field(metadata), "configuration": Field(mapping)})
SESSION = record(
    {
        "id": Field(identifier(), required=True),
        "metadata": Field(metadata),
        "configuration": Field(configuration),
        "peers": Field(MEMBERS),
    }
)
CLONE = record({"message_id": Field(text(0, ID_CHARS))})


async def create_workspace(call: Call) -> Response:
    given = call.body
    row, made = await call.store.write(
        directory.ensure_workspace, given["id"], given["metadata"], given["configuration"]
    )
    return reply(directory.shown_workspace(row), 201 if made else 200)


async def update_workspace(call: Call) -> Response:
    row = await call.store.write(
        directory.update_workspace, call.workspace, call.body["metadata"], call.body["configuration"]
    )
    return reply(directory.shown_workspace(row))


async def list_workspaces(call: Call) -> Response:
    where = compile_filters(call.body["filters"], directory.WORKSPACE_COLUMNS, "Workspace")
    key = "created_at, id" if not call.query["reverse"] else "created_at DESC, id"
    rows, total = await call.store.read(directory.listed, "workspaces", where, key=key, **call.page)
    return page_of([directory.shown_workspace(row) for row in rows], total, call)


async def delete_workspace(call: Call) -> Response:
    await call.store.write(directory.delete_workspace, call.workspace)
    return reply({"message": "Workspace deletion accepted"}, 202)


async def create_peer(call: Call) -> Response:
    given = call.body
    row, made = await call.store.write(
        directory.ensure_peer, call.workspace, given["id"], given["metadata"], given["configuration"]
    )
    return reply(directory.shown_peer(row), 201 if made else 200)


async def update_peer(call: Call) -> Response:
    row, _ = await call.store.write(
        directory.ensure_peer, call.workspace, call.path["peer"], call.body["metadata"], call.body["configuration"]
    )
    return reply(directory.shown_peer(row))


async def list_peers(call: Call) -> Response:
    sql, params = compile_filters(call.body["filters"], directory.PEER_COLUMNS, "Peer")
    where = (f"workspace = ? AND ({sql})", [call.workspace, *params])
    rows, total = await call.store.read(directory.listed, "peers", where, **call.page)
    return page_of([directory.shown_peer(row) for row in rows], total, call)


async def list_sessions_of_peer(call: Call) -> Response:
    sql, params = compile_filters(call.body["filters"], directory.SESSION_COLUMNS, "Session")
    where = (
        f"workspace = ? AND is_active AND pk IN (SELECT session FROM members WHERE peer = ?) AND ({sql})",
        [call.workspace, call.path["peer"], *params],
    )
    rows, total = await call.store.read(directory.listed, "sessions", where, **call.page)
    return page_of([directory.shown_session(row) for row in rows], total, call)


async def create_session(call: Call) -> Response:
    given = call.body

    def do(db: directory.Connection) -> tuple[directory.Row, bool]:
        made = directory.ensure_session(db, call.workspace, given["id"], given["metadata"], given["configuration"])
        if given["peers"]:
            directory.join(db, made[0], given["peers"])
        return made

    row, made = await call.store.write(do)
    return reply(directory.shown_session(row), 201 if made else 200)


async def update_session(call: Call) -> Response:
    row, _ = await call.store.write(
        directory.ensure_session,
        call.workspace,
        call.path["session"],
        call.body["metadata"],
        call.body["configuration"],
    )
    return reply(directory.shown_session(row))


async def list_sessions(call: Call) -> Response:
    sql, params = compile_filters(call.body["filters"], directory.SESSION_COLUMNS, "Session")
    where = (f"workspace = ? AND is_active AND ({sql})", [call.workspace, *params])
    rows, total = await call.store.read(directory.listed, "sessions", where, **call.page)
    return page_of([directory.shown_session(row) for row in rows], total, call)


async def delete_session(call: Call) -> Response:
    await call.store.write(directory.delete_session, call.workspace, call.path["session"])
    return reply({"message": "Session deleted successfully"}, 202)


async def clone_session(call: Call) -> Response:
    row = await call.store.write(messages.clone, call.workspace, call.path["session"], call.query["message_id"])
    return reply(directory.shown_session(row), 201)


async def add_members(call: Call) -> Response:
    def do(db: directory.Connection) -> directory.Row:
        row, _ = directory.ensure_session(db, call.workspace, call.path["session"])
        directory.join(db, row, call.body)
        return row

    return reply(directory.shown_session(await call.store.write(do)))


async def set_members(call: Call) -> Response:
    def do(db: directory.Connection) -> directory.Row:
        row = directory.need_session(db, call.workspace, call.path["session"])
        directory.replace_members(db, row, call.body)
        return row

    return reply(directory.shown_session(await call.store.write(do)))


async def remove_members(call: Call) -> Response:
    def do(db: directory.Connection) -> directory.Row:
        row = directory.need_session(db, call.workspace, call.path["session"])
        directory.leave(db, row, call.body)
        return row

    return reply(directory.shown_session(await call.store.write(do)))


async def list_members(call: Call) -> Response:
    def do(db: directory.Connection) -> tuple[list[directory.Row], int]:
        found = directory.find_session(db, call.workspace, call.path["session"])
        key = -1 if found is None else found["pk"]
        present = "SELECT peer FROM members WHERE session = ? AND left_at IS NULL"
        where = (f"workspace = ? AND id IN ({present})", [call.workspace, key])
        return directory.listed(db, "peers", where, **call.page)

    rows, total = await call.store.read(do)
    return page_of([directory.shown_peer(row) for row in rows], total, call)


async def get_member(call: Call) -> Response:
    row = await call.store.read(directory.member_flags, call.workspace, call.path["session"], call.path["peer"])
    return reply({name: None if row[name] is None else bool(row[name]) for name in ("observe_me", "observe_others")})


async def set_member(call: Call) -> Response:
    await call.store.write(
        directory.set_member_flags, call.workspace, call.path["session"], call.path["peer"], call.body
    )
    return Response(status_code=204)


_W = "/v3/workspaces/{workspace}"
_S = _W + "/sessions/{session}"
ROUTES: list[Route] = [
    route("POST", "/v3/workspaces", create_workspace, body=WORKSPACE),
    route("POST", "/v3/workspaces/list", list_workspaces, query=PAGE, body=ANY_FILTERS, optional=True),
    route("PUT", _W, update_workspace, body=UPDATE),
    route("DELETE", _W, delete_workspace),
    route("POST", _W + "/peers", create_peer, body=PEER),
    route("POST", _W + "/peers/list", list_peers, query=PAGE, body=ANY_FILTERS, optional=True),
    route("PUT", _W + "/peers/{peer}", update_peer, body=PEER_UPDATE),
    route("POST", _W + "/peers/{peer}/sessions", list_sessions_of_peer, query=PAGE, body=ANY_FILTERS, optional=True),
    route("POST", _W + "/sessions", create_session, body=SESSION),
    route("POST", _W + "/sessions/list", list_sessions, query=PAGE, body=ANY_FILTERS, optional=True),
    route("PUT", _S, update_session, body=UPDATE),
    route("DELETE", _S, delete_session),
    route("POST", _S + "/clone", clone_session, query=CLONE),
    route("POST", _S + "/peers", add_members, body=MEMBERS),
    route("PUT", _S + "/peers", set_members, body=MEMBERS),
    route("DELETE", _S + "/peers", remove_members, body=array(text())),
    route("GET", _S + "/peers", list_members, query=PAGE),
    route("GET", _S + "/peers/{peer}/config", get_member),
    route("PUT", _S + "/peers/{peer}/config", set_member, body=FLAGS),
]
"""Everything that names things, nothing that holds text."""
