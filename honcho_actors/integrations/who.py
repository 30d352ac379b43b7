"""Who is talking, said by the program's own trusted code for everything that runs inside a block.

    with talking(session_key="telegram:42", user="7654321"):
        client.chat.completions.create(...)

Holds for the thread or task and for the tasks that it starts. Nobody is ever guessed: an adapter that finds nobody
here, and was bound to nobody, does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from honcho_actors.model import Audience, Scope, TurnRequest

_talking: Final[ContextVar[TurnRequest | None]] = ContextVar("honcho_talking", default=None)
_below: Final[ContextVar[bool]] = ContextVar("honcho_subagent", default=False)
"""Inside `subagent()`, with nobody named since."""


@contextmanager
def talking(
    request: TurnRequest | None = None,
    *,
    session_key: str | None = None,
    user: str | None = None,
    scope: Scope = "main",
    audience: Audience = "private",
    partition: str = "",
    automated: bool = False,
) -> Iterator[TurnRequest]:
    """Every adapter inside the block works for this conversation of this person: a whole `TurnRequest` or its parts."""
    asked = request or TurnRequest(
        session_key=session_key,
        user=user,
        scope=scope,
        audience=audience,
        partition=partition,
        automated=automated,
    )
    token, above = _talking.set(asked), _below.set(False)
    try:
        yield asked
    finally:
        _below.reset(above)
        _talking.reset(token)


@contextmanager
def subagent() -> Iterator[None]:
    """What runs inside works for a subagent of whoever is talking, or of whom an adapter is bound to: it gets memory
    only where the settings say so, and nothing that it says is captured."""
    token = _below.set(True)
    try:
        yield
    finally:
        _below.reset(token)


def current(bound: TurnRequest | None = None) -> TurnRequest | None:
    """Whoever is talking here, else whom the adapter that asks is `bound` to, or None."""
    found = _talking.get() or bound
    return replace(found, scope="subagent") if found is not None and _below.get() else found
