"""The connection pool: an httpx transport over httpcore's single connections that survives cancellation.

httpx's own pool loses a slot to many a cancelled call and serves its queue quadratically. Here a call takes an idle
connection or opens one, and whatever ends it early (a kill, a deadline, an error) aborts that connection without
waiting for anything: there is no slot to lose. How many calls run at once is the limiter's business, in front.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

import httpcore
import httpx

from honcho_actors.honcho.endpoint import Endpoint
from honcho_actors.honcho.resolver import Resolver, on_daemon_thread
from honcho_actors.honcho.stream import Stream, connect

KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: below uvicorn's 5, so that it is we who hang up."""
MAX_IDLE = 32


@dataclass(slots=True)
class Exchange:
    """What became of one request on the wire; travels in the request's extensions under `exchange`."""

    idempotent: bool
    content: bytes
    """The body of the request."""
    connection: _Connection | None = None
    reused: bool = False
    reconnected: bool = False
    reply_headers: Sequence[tuple[bytes, bytes]] = ()

    def abort(self) -> None:
        """Gives the connection up at once. Idempotent; nothing to wait for."""
        if self.connection is not None:
            self.connection.abort()

    @property
    def any_sent(self) -> bool:
        """Whether any byte of the request may have reached the kernel."""
        return self.connection is not None and self.connection.handed() > 0

    def all_sent(self) -> bool:
        """Whether the request may have gone out whole. False is certain. Ask before aborting: an abort drops what is
        unsent.
        """
        connection = self.connection
        if connection is None or connection.stream is None or connection.stream.unsent > 0:
            return False
        return connection.body_handed() >= len(self.content)


class PlainClient(httpx.AsyncClient):
    """The client of one server's calls: what httpx would do around a request is what must not happen to ours.

    A redirect is an answer, a key goes by the endpoint alone, and a server's cookie never travels with another
    person's call. So a request goes straight to the transport, which is a fifth of a call's cost less as well.
    """

    def __init__(self, transport: PoolTransport) -> None:
        super().__init__(transport=transport, timeout=None, trust_env=False, follow_redirects=False)
        self._pool = transport

    async def send(self, request: httpx.Request, **_: object) -> httpx.Response:
        return await self._pool.handle_async_request(request)


class _NoLock:
    async def __aenter__(self) -> None:
        """Nothing to wait for."""

    async def __aexit__(self, *raised: object) -> None:
        """Nothing to give back."""


class _Unshared(httpcore.AsyncHTTP11Connection):
    """A connection with one call at a time, as the pool gives them, so that nothing needs httpcore's lock.

    The lock is two passes of the loop and a fifteenth of a call's processor time. Should httpcore name it otherwise one
    day, its own is back and nothing else changes.
    """

    def __init__(self, origin: httpcore.Origin, stream: Stream) -> None:
        super().__init__(origin, stream)
        self._state_lock = cast(Any, _NoLock())


class _Connection:
    """One httpcore connection and our stream below it."""

    __slots__ = ("_base", "_head", "aborted", "http", "idle_since", "origin", "pool", "stream")

    def __init__(self, pool: PoolTransport, endpoint: Endpoint) -> None:
        self.pool = pool
        self.origin = endpoint.origin
        self.stream: Stream | None = None
        self.http: httpcore.AsyncHTTP11Connection | None = None
        self.aborted = False
        self.idle_since = 0.0
        self._base = 0
        self._head = 0

    async def open(self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None) -> httpcore.AsyncHTTP11Connection:
        """Connects. Given up meanwhile, it closes what it has just opened."""
        self.stream = await connect(self.pool.resolver, endpoint, ssl_context)
        if self.aborted:
            self.stream.abort()
            raise httpcore.ConnectError("the connection was given up")
        self.http = _Unshared(_origin(endpoint), self.stream)
        return self.http

    def begin(self) -> None:
        """A new request starts on this connection: what is counted, is counted from here."""
        self._base = 0
        self._head = 0
        if self.stream is not None:
            self._base = self.stream.written
            self.stream.begin()

    def handed(self) -> int:
        return 0 if self.stream is None else self.stream.written - self._base

    def head_done(self) -> None:
        self._head = self.handed()

    def body_handed(self) -> int:
        return self.handed() - self._head if self._head else -1

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            self.pool.gone(self)
            if self.stream is not None:
                self.stream.watch_silence(None)
                self.stream.abort()


class PoolTransport(httpx.AsyncBaseTransport):
    """Connections of one event loop. Construction touches neither the network nor any certificate."""

    def __init__(
        self,
        resolver: Resolver,
        *,
        ssl_context: ssl.SSLContext | None = None,
        trust_env: bool = False,
        keep_alive: float = KEEP_ALIVE,
        max_idle: int = MAX_IDLE,
    ) -> None:
        self.resolver = resolver
        self._ssl_context = ssl_context
        self._making_tls: asyncio.Future[ssl.SSLContext] | None = None
        self._trust_env = trust_env
        self._keep_alive = keep_alive
        self._max_idle = max_idle
        self._idle: deque[_Connection] = deque()
        self._busy: set[_Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self.opened = 0
        """Connections opened since the start, for status."""

    @property
    def busy(self) -> int:
        return len(self._busy)

    @property
    def idle(self) -> int:
        return len(self._idle)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = cast(Exchange, request.extensions["exchange"])
        endpoint = cast(Endpoint, request.extensions["endpoint"])
        try:
            return await self._send(request, exchange, endpoint)
        except (httpcore.WriteError, httpcore.ReadError, httpcore.RemoteProtocolError):
            if not (exchange.idempotent and exchange.reused and not exchange.any_sent):
                raise
            exchange.reconnected = True
            return await self._send(request, exchange, endpoint, fresh=True)

    async def _send(
        self, request: httpx.Request, exchange: Exchange, endpoint: Endpoint, fresh: bool = False
    ) -> httpx.Response:
        if self._closed:
            raise httpcore.ConnectError("the client is closed")
        connection = None if fresh else self._take(endpoint.origin)
        exchange.reused = connection is not None
        if connection is None:
            connection = _Connection(self, endpoint)
            self.opened += 1
        self._busy.add(connection)
        exchange.connection = connection
        connection.begin()
        try:
            http = connection.http
            if http is None:
                http = await connection.open(endpoint, await self._tls() if endpoint.scheme == "https" else None)
            target = request.extensions.get("target") or request.url.raw_path
            url = httpcore.URL(scheme=endpoint.scheme, host=endpoint.host, port=endpoint.port, target=target)
            body = _Body(exchange.content, connection)
            reply = await http.handle_async_request(
                httpcore.Request(request.method, url, headers=request.headers.raw, content=body)
            )
        except BaseException:
            connection.abort()
            raise
        exchange.reply_headers = reply.headers
        return httpx.Response(reply.status, stream=ReplyBody(connection, reply))

    def _take(self, origin: str) -> _Connection | None:
        """The idle connection used last, if it is still whole: the most likely to be alive."""
        oldest = asyncio.get_running_loop().time() - self._keep_alive
        while self._idle:
            connection = self._idle.pop()
            stream = connection.stream
            if stream is not None and connection.origin == origin and connection.idle_since >= oldest:
                stream.watch_silence(None)
                if not stream.broken:
                    return connection
            connection.abort()
        return None

    def give_back(self, connection: _Connection) -> None:
        """The reply was read to its end: the connection is idle, or done with."""
        self._busy.discard(connection)
        http, stream = connection.http, connection.stream
        whole = http is not None and stream is not None and http.is_idle() and not stream.ended
        if self._closed or not whole or connection.aborted:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        cast(Stream, connection.stream).watch_silence(connection.abort)
        if len(self._idle) > self._max_idle:
            self._idle[0].abort()
        if self._sweep is None:
            self._sweep = loop.call_later(self._keep_alive, self._drop_expired, loop)

    def gone(self, connection: _Connection) -> None:
        self._busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def abort_all(self) -> None:
        """Closes every connection at once; for a loop that is going down."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in [*self._idle, *self._busy]:
            connection.abort()

    async def aclose(self) -> None:
        self.abort_all()
        await asyncio.sleep(0)  # lets the loop close the sockets before it is closed itself

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    def _drop_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep = None
        oldest = loop.time() - self._keep_alive
        for connection in [one for one in self._idle if one.idle_since <= oldest]:
            connection.abort()
        if self._idle:
            wait = max(0.05, self._idle[0].idle_since + self._keep_alive - loop.time())
            self._sweep = loop.call_later(wait, self._drop_expired, loop)

    async def _tls(self) -> ssl.SSLContext:
        """Built when https is first asked for, once for all who ask, and off the loop: reading the certificates takes
        20 ms. A failure is theirs who wait for it; the next call tries again."""
        if self._ssl_context is None:
            if self._making_tls is None or self._making_tls.done():
                self._making_tls = asyncio.ensure_future(on_daemon_thread(self._make_tls))
                self._making_tls.add_done_callback(_retrieved)
            self._ssl_context = await asyncio.shield(self._making_tls)
        return self._ssl_context

    def _make_tls(self) -> ssl.SSLContext:
        context = httpx.create_ssl_context(trust_env=self._trust_env)
        context.set_alpn_protocols(["http/1.1"])
        return context


def _retrieved(made: asyncio.Future[ssl.SSLContext]) -> None:
    """Whoever waited for it may be gone."""
    if not made.cancelled():
        made.exception()


def _origin(endpoint: Endpoint) -> httpcore.Origin:
    return httpcore.Origin(endpoint.scheme.encode(), endpoint.host.encode(), endpoint.port)


class _Body:
    """The request's body in one piece; being asked for it means that the head has been handed over."""

    __slots__ = ("_connection", "_content")

    def __init__(self, content: bytes, connection: _Connection) -> None:
        self._content = content
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._connection.head_done()
        if self._content:
            yield self._content

    async def aclose(self) -> None:
        pass


class ReplyBody(httpx.AsyncByteStream):
    """The reply's body. Read to the end it gives the connection back; closed earlier it aborts it.

    So does a 5xx (after an unhandled error uvicorn hangs up without saying so, and the next request would meet a
    reset), and a reply whose end is not exactly where its announced length puts it: what follows would be taken for the
    next reply, which may be about somebody else.
    """

    def __init__(self, connection: _Connection, reply: httpcore.Response) -> None:
        self._connection = connection
        self._reply = reply
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in cast(AsyncIterable[bytes], self._reply.stream):
            yield part
        self._ended = True

    async def whole(self, most: int) -> bytes | None:
        """All of it, None when it is longer than `most` bytes. One pass: no iterator of httpx's or ours between."""
        parts: list[bytes] = []
        size = 0
        async for part in cast(AsyncIterable[bytes], self._reply.stream):
            size += len(part)
            if size > most:
                return None
            parts.append(part)
        self._ended = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        if self._ended and self._may_be_used_again():
            await self._reply.aclose()
            self._connection.pool.give_back(self._connection)
        else:
            self._connection.abort()

    def _may_be_used_again(self) -> bool:
        reply, stream = self._reply, self._connection.stream
        if reply.status >= 500 or stream is None:
            return False
        if reply.status == 204:
            return stream.ended_after(0)
        length = next((value for name, value in reply.headers if name.lower() == b"content-length"), b"")
        return length.isdigit() and stream.ended_after(int(length[:20]))
