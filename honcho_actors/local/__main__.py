"""`python -m honcho_actors.local`: the embedded server as a process.

Prints its URL when it listens, ends with 0 on SIGTERM or SIGINT, and with 2 and one sentence when it can't start.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import IO

import uvicorn

from honcho_actors.local import schema
from honcho_actors.local.app import Options, build
from honcho_actors.local.llm import Model

USAGE = 2
GRACE_SECONDS = 3


class CannotStart(Exception):
    """One sentence for the person who started it."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m honcho_actors.local",
        description="An embedded Honcho-compatible server on this machine. Without a model it stores, searches and "
        "repeats what was said, and concludes nothing.",
        epilog="example: python -m honcho_actors.local --port 8000 --data ./memory",
    )
    environment = os.environ.get
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--data", type=Path, required=True, help="directory of the store; made when missing")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="added to every request")
    parser.add_argument("--ready-file", type=Path, help="written with the URL once the server listens")
    parser.add_argument("--token-env", metavar="NAME", help="environment variable with the bearer token to demand")
    parser.add_argument(
        "--model-url", default=environment("HONCHO_LOCAL_MODEL_URL"), help="OpenAI-compatible endpoint, up to /v1"
    )
    parser.add_argument("--model", default=environment("HONCHO_LOCAL_MODEL", "default"), help="name of the model")
    parser.add_argument(
        "--model-key-env", default="HONCHO_LOCAL_MODEL_KEY", metavar="NAME", help="environment variable with its key"
    )
    parser.add_argument("--model-timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--model-retry", type=float, default=5.0, metavar="SECONDS", help="before a failed call again")
    parser.add_argument("--no-derive", action="store_true", help="conclude and summarise nothing")
    parser.add_argument("--json", action="store_true", help="say the URL as one JSON value")
    parser.add_argument("--verbose", action="store_true", help="log requests to standard error")
    return parser.parse_args(argv)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With the protocol named, asyncio switches Nagle's delay off on what is accepted: 40 ms an answer otherwise.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as fault:
        raise CannotStart(f"no socket for {host}: {fault.strerror}") from fault
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as fault:
        listener.close()
        reason = fault.strerror if isinstance(fault, OSError) else "the port is not between 0 and 65535"
        raise CannotStart(f"port {port} on {host} cannot be taken: {reason}") from fault
    return listener


def _own(directory: Path) -> IO[str]:
    """Takes the directory for this process, before anything in it is changed; the lock goes with the process, however
    it ends."""
    schema.place(directory)
    try:
        lock = open(directory / "lock", "w", encoding="utf-8")  # noqa: SIM115 (held until the process ends)
    except OSError as fault:
        raise CannotStart(f"the data directory {directory} cannot be written: {fault.strerror}") from fault
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        lock.close()
        raise CannotStart(f"another server uses the data directory {directory}") from fault
    try:
        schema.prepare(directory)
    except schema.Unusable:
        lock.close()
        raise
    return lock


def _token(name: str | None) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name, "").strip()
    if not token:
        raise CannotStart(f"the environment variable {name} holds no token")
    return token


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _announce(url: str, ready_file: Path | None, as_json: bool) -> None:
    print(json.dumps({"url": url, "pid": os.getpid()}) if as_json else url, flush=True)
    if ready_file is not None:
        partial = ready_file.with_name(ready_file.name + ".part")
        partial.write_text(url + "\n", encoding="utf-8")
        partial.replace(ready_file)


async def _serve(options: Options, listener: socket.socket, given: argparse.Namespace) -> None:
    config = uvicorn.Config(
        build(options),
        log_level="info" if given.verbose else "warning",
        access_log=given.verbose,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=True,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started and not serving.done():  # noqa: ASYNC110 (uvicorn offers no event)
        await asyncio.sleep(0.005)
    if server.started:
        _announce(_url(listener), given.ready_file, given.json)
    await serving


def main(argv: list[str] | None = None) -> int:
    given = _arguments(argv)
    logging.basicConfig(level=logging.INFO if given.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    try:
        lock = _own(given.data)
        token = _token(given.token_env)
        listener = _listen(given.host, given.port)
    except (CannotStart, schema.Unusable) as fault:
        print(f"honcho-actors local: {fault}", file=sys.stderr)
        return USAGE
    if token is None and not _is_local(given.host):
        print("honcho-actors local: open to the network without a token (--token-env)", file=sys.stderr)
    model = None
    if given.model_url:
        key = os.environ.get(given.model_key_env, "")
        model = Model(given.model_url, given.model, key, given.model_timeout)
    options = Options(given.data, max(0.0, given.delay), token, model, not given.no_derive, given.model_retry)
    # uvicorn raises the signal that stopped it once more when it is done; the second time it must not kill.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        asyncio.run(_serve(options, listener, given))
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
        lock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
