"""A very small HTTP/1.1 server for the loop: GET alone, one request a connection, everything bounded.

Promises: a client that sends nothing, or half a request, holds up neither the stop nor other clients; a request head
is at most 8 KiB and must be there within a second; at most 64 connections are open. It must never run a handler that
blocks, and never answer a request whose Host is not this machine (a page of a foreign site that was rebound to
loopback is refused before its path is looked at).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

MOST_HEAD_BYTES: Final = 8192
HEAD_TIMEOUT: Final = 1.0
WRITE_TIMEOUT: Final = 5.0
MOST_CONNECTIONS: Final = 64
SPENT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
SPENT_FOR: Final = 1.0
"""Seconds until it is looked again whether the process has a descriptor left: who waits keeps the port readable."""

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
    """One request: a decoded path, its query, and two headers; nothing else of it is ever used."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    authorization: str = ""
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Asked], Answer]


class Refuse(Exception):
    """Ends a request with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Door:
    """One listening port. `start` and `close` run on the loop that serves it."""

    def __init__(
        self, handler: Handler, *, host: str = "127.0.0.1", guard: Callable[[Asked], bool] | None = None
    ) -> None:
        """`guard` says whether a request may be answered; it is asked after the Host name was."""
        self._handler = handler
        self._host = host
        self._guard = guard
        self._listening: socket.socket | None = None
        self._closed = False
        self._open: set[_Talk] = set()
        self._coming: dict[asyncio.Task[None], socket.socket] = {}
        self.port = 0

    async def start(self, port: int) -> int:
        """Listens; gives the port. Raises OSError when the port is taken."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.create_server((self._host, port), family=family, backlog=MOST_CONNECTIONS)
        listening.setblocking(False)
        self._listening = listening
        self.port = int(listening.getsockname()[1])
        asyncio.get_running_loop().add_reader(listening.fileno(), self._accept)
        return self.port

    def close(self) -> None:
        """Stops listening and drops every connection at once; nobody is waited for."""
        self._closed = True
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None
        for task, taken in tuple(self._coming.items()):
            task.cancel()
            taken.close()
        for talk in tuple(self._open):
            talk.drop()

    def _accept(self) -> None:
        """Not asyncio's own server: on 3.11 that one loses sockets which it has accepted when it is closed."""
        loop = asyncio.get_running_loop()
        for _ in range(MOST_CONNECTIONS):
            if self._listening is None:
                return
            try:
                taken, _where = self._listening.accept()
            except OSError as error:  # nobody waits, or who waited has gone, or there is no descriptor left
                if error.errno in SPENT:
                    loop.remove_reader(self._listening.fileno())
                    loop.call_later(SPENT_FOR, self._listen_again)
                return
            taken.setblocking(False)
            task = loop.create_task(self._bring_up(taken))
            self._coming[task] = taken
            task.add_done_callback(self._came)

    def _listen_again(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening.fileno(), self._accept)

    async def _bring_up(self, taken: socket.socket) -> None:
        self._coming.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: _Talk(self), taken)
        except OSError:
            taken.close()

    def _came(self, task: asyncio.Task[None]) -> None:
        self._coming.pop(task, None)
        if not task.cancelled():
            task.exception()

    def admit(self, talk: _Talk) -> bool:
        """Whether this connection may stay; one that came while the door was closing may not."""
        if self._closed or len(self._open) >= MOST_CONNECTIONS:
            return False
        self._open.add(talk)
        return True

    def gone(self, talk: _Talk) -> None:
        """This connection has ended."""
        self._open.discard(talk)

    def answer(self, head: bytes) -> Answer:
        """The answer to one request head."""
        try:
            return self._handler(self._asked(head))
        except Refuse as refused:
            return Answer(b'{"error": "%d"}' % refused.status, refused.status)
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
        try:
            target = urlsplit(parts[1])
        except ValueError:
            raise Refuse(400) from None
        asked = Asked(
            unquote(target.path),
            dict(parse_qsl(target.query)),
            headers.get("authorization", ""),
            headers.get("accept", ""),
        )
        if self._guard is not None and not self._guard(asked):
            raise Refuse(401)
        return asked


class _Talk(asyncio.Protocol):
    """One connection: a head within a second, one answer, and the end."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._heard = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._door.admit(self):
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, self._say, _BAD)

    def data_received(self, data: bytes) -> None:
        if self._heard is _ANSWERED:
            return
        self._heard += data
        end = self._heard.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES + 4)
        if end >= 0:
            self._say(self._door.answer(self._heard[:end]))
        elif len(self._heard) > MOST_HEAD_BYTES:
            self._say(_BAD)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._door.gone(self)

    def drop(self) -> None:
        """Ends the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _say(self, answer: Answer) -> None:
        """Writes, and closes once it is written; a client that does not read is dropped after a while."""
        self._heard = _ANSWERED
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(WRITE_TIMEOUT, self.drop)
        if self._transport is not None:
            self._transport.write(_head(answer) + answer.body)
            self._transport.close()


_ANSWERED: Final = b"answered"
_BAD: Final = Answer(b'{"error": "400"}', 400)


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
        + "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        + "Connection: close\r\n\r\n"
    ).encode("latin-1")
