"""Refusals as values that a handler raises: a status and the `detail` that Honcho's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Loc = tuple[str | int, ...]
"""Where in a request a fault lies: `("body", "messages", 0, "content")`."""


class Refused(Exception):
    """A request that ends with a status other than success; `detail` is a sentence or a list of validation faults."""

    def __init__(self, status: int, detail: str | list[dict[str, Any]]) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail


class ServerFault(Exception):
    """What a real Honcho answers with a bare 500, kept so that a client is tested against it."""


def not_found(what: str) -> Refused:
    return Refused(404, what)


def no_peer(peer: str, workspace: str) -> Refused:
    return not_found(f"Peer {peer} not found in workspace {workspace}")


def no_session(session: str, workspace: str) -> Refused:
    return not_found(f"Session {session} not found in workspace {workspace}")


class Faults:
    """Collects the validation faults of one request; the request is refused with all of them at once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def add(self, kind: str, loc: Loc, message: str, given: Any, context: Mapping[str, Any] | None = None) -> None:
        fault: dict[str, Any] = {"type": kind, "loc": list(loc), "msg": message, "input": given}
        if context is not None:
            fault["ctx"] = dict(context)
        self.found.append(fault)

    def raise_if_any(self) -> None:
        if self.found:
            raise Refused(422, self.found)
