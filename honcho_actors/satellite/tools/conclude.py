"""`honcho_conclude`: stores one fact about the person, looks facts up, or deletes one by its id; exactly one of them.

`honcho_remember` is the first of these alone, for a fact that belongs to no conversation. A fact is told as stored, or
as deleted, only when reading the same slot back says so; an id that is not of this person's slot is not found.
"""

from __future__ import annotations

import re
from typing import Final

from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import Conclusion
from honcho_actors.privacy.egress import Field, Screened
from honcho_actors.satellite.tools.answers import (
    ToolError,
    ToolResult,
    answered,
    excerpt,
    failed,
    missing,
    recalled,
    refusal,
)
from honcho_actors.satellite.tools.arguments import CONCLUSION_CHARS, QUERY_CHARS, Arguments, Wrong, screened
from honcho_actors.satellite.tools.desk import Definition, Desk, Work
from honcho_actors.satellite.tools.search import search_facts
from honcho_actors.settings import Settings

TOP_K: Final = 10
MOST_FACTS: Final = 50
_ACTIONS: Final = ("conclusion", "query", "delete_id")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


def plan(given: object, settings: Settings) -> Work | ToolResult:
    """Reads a call of `honcho_conclude`."""
    arguments = Arguments(given, (*_ACTIONS, "top_k"))
    wanted = [name for name in _ACTIONS if arguments.string(name)]
    top_k = arguments.whole("top_k", TOP_K, MOST_FACTS)
    if len(wanted) != 1:
        raise Wrong(f"exactly one of {', '.join(_ACTIONS)} must be given and not be blank")
    if wanted == ["query"]:
        query = arguments.text("query", QUERY_CHARS, Field.SEARCH)

        async def look(desk: Desk) -> ToolResult:
            return await search_facts(desk, query, top_k)

        return Work(settings.request_timeout, look)
    if wanted == ["conclusion"]:
        return _creating(arguments, "conclusion", settings, in_session=True)
    identity = arguments.string("delete_id").strip()
    if not _ID.fullmatch(identity):
        raise Wrong("`delete_id` must be an id as honcho_search with facts=true or `query` shows it")
    screened(identity, "delete_id", 100, Field.ARGUMENT)

    async def remove(desk: Desk) -> ToolResult:
        return await delete(desk, identity)

    return Work(settings.request_timeout, remove, writes=True)


def plan_remember(given: object, settings: Settings) -> Work | ToolResult:
    """Reads a call of `honcho_remember`."""
    return _creating(Arguments(given, ("content",)), "content", settings, in_session=False)


def _creating(arguments: Arguments, name: str, settings: Settings, *, in_session: bool) -> Work:
    fact = arguments.text(name, CONCLUSION_CHARS, Field.CONCLUSION, longest=CONCLUSION_CHARS)

    async def run(desk: Desk) -> ToolResult:
        return await create(desk, fact, in_session=in_session)

    return Work(settings.request_timeout, run, writes=True)


async def create(desk: Desk, fact: Screened, *, in_session: bool) -> ToolResult:
    """Stores a fact and reads it back."""
    made = await _create(desk, fact, await desk.session() if in_session else None)
    if isinstance(made, Failure) and made.kind is not FailureKind.UNKNOWN_OUTCOME:
        return failed(made, write=True)
    seen = await desk.client.list_conclusions(
        desk.workspace, filters={"observer": desk.peer, "observed": desk.peer}, size=MOST_FACTS, call=desk.call
    )
    row = None
    if isinstance(seen, Ok):
        ids = made.value if isinstance(made, Ok) else ()
        row = next((one for one in seen.value.items if _is_it(one, desk, ids, fact)), None)
    if row is None:
        if isinstance(made, Failure):
            return failed(made, write=True)
        return refusal(
            ToolError.NOT_VERIFIED,
            "Failed: the server accepted the fact, but it could not be read back. Do not tell the user that it was "
            "stored, and look for it before storing it again.",
        )
    return recalled(
        f"Stored, and read back: id {excerpt(row.id, 100)}.",
        excerpt(row.text, CONCLUSION_CHARS),
        id=excerpt(row.id, 100),
        conclusion=excerpt(row.text, CONCLUSION_CHARS),
        in_session=row.session is not None,
        verified=True,
    )


def _is_it(row: Conclusion, desk: Desk, ids: tuple[str, ...], fact: Screened) -> bool:
    if row.observer != desk.peer or row.observed != desk.peer:
        return False
    return row.id in ids if ids else row.text.strip() == fact.text


async def _create(desk: Desk, fact: Screened, session: str | None) -> Outcome[tuple[str, ...]]:
    """Stores it; a person whom the server does not know is made known first, and a conversation that it does not know
    is left out. A 404 stores nothing, so each try is the only one."""
    made = await _attempt(desk, fact, session)
    if not (isinstance(made, Failure) and missing(made)):
        return made
    known = await desk.client.ensure_peer(desk.workspace, desk.peer, call=desk.call)
    if isinstance(known, Failure):
        return known
    made = await _attempt(desk, fact, session)
    if session is not None and isinstance(made, Failure) and missing(made):
        return await _attempt(desk, fact, None)
    return made


async def _attempt(desk: Desk, fact: Screened, session: str | None) -> Outcome[tuple[str, ...]]:
    return await desk.client.create_conclusions(
        desk.workspace, (fact,), observer=desk.peer, observed=desk.peer, session=session, call=desk.call
    )


async def delete(desk: Desk, identity: str) -> ToolResult:
    """Deletes a fact of this person's slot, and looks that it is gone."""
    there = await _held(desk, identity)
    if isinstance(there, Failure):
        return failed(there, write=True)
    if not there.value:
        return refusal(
            ToolError.NOT_FOUND,
            "Not found: no fact about this user has this id, so nothing was deleted. Ids are shown by honcho_search "
            "with facts=true; the id of a message is not one.",
            parameter="delete_id",
        )
    gone = await desk.client.delete_conclusion(desk.workspace, identity, call=desk.call)
    left = await _held(desk, identity)
    if isinstance(left, Ok) and not left.value:
        return answered(f"Deleted, and read back as gone: id {identity}.", deleted=identity, verified=True)
    if isinstance(gone, Failure):
        return failed(gone, write=True)
    return refusal(
        ToolError.NOT_VERIFIED,
        "Failed: the server accepted the deletion, but it is not confirmed that the fact is gone. Do not tell the user "
        "that it was deleted; look for it first.",
    )


async def _held(desk: Desk, identity: str) -> Outcome[bool]:
    """Whether this slot holds a fact of that id."""
    found = await desk.client.list_conclusions(
        desk.workspace,
        filters={"id": identity, "observer": desk.peer, "observed": desk.peer},
        size=MOST_FACTS,
        call=desk.call,
    )
    if isinstance(found, Failure):
        return Ok(False) if missing(found) or found.kind is FailureKind.NOTHING_KNOWN else found
    rows = found.value.items
    return Ok(any(one.id == identity and one.observer == one.observed == desk.peer for one in rows))


CONCLUDE: Final = Definition(
    "honcho_conclude",
    "honcho_conclude",
    "Keeps, finds or deletes single facts about the user. Give exactly one of: `conclusion` stores a lasting fact and "
    "gives back its text and id; `query` gives back the nearest facts, each with its id; `delete_id` deletes the fact "
    "of that id. Cheap: no model is called. Store what the user stated and will matter later, no guesses, no secrets.",
    {
        "conclusion": {
            "type": "string",
            "maxLength": CONCLUSION_CHARS,
            "description": "A fact to store: one plain sentence about the user, at most 2000 characters.",
        },
        "query": {"type": "string", "description": "What facts to look for."},
        "delete_id": {"type": "string", "description": "The id of a fact to delete, as a search showed it."},
        "top_k": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_FACTS,
            "default": TOP_K,
            "description": "For `query`: how many facts at most, 1 to 50.",
        },
    },
    (),
    plan,
)

REMEMBER: Final = Definition(
    "honcho_remember",
    "honcho_conclude",
    "Stores one lasting fact about the user, for all conversations, and gives back its text and id once it has been "
    "read back. The same as honcho_conclude with `conclusion`, but bound to no conversation. Store what the user "
    "stated and will matter later, never guesses and never secrets.",
    {
        "content": {
            "type": "string",
            "maxLength": CONCLUSION_CHARS,
            "description": "The fact: one plain sentence about the user, at most 2000 characters.",
        }
    },
    ("content",),
    plan_remember,
)
