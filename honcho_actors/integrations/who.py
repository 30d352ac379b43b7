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
    token = _talking.set(asked)
    try:
        yield asked
    finally:
        _talking.reset(token)


@contextmanager
def subagent() -> Iterator[None]:
    """What runs inside works for a subagent of whoever is talking: it gets memory only where the settings say so, and
    nothing that it says is captured."""
    outer = _talking.get()
    if outer is None:
        yield
        return
    token = _talking.set(replace(outer, scope="subagent"))
    try:
        yield
    finally:
        _talking.reset(token)


def current() -> TurnRequest | None:
    """Whoever is talking here, or None."""
    return _talking.get()
