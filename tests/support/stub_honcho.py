"""A tiny scripted HTTP server on a real socket: records what came, answers what the test says. No Honcho semantics in
it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Seen:
    """One request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.split("?", 1)[0]

    @property
    def query(self) -> str:
        return self.target.split("?", 1)[1] if "?" in self.target else ""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Raw:
    """Bytes to write as they are; then the connection is closed, kept, or reset."""

    data: bytes
    then: str = "close"


@dataclass(slots=True)
class Said:
    """An ordinary reply."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0

    def encoded(self) -> bytes:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        head = {"content-type": "application/json", "content-length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in head.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


Answer = Said | Raw
Script = Callable[[Seen], Answer | Awaitable[Answer]]


class StubHoncho:
    """`async with StubHoncho(script) as stub`: `stub.url`, `stub.seen`, `stub.open` (sockets that the peer keeps
    open).
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script: Script = script or (lambda seen: Said({}))
        self.seen: list[Seen] = []
        self.accepted = 0
        self.url = ""
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def open(self) -> int:
        return len(self._writers)

    async def __aenter__(self) -> StubHoncho:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        while self._writers:  # noqa: ASYNC110 (each ends in a callback of its own)
            await asyncio.sleep(0.001)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        seen = Seen(method, target, headers, body)
        self.seen.append(seen)
        scripted = self.script(seen)
        if isinstance(scripted, (Said, Raw)):
            answer = scripted
        else:
            came = await self._while_connected(scripted, reader)
            if came is None:
                return False
            answer = came
        if isinstance(answer, Raw):
            writer.write(answer.data)
            await writer.drain()
            if answer.then == "reset":
                writer.transport.abort()
            return answer.then == "keep"
        if answer.delay and await self._while_connected(asyncio.sleep(answer.delay, answer), reader) is None:
            return False
        writer.write(answer.encoded())
        await writer.drain()
        return answer.headers.get("connection") != "close"

    async def _while_connected(self, work: Awaitable[Answer], reader: asyncio.StreamReader) -> Answer | None:
        """The answer, or None as soon as the client has hung up."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(reader.read(1))
        both: set[asyncio.Future[Any]] = {task, gone}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, gone):
                one.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)
