"""Runs the proxy: one process, one event loop, until it is told to end.

What streams when the end is asked for gets a few seconds; then the turns that are open end without an answer, and the
runtime drains.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import uvicorn

from honcho_actors.host import Replays
from honcho_actors.integrations.proxy.app import Proxy
from honcho_actors.integrations.proxy.naming import Naming
from honcho_actors.integrations.proxy.upstream import Upstream
from honcho_actors.integrations.turns import Turns
from honcho_actors.runtime import Memory
from honcho_actors.sessions.histories import histories

GRACE_SECONDS: Final = 5
MAX_REQUESTS: Final = 2_000
"""At once; more are answered 503 at once."""
BACKLOG: Final = 2_048


NOBODY_ELSE: Final = Naming()
"""Names by headers, without a token: for a listener that only this machine reaches."""


class CannotListen(OSError):
    """The port cannot be had; the text is one clause."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio asks for TCP by this number
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        raise CannotListen(f"port {port} of {host} cannot be had: {error}") from None
    return listener


def serve(
    memory: Memory, upstream: Upstream, naming: Naming, listener: socket.socket, ready: Callable[[str], None]
) -> None:
    """Serves until SIGTERM or SIGINT. `ready` gets the address when it listens. Blocks; the main thread."""
    asyncio.run(_serve(memory, upstream, naming, listener, lambda server: ready(_url(listener))))


@contextmanager
def running(
    memory: Memory, upstream: Upstream, naming: Naming = NOBODY_ELSE, *, host: str = "127.0.0.1", port: int = 0
) -> Iterator[str]:
    """Serves on a thread of its own for as long as the block lasts; gives the address. Raises `CannotListen`."""
    listener = listen(host, port)
    servers: queue.SimpleQueue[uvicorn.Server | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            asyncio.run(_serve(memory, upstream, naming, listener, servers.put))
        finally:
            servers.put(None)

    thread = threading.Thread(target=work, name="honcho-proxy", daemon=True)
    thread.start()
    server = servers.get()
    try:
        if server is None:
            raise CannotListen("the proxy ended as it began")
        yield _url(listener)
    finally:
        if server is not None:
            server.should_exit = True
        thread.join(GRACE_SECONDS + 5.0)
        listener.close()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _serve(
    memory: Memory,
    upstream: Upstream,
    naming: Naming,
    listener: socket.socket,
    started: Callable[[uvicorn.Server], object],
) -> None:
    store = histories(memory.settings)
    with closing(store), Turns(memory, require_user=True, replays=Replays(store)) as turns:
        config = uvicorn.Config(
            Proxy(turns, upstream, naming),
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            backlog=BACKLOG,
            limit_concurrency=MAX_REQUESTS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=64 * 1024,
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve([listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110 (uvicorn offers no event)
            await asyncio.sleep(0.005)
        if server.started:
            started(server)
        try:
            await serving
        finally:
            upstream.close()
