"""The connections to the model: one request on each, kept for the next one, given up at once when a caller leaves.

HTTP/1.1 over asyncio's own streams and h11. The pool of httpx is not used: it loses a place to many a cancelled call,
and callers of a proxy leave all the time. A request is never sent twice: a model call costs money. Bodies pass in the
pieces in which they come; nothing is read from the model faster than the caller takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import h11

CONNECT_SECONDS: Final = 10.0
KEEP_SECONDS: Final = 4.0
"""That an idle connection is used again: below the five seconds after which many servers hang up."""
MAX_IDLE: Final = 128
READ_BYTES: Final = 64 * 1024
MAX_HEAD_BYTES: Final = 256 * 1024

Headers = list[tuple[bytes, bytes]]


class BadUpstream(ValueError):
    """An address that no model can have; the text is one clause."""


class Unreachable(OSError):
    """The model could not be asked, or hung up before it had answered; the text is one clause without a secret."""


class Cut(OSError):
    """The model hung up in the middle of its answer."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the model is."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Of `http://host[:port][/prefix]` or https. Raises `BadUpstream`."""
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError as error:
            raise BadUpstream(f"this address cannot be used: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadUpstream("an address begins with http:// or https:// and names a host")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise BadUpstream("an address holds no user, no query and no fragment")
        tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"))

    @property
    def host_header(self) -> bytes:
        """As requests name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        return (host if self.port == usual else f"{host}:{self.port}").encode("idna" if host.isascii() else "utf-8")

    def target(self, path: bytes, query: bytes) -> bytes:
        """Path and query as the model is asked: below the prefix, which a caller may have written already."""
        prefix = self.prefix.encode()
        whole = path if not prefix or path == prefix or path.startswith(prefix + b"/") else prefix + path
        return whole + (b"?" + query if query else b"")


class Reply:
    """An answer as it comes. Read `body` to its end, or `abort`."""

    def __init__(self, link: _Link, head: h11.Response) -> None:
        self._link = link
        self.status = int(head.status_code)
        self.headers: Headers = list(head.headers.raw_items())

    async def body(self) -> AsyncIterator[bytes]:
        """The body's bytes. Raises `Cut` when it ends before its end."""
        link = self._link
        while True:
            event = await link.next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                link.give_back()
                return
            else:
                link.abort()
                raise Cut("the model hung up in the middle of its answer")

    def abort(self) -> None:
        """Hangs up, unless the answer was read to its end."""
        self._link.abort()


class Upstream:
    """Connections to one model, of one event loop."""

    def __init__(self, url: str, *, ssl_context: ssl.SSLContext | None = None) -> None:
        """Raises `BadUpstream`. Touches no network."""
        self.address = Address.parse(url)
        self._ssl_context = ssl_context
        self._idle: deque[_Link] = deque()
        self.busy = 0
        """Requests under way."""
        self.opened = 0
        """Connections made since the start."""

    async def send(
        self, method: bytes, target: bytes, headers: Headers, body: bytes | AsyncIterator[bytes] = b""
    ) -> Reply:
        """Asks, and gives the beginning of the answer. Raises `Unreachable`, or h11's `LocalProtocolError` for what
        cannot be said in HTTP."""
        request = h11.Request(method=method, target=target, headers=headers)
        link = self._take() or await self._open()
        try:
            return await link.ask(request, body)
        except BaseException:
            link.abort()
            raise

    def _take(self) -> _Link | None:
        oldest = asyncio.get_running_loop().time() - KEEP_SECONDS
        while self._idle:
            link = self._idle.pop()
            if link.idle_since >= oldest and not link.gone:
                self.busy += 1
                return link
            link.drop()
        return None

    async def _open(self) -> _Link:
        address = self.address
        if address.tls and self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: protocol,
                    address.host,
                    address.port,
                    ssl=self._ssl_context if address.tls else None,
                    server_hostname=address.host if address.tls else None,
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"the model could not be reached ({type(error).__name__})") from None
        self.busy += 1
        self.opened += 1
        return _Link(self, reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def _keep(self, link: _Link) -> None:
        link.idle_since = asyncio.get_running_loop().time()
        self._idle.append(link)
        if len(self._idle) > MAX_IDLE:
            self._idle.popleft().drop()

    def close(self) -> None:
        """Hangs up what is idle; what is under way belongs to whoever asked."""
        while self._idle:
            self._idle.pop().drop()


class _Reader(asyncio.StreamReader):
    """Knows how much came."""

    came = 0

    def feed_data(self, data: Any) -> None:
        self.came += len(data)
        super().feed_data(data)


class _Link:
    """One connection and where HTTP stands on it."""

    __slots__ = ("_http", "_in_use", "_reader", "_taken", "_upstream", "_writer", "idle_since")

    def __init__(self, upstream: Upstream, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._upstream = upstream
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._in_use = True
        self._taken = 0
        self.idle_since = 0.0

    @property
    def gone(self) -> bool:
        """Whether the model has hung up, or has said something that nobody asked for."""
        return self._writer.is_closing() or self._reader.at_eof() or self._reader.came > self._taken

    async def ask(self, request: h11.Request, body: bytes | AsyncIterator[bytes]) -> Reply:
        self._in_use = True
        with contextlib.suppress(OSError):  # it may have answered before it hung up: a refusal of a large body does
            await self._say(request, body)
        while True:
            event = await self.next()
            if isinstance(event, h11.Response):
                return Reply(self, event)
            if not isinstance(event, h11.InformationalResponse):
                raise Unreachable("the model hung up before it answered")

    async def _say(self, request: h11.Request, body: bytes | AsyncIterator[bytes]) -> None:
        head = self._http.send(request) or b""
        if isinstance(body, bytes):
            whole = (self._http.send(h11.Data(data=body)) or b"") if body else b""
            self._writer.write(head + whole + (self._http.send(h11.EndOfMessage()) or b""))
        else:
            self._writer.write(head)
            async for piece in body:
                self._writer.write(self._http.send(h11.Data(data=piece)) or b"")
                await self._writer.drain()
            self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    async def next(self) -> Any:
        """What came next; None when the model is gone, or is not speaking HTTP."""
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                data = await self._reader.read(READ_BYTES)
                self._taken += len(data)
                self._http.receive_data(data)
            except (OSError, h11.RemoteProtocolError):
                return None

    def give_back(self) -> None:
        """The answer was read to its end."""
        if not self._in_use:
            return
        self._in_use = False
        self._upstream.busy -= 1
        try:
            self._http.start_next_cycle()
        except h11.ProtocolError:
            self.drop()
            return
        if self._http.trailing_data[0] or self.gone:  # what follows would be taken for the next answer
            self.drop()
        else:
            self._upstream._keep(self)

    def abort(self) -> None:
        """Hangs up in the middle. Idempotent; nothing to wait for."""
        if self._in_use:
            self._in_use = False
            self._upstream.busy -= 1
            self.drop()

    def drop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may have gone meanwhile
            self._writer.transport.abort()
