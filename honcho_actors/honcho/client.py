"""The client for Honcho v3: every operation that this product uses, each with a total deadline and an outcome.

`HonchoClient` never raises (cancellation excepted), retries nothing that stores, sends only text that passed the
egress gate, and lives on one event loop. Construction touches no network, no certificate and no loop, so it may be
built before the loop runs. What is made safe before it is sent, and by which rule, is said in `wire` and in
`docs/honcho.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from honcho_actors.honcho import operations as ops
from honcho_actors.honcho import reading, wire
from honcho_actors.honcho.breaker import Breakers
from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint, EndpointSource
from honcho_actors.honcho.exchange import Caller
from honcho_actors.honcho.limiter import Limiter
from honcho_actors.honcho.outcomes import Call, Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import (
    Conclusion,
    Message,
    Named,
    Observation,
    Page,
    PeerContext,
    QueueStatus,
    SessionContext,
    Summaries,
)
from honcho_actors.honcho.resolver import Resolver
from honcho_actors.honcho.transport import PoolTransport
from honcho_actors.honcho.wire import OutMessage

if TYPE_CHECKING:
    import ssl

    from honcho_actors.metrics import Meters
    from honcho_actors.privacy.egress import Screened

__all__ = ["Call", "HonchoClient", "Level", "Observation", "OutMessage"]

Level = Literal["minimal", "low", "medium", "high", "max"]
_LEVELS = frozenset(get_args(Level))


class HonchoClient:
    """`endpoint` may be a value or a callable that gives the one in force (settings change while we run).

    `reread` is called at most once for each key that the server rejected, before the one retry; it may touch files. A
    client belongs to one loop: with a replaced loop goes a new client, limiter and resolver.
    """

    def __init__(
        self,
        endpoint: Endpoint | BadEndpoint | EndpointSource,
        *,
        limiter: Limiter | None = None,
        breakers: Breakers | None = None,
        meters: Meters | None = None,
        reread: Callable[[], object] | None = None,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        trust_env: bool = False,
    ) -> None:
        self.limiter = limiter if limiter is not None else Limiter()
        self.breakers = breakers or Breakers()
        self.resolver = resolver or Resolver()
        self.transport = PoolTransport(
            self.resolver, ssl_context=ssl_context, trust_env=trust_env, max_idle=self.limiter.concurrency
        )
        source = endpoint if callable(endpoint) else _constant(endpoint)
        self._caller = Caller(source, self.transport, self.limiter, self.breakers, meters, reread)

    async def __aenter__(self) -> HonchoClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes every connection. Calls in flight and calls that still wait end as transport failures."""
        self.transport.abort_all()
        self.resolver.close()
        await self._caller.aclose()

    def status(self) -> dict[str, Any]:
        """Counts for status: JSON-able, cheap, from any thread."""
        return {
            "busy": self.limiter.busy,
            "waiting": self.limiter.waiting,
            "dropped": self.limiter.dropped,
            "connections": {"busy": self.transport.busy, "idle": self.transport.idle, "opened": self.transport.opened},
            "skipped_parts": dict(self._caller.skipped),
        }

    # -- reads ---------------------------------------------------------------------------------------------------------

    async def session_context(
        self,
        workspace: str,
        session: str,
        *,
        peer_target: str,
        peer_perspective: str | None = None,
        max_conclusions: int,
        tokens: int,
        summary: bool,
        include_most_frequent: bool = False,
        call: Call,
    ) -> Outcome[SessionContext]:
        """What is known of `peer_target` (by `peer_perspective`, else by itself), and the session's summary, in one
        request.

        Creates nothing. An unknown peer is `nothing_known`; an unknown session is an ordinary, summary-less reply.
        A reply that names another session is a bad reply, here and in the reads below that say whom they are about.
        `tokens=0` asks for no messages and no summary and costs the same at any length of the session.
        """
        if problem := wire.bad_id(workspace, session, peer_target, peer_perspective):
            return _refused(ops.SESSION_CONTEXT, problem)
        params = {
            "peer_target": peer_target,
            "max_conclusions": str(wire.clamp(max_conclusions, 1, 100)),
            "tokens": str(wire.clamp(tokens, 0, wire.MAX_CONTEXT_TOKENS)),
            "summary": _flag(summary),
            "include_most_frequent": _flag(include_most_frequent),
        }
        if peer_perspective is not None:
            params["peer_perspective"] = peer_perspective
        path = _session(workspace, session, "context")
        read = reading.about(reading.session_context, id=session)
        return await self._caller.call(ops.SESSION_CONTEXT, call, path, read, params=params)

    async def peer_context(
        self,
        workspace: str,
        peer: str,
        *,
        target: str | None = None,
        max_conclusions: int,
        include_most_frequent: bool = False,
        call: Call,
    ) -> Outcome[PeerContext]:
        """What `peer` knows of `target` (of itself without one). An unknown peer is `nothing_known`."""
        if problem := wire.bad_id(workspace, peer, target):
            return _refused(ops.PEER_CONTEXT, problem)
        params = {
            "max_conclusions": str(wire.clamp(max_conclusions, 1, 100)),
            "include_most_frequent": _flag(include_most_frequent),
        }
        if target is not None:
            params["target"] = target
        path = _peer(workspace, peer, "context")
        read = reading.about(reading.peer_context, peer_id=peer, target_id=peer if target is None else target)
        return await self._caller.call(ops.PEER_CONTEXT, call, path, read, params=params)

    async def summaries(self, workspace: str, session: str, *, call: Call) -> Outcome[Summaries]:
        """The session's two summaries; the cheapest read there is. An unknown session has none."""
        if problem := wire.bad_id(workspace, session):
            return _refused(ops.SUMMARIES, problem)
        read = reading.about(reading.summaries, id=session)
        return await self._caller.call(ops.SUMMARIES, call, _session(workspace, session, "summaries"), read)

    async def chat(
        self,
        workspace: str,
        peer: str,
        query: Screened,
        *,
        session_id: str | None = None,
        target: str | None = None,
        level: Level = "low",
        call: Call,
    ) -> Outcome[str | None]:
        """Asks the dialectic, which is billed and slow. None: it has nothing to say. Creates the workspace and `peer`
        when missing.
        """
        if problem := wire.bad_id(workspace, peer, session_id, target):
            return _refused(ops.CHAT, problem)
        if level not in _LEVELS:
            return _refused(ops.CHAT, "no such reasoning level")
        text = wire.first_piece(wire.safe_text(query.text), wire.MAX_QUERY_CHARS)
        if not text:
            return _refused(ops.CHAT, "an empty question")
        body = {"query": text, "stream": False, "reasoning_level": level, "session_id": session_id, "target": target}
        path = _peer(workspace, peer, "chat")
        return await self._caller.call(ops.CHAT, call, path, reading.chat_answer, body=_without_none(body))

    async def list_messages(
        self,
        workspace: str,
        session: str,
        *,
        filters: Mapping[str, Any] | None = None,
        page: int = 1,
        size: int = 50,
        reverse: bool = False,
        call: Call,
    ) -> Outcome[Page[Message]]:
        """Messages in the order in which they were stored (`reverse`: newest first). An unknown session has none."""
        if problem := wire.bad_id(workspace, session) or wire.bad_filter(filters):
            return _refused(ops.LIST_MESSAGES, problem)
        body = {} if filters is None else {"filters": dict(filters)}
        path = (*_session(workspace, session, "messages"), "list")
        params = _paging(page, size, reverse)
        return await self._caller.call(ops.LIST_MESSAGES, call, path, reading.message_page, params=params, body=body)

    async def session_search(
        self, workspace: str, session: str, query: Screened, *, limit: int = 10, call: Call
    ) -> Outcome[tuple[Message, ...]]:
        """The nearest messages of one session; the server has no notion of *no match*."""
        if problem := wire.bad_id(workspace, session):
            return _refused(ops.SESSION_SEARCH, problem)
        return await self._search(ops.SESSION_SEARCH, _session(workspace, session, "search"), query, limit, None, call)

    async def peer_search(
        self, workspace: str, peer: str, query: Screened, *, limit: int = 10, call: Call
    ) -> Outcome[tuple[Message, ...]]:
        """The nearest messages that one peer wrote."""
        if problem := wire.bad_id(workspace, peer):
            return _refused(ops.PEER_SEARCH, problem)
        return await self._search(ops.PEER_SEARCH, _peer(workspace, peer, "search"), query, limit, None, call)

    async def workspace_search(
        self,
        workspace: str,
        query: Screened,
        *,
        limit: int = 10,
        filters: Mapping[str, Any] | None = None,
        call: Call,
    ) -> Outcome[tuple[Message, ...]]:
        """The nearest messages of a whole workspace. The widest scope there is: callers must have been asked for it."""
        if problem := wire.bad_id(workspace) or wire.bad_filter(filters):
            return _refused(ops.WORKSPACE_SEARCH, problem)
        return await self._search(ops.WORKSPACE_SEARCH, _workspace(workspace, "search"), query, limit, filters, call)

    async def get_card(
        self, workspace: str, peer: str, *, target: str | None = None, call: Call
    ) -> Outcome[tuple[str, ...]]:
        """The lines of the card that `peer` keeps of `target` (of itself without one)."""
        if problem := wire.bad_id(workspace, peer, target):
            return _refused(ops.GET_CARD, problem)
        params = None if target is None else {"target": target}
        return await self._caller.call(ops.GET_CARD, call, _peer(workspace, peer, "card"), reading.card, params=params)

    async def list_conclusions(
        self,
        workspace: str,
        *,
        filters: Mapping[str, Any] | None = None,
        page: int = 1,
        size: int = 50,
        reverse: bool = False,
        call: Call,
    ) -> Outcome[Page[Conclusion]]:
        """Newest first (`reverse`: oldest first)."""
        if problem := wire.bad_id(workspace) or wire.bad_filter(filters):
            return _refused(ops.LIST_CONCLUSIONS, problem)
        body = {} if filters is None else {"filters": dict(filters)}
        path = (*_workspace(workspace, "conclusions"), "list")
        params = _paging(page, size, reverse)
        return await self._caller.call(
            ops.LIST_CONCLUSIONS, call, path, reading.conclusion_page, params=params, body=body
        )

    async def query_conclusions(
        self, workspace: str, query: Screened, *, observer: str, observed: str, top_k: int = 10, call: Call
    ) -> Outcome[tuple[Conclusion, ...]]:
        """The nearest conclusions of one collection (observer, observed)."""
        if problem := wire.bad_id(workspace, observer, observed):
            return _refused(ops.QUERY_CONCLUSIONS, problem)
        text = wire.first_piece(wire.safe_text(query.text), wire.MAX_SEARCH_CHARS)
        if not text:
            return _refused(ops.QUERY_CONCLUSIONS, "an empty query")
        body = {
            "query": text,
            "top_k": wire.clamp(top_k, 1, 100),
            "filters": {"observer": observer, "observed": observed},
        }
        path = (*_workspace(workspace, "conclusions"), "query")
        return await self._caller.call(ops.QUERY_CONCLUSIONS, call, path, reading.conclusions, body=body)

    async def list_sessions(
        self, workspace: str, *, filters: Mapping[str, Any] | None = None, page: int = 1, size: int = 50, call: Call
    ) -> Outcome[Page[Named]]:
        """The way to look for a session without creating it."""
        return await self._list(ops.LIST_SESSIONS, workspace, "sessions", filters, page, size, call)

    async def list_peers(
        self, workspace: str, *, filters: Mapping[str, Any] | None = None, page: int = 1, size: int = 50, call: Call
    ) -> Outcome[Page[Named]]:
        """The way to look for a peer without creating it."""
        return await self._list(ops.LIST_PEERS, workspace, "peers", filters, page, size, call)

    async def get_member(self, workspace: str, session: str, peer: str, *, call: Call) -> Outcome[Observation]:
        """The member's own flags in this session (None: inherited)."""
        if problem := wire.bad_id(workspace, session, peer):
            return _refused(ops.GET_MEMBER, problem)
        path = (*_session(workspace, session, "peers"), peer, "config")
        return await self._caller.call(ops.GET_MEMBER, call, path, reading.observation)

    async def queue_status(self, workspace: str, *, session: str | None = None, call: Call) -> Outcome[QueueStatus]:
        """The deriver's work. It may say idle right after a write: enqueueing follows the reply."""
        if problem := wire.bad_id(workspace, session):
            return _refused(ops.QUEUE_STATUS, problem)
        params = None if session is None else {"session_id": session}
        path = (*_workspace(workspace, "queue"), "status")
        return await self._caller.call(ops.QUEUE_STATUS, call, path, reading.queue_status, params=params)

    async def health(self, *, call: Call) -> Outcome[bool]:
        """Whether something that speaks Honcho answers: one request, no retry, no breaker, no credentials needed."""
        return await self._caller.call(ops.HEALTH, call, ("health",), reading.healthy, versioned=False)

    # -- writes --------------------------------------------------------------------------------------------------------

    async def ensure_workspace(self, workspace: str, *, call: Call) -> Outcome[Named]:
        """Get or create; sends no metadata, so that none is replaced."""
        if problem := wire.bad_id(workspace):
            return _refused(ops.ENSURE_WORKSPACE, problem)
        return await self._caller.call(
            ops.ENSURE_WORKSPACE, call, ("workspaces",), reading.named, body={"id": workspace}
        )

    async def ensure_peer(self, workspace: str, peer: str, *, call: Call) -> Outcome[Named]:
        """Get or create, the workspace too; sends no metadata, so that none is replaced."""
        if problem := wire.bad_id(workspace, peer):
            return _refused(ops.ENSURE_PEER, problem)
        path = _workspace(workspace, "peers")
        return await self._caller.call(ops.ENSURE_PEER, call, path, reading.named, body={"id": peer})

    async def ensure_session(
        self,
        workspace: str,
        session: str,
        peers: Mapping[str, Observation],
        call: Call,
        *,
        configuration: Mapping[str, Any] | None = None,
    ) -> Outcome[Named]:
        """Get or create workspace, session and members, in one request; must be answered before the first message is
        sent.

        A member that exists keeps its stored flags whatever is sent here: `set_member` changes them.
        """
        if problem := wire.bad_id(workspace, session, *peers):
            return _refused(ops.ENSURE_SESSION, problem)
        body: dict[str, Any] = {"id": session, "peers": {peer: _flags(flags) for peer, flags in peers.items()}}
        if configuration:
            body["configuration"] = wire.clean_metadata(configuration)
        path = _workspace(workspace, "sessions")
        return await self._caller.call(ops.ENSURE_SESSION, call, path, reading.named, body=body)

    async def set_member(
        self, workspace: str, session: str, peer: str, observation: Observation, call: Call
    ) -> Outcome[None]:
        """Sets the member's flags in this session; the only call that changes those of an existing member."""
        if problem := wire.bad_id(workspace, session, peer):
            return _refused(ops.SET_MEMBER, problem)
        path = (*_session(workspace, session, "peers"), peer, "config")
        return await self._caller.call(ops.SET_MEMBER, call, path, reading.nothing, body=_flags(observation))

    async def add_messages(
        self, workspace: str, session: str, messages: Sequence[OutMessage], call: Call
    ) -> Outcome[tuple[str, ...]]:
        """Stores messages, in order, and gives the ids of what was stored (one for each piece of a message that was
        split).

        Never retried here: Honcho has no idempotency key. `unknown_outcome` means that the request went out whole;
        look before sending again. More than 100 pieces go in several requests; `Failure.done` counts the pieces
        stored by those before.
        """
        if problem := wire.bad_id(workspace, session, *(message.peer for message in messages)):
            return _refused(ops.ADD_MESSAGES, problem)
        path = _session(workspace, session, "messages")
        stored: list[str] = []
        status = 200
        for batch in wire.batches(wire.message_bodies(messages)):
            body = {"messages": list(batch)}
            outcome = await self._caller.call(ops.ADD_MESSAGES, call, path, reading.created_ids(len(batch)), body=body)
            if isinstance(outcome, Failure):
                return _after(outcome, len(stored))
            stored += outcome.value
            status = outcome.status
        return Ok(tuple(stored), status)

    async def put_card(
        self, workspace: str, peer: str, lines: Sequence[Screened], *, target: str | None = None, call: Call
    ) -> Outcome[tuple[str, ...]]:
        """Replaces the card that `peer` keeps of `target`; blank lines are left out."""
        if problem := wire.bad_id(workspace, peer, target):
            return _refused(ops.PUT_CARD, problem)
        texts = [text for line in lines if (text := wire.safe_text(line.text))]
        params = None if target is None else {"target": target}
        body = {"peer_card": texts}
        path = _peer(workspace, peer, "card")
        return await self._caller.call(ops.PUT_CARD, call, path, reading.card, params=params, body=body)

    async def create_conclusions(
        self,
        workspace: str,
        contents: Sequence[Screened],
        *,
        observer: str,
        observed: str,
        session: str | None = None,
        call: Call,
    ) -> Outcome[tuple[str, ...]]:
        """Stores conclusions of one collection and gives their ids. Without a session they hold everywhere. Never
        retried here.
        """
        if problem := wire.bad_id(workspace, observer, observed, session):
            return _refused(ops.CREATE_CONCLUSIONS, problem)
        texts = [
            wire.first_piece(text, wire.MAX_CONCLUSION_CHARS) for one in contents if (text := wire.safe_text(one.text))
        ]
        if not texts:
            return _refused(ops.CREATE_CONCLUSIONS, "nothing but blank conclusions")
        rows = [
            _without_none({"content": text, "observer_id": observer, "observed_id": observed, "session_id": session})
            for text in texts
        ]
        path = _workspace(workspace, "conclusions")
        stored: list[str] = []
        for batch in wire.batches(rows):
            body = {"conclusions": list(batch)}
            outcome = await self._caller.call(
                ops.CREATE_CONCLUSIONS, call, path, reading.created_ids(len(batch)), body=body
            )
            if isinstance(outcome, Failure):
                return _after(outcome, len(stored))
            stored += outcome.value
        return Ok(tuple(stored), 201)

    async def delete_conclusion(self, workspace: str, conclusion: str, *, call: Call) -> Outcome[bool]:
        """True: deleted. False: it was not there (any more)."""
        if problem := wire.bad_id(workspace) or wire.bad_filter(conclusion):
            return _refused(ops.DELETE_CONCLUSION, problem)
        if not conclusion.strip():
            return _refused(ops.DELETE_CONCLUSION, "no conclusion named")
        path = (*_workspace(workspace, "conclusions"), conclusion)
        outcome = await self._caller.call(ops.DELETE_CONCLUSION, call, path, reading.nothing)
        if isinstance(outcome, Ok):
            return Ok(True, outcome.status)
        return Ok(False, 404) if outcome.absent else outcome

    # -- common --------------------------------------------------------------------------------------------------------

    async def _search(
        self,
        op: ops.Operation,
        path: tuple[str, ...],
        query: Screened,
        limit: int,
        filters: Mapping[str, Any] | None,
        call: Call,
    ) -> Outcome[tuple[Message, ...]]:
        text = wire.first_piece(wire.safe_text(query.text), wire.MAX_SEARCH_CHARS)
        if not text:
            return _refused(op, "an empty query")
        body: dict[str, Any] = {"query": text, "limit": wire.clamp(limit, 1, 100)}
        if filters is not None:
            body["filters"] = dict(filters)
        return await self._caller.call(op, call, path, reading.messages, body=body)

    async def _list(
        self,
        op: ops.Operation,
        workspace: str,
        what: str,
        filters: Mapping[str, Any] | None,
        page: int,
        size: int,
        call: Call,
    ) -> Outcome[Page[Named]]:
        if problem := wire.bad_id(workspace) or wire.bad_filter(filters):
            return _refused(op, problem)
        body = {} if filters is None else {"filters": dict(filters)}
        path = (*_workspace(workspace, what), "list")
        return await self._caller.call(op, call, path, reading.named_page, params=_paging(page, size, False), body=body)


def _constant(endpoint: Endpoint | BadEndpoint) -> EndpointSource:
    return lambda: endpoint


def _workspace(workspace: str, what: str) -> tuple[str, ...]:
    return ("workspaces", workspace, what)


def _session(workspace: str, session: str, what: str) -> tuple[str, ...]:
    return ("workspaces", workspace, "sessions", session, what)


def _peer(workspace: str, peer: str, what: str) -> tuple[str, ...]:
    return ("workspaces", workspace, "peers", peer, what)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _flags(observation: Observation) -> dict[str, bool]:
    flags = {"observe_me": observation.observe_me, "observe_others": observation.observe_others}
    return {name: value for name, value in flags.items() if value is not None}


def _paging(page: int, size: int, reverse: bool) -> dict[str, str]:
    params = {"page": str(max(1, page)), "size": str(wire.clamp(size, 1, 100))}
    return {**params, "reverse": "true"} if reverse else params


def _without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _refused(op: ops.Operation, problem: str) -> Failure:
    """What the server would refuse or choke on is refused here, and not sent."""
    return Failure(FailureKind.REFUSED, op.name, detail=problem, bytes_sent=False)


def _after(failure: Failure, done: int) -> Failure:
    """A failure of one of several requests, with what the ones before it stored."""
    return replace(failure, done=failure.done + done)
