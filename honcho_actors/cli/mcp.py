"""`mcp`: memory's tools for a host that speaks the Model Context Protocol, over stdio or HTTP.

Over stdio stdout is the protocol's; whatever else there is to say goes to stderr.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.cli import out
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from honcho_actors.runtime import Memory

DRAIN_TIMEOUT: Final = 10.0
GRACE_SECONDS: Final = 5
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
TOKEN_VARIABLE: Final = "HONCHO_ACTORS_MCP_TOKEN"
TOKEN_NAME: Final = "mcp-token"


def mcp(
    *,
    session: str | None,
    user: str | None,
    http: bool,
    host: str,
    port: int,
    token_file: Path | None,
    state_dir: Path | None,
) -> int:
    """Serves until its host goes away (stdio) or SIGTERM or SIGINT; drains; 0, or 1 when something is undelivered."""
    try:
        from honcho_actors.integrations import mcp as adapter
        from honcho_actors.integrations.proxy.serving import CannotListen, listen
    except ModuleNotFoundError as error:
        out.usage(f"mcp needs the extra `mcp` ({error.name}): pip install 'honcho-actors[mcp]'")
    from honcho_actors.runtime import Memory
    from honcho_actors.settings import Settings

    if not http and not (session and user):
        out.usage("over stdio one process is one conversation of one person: give --session and --user")
    if bool(session) != bool(user):
        out.usage("--session and --user go together")
    request = TurnRequest(session_key=session, user=user) if session and user else None
    explicit: dict[str, Any] = {"require_user": True}
    if state_dir is not None:
        explicit["state_dir"] = state_dir
    settings = Settings.load(**explicit)
    if not http:
        memory = Memory.start(settings)
        try:
            asyncio.run(_stdio(memory, adapter.serve_stdio(memory, request)))
        finally:
            drained = memory.close(DRAIN_TIMEOUT)
        return out.FINE if drained else out.NOT_FINE
    token, where = _token(token_file, settings.state_dir)
    try:
        listener = listen(host, port)
    except CannotListen as error:
        out.usage(str(error))
    # The web server ends at a signal, and raises it again when it has: then it has done its work.
    told: list[int] = []
    before = {number: signal.signal(number, lambda number, _: told.append(number)) for number in SIGNALS}
    memory = Memory.start(settings)
    try:
        app = adapter.http_app(memory, token, request, host=host)
        asyncio.run(_http(memory, app, listener, where, told))
    finally:
        drained = memory.close(DRAIN_TIMEOUT)
        listener.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return out.FINE if drained else out.NOT_FINE


async def _stdio(memory: Memory, serving: Coroutine[Any, Any, None]) -> None:
    """Serves until stdin ends. On SIGTERM or SIGINT drains and ends the process here and now: a thread waits in a read
    of stdin, which nothing can interrupt."""
    task = asyncio.ensure_future(serving)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, told.set)
    stop = asyncio.ensure_future(told.wait())
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not task.done():
        drained = await asyncio.to_thread(memory.close, DRAIN_TIMEOUT)
        os._exit(out.FINE if drained else out.NOT_FINE)
    await task


async def _http(memory: Memory, app: Any, listener: socket.socket, where: str, told: list[int]) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve([listener]))
    while not server.started and not serving.done():  # noqa: ASYNC110 (uvicorn offers no event)
        await asyncio.sleep(0.005)
    server.should_exit = server.should_exit or bool(told)  # one that came before the web server listened for them
    if server.started:
        address, port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print(f"http://{shown}:{port}/mcp; {memory.status().health}", file=sys.stderr)
        print(f"requests carry Authorization: Bearer, with {where}", file=sys.stderr, flush=True)
    await serving


def _token(file: Path | None, state_dir: Path) -> tuple[str, str]:
    """The token, and where it is: a file that was given, the environment, else a private file made now."""
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if file is None and given:
        return given, f"the token of {TOKEN_VARIABLE}"
    path = file or state_dir / TOKEN_NAME
    try:
        if file is None and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
                stream.write(secrets.token_urlsafe(32) + "\n")
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        out.usage(f"the token cannot be had from {path} ({type(error).__name__})")
    if not token:
        out.usage(f"{path} holds no token")
    return token, f"the token in {path}"
