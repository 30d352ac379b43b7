"""From an HTTP request to a handler's arguments and back: parsing, the order of checks, authorisation, error bodies.

The order is Honcho's: a body that is not JSON is 422 even without credentials; then 401; then the shape of the request.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from honcho_actors.local import upload
from honcho_actors.local.deriver import Deriver
from honcho_actors.local.errors import Faults, Refused, ServerFault
from honcho_actors.local.llm import Model, NoAnswer
from honcho_actors.local.rules import Field, Rule, boolean, integer, record
from honcho_actors.local.store import Store

MAX_BODY_BYTES = 32 << 20
_log = logging.getLogger("honcho_actors.local")


@dataclass(frozen=True, slots=True)
class Server:
    """What every handler may use."""

    store: Store
    deriver: Deriver
    model: Model | None
    token: str | None
    delay: float


@dataclass(frozen=True, slots=True)
class Call:
    """One request, checked: path parameters, query, body."""

    server: Server
    path: dict[str, str]
    query: dict[str, Any]
    body: Any

    @property
    def store(self) -> Store:
        return self.server.store

    @property
    def workspace(self) -> str:
        return self.path["workspace"]

    @property
    def page(self) -> dict[str, Any]:
        return {name: self.query[name] for name in ("page", "size", "reverse")}


Handler = Callable[[Call], Awaitable[Response]]
PAGE = record(
    {
        "page": Field(integer(1), default=1),
        "size": Field(integer(1, 100), default=50),
        "reverse": Field(boolean, default=False),
    }
)
NO_QUERY = record({})


def reply(body: Any, status: int = 200) -> Response:
    return JSONResponse(body, status)


def page_of(items: list[dict[str, Any]], total: int, call: Call) -> Response:
    page, size = call.query["page"], call.query["size"]
    return reply({"items": items, "total": total, "page": page, "size": size, "pages": -(-total // size)})


def error(status: int, detail: Any) -> Response:
    return JSONResponse({"detail": detail}, status)


def server_fault() -> Response:
    return error(500, "An unexpected error occurred")


def route(
    method: str,
    path: str,
    handler: Handler,
    *,
    query: Rule = NO_QUERY,
    body: Rule | None = None,
    optional: bool = False,
) -> Route:
    """A route; `optional` takes an absent body as an empty object."""

    async def endpoint(request: Request) -> Response:
        server: Server = request.app.state.server
        if server.delay:
            await asyncio.sleep(server.delay)
        try:
            given = await _body(request) if body is not None else None
            _authorised(request, server.token)
            faults = Faults()
            asked = query(dict(request.query_params), ("query",), faults)
            checked: Any = None
            if body is not None:
                if given is None and optional:
                    given = {}
                if given is None:
                    faults.add("missing", ("body",), "Field required", None)
                else:
                    checked = body(given, ("body",), faults)
            faults.raise_if_any()
            return await handler(Call(server, dict(request.path_params), asked, checked))
        except Refused as refused:
            return error(refused.status, refused.detail)
        except (ServerFault, NoAnswer, UnicodeEncodeError) as fault:
            _log.warning("%s %s: %s", method, path, type(fault).__name__)
            return server_fault()

    return Route(path, endpoint, methods=[method])


async def _body(request: Request) -> Any:
    """The parsed body, None when there is none; text of another content type, or of none, stays text, as in Honcho: a
    page in a browser can send that here without being asked, and can't send JSON.
    """
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_BODY_BYTES:
            raise Refused(413, "Request body too large")
    if not raw:
        return None
    content_type = request.headers.get("content-type", "")
    kind = content_type.split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return upload.fields_of(bytes(raw), content_type)
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        return raw.decode("utf-8", "replace")
    try:
        return json.loads(raw, parse_constant=_no_number)
    except json.JSONDecodeError as fault:
        raise Refused(
            422,
            [
                {
                    "type": "json_invalid",
                    "loc": ["body", fault.pos],
                    "msg": "JSON decode error",
                    "input": {},
                    "ctx": {"error": fault.msg},
                }
            ],
        ) from fault
    except (ValueError, RecursionError) as fault:  # no text, too deep, or a number of more digits than are read
        raise Refused(400, "There was an error parsing the body") from fault


def _no_number(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _authorised(request: Request, token: str | None) -> None:
    """One bearer token opens everything; without one configured every header is ignored."""
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        raise Refused(401, "No access token provided")
    if not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise Refused(401, "Invalid JWT")
