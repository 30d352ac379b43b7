"""`honcho_search`: what was said (messages) or what was concluded (facts, with their ids), inside exactly one scope.

`session` is this conversation; `mine` is what the asking person wrote, in any conversation; `workspace` is everything,
and is refused unless the settings say that one person is alone in it (`pin_user_peer`). A scope is never widened: a
conversation that the server does not know has no messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any, Final

from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import Conclusion, Message
from honcho_actors.privacy.egress import Field, Screened
from honcho_actors.satellite.tools.answers import (
    ToolError,
    ToolResult,
    excerpt,
    failed,
    missing,
    nothing,
    numbered,
    recalled,
    refusal,
)
from honcho_actors.satellite.tools.arguments import QUERY_CHARS, Arguments
from honcho_actors.satellite.tools.desk import Definition, Desk, Work
from honcho_actors.settings import Settings

MOST_HITS: Final = 100
SCOPES: Final = ("session", "mine", "workspace")
_PLACES: Final = {
    "session": "in this conversation",
    "mine": "in what this user wrote in any conversation",
    "workspace": "in the whole workspace",
}
HOW_TO_DELETE: Final = "A wrong fact is deleted with honcho_conclude, giving its id as `delete_id`."


def plan(given: object, settings: Settings) -> Work | ToolResult:
    """Reads a call of `honcho_search`."""
    arguments = Arguments(given, ("query", "scope", "facts", "limit"))
    scope = arguments.choice("scope", SCOPES, "session")
    facts = arguments.flag("facts")
    limit = arguments.whole("limit", settings.search_limit, MOST_HITS)
    query = arguments.text("query", QUERY_CHARS, Field.SEARCH)
    if scope == "workspace" and not facts and not settings.pin_user_peer:
        return refusal(
            ToolError.NOT_ALLOWED,
            "Refused: `scope` workspace would show what other people said. Use session or mine.",
            parameter="scope",
        )

    async def run(desk: Desk) -> ToolResult:
        if facts:
            return await search_facts(desk, query, limit)
        return await search_messages(desk, query, scope, limit)

    return Work(settings.request_timeout, run)


async def search_messages(desk: Desk, query: Screened, scope: str, limit: int) -> ToolResult:
    """The nearest messages of one scope."""
    if scope == "workspace" and desk.asker.request.partition:
        return refusal(ToolError.NOT_ALLOWED, "Refused: `scope` workspace would leave this user's partition.")
    client, workspace, call = desk.client, desk.workspace, desk.call
    found: Outcome[tuple[Message, ...]]
    if scope == "session":
        found = await client.session_search(workspace, await desk.session(), query, limit=limit, call=call)
    elif scope == "mine":
        found = await client.peer_search(workspace, desk.peer, query, limit=limit, call=call)
    else:
        found = await client.workspace_search(workspace, query, limit=limit, call=call)
    if isinstance(found, Failure) and not missing(found) and found.kind is not FailureKind.NOTHING_KNOWN:
        return failed(found)
    rows = found.value if isinstance(found, Ok) else ()
    room = desk.settings.tool_preview_chars
    hits = [
        {"peer": desk.speaker(one.peer), "time": _time(one), "text": text}
        for one in rows[:limit]
        if (text := excerpt(one.text, room))
    ]
    said: dict[str, Any] = {"scope": scope, "limit": limit, "count": len(hits), "excerpts": hits}
    if not hits:
        return nothing(f"Nothing found: no message {_PLACES[scope]} is stored for this query.", **said)
    head = f"{_counted(len(hits), 'message')} {_PLACES[scope]} (scope: {scope}), nearest first:"
    body = numbered((f"{hit['peer']} · {hit['time']}", hit["text"]) for hit in hits)
    return recalled(head, body, **said)


async def search_facts(desk: Desk, query: Screened, limit: int) -> ToolResult:
    """The nearest conclusions about the asking person, each with the id that deletes it."""
    found = await desk.client.query_conclusions(
        desk.workspace, query, observer=desk.peer, observed=desk.peer, top_k=limit, call=desk.call
    )
    if isinstance(found, Failure) and not missing(found) and found.kind is not FailureKind.NOTHING_KNOWN:
        return failed(found)
    rows = found.value if isinstance(found, Ok) else ()
    hits = facts(rows[:limit], desk)
    said: dict[str, Any] = {"scope": "facts", "limit": limit, "count": len(hits), "facts": hits}
    if not hits:
        return nothing("Nothing found: no fact about this user is stored for this query.", **said)
    return recalled(
        f"{_counted(len(hits), 'fact')} about this user, nearest first:",
        numbered((f"id {hit['id']}", hit["text"]) for hit in hits),
        HOW_TO_DELETE,
        **said,
    )


def facts(rows: Iterable[Conclusion], desk: Desk) -> list[dict[str, Any]]:
    """Conclusions of the slot as they may be shown; one of another slot is left out, whatever the server sent."""
    room = desk.settings.tool_preview_chars
    return [
        {"id": excerpt(one.id, 100), "text": text}
        for one in rows
        if one.observer == desk.peer and one.observed == desk.peer and (text := excerpt(one.text, room))
    ]


def _time(message: Message) -> str:
    when = message.created_at
    return "time unknown" if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


SEARCH: Final = Definition(
    "honcho_search",
    "honcho_search",
    "Searches what was said before. Gives back the nearest stored messages as short excerpts with speaker and time, "
    "or, with facts=true, remembered facts about the user with their ids. Cheap: no model is called. It returns the "
    "nearest there is, so a hit need not answer the question. Use it for exact words, dates and sources.",
    {
        "query": {"type": "string", "description": "What to look for, in plain words; at most 1500 characters count."},
        "scope": {
            "type": "string",
            "enum": SCOPES,
            "default": "session",
            "description": "session: this conversation. mine: what this user wrote, in all conversations. workspace: "
            "everything; refused unless one person is alone in it. Without meaning for facts.",
        },
        "facts": {
            "type": "boolean",
            "default": False,
            "description": "true searches remembered facts about the user and shows the id of each.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_HITS,
            "description": "How many hits at most, 1 to 100.",
        },
    },
    ("query",),
    plan,
)
