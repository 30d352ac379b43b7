"""What may be repeated of a server's or a library's words: scrubbed, then cut. Never the other way round.

A 422 echoes the rejected input in full, a gateway's page may hold anything, an exception's text may hold a header:
nothing is shown before the key and whatever looks like a credential is out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from honcho_actors.privacy import egress

MAX_SAID_CHARS = 300
SCRUBBED_CHARS = 20_000
"""How much is looked at; what lies behind is not shown, and could not be: the cut is far before it."""
WITHHELD = "(withheld: it looked like a credential)"
_SHORTEST_KEY = 6


def said(text: str, secrets: Iterable[str | None] = (), limit: int = MAX_SAID_CHARS) -> str:
    """One line for an operator."""
    text = text[:SCRUBBED_CHARS]
    for secret in secrets:
        if secret and len(secret) >= _SHORTEST_KEY:
            text = text.replace(secret, "[key]")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    verdict = egress.verdict(line, SCRUBBED_CHARS)
    if isinstance(verdict, egress.Withheld):
        return WITHHELD
    if isinstance(verdict, egress.Blank):
        return ""
    return verdict.text if len(verdict.text) <= limit else verdict.text[: limit - 1].rstrip() + "…"


def detail_of(reply: object) -> str:
    """The words of an error body: `detail` as text, or of a validation error what and where, never the echoed input."""
    detail = reply.get("detail") if isinstance(reply, Mapping) else None
    if isinstance(detail, str):
        return detail
    if isinstance(detail, list):
        return "; ".join(_validation(row) for row in detail[:5] if isinstance(row, Mapping))
    return ""


def _validation(row: Mapping[str, Any]) -> str:
    place = row.get("loc")
    where = ".".join(str(step) for step in place[:8] if isinstance(step, (str, int))) if isinstance(place, list) else ""
    what = row.get("msg")
    return f"{where}: {what}" if isinstance(what, str) and where else (what if isinstance(what, str) else where)


def chain(error: BaseException) -> str:
    """The whole cause chain of a failure, outermost first, each cause once."""
    parts: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(parts) < 6:
        seen.add(id(cause))
        text = str(cause)[:SCRUBBED_CHARS]
        part = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
        if part not in parts:
            parts.append(part)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return " < ".join(parts)
