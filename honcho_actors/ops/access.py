"""Who may read the admin endpoint: the owner's token, and what a browser is given instead of it.

A command proves with the token that it may read the private file of the state directory. A browser never sees it. It is
given a link with a *ticket* in the fragment, which no server and no log is sent; the page hands it in once and gets a
*key* that opens the page's figures alone and lives as long as the process. A ticket is good once, for two minutes, so
that what stays behind in a terminal or a browser's history opens nothing. No cookie: cookies of 127.0.0.1 go to every
port of it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

TICKET_SECONDS: Final = 120
MOST_TICKETS: Final = 1000
"""Tickets that are remembered as used; beyond that none is taken until the oldest have expired."""

PAGE: Final = "/"
KEY: Final = "/key"
FIGURES: Final = "/overview"


def ticket(token: str, now: float) -> str:
    """A new ticket, made by whoever holds the token; nobody is asked. `now` is the wall clock, of the same machine."""
    what = f"{int(now) + TICKET_SECONDS}.{secrets.token_urlsafe(12)}"
    return f"{what}.{_sign(token, what)}"


class Access:
    """The keys of one life of the endpoint. Used on its loop only."""

    def __init__(self, token: str, clock: Callable[[], float]) -> None:
        self._token = token
        self._clock = clock
        self._key = secrets.token_urlsafe(24)
        self._used: dict[str, int] = {}

    def allows(self, path: str, authorization: str) -> bool:
        """Whether this request may be answered. The page itself holds nothing, and its key is asked for by ticket."""
        if path in (PAGE, KEY):
            return True
        if _same(authorization, f"Bearer {self._token}"):
            return True
        return path == FIGURES and _same(authorization, f"Bearer {self._key}")

    def key_for(self, authorization: str) -> str | None:
        """The page's key for a ticket that is ours, fresh and unused; None otherwise."""
        scheme, _, given = authorization.partition(" ")
        what, _, signature = given.rpartition(".")
        until, _, _nonce = what.partition(".")
        if scheme != "Ticket" or not _same(signature, _sign(self._token, what)):
            return None
        now, end = self._clock(), int(until)  # what we have signed begins with a number
        self._used = {one: expires for one, expires in self._used.items() if expires > now}
        if end <= now or what in self._used or len(self._used) >= MOST_TICKETS:
            return None
        self._used[what] = end
        return self._key


def _sign(token: str, what: str) -> str:
    return hmac.new(token.encode(), b"page " + what.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
