"""The ASGI application: the routes together, error bodies for what no route takes, start and end of the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from honcho_actors.local import routes_directory, routes_memory, routes_messages
from honcho_actors.local.deriver import Deriver
from honcho_actors.local.llm import Model
from honcho_actors.local.store import Store
from honcho_actors.local.web import Server, error, server_fault

_log = logging.getLogger("honcho_actors.local")


@dataclass(frozen=True, slots=True)
class Options:
    """What the server is started with. `delay` is added to every request but `/health`, in seconds."""

    data: Path
    delay: float = 0.0
    token: str | None = None
    model: Model | None = None
    derive: bool = True
    retry: float = 5.0
    """Seconds before a failed derivation is tried again."""


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _http_error(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    return error(fault.status_code, fault.detail)


async def _unexpected(request: Request, fault: Exception) -> Response:
    _log.exception("%s %s failed", request.method, request.url.path, exc_info=fault)
    return server_fault()


def build(options: Options) -> Starlette:
    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        store = Store(options.data)
        deriver = Deriver(store, options.model, retry=options.retry)
        task = asyncio.create_task(deriver.run()) if options.derive else None
        app.state.server = Server(store, deriver, options.model, options.token, options.delay)
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            if options.model is not None:
                options.model.close()
            store.close()

    routes = [Route("/health", _health), *routes_directory.ROUTES, *routes_messages.ROUTES, *routes_memory.ROUTES]
    return Starlette(
        routes=routes, lifespan=life, exception_handlers={HTTPException: _http_error, Exception: _unexpected}
    )
