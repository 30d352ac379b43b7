"""What a reply is taken for (CL25 to CL28, field cases A1 to A6 and A9 to A12), over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from honcho_actors.honcho.client import HonchoClient, OutMessage
from honcho_actors.honcho.endpoint import Endpoint
from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok
from honcho_actors.honcho.reading import SessionContext, about
from honcho_actors.honcho.retry_after import MAX_RETRY_AFTER, parse
from honcho_actors.honcho.said import WITHHELD
from tests.support.calls import client, endpoint, failure, read_context, text, value, within
from tests.support.stub_honcho import Answer, Raw, Said, Seen, StubHoncho

LOGIN = b"<!doctype html><html><title>login</title><body>please sign in</body></html>"
PEER_UNKNOWN = {"detail": "Peer user not found in workspace w"}


async def context_from(answer: Answer) -> Any:
    async with StubHoncho(lambda seen: answer) as stub, client(stub.url) as honcho:
        outcome = await read_context(honcho)
        assert len(stub.seen) == 1, "a failed read is not repeated by the client"
        return outcome


async def post_to(answer: Answer) -> Any:
    async with StubHoncho(lambda seen: answer) as stub, client(stub.url) as honcho:
        outcome = await honcho.add_messages("w", "s", [OutMessage("user", text("hello"))], within())
        assert len(stub.seen) == 1, "a write is never repeated by the client"
        return outcome


# -- 1. a 200 that is not JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Said(LOGIN, headers={"content-type": "text/html"}),
        Said(b"OK", headers={"content-type": "application/json"}),
        Said(b"\xff\xfe\x00", headers={"content-type": "application/json"}),
        Said(["a", "list"]),
        Said("text"),
        Said(7),
    ],
    ids=["A1 html", "A1 OK", "A1 not text", "A1 list", "A1 string", "CL28 number"],
)
async def test_A1_CL28_a_200_that_is_not_this_reply_is_a_bad_reply_and_no_value(answer: Said) -> None:
    """The original handed a garbage body on as it was; part E and field case 1 say why not."""
    outcome = await context_from(answer)
    assert outcome.kind is FailureKind.BAD_REPLY
    assert len(outcome.detail) <= 300
    assert "\n" not in outcome.detail


@pytest.mark.parametrize("body", [b"", b"  \n"])
async def test_A1_an_empty_body_is_no_data(body: bytes) -> None:
    assert await context_from(Said(body)) == Ok(SessionContext(), 200)


async def test_A1_health_is_not_green_for_a_login_page() -> None:
    async with StubHoncho(lambda seen: Said(LOGIN)) as stub, client(stub.url) as honcho:
        assert failure(await honcho.health(call=within())).kind is FailureKind.BAD_REPLY


# -- 2. partial, 3. wrong types ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"id": "s"},
        {"id": "s", "messages": [], "summary": None, "peer_representation": None, "peer_card": None},
        {"peer_card": [], "peer_representation": "", "summary": {"content": ""}},
        {"observe_others": 1, "truncated": True, "summary": {"uid": 3, "extra": {}}, "more": [[]]},
        {"peer_representation": "  \n ", "peer_card": ["", "  "]},
    ],
)
async def test_A2_missing_null_and_empty_are_the_same(body: dict[str, Any]) -> None:
    outcome = await context_from(Said(body))
    assert outcome == Ok(SessionContext(), 200)
    assert outcome.value.empty


async def test_A2_only_present_parts_are_taken_and_unknown_ones_do_no_harm() -> None:
    body = {"peer_representation": "likes tea", "summary": {"content": "so far", "new": {"x": [1]}}, "truncated": 1}
    assert value(await context_from(Said(body))) == SessionContext("likes tea", (), "so far", 0)


@pytest.mark.parametrize(
    ("body", "skipped"),
    [
        ({"peer_representation": {"explicit": ["x"]}, "peer_card": ["ok"]}, "peer_representation"),
        ({"summary": "plain text", "peer_card": ["ok"]}, "summary"),
        ({"summary": {"content": 7}, "peer_card": ["ok"]}, "summary"),
        ({"messages": {"a": 1}, "peer_card": ["ok"]}, "messages"),
        ({"peer_card": ["ok", None, 7]}, "peer_card_line"),
    ],
)
async def test_A3_a_wrong_typed_part_is_skipped_alone_and_counted(body: dict[str, Any], skipped: str) -> None:
    async with StubHoncho(lambda seen: Said(body)) as stub, client(stub.url) as honcho:
        context = value(await read_context(honcho))
        assert context == SessionContext(card=("ok",))
        assert honcho.status()["skipped_parts"][skipped] >= 1


async def test_A3_a_card_that_is_text_is_no_card() -> None:
    assert value(await context_from(Said({"peer_card": "one line", "peer_representation": "r"}))).card == ()


# -- a reply about somebody else -------------------------------------------------------------------------------------

FOREIGN = "somebody-else"


@pytest.mark.parametrize(
    ("read", "body"),
    [
        ("session", {"id": FOREIGN, "peer_representation": "keeps bees", "peer_card": ["bees"], "messages": []}),
        ("person", {"peer_id": FOREIGN, "target_id": "user", "representation": "keeps bees"}),
        ("person", {"peer_id": "user", "target_id": FOREIGN, "representation": "keeps bees"}),
        ("pair", {"peer_id": "bot", "target_id": "bot", "representation": "keeps bees"}),
        ("summaries", {"id": FOREIGN, "short_summary": {"content": "keeps bees"}}),
    ],
    ids=["id", "peer_id", "target_id", "target_id of a pair", "id of summaries"],
)
async def test_case_77_a_reply_about_another_is_a_bad_reply_that_says_neither_its_text_nor_its_name(
    read: str, body: dict[str, Any]
) -> None:
    outcome = failure(await read_of(read, body))
    assert outcome.kind is FailureKind.BAD_REPLY
    assert FOREIGN not in repr(outcome)
    assert "bees" not in repr(outcome)


@pytest.mark.parametrize("read", ["session", "person", "pair", "summaries"])
@pytest.mark.parametrize("said", ["right", "absent", None, "", 7, ["s"]])
async def test_case_77_a_reply_that_says_rightly_or_not_at_all_whom_it_is_about_is_taken(read: str, said: Any) -> None:
    right = {
        "session": {"id": "s"},
        "person": {"peer_id": "user", "target_id": "user"},
        "pair": {"peer_id": "bot", "target_id": "user"},
        "summaries": {"id": "s"},
    }[read]
    names = {"right": right, "absent": {}}.get(said) if isinstance(said, str) and said else dict.fromkeys(right, said)
    known = {"representation": "likes tea", "peer_representation": "likes tea", "short_summary": {"content": "tea"}}
    assert "tea" in repr(value(await read_of(read, {**known, **(names or {})})))


@pytest.mark.parametrize("version", ["v3.0.7", "v3.0.12", "head"])
def test_case_77_every_recorded_reply_of_honcho_names_whom_it_is_about(shared: Path, version: str) -> None:
    recorded = json.loads((shared / "reference" / f"honcho-exchanges-{version}.json").read_text("utf-8"))
    checked = Counter[str]()
    for one in recorded:
        path = urlsplit(one["path"])
        parts = [unquote(part) for part in path.path.split("/")]
        if one["status"] != 200 or not isinstance(one["response"], dict) or one["method"] != "GET" or len(parts) != 7:
            continue
        match parts[4], parts[6]:
            case "sessions", ("context" | "summaries") as what:
                names = {"id": parts[5]}
            case "peers", "context" as what:
                names = {"peer_id": parts[5], "target_id": parse_qs(path.query).get("target", [parts[5]])[0]}
            case _:
                continue
        assert names.items() <= one["response"].items()
        about(lambda value, skip: value, **names)(one["response"], pytest.fail)
        checked[f"{parts[4]} {what}"] += 1
    assert set(checked) == {"sessions context", "sessions summaries", "peers context"}


async def read_of(read: str, body: dict[str, Any]) -> Any:
    async with StubHoncho(lambda seen: Said(body)) as stub, client(stub.url) as honcho:
        match read:
            case "session":
                return await read_context(honcho)
            case "summaries":
                return await honcho.summaries("w", "s", call=within())
            case "person":
                return await honcho.peer_context("w", "user", max_conclusions=10, call=within())
            case _:
                return await honcho.peer_context("w", "bot", target="user", max_conclusions=10, call=within())


# -- what text is taken ----------------------------------------------------------------------------------------------


async def test_text_from_the_server_can_be_stored_and_shown() -> None:
    body = b'{"peer_representation": "a\\ud800b\\u0000c \\ud83d\\ude00"}'
    assert value(await context_from(Said(body))).representation == "a\ufffdbc \U0001f600"


# -- 4. the key changes while we run -------------------------------------------------------------------------------


async def test_A4_CL25_five_calls_that_meet_a_new_key_read_it_once_and_are_all_served() -> None:
    old, new = "hk-" + "old" * 4, "hk-" + "new" * 4
    keys = {"file": old, "in force": old}
    rereads = 0
    arrived = asyncio.Event()

    async def script(seen: Seen) -> Answer:
        if seen.headers["authorization"] != f"Bearer {new}":
            if len(stub.seen) >= 5:
                arrived.set()
            await arrived.wait()  # all five are in flight with the old key before the first is refused
            return Said({"detail": "Invalid or expired access token"}, 401)
        return Said([{"id": "m"}], 201)

    def reread() -> None:
        nonlocal rereads
        rereads += 1
        keys["in force"] = keys["file"]

    def source() -> Endpoint:
        return endpoint(stub.url, keys["in force"])

    async with StubHoncho(script) as stub, HonchoClient(source, reread=reread) as honcho:
        keys["file"] = new
        batch = [OutMessage("user", text("hello"))]
        outcomes = await asyncio.gather(*(honcho.add_messages("w", f"s{n}", batch, within()) for n in range(5)))
        assert [isinstance(outcome, Ok) for outcome in outcomes] == [True] * 5
        assert rereads == 1
        assert len(stub.seen) == 10, "each call once refused, once served"


async def test_A4_a_key_that_stays_wrong_is_one_retry_less_and_one_read_for_ever() -> None:
    rereads = 0

    def reread() -> None:
        nonlocal rereads
        rereads += 1

    async with StubHoncho(lambda seen: Said({"detail": "Invalid JWT"}, 401)) as stub:
        async with HonchoClient(lambda: endpoint(stub.url, "hk-" + "w" * 9), reread=reread) as honcho:
            for _ in range(10):
                refused = failure(await read_context(honcho))
                assert (refused.kind, refused.detail) == (FailureKind.UNAUTHORIZED, "Invalid JWT")
        assert (rereads, len(stub.seen)) == (1, 10)


# -- 5. Retry-After ------------------------------------------------------------------------------------------------

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1.5", 1.5),
        ("nan", None),
        ("inf", MAX_RETRY_AFTER),
        ("-inf", 0.0),
        ("1e309", MAX_RETRY_AFTER),
        ("86400", MAX_RETRY_AFTER),
        ("soon", None),
        ("", None),
        ("   ", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (format_datetime(NOW + timedelta(seconds=3), usegmt=True), 3.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("9" * 5000, MAX_RETRY_AFTER),
        ("٣", 3.0),
        (None, None),
    ],
)
def test_A5_every_shape_of_retry_after_is_a_safe_number_or_absent(header: str | None, seconds: float | None) -> None:
    assert parse(header, NOW) == seconds


@pytest.mark.parametrize(("status", "kind"), [(429, FailureKind.RATE_LIMITED), (503, FailureKind.REFUSED)])
async def test_A5_the_wait_travels_with_the_outcome_and_nobody_sleeps(status: int, kind: FailureKind) -> None:
    busy = Said({"detail": "busy"}, status, {"retry-after": "86400"})
    async with StubHoncho(lambda seen: busy) as stub, client(stub.url) as honcho:
        started = asyncio.get_running_loop().time()
        limited = failure(await read_context(honcho))
        assert (limited.kind, limited.status, limited.retry_after) == (kind, status, MAX_RETRY_AFTER)
        assert asyncio.get_running_loop().time() - started < 20
        stub.script = lambda seen: Said({})
        assert isinstance(await read_context(honcho), Ok), "one item's long wait blocks no other call"


# -- 6. cut in the middle ------------------------------------------------------------------------------------------

HALF = b'{"peer_representation": "likes te'
CUTS = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n" + HALF,
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\n" + HALF,
    "close": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + HALF,
    "gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nnotgz",
    "half gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 20\r\n\r\n"
    + gzip.compress(b"{}" * 99)[:20],
    "head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "nothing": b"",
}


@pytest.mark.parametrize("shape", CUTS)
@pytest.mark.parametrize("then", ["close", "reset"])
async def test_A6_a_cut_reply_is_a_transport_failure_and_a_cut_write_an_unknown_outcome(shape: str, then: str) -> None:
    raw = Raw(CUTS[shape], then)
    assert (await context_from(raw)).kind is FailureKind.TRANSPORT
    lost = await post_to(raw)
    assert (lost.kind, lost.bytes_sent) == (FailureKind.UNKNOWN_OUTCOME, True)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_a_packed_reply_that_is_whole_is_read_though_none_was_asked_for(pack: Any) -> None:
    encoding = "gzip" if pack is gzip.compress else "deflate"
    packed = pack(json.dumps({"peer_representation": "r"}).encode())
    assert value(await context_from(Said(packed, headers={"content-encoding": encoding}))).representation == "r"


# -- 9. and 12. diagnostics ----------------------------------------------------------------------------------------


async def test_A9_a_closed_port_is_said_within_the_deadline() -> None:
    async with StubHoncho() as stub:
        closed = stub.url
    async with client(closed) as honcho:
        down = failure(await honcho.health(call=within()))
        assert (down.kind, down.bytes_sent) == (FailureKind.TRANSPORT, False)
        assert "ConnectionRefusedError" in down.detail, "the whole cause chain is said"


async def test_A9_A12_a_server_that_never_answers_ends_at_the_total_deadline_after_one_request() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=30)) as stub, client(stub.url) as honcho:
        started = asyncio.get_running_loop().time()
        assert failure(await honcho.health(call=within(0.5))).kind is FailureKind.TIMED_OUT
        assert 0.45 < asyncio.get_running_loop().time() - started < 20
        assert len(stub.seen) == 1


async def test_A12_a_503_ends_a_diagnosis_at_once_and_an_open_breaker_never_silences_it() -> None:
    async with StubHoncho(lambda seen: Said({"detail": "down"}, 503)) as stub, client(stub.url) as honcho:
        for _ in range(20):
            assert failure(await honcho.health(call=within())).status == 503
        assert len(stub.seen) == 20


# -- 10. redirects, 11. empty answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_A10_a_redirect_is_a_bad_reply_and_leads_nowhere(status: int) -> None:
    async with StubHoncho() as other:
        moved = Said({}, status, {"location": f"{other.url}/v3/elsewhere"})
        assert (await context_from(moved)).kind is FailureKind.BAD_REPLY
        assert (await post_to(moved)).kind is FailureKind.BAD_REPLY
        assert other.seen == []
        assert other.accepted == 0


async def test_a_cookie_is_not_kept() -> None:
    async with StubHoncho(lambda seen: Said({"content": "tea"}, 200, {"set-cookie": "who=ines; path=/"})) as stub:
        async with client(stub.url) as honcho:
            for _ in range(2):
                assert await honcho.chat("w", "user", text("x"), call=within()) == Ok("tea", 200)
        assert len(stub.seen) == 2
        assert all("cookie" not in seen.headers for seen in stub.seen)


async def test_A11_empty_answers_are_no_failures_and_open_no_breaker() -> None:
    async with StubHoncho(lambda seen: Said({"content": "   ", "items": []})) as stub, client(stub.url) as honcho:
        for _ in range(20):
            assert await honcho.chat("w", "user", text("x"), call=within()) == Ok(None, 200)
            assert await honcho.session_search("w", "s", text("x"), call=within()) == Ok((), 200)
        assert set(honcho.breakers.states(0).values()) == {"closed"}


# -- errors as values ----------------------------------------------------------------------------------------------


async def test_CL25_a_401_is_distinct() -> None:
    refused = await context_from(Said({"detail": "Invalid JWT"}, 401))
    assert (refused.kind, refused.status) == (FailureKind.UNAUTHORIZED, 401)


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 500, 502, 504])
async def test_CL26_another_refusal_carries_its_status_and_its_words(status: int) -> None:
    refused = await context_from(Said({"detail": "no such thing"}, status))
    assert refused == Failure(FailureKind.REFUSED, "session_context", status, "no such thing")


async def test_CL27_a_transport_failure_is_a_value() -> None:
    gone = await context_from(Raw(b"", "reset"))
    assert gone.kind is FailureKind.TRANSPORT
    assert gone.detail


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_write_that_is_answered_by_5xx_may_have_been_stored(status: int) -> None:
    lost = await post_to(Said({"detail": "An unexpected error occurred"}, status, {"retry-after": "2"}))
    assert (lost.kind, lost.status, lost.retry_after) == (FailureKind.UNKNOWN_OUTCOME, status, 2.0)


@pytest.mark.parametrize("status", [400, 404, 409, 422])
async def test_a_write_that_is_answered_by_4xx_was_not_stored(status: int) -> None:
    assert (await post_to(Said({"detail": "no"}, status))).kind is FailureKind.REFUSED


async def test_nothing_known_is_an_answer_and_any_other_404_a_refusal() -> None:
    assert (await context_from(Said(PEER_UNKNOWN, 404))).kind is FailureKind.NOTHING_KNOWN
    for detail in ("Not Found", "Session s not found in workspace w", "Peer user not found", None):
        assert (await context_from(Said({"detail": detail}, 404))).kind is FailureKind.REFUSED, detail
    assert (await context_from(Said(LOGIN, 404))).kind is FailureKind.REFUSED


async def test_nothing_known_never_opens_a_breaker() -> None:
    async with StubHoncho(lambda seen: Said(PEER_UNKNOWN, 404)) as stub, client(stub.url) as honcho:
        for _ in range(20):
            await read_context(honcho)
        assert len(stub.seen) == 20


async def test_a_validation_error_is_said_without_the_echo_of_what_was_sent() -> None:
    private = "my very private sentence"
    row = {"type": "string_too_long", "loc": ["body", "messages", 0, "content"], "msg": "too long", "input": private}
    refused = await context_from(Said({"detail": [row, "noise", {"msg": 7}]}, 422))
    assert refused.detail.startswith("body.messages.0.content: too long")
    assert private not in repr(refused)


async def test_upstream_text_is_scrubbed_and_then_cut() -> None:
    key = "hk-" + "s3cret" * 4
    longer = "x" * 290 + " " + key
    async with StubHoncho(lambda seen: Said({"detail": longer}, 400)) as stub, client(stub.url, key) as honcho:
        said = failure(await read_context(honcho)).detail
        assert len(said) <= 300
        assert key[:8] not in said
    token = "sk-" + "Ab1" * 12
    assert (await context_from(Said({"detail": "x" * 280 + " " + token}, 400))).detail == WITHHELD
    assert (await context_from(Said({"detail": "two\r\nlines\x1b[31m"}, 400))).detail == "two lines [31m"


async def test_a_stream_that_was_not_asked_for_counts_only_with_its_last_event() -> None:
    def stream(*events: str) -> Said:
        body = "".join(f"data: {event}\n\n" for event in events).encode()
        return Said(body, headers={"content-type": "text/event-stream; charset=utf-8"})

    first = '{"delta": {"content": "she likes "}, "done": false}'
    second = '{"delta": {"content": "tea"}, "done": false}'
    async with StubHoncho() as stub, client(stub.url) as honcho:
        stub.script = lambda seen: stream(first, second, '{"done": true}')
        assert value(await honcho.chat("w", "user", text("x"), call=within())) == "she likes tea"
        stub.script = lambda seen: stream(first, second)
        assert failure(await honcho.chat("w", "user", text("x"), call=within())).kind is FailureKind.TRANSPORT
        stub.script = lambda seen: stream()
        empty = failure(await honcho.chat("w", "user", text("x"), call=within()))
        assert empty.kind is FailureKind.TRANSPORT, "a model that is down ends its stream cleanly, without an event"
        stub.script = lambda seen: stream("{")
        assert failure(await honcho.chat("w", "user", text("x"), call=within())).kind is FailureKind.BAD_REPLY


# -- caps ----------------------------------------------------------------------------------------------------------


async def test_a_reply_without_end_is_given_up_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honcho_actors.honcho.exchange.MAX_BODY_BYTES", 100_000)
    assert (await context_from(Said(b" " * 100_001))).kind is FailureKind.BAD_REPLY
    endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b" " * 200_000
    assert (await context_from(Raw(endless))).kind is FailureKind.BAD_REPLY
    assert (await context_from(Said(b"{}" + b" " * 90_000))).ok


async def test_a_packed_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honcho_actors.honcho.replies.MAX_BODY_BYTES", 100_000)
    bomb = gzip.compress(b"[" + b"0," * 500_000 + b"0]")
    assert (await context_from(Said(bomb, headers={"content-encoding": "gzip"}))).kind is FailureKind.BAD_REPLY
    assert (await context_from(Said(b"x", headers={"content-encoding": "br"}))).kind is FailureKind.BAD_REPLY


@pytest.mark.parametrize("depth", [40, 5_000, 200_000])
async def test_a_reply_that_is_nested_too_deeply_is_a_bad_reply(depth: int) -> None:
    body = b'{"peer_card": ' + b"[" * depth + b"]" * depth + b"}"
    assert (await context_from(Said(body))).kind is FailureKind.BAD_REPLY


async def test_numbers_that_are_no_json_and_numbers_without_end_do_no_harm() -> None:
    assert (
        value(await context_from(Said(b'{"peer_representation": "r", "x": NaN, "y": -Infinity}'))).representation == "r"
    )
    assert (await context_from(Said(b'{"x": ' + b"9" * 10_000 + b"}"))).kind is FailureKind.BAD_REPLY
