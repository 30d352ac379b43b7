"""A relay on loopback that keeps every byte a client sent, passes it on, and can answer in the server's place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import urlsplit


class Relay:
    """`with Relay(server_url) as relay`: `relay.url`, `relay.received`; `relay.say(status, body)` answers instead of
    the server."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.received = bytearray()
        self._streams: list[bytearray] = []
        self.url = ""
        self._said: bytes | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="relay", daemon=True)

    def say(self, status: int, body: bytes) -> None:
        """From now on every request is answered like this."""
        lines = ("content-type: application/json", "connection: close", f"content-length: {len(body)}", "", "")
        self._said = "\r\n".join((f"HTTP/1.1 {status} X", *lines)).encode() + body

    def pass_on(self) -> None:
        """From now on the server answers again."""
        self._said = None

    def requests(self) -> list[tuple[str, str, str]]:
        """Method, target and body of every whole request until now, connection by connection."""
        return [request for stream in list(self._streams) for request in _requests(bytes(stream))]

    def __enter__(self) -> Relay:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        stream = bytearray()
        self._streams.append(stream)
        try:
            while data := await reader.read(65_536):
                self.received += data
                stream += data
                if self._said is not None:
                    writer.write(self._said)
                    await writer.drain()
                    break
                if upstream is None:
                    answers, upstream = await asyncio.open_connection(*self._upstream)
                    back = asyncio.create_task(self._back(answers, writer))
                upstream.write(data)
                await upstream.drain()
            if upstream is not None:
                upstream.close()
                await back
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            if upstream is not None:
                upstream.close()

    async def _back(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await answers.read(65_536):
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def _requests(data: bytes) -> Iterator[tuple[str, str, str]]:
    while b"\r\n\r\n" in data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
        method, target = first.split(" ")[:2]
        yield method, target, data[:length].decode()
        data = data[length:]
