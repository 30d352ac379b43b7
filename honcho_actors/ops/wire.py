"""A very small HTTP/1.1 server for the loop: GET alone, one request a connection, everything bounded.

Promises: a client that sends nothing, or half a request, holds up neither the stop nor other clients; a request head
is at most 8 KiB and must be there within a second; at most 64 connections are open. It must never run a handler that
blocks, and never answer a request whose Host is not this machine (a page of a foreign site that was rebound to
loopback is refused before its path is looked at).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

MOST_HEAD_BYTES: Final = 8192
HEAD_TIMEOUT: Final = 1.0
WRITE_TIMEOUT: Final = 5.0
MOST_CONNECTIONS: Final = 64

_WORDS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: a decoded path and its query, nothing else of it is ever used."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    content_type: str = "application/json"


Handler = Callable[[Asked], Answer]


class Refuse(Exception):
    """Ends a request with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Door:
    """One listening port. `start` and `close` run on the loop that serves it."""

    def __init__(self, handler: Handler, *, host: str = "127.0.0.1", token: str | None = None) -> None:
        self._handler = handler
        self._host = host
        self._token = token
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.port = 0

    async def start(self, port: int) -> int:
        """Listens; gives the port. Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._serve, self._host, port, limit=MOST_HEAD_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def close(self) -> None:
        """Stops listening and drops every connection at once; nobody is waited for."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task, writer in tuple(self._open.items()):
            task.cancel()
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open[task] = writer
        try:
            answer = await self._answer(reader)
            async with asyncio.timeout(WRITE_TIMEOUT):
                writer.write(_head(answer) + answer.body)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._open.pop(task, None)

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            return self._handler(self._asked(head))
        except Refuse as refused:
            return Answer(b'{"error": "%d"}' % refused.status, refused.status)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return Answer(b'{"error": "400"}', 400)
        except Exception:  # noqa: BLE001 - boundary: a fault of one answer never reaches the loop or another client
            return Answer(b'{"error": "500"}', 500)

    def _asked(self, head: bytes) -> Asked:
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise Refuse(400)
        if parts[0] != "GET":
            raise Refuse(405)
        headers: dict[str, str] = {}
        for line in lines:
            name, found, value = line.partition(":")
            if found:
                headers[name.strip().lower()] = value.strip()
        host = headers.get("host", "")
        if self._host in _LOCAL_NAMES and _name(host) not in _LOCAL_NAMES:
            raise Refuse(403)
        if self._token is not None and not hmac.compare_digest(
            headers.get("authorization", "").encode("latin-1"), f"Bearer {self._token}".encode("latin-1")
        ):
            raise Refuse(401)
        try:
            target = urlsplit(parts[1])
        except ValueError:
            raise Refuse(400) from None
        return Asked(unquote(target.path), dict(parse_qsl(target.query)))


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host


def _head(answer: Answer) -> bytes:
    return (
        f"HTTP/1.1 {answer.status} {_WORDS.get(answer.status, 'Error')}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    ).encode("latin-1")
