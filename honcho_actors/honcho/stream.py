"""One TCP or TLS connection, as httpcore's connections want it: our own stream over asyncio's transports.

It adds what the pool needs and no public stream offers: `abort()` without waiting (a killed call closes its socket at
once), a true count of what was handed to the kernel (the difference between a failure and an unknown outcome), and
word of a peer that hung up while idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

import httpcore

from honcho_actors.honcho.endpoint import Endpoint, all_private
from honcho_actors.honcho.resolver import Address, Resolver

READ_AHEAD_BYTES = 256 * 1024
"""The kernel is asked for no more while this much lies unread."""
CONNECT_STAGGER = 1.0
"""Seconds given to one address of several before the next is tried; the one that worked is first from then on."""


class PublicHttp(Exception):
    """Plain http to an address that is not private, without leave. Never retried: it is a setting, not an accident."""


class _Wire(asyncio.Protocol):
    """Buffers what comes, wakes the one reader and the one writer, remembers how the connection ended."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        self.eof = False
        self.lost = False
        self.error: Exception | None = None
        self.on_silence_broken: Callable[[], None] | None = None
        """Called when anything happens on a connection that is idle; nothing may."""
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._reading = True
        self.may_write = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self._reading and len(self.buffer) > READ_AHEAD_BYTES and self.transport is not None:
            self._reading = False
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.eof = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.error = error
        self._wake()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    async def readable(self) -> None:
        if self.buffer or self.eof or self.lost:
            return
        if not self._reading and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def writable(self) -> None:
        if self.may_write or self.lost:
            return
        self._writer = asyncio.get_running_loop().create_future()
        try:
            await self._writer
        finally:
            self._writer = None

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        if self.on_silence_broken is not None:
            self.on_silence_broken()


class Stream(httpcore.AsyncNetworkStream):
    """The stream that httpcore reads and writes. Its time-outs are ignored: a call has one total deadline, kept
    outside.
    """

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._secure = False
        self._unsent_at_abort = 0
        self._aborted = False
        self.written = 0
        """Bytes given to the transport since the connection was made."""
        self._head = bytearray()
        self._head_bytes: int | None = None
        self._received = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        wire = self._wire
        await wire.readable()
        if wire.buffer:
            data = bytes(wire.buffer[:max_bytes])
            del wire.buffer[:max_bytes]
            self._count(data)
            return data
        if wire.error is not None:
            raise httpcore.ReadError(str(wire.error) or type(wire.error).__name__) from wire.error
        return b""

    def begin(self) -> None:
        """A new request starts: what is received is counted from here."""
        self._head.clear()
        self._head_bytes = None
        self._received = 0

    def ended_after(self, body_bytes: int) -> bool:
        """Whether what was received since `begin` is one head and so many bytes, and nothing more."""
        return self._head_bytes is not None and self._received == self._head_bytes + body_bytes

    def _count(self, data: bytes) -> None:
        self._received += len(data)
        if self._head_bytes is None:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end >= 0:
                self._head_bytes = end + 4
                self._head.clear()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        wire = self._wire
        if not buffer:
            return
        if wire.lost or wire.eof or wire.transport is None or wire.transport.is_closing():
            raise httpcore.WriteError("the peer has closed the connection") from wire.error
        wire.transport.write(buffer)
        if wire.transport.is_closing():  # the first send failed at once: nothing of this buffer went out
            raise httpcore.WriteError("the peer has closed the connection") from wire.error
        self.written += len(buffer)
        await wire.writable()
        if wire.error is not None:
            raise httpcore.WriteError(str(wire.error) or type(wire.error).__name__) from wire.error

    async def aclose(self) -> None:
        self.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Stream:
        loop = asyncio.get_running_loop()
        wire = self._wire
        if wire.transport is None:
            raise httpcore.ConnectError("the peer has closed the connection")
        plain = wire.transport
        try:
            secure = await loop.start_tls(plain, wire, ssl_context, server_hostname=server_hostname)
        except BaseException as failed:
            plain.abort()
            if isinstance(failed, OSError):
                raise httpcore.ConnectError(str(failed)) from failed
            raise
        if secure is None:
            raise httpcore.ConnectError("the peer has closed the connection")
        wire.transport = secure
        self._secure = True
        self.written = 0
        return self

    def get_extra_info(self, info: str) -> Any:
        wire = self._wire
        if info == "is_readable":
            return self.broken
        if wire.transport is None:
            return None
        names = {"server_addr": "peername", "client_addr": "sockname"}
        return wire.transport.get_extra_info(names.get(info, info))

    def abort(self) -> None:
        """Closes at once, without waiting; what the kernel has not been given is never sent."""
        if self._wire.transport is not None and not self._aborted:
            self._unsent_at_abort = self.unsent
            self._aborted = True
            self._wire.transport.abort()

    @property
    def unsent(self) -> int:
        """At least so many bytes the kernel has certainly not been given. 0 under TLS mostly: there it is not known."""
        wire = self._wire
        if self._aborted:
            return self._unsent_at_abort
        if wire.lost:
            return 0 if wire.may_write else 1
        if self._secure or wire.transport is None:
            return 0
        return wire.transport.get_write_buffer_size()

    @property
    def ended(self) -> bool:
        """As `broken`, by what the loop has been told: no question to the kernel."""
        wire = self._wire
        return bool(wire.eof or wire.lost or wire.buffer or wire.transport is None or wire.transport.is_closing())

    @property
    def broken(self) -> bool:
        """Whether an idle connection can't be used again: hung up, lost, or with bytes that nobody asked for."""
        wire = self._wire
        if self.ended or wire.transport is None:
            return True
        raw = wire.transport.get_extra_info("socket")
        return raw is None or _readable(raw.fileno())

    def watch_silence(self, broken: Callable[[], None] | None) -> None:
        """Calls `broken` when the peer hangs up or speaks while the connection is idle."""
        self._wire.on_silence_broken = broken


async def connect(resolver: Resolver, endpoint: Endpoint, ssl_context: ssl.SSLContext | None) -> Stream:
    """A connection to the endpoint: our resolver, a private address where one is demanded, one address after another.

    Raises `PublicHttp`, httpcore's errors and OSError. Cancelled at any moment it leaves no socket behind.
    """
    addresses = await resolver.resolve(endpoint.host, endpoint.port)
    if endpoint.demands_private and not all_private(str(address[1][0]) for address in addresses):
        raise PublicHttp("https is demanded off private networks")
    failures: list[OSError] = []
    for number, address in enumerate(addresses):
        patience = CONNECT_STAGGER if number + 1 < len(addresses) else None
        try:
            async with asyncio.timeout(patience):
                wire = await _connect(address)
        except OSError as failed:
            failures.append(failed)
            continue
        if number:
            resolver.worked(endpoint.host, endpoint.port, address)
        stream = Stream(wire)
        if ssl_context is not None:
            await stream.start_tls(ssl_context, endpoint.host)
        return stream
    raise httpcore.ConnectError("; ".join(dict.fromkeys(map(_said, failures)))) from failures[-1]


def _readable(descriptor: int) -> bool:
    """Whether the kernel holds something (an end, too) that the loop has not been told of yet."""
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _said(failed: OSError) -> str:
    return str(failed) or type(failed).__name__


async def _connect(address: Address) -> _Wire:
    loop = asyncio.get_running_loop()
    family, target = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, target)
        _, wire = await loop.create_connection(_Wire, sock=sock)
    except BaseException:
        sock.close()
        raise
    return wire
