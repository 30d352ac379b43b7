"""`proxy`: memory for programs that can be given a model's address and nothing else, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any, Final

from honcho_actors.cli import out

DRAIN_TIMEOUT: Final = 10.0
TOKEN_VARIABLE: Final = "HONCHO_ACTORS_PROXY_TOKEN"


class _Ended(BaseException):
    """A signal asked the process to end before it listened."""


def proxy(
    *,
    upstream: str,
    host: str,
    port: int,
    token_file: Path | None,
    user_field: bool,
    state_dir: Path | None,
    as_json: bool,
) -> int:
    """Serves until it is told to end; drains; 0, or 1 when something accepted is still undelivered (it is kept)."""
    try:
        from honcho_actors.integrations.proxy import BadUpstream, Naming, Upstream
        from honcho_actors.integrations.proxy.naming import is_loopback
        from honcho_actors.integrations.proxy.serving import CannotListen, listen, serve
    except ModuleNotFoundError as error:
        out.usage(f"the proxy needs the extra `proxy` ({error.name}): pip install 'honcho-actors[proxy]'")
    from honcho_actors.runtime import Memory
    from honcho_actors.settings import Settings

    token = _token(token_file)
    if not is_loopback(host) and token is None:
        out.usage(
            f"on {host} others could claim to be anybody: give --token-file (or {TOKEN_VARIABLE}), or stay on 127.0.0.1"
        )
    try:
        model = Upstream(upstream)
        listener = listen(host, port)
    except (BadUpstream, CannotListen) as error:
        out.usage(str(error))
    explicit: dict[str, Any] = {"require_user": True}
    if state_dir is not None:
        explicit["state_dir"] = state_dir
    listening = False

    def stop(*_: object) -> None:
        """Ends it before it listens. Later that is uvicorn's work, which raises the signal again when it is done."""
        if not listening:
            raise _Ended

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    memory: Memory | None = None

    def ready(url: str) -> None:
        nonlocal listening
        listening = True
        assert memory is not None
        if as_json:
            status = memory.status()
            out.emit_line(
                {"ready": True, "url": url, "upstream": upstream, "pid": os.getpid(), "health": status.health}
            )
        else:
            out.say(f"{url} passes on to {upstream}; {memory.status().health}")
            out.say(
                "a request with the headers x-honcho-session and x-honcho-user has memory, every other passes as it is"
            )

    try:
        with contextlib.suppress(_Ended):
            memory = Memory.start(Settings.load(**explicit))
            serve(memory, model, Naming(token, user_field), listener, ready)
        listening = True
        drained = memory is None or memory.close(DRAIN_TIMEOUT)
    finally:
        if memory is not None:
            memory.close(0.0)
        listener.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return out.FINE if drained else out.NOT_FINE


def _token(file: Path | None) -> str | None:
    """The token that claims must carry, from its file or the environment; a file that cannot be read is an error."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        out.usage(f"the token cannot be read from {file} ({type(error).__name__})")
    if not token:
        out.usage(f"{file} holds no token")
    return token
