"""Whatever a server says: an outcome out of the vocabulary, in bounded time and memory. `make fuzz` runs 100,000
bodies.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from honcho_actors.honcho import operations as ops
from honcho_actors.honcho import reading
from honcho_actors.honcho.breaker import BreakerPolicy, Breakers
from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.operations import Operation
from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok
from honcho_actors.honcho.replies import Reply, judge
from tests.support.calls import endpoint, read_context, within
from tests.support.stub_honcho import Raw, StubHoncho

BODIES = int(os.environ.get("HONCHO_FUZZ_BODIES", "3000"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOWEST_SECONDS = 1.0
WEIGHED = 500

READS: tuple[tuple[Operation, Callable[[object, reading.Skip], Any]], ...] = (
    (ops.SESSION_CONTEXT, reading.session_context),
    (ops.PEER_CONTEXT, reading.peer_context),
    (ops.CHAT, reading.chat_answer),
    (ops.GET_CARD, reading.card),
    (ops.SESSION_SEARCH, reading.messages),
    (ops.LIST_MESSAGES, reading.message_page),
    (ops.QUERY_CONCLUSIONS, reading.conclusions),
    (ops.LIST_CONCLUSIONS, reading.conclusion_page),
    (ops.ADD_MESSAGES, reading.created_ids(2)),
    (ops.ENSURE_SESSION, reading.named),
    (ops.LIST_PEERS, reading.named_page),
    (ops.QUEUE_STATUS, reading.queue_status),
    (ops.GET_MEMBER, reading.observation),
    (ops.SUMMARIES, reading.summaries),
    (ops.HEALTH, reading.healthy),
)
MESSAGE = {
    "id": "m1",
    "content": "hello",
    "peer_id": "ada",
    "session_id": "s",
    "metadata": {"a": 1},
    "created_at": "2026-01-01T00:00:00Z",
    "token_count": 2,
}
SHAPES: tuple[Any, ...] = (
    {"id": "s", "messages": [MESSAGE], "summary": {"content": "x"}, "peer_representation": "r", "peer_card": ["a"]},
    {"peer_id": "p", "representation": "## Explicit\n[2026-01-01 00:00:00] x", "peer_card": None},
    {"content": "an answer"},
    {"items": [MESSAGE, MESSAGE], "total": 2, "page": 1, "size": 50, "pages": 1},
    [MESSAGE, MESSAGE],
    [{"id": "c", "content": "x", "observer_id": "a", "observed_id": "b", "session_id": None, "level": "explicit"}],
    {"id": "w", "metadata": {}, "configuration": {}},
    {"total_work_units": 1, "completed_work_units": 1, "in_progress_work_units": 0, "pending_work_units": 0},
    {"short_summary": {"content": "x"}, "long_summary": None},
    {"observe_me": None, "observe_others": True},
    {"detail": "Peer user not found in workspace w"},
    {"detail": [{"type": "t", "loc": ["body", 0], "msg": "m", "input": "secret"}]},
    {"status": "ok"},
)
LIKELY = (0, 1, 2, 0, 4, 3, 5, 5, 4, 6, 3, 7, 9, 8, 12)
"""For each of READS the shape that its server would send."""
ODD: tuple[Any, ...] = (
    None, True, -1, 1.5e300, 10**30, "", " ", "\ud800", "\x00\x1b[2J", "None", "x" * 5_000, [], {}, [[]], {"": None},
    [None], {"content": {"content": []}}, "2026-13-45", "9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00+23:59",
)  # fmt: skip
SCRAPS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"NaN",
    b"-Infinity",
    b"\xff",
    b"\x00",
    b"1e999",
)


def bent(dice: random.Random, shape: Any, depth: int = 0) -> Any:
    """The shape with some part of it turned into something else."""
    if dice.random() < 0.12 or depth > 4:
        return dice.choice(ODD)
    if isinstance(shape, dict):
        kept = {key: bent(dice, item, depth + 1) for key, item in shape.items() if dice.random() > 0.08}
        if dice.random() < 0.1:
            kept[dice.choice(list(shape) or ["x"]) + "_more"] = dice.choice(ODD)
        return kept
    if isinstance(shape, list):
        return [bent(dice, item, depth + 1) for item in shape * dice.choice((1, 1, 1, 3))]
    return shape if dice.random() < 0.8 else dice.choice(ODD)


def body(dice: random.Random, likely: Any = None) -> bytes:
    kind = dice.random()
    if kind < 0.08:
        return dice.randbytes(dice.randrange(0, 300))
    if kind < 0.11:
        opener, closer = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
        depth = dice.choice((20, 33, 1_000, 50_000))
        return opener * depth + b"1" + closer * dice.choice((depth, 0))
    data = json.dumps(
        bent(dice, likely if likely and dice.random() < 0.7 else dice.choice(SHAPES)), ensure_ascii=dice.random() < 0.5
    ).encode("utf-8", "surrogatepass")
    if kind < 0.6:
        return data
    if kind < 0.75:
        return data[: dice.randrange(0, len(data) + 1)]
    scarred = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        place = dice.randrange(0, len(scarred) + 1)
        scarred[place : place + dice.choice((0, 1, 5))] = dice.choice(SCRAPS)
    return bytes(scarred)


def reply(dice: random.Random, likely: Any) -> Reply:
    return Reply(
        status=200 if dice.random() < 0.7 else dice.choice((201, 204, 301, 401, 404, 409, 422, 429, 500, 503)),
        body=body(dice, likely),
        content_type=dice.choice(
            ("application/json", "text/html", "text/event-stream", "", "application/json; charset=x")
        ),
        encoding=dice.choice(("", "", "", "", "identity", "gzip", "deflate", "br")),
        retry_after=dice.choice((None, "3", "nan", "inf", "-1", "soon", "Fri, 31 Dec 9999 23:59:59 GMT")),
        delimited=dice.random() < 0.8,
    )


def texts(value: Any) -> list[str]:
    """Every text in a value, however deep."""
    if isinstance(value, str):
        return [value]
    if hasattr(value, "__dataclass_fields__"):
        return [
            text for name in value.__dataclass_fields__ if name != "metadata" for text in texts(getattr(value, name))
        ]
    return [text for item in value for text in texts(item)] if isinstance(value, (list, tuple)) else []


@pytest.mark.timeout(900)
def test_every_body_comes_to_an_outcome_in_bounded_time_and_memory() -> None:
    dice = random.Random(20_261)
    skipped: dict[str, int] = {}
    kinds: dict[str, int] = {}
    slowest = 0.0

    def skip(part: str) -> None:
        skipped[part] = skipped.get(part, 0) + 1

    peak = 0
    tracemalloc.start()  # it makes everything several times slower, so that only the first bodies are weighed
    try:
        for number in range(BODIES):
            if number == WEIGHED:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            op, read = READS[number % len(READS)]
            said = reply(dice, SHAPES[LIKELY[number % len(READS)]])
            started = time.thread_time()
            outcome = judge(op, said, read, skip, ("hk-" + "k" * 20,), NOW)
            slowest = max(slowest, time.thread_time() - started)
            if isinstance(outcome, Ok):
                kinds["ok"] = kinds.get("ok", 0) + 1
                for text in texts(outcome.value):
                    text.encode()
                    assert "\x00" not in text
            else:
                assert isinstance(outcome, Failure)
                assert outcome.kind in FailureKind
                assert len(outcome.detail) <= 600
                assert outcome.detail.isprintable()
                kinds[outcome.kind.value] = kinds.get(outcome.kind.value, 0) + 1
    finally:
        tracemalloc.stop()
    assert slowest < SLOWEST_SECONDS
    assert 0 < peak < 64 * 1024 * 1024
    assert {"ok", "bad_reply", "transport", "refused", "unauthorized", "rate_limited", "unknown_outcome"} <= set(kinds)
    assert len(skipped) >= 8, "the bodies reach into every part"


def wire_bytes(dice: random.Random) -> bytes:
    """A reply that may be broken anywhere: status line, headers, framing, body."""
    content = body(dice)
    head = dice.choice(
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content),
            b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(content) + dice.choice((-3, 0, 9))),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(content),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\ncontent-length: 7\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/9.9 777 ?\r\n\r\n",
            b"\x00\x01\x02",
            b"ICY 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(content),
        )
    )
    data = head + content
    return data if dice.random() < 0.7 else data[: dice.randrange(0, len(data) + 1)]


@pytest.mark.timeout(900)
async def test_broken_http_comes_to_an_outcome_too_and_leaves_no_connection() -> None:
    dice = random.Random(77)
    patient = Breakers(BreakerPolicy(failures=1_000_000))
    stub = StubHoncho(lambda seen: Raw(wire_bytes(dice), dice.choice(("close", "reset"))))
    async with stub, HonchoClient(endpoint(stub.url), breakers=patient) as honcho:
        for number in range(min(BODIES // 8, 2_000)):
            outcome = await (read_context(honcho) if number % 2 else honcho.list_peers("w", call=within()))
            assert isinstance(outcome, (Ok, Failure))
        assert honcho.status()["connections"]["busy"] == 0
        for _ in range(4_000):
            if stub.open == honcho.status()["connections"]["idle"]:
                break
            await asyncio.sleep(0.005)
        assert stub.open == honcho.status()["connections"]["idle"]
