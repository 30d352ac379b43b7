"""A server for `benchmarks.life`, in a process of its own: every reply comes after a while and names who was asked for.

It knows everybody, and costs the machine next to nothing: what is measured is the runtime beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

BEFORE = b'{"id":"'
AFTER = (
    '","messages":[],"summary":{"content":"They planned a trip."},"peer_card":["name: Ada","city: Turin"],'
    + '"peer_representation":'
    + json.dumps("## Explicit Observations\n" + "[2026-01-01 00:00:00] She likes tea.\n" * 40)
    + "}"
).encode()
ANSWER = b'{"content":"She likes tea."}'


class Naming(asyncio.Protocol):
    """One request after another: a session's context, or a question."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._seen = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        self._seen = b""
        asyncio.get_running_loop().call_later(self._delay, self._answer, head)

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1].split(b"?")[0].split(b"/")
        said = BEFORE + path[5] + AFTER if path[-1] == b"context" else ANSWER
        if self._transport is not None and not self._transport.is_closing():
            reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said)
            self._transport.write(reply + said)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


@contextlib.contextmanager
def naming_server(delay: float) -> Iterator[str]:
    """Its URL, while it runs."""
    command = [sys.executable, "-m", "benchmarks._naming_server", str(delay)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.communicate(timeout=10)  # closes its stdin, and it ends


async def main(delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Naming(delay), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started it is gone
    server.close()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
