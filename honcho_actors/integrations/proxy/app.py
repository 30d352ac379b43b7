"""The way of one request through the proxy, as an ASGI application.

A model call that says who is talking is read whole, gets both blocks, and is asked of the model; the answer passes byte
for byte and is read along. Every other request passes in the pieces in which it comes, and so does one that is too
large, not JSON, or not understood. What the model answers is passed on as it is, errors too. A caller that leaves ends
the model's work, and the turn without an answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import h11

from honcho_actors.integrations.protocols import Protocol, by_path
from honcho_actors.integrations.protocols import Reply as Answer
from honcho_actors.integrations.proxy.naming import PREFIX, Headers, Named, Naming
from honcho_actors.integrations.proxy.upstream import Cut, Reply, Unreachable, Upstream
from honcho_actors.integrations.sse import Events
from honcho_actors.integrations.turns import OpenTurn, Turns

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger("honcho_actors.integrations.proxy")

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of a request that gets memory; a larger one passes without."""
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Of an answer that is read; a larger one passes all the same."""

STALLED_SECONDS: Final = 1.0
"""That nothing is taken of a request's body before more of it is read, to learn whether the caller has left."""
MAX_AHEAD_BYTES: Final = 1024 * 1024
"""Of a body that are read in this way before the model takes them; behind more, a caller who leaves is not seen."""

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
    }
)
MEMORY_HEADER: Final = b"x-honcho-memory"
"""Of an answer to whoever was named: the state and the reason of its memory."""


class Left(Exception):
    """The caller has gone."""


@dataclass(slots=True)
class Asked:
    """A request that gets memory: the new body, and its turn."""

    body: bytes
    turn: OpenTurn
    protocol: Protocol


class Proxy:
    """The application. One for each upstream; any number of requests at once."""

    def __init__(self, turns: Turns, upstream: Upstream, naming: Naming) -> None:
        self._turns = turns
        self._upstream = upstream
        self._naming = naming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        work = asyncio.ensure_future(self._serve(scope, incoming := _Incoming(receive), send))
        watch = asyncio.ensure_future(incoming.left())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (work, watch):
                one.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()) is not None and not isinstance(error, Left | Cut):
            log.error("a request ended with %s", type(error).__name__)

    async def _serve(self, scope: Scope, incoming: _Incoming, send: Send) -> None:
        headers: Headers = scope["headers"]
        asked: Asked | None = None
        body: bytes | AsyncIterator[bytes] = incoming.pieces()
        protocol = by_path(scope["path"]) if scope["method"] == "POST" else None
        if protocol is not None and self._may_be_named(headers):
            whole = await incoming.whole(MAX_BODY_BYTES)
            if whole is not None:
                asked = await self._remembered(protocol, headers, whole)
                body = asked.body if asked is not None else whole
        try:
            await self._pass(scope, headers, body, asked, send)
        except BaseException:
            if asked is not None:
                asked.turn.finish(None)
            raise

    def _may_be_named(self, headers: Headers) -> bool:
        return self._naming.user_field or any(name.lower().startswith(PREFIX) for name, _ in headers)

    async def _remembered(self, protocol: Protocol, headers: Headers, whole: bytes) -> Asked | None:
        """The request with memory; None where it stays as it is."""
        try:
            given = json.loads(whole)
            if not isinstance(given, dict) or (words := protocol.heard(given)) is None:
                return None
            named: Named | None = self._naming.named(headers, given)
        except (ValueError, RecursionError):
            return None
        except Exception as error:  # noqa: BLE001 - boundary: a request passes whatever is in it
            log.warning("a request was passed on without memory: %s", type(error).__name__)
            return None
        if named is None:
            return None
        said, since, first = words
        turn = await self._turns.ameet(
            named.request, said, since, first=first, turn_id=named.turn_id, again=named.again
        )
        if not turn.known:
            return None
        try:
            made = protocol.placed(given, turn.system, turn.beside(said, first))
            body = json.dumps(made, allow_nan=False, separators=(",", ":")).encode()
        except Exception as error:  # noqa: BLE001 - boundary: a request passes whatever is in it
            log.warning("a request was passed on without memory: %s", type(error).__name__)
            body = whole
        return Asked(body, turn, protocol)

    async def _pass(
        self, scope: Scope, headers: Headers, body: bytes | AsyncIterator[bytes], asked: Asked | None, send: Send
    ) -> None:
        target = self._upstream.address.target(scope.get("raw_path") or scope["path"].encode(), scope["query_string"])
        try:
            reply = await self._upstream.send(
                scope["method"].encode(), target, self._outgoing(headers, body, asked), body
            )
        except (Unreachable, h11.LocalProtocolError) as error:
            if asked is not None:
                asked.turn.finish(None)
            if isinstance(error, Unreachable):
                await _refuse(send, 502, str(error))
            else:
                await _refuse(send, 400, "the request cannot be said in HTTP/1.1")
            return
        try:
            await self._answer(reply, asked, send)
        finally:
            reply.abort()

    def _outgoing(self, headers: Headers, body: bytes | AsyncIterator[bytes], asked: Asked | None) -> Headers:
        """The headers as the model gets them: without those of this hop, and without ours."""
        dropped = _of_this_hop(headers) | {b"host"}
        kept = [
            (name, value)
            for name, value in headers
            if (lowered := name.lower()) not in dropped and not lowered.startswith(PREFIX)
        ]
        had_length = any(name.lower() == b"content-length" for name, _ in kept)
        had_chunks = any(name.lower() == b"transfer-encoding" for name, _ in headers)
        if isinstance(body, bytes):
            kept = [one for one in kept if one[0].lower() != b"content-length"]
            kept.append((b"content-length", str(len(body)).encode()))
        elif had_chunks and not had_length:
            kept.append((b"transfer-encoding", b"chunked"))
        if asked is not None:
            kept = [one for one in kept if one[0].lower() != b"accept-encoding"]
            kept.append((b"accept-encoding", b"identity"))
        return [(b"host", self._upstream.address.host_header), *kept]

    async def _answer(self, reply: Reply, asked: Asked | None, send: Send) -> None:
        dropped = _of_this_hop(reply.headers)
        headers = [one for one in reply.headers if one[0].lower() not in dropped]
        along = None
        if asked is not None:
            context = asked.turn.context
            headers.append((MEMORY_HEADER, f"{context.state}; {context.reason}".encode()))
            along = _Along(asked, reply)
        try:
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            async for piece in reply.body():
                if along is not None:
                    along.feed(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except BaseException:  # the caller left, or the model did: nothing more is sent, the server cuts the connection
            if along is not None:
                along.ended(whole=False)
            raise
        if along is not None:
            along.ended(whole=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _of_this_hop(headers: Headers) -> frozenset[bytes]:
    """The names of the headers that belong to one connection: the usual ones, and those that `connection` names."""
    named = (value for name, value in headers if name.lower() == b"connection")
    return HOP_BY_HOP.union(one.strip().lower() for value in named for one in value.split(b","))


class _Incoming:
    """What the caller sends, and whether it has left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._first: list[bytes] = []
        self._more = True
        self._gone = False
        self._read = asyncio.Event()
        """The caller has sent everything, or has gone."""
        self._receiving = asyncio.Lock()
        self._ahead: deque[Message] = deque()
        self._ahead_bytes = 0

    async def whole(self, limit: int) -> bytes | None:
        """The whole body, or None where it is larger; `pieces` then gives it all the same."""
        size = 0
        while self._more:
            piece = await self._next()
            self._first.append(piece)
            size += len(piece)
            if size > limit:
                return None
        whole = b"".join(self._first)
        self._first.clear()
        return whole

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        for piece in self._first:
            yield piece
        while self._more:
            piece = await self._next()
            if piece:
                yield piece

    async def left(self) -> None:
        """Returns when the caller has gone. Where a body stalls on its way to the model, it is read ahead for that."""
        while not self._read.is_set():
            try:
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._read.wait()
            except TimeoutError:
                await self._look_ahead()
        while not self._gone:
            await self._receive_one()

    async def _look_ahead(self) -> None:
        if self._receiving.locked() or self._ahead_bytes >= MAX_AHEAD_BYTES:
            return
        async with self._receiving:
            message = await self._receive_one()
            self._ahead.append(message)
            self._ahead_bytes += len(message.get("body", b""))

    async def _receive_one(self) -> Message:
        message = await self._receive()
        self._gone = message["type"] == "http.disconnect"
        if self._gone or not message.get("more_body", False):
            self._read.set()
        return message

    async def _next(self) -> bytes:
        async with self._receiving:
            if self._ahead:
                message = self._ahead.popleft()
                self._ahead_bytes -= len(message.get("body", b""))
            else:
                message = await self._receive_one()
        if message["type"] == "http.disconnect":
            self._more = False
            raise Left
        self._more = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece


class _Along:
    """Reads an answer along and ends the turn with it."""

    def __init__(self, asked: Asked, reply: Reply) -> None:
        kind = next((value for name, value in reply.headers if name.lower() == b"content-type"), b"").lower()
        packed = any(
            name.lower() == b"content-encoding" and value.strip().lower() not in (b"", b"identity")
            for name, value in reply.headers
        )
        self._turn = asked.turn
        self._protocol = asked.protocol
        self._fine = reply.status == 200 and not packed
        self._reader = asked.protocol.reader() if kind.startswith(b"text/event-stream") else None
        self._events = Events()
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """One piece has come."""
        if not self._fine:
            return
        try:
            if self._reader is not None:
                for event in self._events.feed(piece):
                    self._reader.feed(event)
            else:
                self._size += len(piece)
                if self._size > MAX_ANSWER_BYTES:
                    self._fine, self._parts = False, []
                else:
                    self._parts.append(piece)
        except Exception as error:  # noqa: BLE001 - boundary: an answer passes whatever is in it
            log.warning("an answer could not be read along: %s", type(error).__name__)
            self._fine = False

    def ended(self, *, whole: bool) -> None:
        """The answer is over. Half of one is none, unless the model had said that this was its end."""
        answer = self._read(whole) if self._fine else Answer(None)
        if not answer.goes_on:
            self._turn.finish(answer.text)

    def _read(self, whole: bool) -> Answer:
        try:
            if self._reader is not None:
                for event in self._events.end() if whole else ():
                    self._reader.feed(event)
                done = whole or self._reader.complete or self._events.done
                return self._reader.reply() if done else Answer(None)
            return self._protocol.answer(json.loads(b"".join(self._parts))) if whole else Answer(None)
        except Exception as error:  # noqa: BLE001 - boundary: an answer passes whatever is in it
            log.warning("an answer could not be read: %s", type(error).__name__)
            return Answer(None)


async def _refuse(send: Send, status: int, sentence: str) -> None:
    """An error of the proxy's own, in the form that the SDKs read."""
    body = json.dumps({"error": {"message": f"honcho-actors proxy: {sentence}", "type": "proxy_error"}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
