"""From status and bytes to an outcome: pure, bounded, and never raising.

A status alone is never taken for success: the body must be JSON, not too long, not too deep, and of this operation's
shape.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from honcho_actors.honcho import retry_after
from honcho_actors.honcho.operations import Operation
from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import NotHoncho, Skip
from honcho_actors.honcho.said import detail_of, said

T = TypeVar("T")

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
_NO_SUCH_PEER = re.compile(r"Peer .{1,600} not found in workspace .{1,600}", re.DOTALL)


class CutShort(ValueError):
    """The body ended before it was whole."""


class Unreadable(ValueError):
    """The body is no JSON document that is taken."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `delimited`: its end was announced (length or chunks), so that a cut would have been noticed."""

    status: int
    body: bytes
    content_type: str = ""
    encoding: str = ""
    retry_after: str | None = None
    delimited: bool = True


def judge(
    op: Operation,
    reply: Reply,
    read: Callable[[object, Skip], T],
    skip: Skip,
    secrets: tuple[str | None, ...],
    now: datetime,
) -> Outcome[T]:
    """The outcome of a reply that came in whole, as far as can be told. `now`: wall clock, for dates in
    `Retry-After`.
    """
    status = reply.status
    if 200 <= status < 300:
        return _success(op, reply, read, skip, secrets)
    if status < 400:
        return Failure(FailureKind.BAD_REPLY, op.name, status, f"a redirect ({status}) is not followed")
    detail = _error_detail(reply)
    shown = said(detail, secrets)
    wait = retry_after.parse(reply.retry_after, now)
    if status in (401, 403):
        return Failure(FailureKind.UNAUTHORIZED, op.name, status, shown)
    if status == 404 and op.knows_peers and _NO_SUCH_PEER.fullmatch(detail):
        return Failure(FailureKind.NOTHING_KNOWN, op.name, status, shown)
    if status == 429:
        return Failure(FailureKind.RATE_LIMITED, op.name, status, shown, wait)
    if status >= 500 and op.stores:
        return Failure(FailureKind.UNKNOWN_OUTCOME, op.name, status, shown, wait)
    return Failure(FailureKind.REFUSED, op.name, status, shown, wait)


def _success(
    op: Operation, reply: Reply, read: Callable[[object, Skip], T], skip: Skip, secrets: tuple[str | None, ...]
) -> Outcome[T]:
    bad = FailureKind.UNKNOWN_OUTCOME if op.stores else FailureKind.BAD_REPLY
    try:
        value = decode(reply)
        return Ok(read(value, skip), reply.status)
    except CutShort as cut:
        kind = FailureKind.UNKNOWN_OUTCOME if op.stores else FailureKind.TRANSPORT
        return Failure(kind, op.name, reply.status, str(cut))
    except Unreadable as unreadable:
        begins = said(reply.body[:2_000].decode("utf-8", "replace"), secrets, 80)
        what = said(str(unreadable), secrets)
        return Failure(bad, op.name, reply.status, f"{what}; it begins: {begins}" if begins else what)
    except NotHoncho as wrong:
        return Failure(bad, op.name, reply.status, said(str(wrong), secrets))


def decode(reply: Reply) -> object:
    """The body as JSON values, None for an empty one. Raises `CutShort` or `Unreadable`, nothing else."""
    body = _unpacked(reply)
    if reply.content_type.startswith("text/event-stream"):
        return _streamed(body)
    if not body.strip():
        return None
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as wrong:
        if not reply.delimited and body.lstrip()[:1] in (b"{", b"["):
            raise CutShort("the reply was cut: it has no announced end, and its JSON is incomplete") from None
        if isinstance(wrong, RecursionError):
            raise Unreadable("the reply is nested too deeply") from None
        raise Unreadable(
            f"the reply is not JSON ({reply.content_type.split(';')[0][:60] or 'no content type'})"
        ) from None
    if _too_deep(value):
        raise Unreadable("the reply is nested too deeply")
    return value


def _no_constant(name: str) -> None:
    """NaN and the infinities are no JSON; read as absent."""
    return


def _unpacked(reply: Reply) -> bytes:
    encoding = reply.encoding.strip().lower()
    if encoding in ("", "identity"):
        return reply.body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unreadable("the reply is packed in a way that was not asked for")
    unpack = zlib.decompressobj(wbits=47)
    try:
        body = unpack.decompress(reply.body, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise CutShort("the reply cannot be unpacked") from None
    if len(body) > MAX_BODY_BYTES:
        raise Unreadable("the reply is too long when unpacked")
    if not unpack.eof:
        raise CutShort("the packed reply was cut")
    return body


def _streamed(body: bytes) -> object:
    """A chat that was streamed although it was not asked to be: whole only when its last event says `done`."""
    parts: list[str] = []
    done = False
    for line in body.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        try:
            event = json.loads(line[5:], parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Unreadable("the stream holds an event that is not JSON") from None
        if not isinstance(event, dict):
            continue
        delta = event.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("content"), str):
            parts.append(delta["content"])
        done = done or event.get("done") is True
    if not done:
        raise CutShort("the stream ended without its last event")
    return {"content": "".join(parts)}


def _too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


def _error_detail(reply: Reply) -> str:
    try:
        return detail_of(decode(reply))
    except (CutShort, Unreadable):
        return ""
