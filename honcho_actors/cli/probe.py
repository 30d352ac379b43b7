"""One question to the configured server, from this process, inside one total deadline: is it there, and is it Honcho?

Promises: one attempt, no retry, no redirect, no proxy; it reads and creates nothing; it ends by its deadline whatever
hangs (the name, the connection, the reply), because the work stands on a daemon thread that nobody waits for longer;
the key leaves under the runtime's own rule alone; what the server says is scrubbed before it is cut. Only the standard
library is loaded for it, so that `status` stays quick.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage
from typing import Any, Final

from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint, all_private, parse_endpoint
from honcho_actors.settings import Settings

STATUS_SECONDS: Final = 5.0
"""The most that `status` gives its one attempt."""
MOST_BYTES: Final = 1_000_000
HANGS: Final = "hangs"
NOBODY: Final = "nothing listens there"
NO_HTTP: Final = "what answers speaks no HTTP"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a status, or the problem why none did. `seconds` is what it took."""

    status: int | None
    seconds: float
    problem: str = ""
    speaks_json: bool = False
    date: str | None = None
    body: Any = None
    said: str = ""
    """The server's own words for a refusal, scrubbed and cut."""

    @property
    def reached_host(self) -> bool:
        """Whether the machine itself said no, so that another of its ports may say yes."""
        return self.problem in (NOBODY, NO_HTTP)


Question = tuple[str, tuple[str, ...], Mapping[str, str]]
"""Method, path and query. A path that begins with `""` is the server's own, any other the workspace's."""

LIST_A_PEER: Final[Question] = ("POST", ("peers", "list"), {"size": "1"})
"""What needs the key that everything else needs, and creates nothing."""
QUEUE: Final[Question] = ("GET", ("queue", "status"), {})
HEALTH: Final[Question] = ("GET", ("", "health"), {})


def person(peer: str) -> Question:
    """What the server knows of a remote peer."""
    return ("GET", ("peers", peer, "context"), {"max_conclusions": "5"})


def ask(
    settings: Settings,
    timeout: float,
    what: Question = LIST_A_PEER,
) -> Reply:
    """Asks `what` (method, path, query) of the workspace in force. Never raises; never takes longer than `timeout`
    seconds."""
    begun = time.monotonic()
    endpoint = parse_endpoint(settings.server_url, settings.api_key, allow_public_http=settings.allow_public_http)
    if isinstance(endpoint, BadEndpoint):
        return Reply(None, 0.0, f"not asked: {endpoint.problem}")
    method, path, query = what
    place = path[1:] if path[0] == "" else ("v3", "workspaces", _remote(settings.workspace), *path)
    target = endpoint.target(*place, query=query)
    answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
    talk = _Talk(endpoint, begun, begun + timeout)
    content = "{}" if method == "POST" else None
    threading.Thread(
        target=lambda: answers.put(talk.run(method, target, content)), name="honcho-probe", daemon=True
    ).start()
    try:
        reply = answers.get(timeout=timeout)
    except queue.Empty:
        talk.drop()
        return Reply(None, time.monotonic() - begun, HANGS)
    return reply


def _remote(workspace: str) -> str:
    """The workspace's remote name. A short plain one is its own, and the rules need not be loaded for it."""
    if len(workspace) <= 14 and workspace.isascii() and workspace.replace("-", "").replace("_", "").isalnum():
        return workspace
    from honcho_actors.privacy import names

    return names.workspace_id(workspace)


def why_not(settings: Settings) -> str:
    """Why the server may not be asked at all, as a clause; "" when it may. Looks no name up."""
    endpoint = parse_endpoint(settings.server_url, settings.api_key, allow_public_http=settings.allow_public_http)
    return endpoint.problem if isinstance(endpoint, BadEndpoint) else ""


class _Refused(Exception):
    """The rules of this runtime forbid it; the text is a clause."""


class _Talk:
    """One connection; on the probe's own thread, but for `drop`."""

    def __init__(self, endpoint: Endpoint, begun: float, until: float) -> None:
        self._endpoint = endpoint
        self._begun = begun
        self._until = until
        self._socket: socket.socket | None = None

    def drop(self) -> None:
        """Ends the connection under whoever waits on it."""
        if (held := self._socket) is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                held.close()

    def run(self, method: str, target: str, content: str | None) -> Reply:
        connection: HTTPConnection | None = None
        try:
            connection = self._connected()
            connection.request(method, target, content, self._headers())
            with connection.getresponse() as answer:
                raw = answer.read(MOST_BYTES)
                return self._reply(answer.status, answer.headers, raw)
        except _Refused as refused:
            return self._failed(f"not asked: {refused}")
        except TimeoutError:
            return self._failed(HANGS)
        except (OSError, HTTPException, ValueError) as error:
            return self._failed(_words(error))
        finally:
            if connection is not None:
                connection.close()

    def _connected(self) -> HTTPConnection:
        """A connection to an address that was looked at: the one that is asked is the one that was allowed."""
        end = self._endpoint
        found = socket.getaddrinfo(end.host, end.port, type=socket.SOCK_STREAM)
        if end.demands_private and not all_private(str(one[4][0]) for one in found):
            raise _Refused("https is demanded off private networks")
        error: OSError = OSError("its name has no address")
        for family, kind, protocol, _, address in found:
            held = socket.socket(family, kind, protocol)
            held.settimeout(max(0.01, self._until - time.monotonic()))
            try:
                held.connect(address)
            except OSError as failed:
                held.close()
                error = failed
                continue
            self._socket = held
            if end.scheme == "https":
                import ssl

                try:
                    self._socket = held = ssl.create_default_context().wrap_socket(held, server_hostname=end.host)
                except OSError:
                    held.close()
                    raise
            connection = HTTPConnection(end.host, end.port)
            connection.sock = held
            return connection
        raise error

    def _headers(self) -> dict[str, str]:
        host = self._endpoint.origin.partition("//")[2]
        headers = {"Host": host, "Content-Type": "application/json", "Accept": "application/json"}
        if self._endpoint.key is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        return headers

    def _reply(self, status: int, headers: HTTPMessage, raw: bytes) -> Reply:
        body: Any = None
        speaks = "json" in (headers.get("content-type") or "")
        if speaks:
            try:
                body = json.loads(raw)
            except (ValueError, RecursionError):
                speaks = False
        words = ""
        if status >= 400:
            from honcho_actors.honcho.said import detail_of, said

            words = said(detail_of(body) if speaks else "", (self._endpoint.key,))
        return Reply(status, self._took(), "", speaks, headers.get("date"), body, words)

    def _failed(self, problem: str) -> Reply:
        return Reply(None, self._took(), problem)

    def _took(self) -> float:
        return time.monotonic() - self._begun


def _words(error: BaseException) -> str:
    """What went wrong with the connection, in words without anything of the address or the key."""
    if isinstance(error, socket.gaierror):
        return "its name has no address"
    if isinstance(error, ConnectionRefusedError):
        return NOBODY
    if type(error).__name__ == "SSLCertVerificationError":
        return f"its certificate is not accepted: {getattr(error, 'verify_message', '')}".rstrip(": ")
    if isinstance(error, OSError) and error.errno is not None:
        return (error.strerror or type(error).__name__).lower()
    return NO_HTTP
