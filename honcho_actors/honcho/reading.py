"""Typed, lenient reads of Honcho's replies: missing, null and empty are one and the same; a wrong-typed part is
skipped and counted.

Nothing here raises but `NotHoncho`, for a reply that is no reply of this operation at all. What is returned holds no
lone surrogate and no NUL, and nothing that was not text is ever turned into text: `None` or `{'explicit'` can't end
up in a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Skip = Callable[[str], None]
"""Called with the name of each part that was skipped."""

MAX_CARD_LINES = 500
MAX_CARD_LINE_CHARS = 4_000
NOTHING: Mapping[str, Any] = MappingProxyType({})


class NotHoncho(ValueError):
    """The reply has not the shape of this operation's reply at all."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What one context read gave. `message_count` counts the messages in the reply (0 with `tokens=0`)."""

    representation: str = ""
    card: tuple[str, ...] = ()
    summary: str = ""
    message_count: int = 0

    @property
    def empty(self) -> bool:
        return not (self.representation or self.card or self.summary)


@dataclass(frozen=True, slots=True)
class PeerContext:
    representation: str = ""
    card: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `created_at` is aware, None when the server's was unreadable."""

    id: str
    peer: str
    text: str
    session: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `total` counts what matches on all pages."""

    items: tuple[T, ...] = ()
    total: int = 0
    page: int = 1
    pages: int = 0


@dataclass(frozen=True, slots=True)
class Conclusion:
    id: str
    text: str
    observer: str
    observed: str
    session: str | None = None
    level: str = "explicit"
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Summaries:
    """The two summaries of a session, "" where there is none yet."""

    short: str = ""
    long: str = ""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Work units of the server's deriver. Right after a write it may say nothing pending: enqueueing follows the
    reply.
    """

    total: int = 0
    completed: int = 0
    in_progress: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """A workspace, peer or session: its name and what the server keeps beside it."""

    id: str
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    configuration: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a member is observed, and whether it observes the others. None: as the peer or the session says."""

    observe_me: bool | None = None
    observe_others: bool | None = None


def whole_text(value: str) -> str:
    """Text as it can be stored and shown: surrogate pairs joined, a lone one U+FFFD, no NUL."""
    if "\0" in value:
        value = value.replace("\0", "")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _text(value: object, part: str, skip: Skip) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        skip(part)
        return ""
    text = whole_text(value)
    return text if text.strip() else ""


def _object(value: object) -> Mapping[str, Any]:
    """The reply as an object; an empty body is an object without parts."""
    if value is None:
        return NOTHING
    if not isinstance(value, Mapping):
        raise NotHoncho(f"an object was expected, a {kind_of(value)} came")
    return value


def kind_of(value: object) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "truth value", int: "number", float: "number"}
    return "null" if value is None else names.get(type(value), "value")


def card_lines(value: object, skip: Skip) -> tuple[str, ...]:
    """A card: its lines that are text. Anything but a list of lines is no card."""
    if value is None:
        return ()
    if not isinstance(value, list):
        skip("peer_card")
        return ()
    lines = []
    for line in value[:MAX_CARD_LINES]:
        if not isinstance(line, str):
            skip("peer_card_line")
        elif text := whole_text(line).strip()[:MAX_CARD_LINE_CHARS]:
            lines.append(text)
    return tuple(lines)


def _summary(value: object, skip: Skip) -> str:
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        skip("summary")
        return ""
    return _text(value.get("content"), "summary", skip)


def about(read: Callable[[object, Skip], T], **names: str) -> Callable[[object, Skip], T]:
    """`read` for a reply that says whom it is about: one that names another is not this request's reply. `names`: what
    each part must say where it says anything. Which name came instead is not told: it is somebody else's.
    """

    def checked(value: object, skip: Skip) -> T:
        if isinstance(value, Mapping):
            for part, name in names.items():
                if (said := _name(value, part)) is not None and said != name:
                    raise NotHoncho(f"the reply's {part} is not the one that was asked for")
        return read(value, skip)

    return checked


def session_context(value: object, skip: Skip) -> SessionContext:
    reply = _object(value)
    messages = reply.get("messages")
    if messages is not None and not isinstance(messages, list):
        skip("messages")
    return SessionContext(
        representation=_text(reply.get("peer_representation"), "peer_representation", skip),
        card=card_lines(reply.get("peer_card"), skip),
        summary=_summary(reply.get("summary"), skip),
        message_count=len(messages) if isinstance(messages, list) else 0,
    )


def peer_context(value: object, skip: Skip) -> PeerContext:
    reply = _object(value)
    return PeerContext(
        representation=_text(reply.get("representation"), "representation", skip),
        card=card_lines(reply.get("peer_card"), skip),
    )


def chat_answer(value: object, skip: Skip) -> str | None:
    """The answer, None when there is none (null, blank, wrong-typed)."""
    return _text(_object(value).get("content"), "content", skip).strip() or None


def card(value: object, skip: Skip) -> tuple[str, ...]:
    if value is not None and not isinstance(value, Mapping):
        skip("peer_card")
        return ()
    return card_lines(_object(value).get("peer_card"), skip)


def summaries(value: object, skip: Skip) -> Summaries:
    reply = _object(value)
    return Summaries(_summary(reply.get("short_summary"), skip), _summary(reply.get("long_summary"), skip))


def _rows(value: object, skip: Skip) -> list[Any]:
    """The rows of a bare list or of a page; anything else has none."""
    if isinstance(value, Mapping):
        value = value.get("items")
    if value is None:
        return []
    if not isinstance(value, list):
        skip("items")
        return []
    return value


def _name(row: Mapping[str, Any], part: str) -> str | None:
    value = row.get(part)
    return whole_text(value) if isinstance(value, str) and value else None


def _metadata(value: object) -> Mapping[str, Any]:
    return MappingProxyType(value) if isinstance(value, dict) else NOTHING


def _when(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _message(row: object, skip: Skip) -> Message | None:
    if (
        not isinstance(row, Mapping)
        or (identity := _name(row, "id")) is None
        or not isinstance(row.get("content"), str)
    ):
        skip("message")
        return None
    return Message(
        id=identity,
        peer=_name(row, "peer_id") or "",
        text=whole_text(row["content"]),
        session=_name(row, "session_id"),
        metadata=_metadata(row.get("metadata")),
        created_at=_when(row.get("created_at")),
    )


def messages(value: object, skip: Skip) -> tuple[Message, ...]:
    """The rows of a search, in the server's order. One without an id gets one that is made of what it says, the same
    at every search."""
    found = (_message(_with_id(row), skip) for row in _rows(value, skip))
    return tuple(row for row in found if row is not None)


def _with_id(row: object) -> object:
    if not isinstance(row, Mapping) or _name(row, "id") is not None:
        return row
    said = "\0".join(str(row.get(part)) for part in ("content", "session_id", "created_at"))
    return {**row, "id": sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]}


def created_ids(expected: int) -> Callable[[object, Skip], tuple[str, ...]]:
    """Reads the ids of `expected` rows that were just stored. A reply without them is no proof that they were."""

    def read(value: object, skip: Skip) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise NotHoncho(f"a list of what was stored was expected, a {kind_of(value)} came")
        ids = [identity for row in value if isinstance(row, Mapping) and (identity := _name(row, "id"))]
        if len(ids) != expected or len(value) != expected:
            raise NotHoncho(f"{expected} were sent, {len(ids)} came back with an id")
        return tuple(ids)

    return read


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _page(value: object, items: tuple[T, ...], skip: Skip) -> Page[T]:
    if isinstance(value, list):
        return Page(items, len(items), 1, 1 if items else 0)
    reply = _object(value)
    total, page, pages = (_count(reply.get(part)) for part in ("total", "page", "pages"))
    if total is None:
        skip("total")
    return Page(items, len(items) if total is None else total, page or 1, pages or 0)


def message_page(value: object, skip: Skip) -> Page[Message]:
    if not isinstance(value, (Mapping, list)):
        raise NotHoncho(f"a page was expected, a {kind_of(value)} came")
    if isinstance(value, Mapping) and not isinstance(value.get("items"), list):
        raise NotHoncho("a page without items")
    return _page(value, messages(value, skip), skip)


def named_page(value: object, skip: Skip) -> Page[Named]:
    rows = []
    for row in _rows(value, skip):
        if isinstance(row, Mapping) and _name(row, "id") is not None:
            rows.append(named(row, skip))
        else:
            skip("named")
    return _page(value if isinstance(value, (Mapping, list)) else None, tuple(rows), skip)


def named(value: object, skip: Skip) -> Named:
    row = _object(value)
    identity = _name(row, "id")
    if identity is None:
        raise NotHoncho("an object without its id")
    return Named(identity, _metadata(row.get("metadata")), _metadata(row.get("configuration")))


def conclusions(value: object, skip: Skip) -> tuple[Conclusion, ...]:
    found = []
    for row in _rows(value, skip):
        identity = _name(row, "id") if isinstance(row, Mapping) else None
        if identity is None or not isinstance(row.get("content"), str):
            skip("conclusion")
            continue
        found.append(
            Conclusion(
                id=identity,
                text=whole_text(row["content"]),
                observer=_name(row, "observer_id") or "",
                observed=_name(row, "observed_id") or "",
                session=_name(row, "session_id"),
                level=_name(row, "level") or "explicit",
                created_at=_when(row.get("created_at")),
            )
        )
    return tuple(found)


def conclusion_page(value: object, skip: Skip) -> Page[Conclusion]:
    return _page(value if isinstance(value, (Mapping, list)) else None, conclusions(value, skip), skip)


def queue_status(value: object, skip: Skip) -> QueueStatus:
    reply = _object(value)
    parts = ("total_work_units", "completed_work_units", "in_progress_work_units", "pending_work_units")
    return QueueStatus(*(_count(reply.get(part)) or 0 for part in parts))


def observation(value: object, skip: Skip) -> Observation:
    reply = _object(value)
    flags = []
    for part in ("observe_me", "observe_others"):
        flag = reply.get(part)
        if flag is not None and not isinstance(flag, bool):
            skip(part)
            flag = None
        flags.append(flag)
    return Observation(*flags)


def healthy(value: object, skip: Skip) -> bool:
    """`{"status": "ok"}`; anything else that answers 200 is not Honcho."""
    if _object(value).get("status") != "ok":
        raise NotHoncho("the health reply does not say ok")
    return True


def nothing(value: object, skip: Skip) -> None:
    """For replies whose body says nothing that is needed (204, echoes)."""
    return
