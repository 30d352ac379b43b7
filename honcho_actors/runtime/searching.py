"""Searching what was said, inside exactly the scope that was asked for.

Scopes: `session` (key: the conversation's own key), `agent` (key: a person's id; what that person wrote), `workspace`
(key: the workspace's name, which must be the one in force), `global` (no key: the whole workspace). A scope without its
key, or with a key that maps to nothing, is empty; nothing is ever widened, and no failure is an error. A conversation
that neither the published table nor the ledger of deliveries knows maps to nothing: nobody is asked about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from honcho_actors.honcho.outcomes import Call, Ok, Outcome
from honcho_actors.model import Document, Realm, TurnRequest
from honcho_actors.privacy import egress, identity, names
from honcho_actors.runtime.io import LOOK_AGAIN, loaded
from honcho_actors.satellite.locating import Locating
from honcho_actors.settings import Settings
from supervision import Reply

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient
    from honcho_actors.runtime.tree import Tree

Knows = Callable[[Realm, str, str | None], Awaitable[bool]]
"""Whether a conversation is known here: realm, its own key, the remote peer whose it is (None: anybody's)."""

SearchScope = Literal["session", "agent", "workspace", "global"]
QUERY_CHARS: Final = 2_000
MOST_HITS: Final = 100

LEDGER_SECONDS: Final = 1.0
"""What a search at the very start gives the ledger of deliveries to be read."""


class Searching:
    """The searches of one runtime. `start` may be called from any thread."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def start(
        self,
        settings: Settings,
        query: str,
        scope: str,
        key: str | None,
        limit: int | None = None,
        seconds: float | None = None,
    ) -> Reply[tuple[Document, ...]]:
        """Begins one search on the runtime's loop, of at most `seconds` (and `request_timeout`)."""
        most = settings.request_timeout if seconds is None else min(seconds, settings.request_timeout)
        return self._tree.runtime.loop.submit(self._run(settings, query, scope, key, limit, most))

    async def _run(
        self, settings: Settings, query: str, scope: str, key: str | None, limit: int | None, seconds: float
    ) -> tuple[Document, ...]:
        tree = self._tree
        loop = asyncio.get_running_loop()

        async def knows(realm: Realm, key: str, user: str | None) -> bool:
            if tree.sessions.knows(realm, key, user):
                return True
            end = loop.time() + LEDGER_SECONDS
            while tree.capture.ledger_coming and loop.time() < end:  # noqa: ASYNC110 (a thread reads it)
                await asyncio.sleep(LOOK_AGAIN)
            return tree.capture.knows(realm, key, user)

        call = Call(loop.time() + seconds)
        wanted = settings.search_limit if limit is None else limit
        async with asyncio.timeout(seconds):
            await loaded()
            return await search(tree.clients(), settings, query, scope, key, wanted, call, knows, tree.locating)


async def search(
    client: HonchoClient,
    settings: Settings,
    query: str,
    scope: str,
    key: str | None,
    limit: int,
    call: Call,
    knows: Knows,
    locating: Locating,
) -> tuple[Document, ...]:
    """The hits of one search; empty on every failure. On the loop."""
    screened = egress.screen(query, QUERY_CHARS, field=egress.Field.SEARCH)
    if screened is None or not settings.configured:
        return ()
    limit = max(1, min(MOST_HITS, limit))
    workspace = names.workspace_id(settings.workspace)
    wanted = key if isinstance(key, str) and key.strip() else ""
    found: Outcome[tuple[Any, ...]]
    if scope == "session" and wanted:
        session = await _session(wanted, settings, knows, locating, call.deadline)
        if session is None:
            return ()
        found = await client.session_search(workspace, session, screened, limit=limit, call=call)
    elif scope == "agent" and wanted:
        peer = _peer(wanted, settings)
        if peer is None:
            return ()
        found = await client.peer_search(workspace, peer, screened, limit=limit, call=call)
    elif scope == "global" or (scope == "workspace" and wanted == settings.workspace):
        found = await client.workspace_search(workspace, screened, limit=limit, call=call)
    else:
        return ()
    return tuple(_documents(found.value, scope, key)) if isinstance(found, Ok) else ()


async def _session(key: str, settings: Settings, knows: Knows, locating: Locating, deadline: float) -> str | None:
    who = identity.resolve(TurnRequest(session_key=key, user=settings.user_peer), settings)
    if isinstance(who, identity.NoIdentity):
        return None
    # With strategy `session` a key names one remote session, whoever speaks in it; with the others it is a person's.
    person = None if settings.session_strategy == "session" else who.user_peer
    if not await knows(who.realm, who.session.key, person):
        return None
    return await locating(who, deadline) or None


def _peer(user: str, settings: Settings) -> str | None:
    who = identity.resolve(TurnRequest(session_key="search", user=user), settings)
    return None if isinstance(who, identity.NoIdentity) else who.user_peer


def _documents(messages: Iterable[Any], scope: str, key: str | None) -> Iterable[Document]:
    for message in messages:
        if message.text and message.text.strip():
            yield Document(message.id, message.text, message.peer, message.session, message.created_at, scope, key)
