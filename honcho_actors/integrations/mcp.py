"""Memory's tools over the Model Context Protocol: for whoever hosts the model, over stdio or streamable HTTP.

    honcho-actors mcp --session garden --user ann          # stdio: one person, one conversation, one process
    honcho-actors mcp --http --port 8487                   # HTTP: a token, and who is talking in each request's headers

MCP adds nothing to a prompt unasked, so these are the tools alone (`docs/tools.md`), by recall mode, and a resource
`honcho://status`. Who is talking is said when the server is started, or by `x-honcho-session` and `x-honcho-user` of
an HTTP request that carries the token; a model never says it. Without both a tool refuses. Extra: `mcp`.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.proxy.naming import MAX_NAME, audience_in, ours, scope_in
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from honcho_actors.runtime import Memory

needed("mcp", extra="mcp")

import mcp_types as types  # noqa: E402 - after the words on how to install it
from mcp.server.lowlevel.server import Server  # noqa: E402
from mcp.server.stdio import stdio_server  # noqa: E402

STATUS_URI: Final = "honcho://status"
MAX_SESSIONS: Final = 1_000
"""Connections over HTTP at once."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def server(memory: Memory, request: TurnRequest | None = None) -> Server[Any]:
    """A server of the SDK with memory's tools. `request`: who is talking where no HTTP header says so."""

    async def list_tools(context: ServerRequestContext[Any, Any], _: Any) -> types.ListToolsResult:
        shown = memory.tool_schemas(talking_in(context.request, request), style="mcp")
        return types.ListToolsResult(
            tools=[
                types.Tool(name=one["name"], description=one["description"], input_schema=one["inputSchema"])
                for one in shown
            ]
        )

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        found = await memory.acall_tool(params.name, params.arguments, talking_in(context.request, request))
        return types.CallToolResult(
            content=[types.TextContent(text=found.text)],
            structured_content={"outcome": str(found.outcome)},
            is_error=found.error is not None,
        )

    async def list_resources(context: ServerRequestContext[Any, Any], _: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=STATUS_URI, name="status", description="Whether memory works.", mime_type="application/json"
                )
            ]
        )

    async def read_resource(
        context: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if str(params.uri) != STATUS_URI:
            raise ValueError(f"there is no resource {str(params.uri)[:200]!r}; there is {STATUS_URI}")
        text = json.dumps(told(memory))
        contents = types.TextResourceContents(uri=STATUS_URI, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "honcho-actors",
        version=memory.status().version,
        instructions="What is remembered of the person in this conversation, and a place to remember more.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def told(memory: Memory) -> dict[str, Any]:
    """What the resource says: of the runtime as a whole, nothing of any person."""
    status = memory.status()
    return {
        "state": str(status.state),
        "health": status.health,
        "version": status.version,
        "uptime": round(status.uptime, 1),
        "pending_turns": status.outbox.get("pending_turns"),
    }


def talking_in(http: Any, bound: TurnRequest | None) -> TurnRequest | None:
    """Who is talking in a request: what its headers say, else whom the server was started for."""
    if http is None:
        return bound
    found = ours([(name, value) for name, value in http.headers.raw])
    if "session" not in found and "user" not in found:
        return bound
    session, user = found.get("session"), found.get("user")
    if not session or not user or len(session) > MAX_NAME or len(user) > MAX_NAME:
        return None
    return TurnRequest(
        session_key=session,
        user=user,
        scope=scope_in(found),
        audience=audience_in(found),
    )


async def serve_stdio(memory: Memory, request: TurnRequest | None) -> None:
    """One connection over stdin and stdout, which belong to the protocol while it lasts; until stdin ends."""
    serving = server(memory, request)
    async with stdio_server() as (reading, writing):
        await serving.run(reading, writing, serving.create_initialization_options())


def http_app(memory: Memory, token: str, request: TurnRequest | None = None, *, host: str = "127.0.0.1") -> App:
    """An ASGI app with the server at `/mcp`. Every request carries `Authorization: Bearer <token>`, else 401. On a
    loopback host other names for it are refused (a page that a browser was led to)."""
    if not token:
        raise ValueError("an HTTP server needs a token")
    return Guarded(server(memory, request).streamable_http_app(host=host, max_sessions=MAX_SESSIONS), token)


class Guarded:
    """An app behind a token."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._expected = b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._allowed(scope):
            await send(
                {
                    "type": "http.response.start",
                    "status": 401,
                    "headers": [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")],
                }
            )
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)
