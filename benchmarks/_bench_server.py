"""The servers that `benchmarks.client` asks, in a process of their own: an instant, a slow, a dripping and a hanging
one.
"""

from __future__ import annotations

import asyncio
import json
import sys

CONTEXT = json.dumps(
    {
        "id": "s",
        "messages": [],
        "summary": {"content": "They planned a trip. " * 20},
        "peer_representation": "## Explicit Observations\n" + "[2026-01-01 00:00:00] She likes tea.\n" * 40,
        "peer_card": ["name: Ada", "city: Turin"],
    }
).encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(CONTEXT) + CONTEXT


class Answering(asyncio.Protocol):
    """Answers every request head with the context, `delay` seconds later. Requests have no body and do not overlap."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._seen = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if self._seen.endswith(b"\r\n\r\n"):
            self._seen = b""
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(REPLY)


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        for place in range(len(REPLY)):
            writer.write(REPLY[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0.05)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()
    except OSError:
        pass
    finally:
        writer.transport.abort()


async def main() -> None:
    loop = asyncio.get_running_loop()
    servers = {
        "instant": await loop.create_server(lambda: Answering(0.0), "127.0.0.1", 0, backlog=4096),
        "slow": await loop.create_server(lambda: Answering(0.2), "127.0.0.1", 0, backlog=4096),
        "drip": await asyncio.start_server(drip, "127.0.0.1", 0, backlog=4096),
        "hang": await asyncio.start_server(hang, "127.0.0.1", 0, backlog=4096),
    }
    ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
    print(json.dumps(ports), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started us is gone


if __name__ == "__main__":
    asyncio.run(main())
