"""What the server refuses or chokes on, made safe before it is sent. Each rule has a name, which `docs/honcho.md`
uses.

id-rule        names of workspaces, peers and sessions keep to the pattern, or the call is refused here (else a 500)
whole-text     a lone surrogate becomes U+FFFD, NUL goes (a surrogate is a 500)
control-token  `<|endoftext|>` and its like are broken by a blank (one of them is a 422 for the whole batch)
content-split  over-long content becomes several messages, cut between graphemes, linked by metadata
batch-split    more than 100 messages or conclusions become several requests, in order
metadata       at most 100 keys, five levels, plain JSON values; a text that the egress gate withholds is left out
time           a time outside of the calendar in UTC is not sent (it is stored, and the session never listed again)
names-gate     a name, an id or a filter that holds what looks like a credential refuses the call
blank          what would be refused as empty is not sent
clamp          numbers stay inside the server's limits
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from honcho_actors.honcho.reading import NOTHING, whole_text
from honcho_actors.privacy import egress
from honcho_actors.privacy.names import holds_secret
from honcho_actors.privacy.text import cut, sendable, travelling

if TYPE_CHECKING:
    from honcho_actors.privacy.egress import Screened

T = TypeVar("T")

MAX_BATCH = 100
MAX_CONTENT_CHARS = 25_000
MAX_CONCLUSION_CHARS = 65_535
MAX_QUERY_CHARS = 10_000
MAX_SEARCH_CHARS = 2_000
MAX_CONTEXT_TOKENS = 100_000
MAX_METADATA_KEYS = 100
MAX_METADATA_DEPTH = 5
MAX_METADATA_TEXT_CHARS = 4_000
MAX_METADATA_ITEMS = 100
LINK_KEYS = ("part", "parts", "part_of")
"""Metadata keys that join the pieces of one split message: 1-based number, how many, and a common id."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,512}")


@dataclass(frozen=True, slots=True)
class OutMessage:
    """One message to store. `reasoning=False`: stored and summarised, but nothing is concluded from it."""

    peer: str
    text: Screened
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    created_at: datetime | None = None
    reasoning: bool = True


def bad_id(*names: str | None) -> str | None:
    """Which name breaks the server's rule, said without quoting more than its start; None when all keep to it."""
    for name in names:
        if name is not None and holds_secret(name):
            return "a name looks like a credential"
        if name is not None and not _ID.fullmatch(name):
            shown = "".join(char if "!" <= char <= "~" else "?" for char in name[:20])
            return f"the name {shown!r} breaks the server's id rule"
    return None


def safe_text(text: str) -> str:
    """whole-text and control-token; trimmed. What the egress gate passed is in this form already."""
    return travelling(text)


def split_content(text: str, limit: int = MAX_CONTENT_CHARS) -> list[str]:
    """content-split: pieces of at most `limit` code points, cut between graphemes; joined they are the text again."""
    return list(cut(text, limit))


def message_bodies(messages: Sequence[OutMessage]) -> list[dict[str, Any]]:
    """The messages as the server takes them, over-long ones in linked pieces. Not trimmed: what the gate passed is, and
    a piece of a longer text keeps the blank at its cut, so that the pieces join to the text again."""
    bodies: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        metadata = clean_metadata(message.metadata)
        pieces = split_content(sendable(message.text.text))
        when = stamp(message.created_at)
        if len(pieces) > 1:
            link = hashlib.blake2b(f"{number}\0{when}\0{message.peer}\0{pieces[0]}".encode(), digest_size=8).hexdigest()
            metadata = clean_metadata(metadata, MAX_METADATA_KEYS - len(LINK_KEYS))
        for part, piece in enumerate(pieces, 1):
            body: dict[str, Any] = {"content": piece, "peer_id": message.peer}
            if len(pieces) > 1:
                body["metadata"] = {**metadata, "part": part, "parts": len(pieces), "part_of": link}
            elif metadata:
                body["metadata"] = metadata
            if when is not None:
                body["created_at"] = when
            if not message.reasoning:
                body["configuration"] = {"reasoning": {"enabled": False}}
            bodies.append(body)
    return bodies


def stamp(when: datetime | None) -> str | None:
    """A time as the server takes it: UTC, microseconds; a naive one is taken as UTC. None, the server's own time then,
    for what no calendar holds in UTC: Honcho stores it and can never list the session again.
    """
    if when is None:
        return None
    try:
        aware = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except OverflowError:
        return None
    return aware.isoformat(timespec="microseconds")


def clean_metadata(metadata: Mapping[Any, Any], max_keys: int = MAX_METADATA_KEYS) -> dict[str, Any]:
    """metadata: what JSON and the server can hold. Dates become text; NaN, infinities, bytes, what is too deep and
    whatever else is left out.

    Never raises and always ends: a cycle is cut where it gets too deep.
    """
    return _clean_object(metadata, MAX_METADATA_DEPTH, max_keys)


def bad_filter(value: object, depth: int = 8) -> str | None:
    """names-gate for what a listing is narrowed by: None when no text in it is withheld and it is no deeper than
    that."""
    if isinstance(value, str):
        return "a filter looks like a credential" if _withheld(value) else None
    if depth < 1:
        return "a filter is too deep"
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return next((problem for item in value if (problem := bad_filter(item, depth - 1))), None)
    return None


_PLAINLY_NONE = re.compile(r"[a-z_]{0,24}|[0-9a-f-]{1,40}")
"""Short words and hex ids, which no rule withholds by themselves: most of what metadata holds."""


def _withheld(text: str) -> bool:
    return not _PLAINLY_NONE.fullmatch(text) and isinstance(
        egress.verdict(text, MAX_METADATA_TEXT_CHARS, field=egress.Field.METADATA), egress.Withheld
    )


_ABSENT = object()


def _clean_object(value: Mapping[Any, Any], depth: int, max_keys: int) -> dict[str, Any]:
    cleaned: dict[str, Any] = {}
    for key, item in value.items():
        if len(cleaned) >= max_keys:
            break
        if isinstance(key, str) and not _withheld(key):
            plain = _clean(item, depth - 1)
            if plain is not _ABSENT:
                cleaned[whole_text(key)[:256]] = plain
    return cleaned


def _clean(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _ABSENT if _withheld(value) else whole_text(value)[:MAX_METADATA_TEXT_CHARS]
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else _ABSENT
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _ABSENT
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if depth < 1:
        return _ABSENT
    if isinstance(value, Mapping):
        return _clean_object(value, depth, MAX_METADATA_ITEMS)
    if isinstance(value, (list, tuple, set, frozenset)):
        cleaned = (_clean(item, depth - 1) for item in list(value)[:MAX_METADATA_ITEMS])
        return [item for item in cleaned if item is not _ABSENT]
    return _ABSENT


def batches(items: Sequence[T], size: int = MAX_BATCH) -> Iterator[Sequence[T]]:
    """batch-split, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def first_piece(text: str, limit: int) -> str:
    """At most `limit` code points, cut between graphemes."""
    return next(cut(text, limit))


def clamp(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)
