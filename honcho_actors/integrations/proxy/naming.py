"""Who is talking, by what a request's headers say. Nobody is guessed: without a name a request has no memory.

A header is a claim. Whoever can reach the port can claim to be anybody, so the port is this machine's alone, or every
claim carries the token that the operator gave (`x-honcho-token`). A web page reaches this machine's ports, too, through
the browser: without a token a request that a page made (`origin`), or that calls this machine by another name, is
nobody's.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from honcho_actors.integrations.protocols import Body
from honcho_actors.integrations.protocols.shape import part
from honcho_actors.model import Audience, Scope, TurnRequest

PREFIX: Final = b"x-honcho-"
MAX_NAME: Final = 1_000
"""Characters of a name that a header may give."""

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Named:
    """What a request says of itself."""

    request: TurnRequest
    turn_id: str | None
    again: bool
    """The caller's own client repeats a call."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How names are taken. `token`: what every claim must carry; None: none is needed. `user_field`: the request's own
    `user` (or `safety_identifier`, `metadata.user_id`) names the person where no header does."""

    token: str | None = field(default=None, repr=False)
    user_field: bool = False

    def named(self, headers: Headers, body: Body) -> Named | None:
        """Who is talking in this request; None for nobody."""
        found = ours(headers)
        if not self._vouched(headers, found.get("token", "")):
            return None
        user = found.get("user", self._in_body(body) if self.user_field else "")
        session = found.get("session", f"user:{user}" if self.user_field and user else "")
        if not user or not session or len(user) > MAX_NAME or len(session) > MAX_NAME:
            return None
        request = TurnRequest(
            session_key=session,
            user=user,
            scope=scope_in(found),
            audience=audience_in(found),
            automated=found.get("automated", "no").lower() not in ("0", "false", "no"),
        )
        return Named(request, found.get("turn") or None, _repeated(headers))

    def _vouched(self, headers: Headers, token: str) -> bool:
        """Whether claims count: by the token, or because a program of this machine makes them."""
        if self.token is not None:  # an empty one is nobody's
            return self.token != "" and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        hosts = [value.decode("latin-1") for name, value in headers if name.lower() == b"host"]
        return (
            len(hosts) == 1
            and is_loopback(_without_port(hosts[0]))
            and not any(name.lower() in (b"origin", b"sec-fetch-site") for name, _ in headers)
        )

    @staticmethod
    def _in_body(body: Body) -> str:
        metadata = body.get("metadata")
        told: list[Any] = [body.get("user"), body.get("safety_identifier"), part(metadata, "user_id")]
        return next((one.strip() for one in told if isinstance(one, str) and one.strip()), "")


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine's alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].split("]", 1)[0]
    return host.rsplit(":", 1)[0] if host.count(":") == 1 else host


def scope_in(found: Mapping[str, str]) -> Scope:
    """A word that is not known, or a header that comes twice, is the narrow one: nothing is captured."""
    return "main" if found.get("scope", "main").lower() == "main" else "subagent"


def audience_in(found: Mapping[str, str]) -> Audience:
    """As above: nobody's memory is shown in a room that is not surely theirs."""
    return "private" if found.get("audience", "private").lower() == "private" else "shared"


def ours(headers: Headers) -> Mapping[str, str]:
    """Our own headers by their name without the prefix. One that comes twice, or is no text, is there and says "": it
    is neither of the two, and not as good as none."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith(PREFIX):
            short = lowered[len(PREFIX) :].decode("latin-1")
            if short in found:
                twice.add(short)
            try:
                found[short] = value.decode("utf-8").strip()
            except UnicodeDecodeError:
                twice.add(short)
    return {**found, **dict.fromkeys(twice, "")}


def _repeated(headers: Headers) -> bool:
    """Whether an SDK says that it sends a request again."""
    return any(
        name.lower() == b"x-stainless-retry-count" and value.strip() not in (b"", b"0") for name, value in headers
    )
