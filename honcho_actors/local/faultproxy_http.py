"""Just enough HTTP/1.1 for the fault proxy: read one message whole, pass it on, write one back. No judgement of its
own.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Broken(Exception):
    """The other side went away, or speaks no HTTP."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a reply, read whole."""

    first: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def encoded(self, *extra: tuple[str, str]) -> bytes:
        """As bytes with its length announced; what concerns one connection only is left out."""
        kept = [(key, value) for key, value in self.headers if key.lower() not in _HOP]
        lines = [self.first, *(f"{key}: {value}" for key, value in [*kept, *extra])]
        if self.body or not self.first.startswith(("GET", "DELETE", "HTTP/1.1 204")):
            lines.append(f"content-length: {len(self.body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body


async def read_message(reader: asyncio.StreamReader, *, reply: bool = False) -> Message | None:
    """The next message, None at a clean end. Raises `Broken`."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        if not ended.partial and not reply:
            return None
        raise Broken("the connection ended inside a head") from None
    except (asyncio.LimitOverrunError, OSError) as wrong:
        raise Broken(str(wrong)) from None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = tuple((key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines))
    message = Message(first, headers, b"")
    try:
        body = await _read_body(reader, message, reply)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError) as wrong:
        raise Broken(f"the connection ended inside a body ({type(wrong).__name__})") from None
    return Message(first, headers, body)


async def _read_body(reader: asyncio.StreamReader, message: Message, reply: bool) -> bytes:
    if reply and message.first.split(" ")[1:2] in (["204"], ["304"]):
        return b""
    if "chunked" in message.header("transfer-encoding").lower():
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append(await reader.readexactly(min(size, MAX_BODY_BYTES)))
            await reader.readexactly(2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)
    length = message.header("content-length")
    if length:
        return await reader.readexactly(min(int(length), MAX_BODY_BYTES))
    return await reader.read(MAX_BODY_BYTES) if reply else b""


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with a reset instead of an orderly end."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        try:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    writer.transport.abort()


async def forward(host: str, port: int, request: Message, share: float = 1.0) -> Message | None:
    """Sends the request on and gives the reply. With `share` < 1 only that much of the bytes goes out and None comes
    back.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port, limit=MAX_HEAD_BYTES)
    except OSError as wrong:
        raise Broken(f"the server cannot be reached: {wrong}") from None
    try:
        data = request.encoded(("connection", "close"))
        if share < 1.0:
            head = len(data) - len(request.body)
            writer.write(data[: head + int(len(request.body) * share)] if request.body else data[: int(head * share)])
            await writer.drain()
            reset(writer)
            return None
        writer.write(data)
        await writer.drain()
        return await read_message(reader, reply=True)
    except OSError as wrong:
        raise Broken(str(wrong)) from None
    finally:
        writer.transport.abort()
