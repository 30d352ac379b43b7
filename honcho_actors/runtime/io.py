"""What lives on the event loop: one HTTP client for each loop, made when a worker first needs it.

Promises: a client is never shared between loops; a replaced loop gets a new one, and the old one's connections go with
the old loop; making one touches no network. What the client is made of (endpoint, limits) follows the settings in
force without a restart.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint, parse_endpoint
from honcho_actors.honcho.outcomes import Failure, FailureKind
from honcho_actors.metrics import Meters
from honcho_actors.settings import Settings, SettingsCell
from supervision import TaskActor

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient


LOOK_AGAIN: Final = 0.01
"""Seconds between two looks at whether the HTTP library is there."""

FORK_WAITS: Final = 10.0
"""Seconds that a fork waits, at most, for the HTTP library to be loaded whole."""

_loaded = threading.Event()
_loading = threading.RLock()
_forking = threading.local()


def preload() -> None:
    """Loads what the first request would otherwise load on the loop. Any thread; a tenth of a second, once, and
    seconds where the disk or the processor is slow."""
    with _loading:
        try:
            import_module("honcho_actors.honcho.client")
        finally:
            _loaded.set()


def _before_fork() -> None:
    """A child that is forked in the middle of an import keeps half a library for ever: the fork waits for the rest."""
    _forking.held = _loading.acquire(timeout=FORK_WAITS)


def _after_fork_in_parent() -> None:
    if _forking.held:
        _loading.release()


def _after_fork_in_child() -> None:
    global _loading
    _loading = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


async def loaded() -> None:
    """Returns when `preload` has run somewhere: an import on the loop would hold up everything on it, and a loop that
    is held up for too long is given up."""
    while not _loaded.is_set():  # noqa: ASYNC110 (a thread sets it)
        await asyncio.sleep(LOOK_AGAIN)


class EndpointInForce:
    """The endpoint of the settings in force; parsed once for each epoch. Callable, cheap, never raises."""

    def __init__(self, cell: SettingsCell) -> None:
        self._cell = cell
        self._made_for: Settings | None = None
        self._endpoint: Endpoint | BadEndpoint = BadEndpoint("no server is set")

    def __call__(self) -> Endpoint | BadEndpoint:
        settings = self._cell.current
        if settings is not self._made_for:
            if settings.configured:
                self._endpoint = parse_endpoint(
                    settings.server_url, settings.api_key, allow_public_http=settings.allow_public_http
                )
            else:
                self._endpoint = BadEndpoint("memory is switched off" if not settings.enabled else "no server is set")
            self._made_for = settings
        return self._endpoint


class Clients:
    """Gives the client of the running loop. Called on a loop only; `status` from any thread."""

    def __init__(self, cell: SettingsCell, meters: Meters) -> None:
        self._cell = cell
        self._meters = meters
        self._endpoint = EndpointInForce(cell)
        self._client: HonchoClient | None = None
        self._limits_of: Settings | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[asyncio.AbstractEventLoop, tuple[HonchoClient, asyncio.Task[None]]] = {}
        """A loop that was given up and one that took its place may both ask for a while: each has its own."""

    def for_server(self, server_id: str) -> HonchoClient | None:
        """The client of this loop if it talks to that server now; None when the settings in force name another."""
        settings = self._cell.current
        if not settings.configured or settings.server_id != server_id:
            return None
        return self() if _loaded.is_set() else cast("HonchoClient", _Coming(self, server_id))

    def __call__(self) -> HonchoClient:
        """The client of the loop that runs here."""
        loop = asyncio.get_running_loop()
        settings = self._cell.current
        held = self._held.get(loop)
        if held is None:
            from honcho_actors.honcho.client import HonchoClient
            from honcho_actors.honcho.limiter import Limiter

            limiter = Limiter(settings.max_concurrent_requests, settings.requests_per_second)
            client = HonchoClient(self._endpoint, limiter=limiter, meters=self._meters, reread=self._cell.poll)
            holder = loop.create_task(_for_ever())
            self._held[loop] = client, holder
            holder.add_done_callback(partial(self._let_go, loop, client))
            self._client, self._loop, self._limits_of = client, loop, settings
            return client
        client = held[0]
        if loop is self._loop and settings is not self._limits_of:
            client.limiter.change(settings.max_concurrent_requests, settings.requests_per_second)
            self._limits_of = settings
        return client

    def _let_go(self, loop: asyncio.AbstractEventLoop, client: HonchoClient, holder: object) -> None:
        """The loop ends, however that comes about, or the client was closed: on the loop, since no other thread may."""
        self._held.pop(loop, None)
        client.limiter.close()
        client.transport.abort_all()
        client.resolver.close()

    def status(self) -> dict[str, Any]:
        """Counts of the present client; empty before the first request."""
        client = self._client
        return {} if client is None else client.status()

    def breakers(self) -> Mapping[str, str]:
        """The state of each part of the server, as the present client sees it; empty before the first request."""
        client, loop = self._client, self._loop
        return {} if client is None or loop is None else client.breakers.states(loop.time())

    def problem(self) -> str:
        """Why nothing may be sent to the server that is set, as a clause; "" when something may."""
        endpoint = self._endpoint()
        return endpoint.problem if isinstance(endpoint, BadEndpoint) else ""

    async def aclose(self) -> None:
        """Closes the client of this loop, and no other's."""
        held = self._held.get(asyncio.get_running_loop())
        if held is not None:
            client, holder = held
            if self._client is client:
                self._client = None
            await client.aclose()
            holder.cancel()


class _Coming:
    """Stands for the client while the HTTP library is being loaded: an operation waits for that, inside its caller's
    time, and goes to the client."""

    def __init__(self, clients: Clients, server_id: str) -> None:
        self._clients = clients
        self._server_id = server_id

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        async def wait_and_ask(*args: Any, **more: Any) -> Any:
            await loaded()
            client = self._clients.for_server(self._server_id)
            if client is None:
                return Failure(FailureKind.NOT_CONFIGURED, operation, bytes_sent=False)
            return await getattr(client, operation)(*args, **more)

        return wait_and_ask


async def _for_ever() -> None:
    await asyncio.Event().wait()


class IoLoop(TaskActor):
    """First child of the root: while it lives, there is a loop. A loop that is given up ends it, and the root starts
    everything after it again on the next loop."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self._clients = clients

    async def on_stop(self, reason: object) -> None:
        await self._clients.aclose()
