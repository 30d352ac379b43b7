"""What the server would refuse or choke on is made safe before it is sent (field case 133 and the rules of
docs/honcho.md).
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from honcho_actors.honcho import wire
from honcho_actors.honcho.client import OutMessage
from honcho_actors.honcho.outcomes import FailureKind
from tests.support.calls import client, failure, text, value, within
from tests.support.stub_honcho import Said, Seen, StubHoncho

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def store(seen: Seen) -> Said:
    rows = seen.json().get("messages") or seen.json().get("conclusions")
    return Said([{"id": f"{number}-{row['content'][:1]}"} for number, row in enumerate(rows)], 201)


def depth_of(item: Any) -> int:
    if isinstance(item, dict):
        return 1 + max(map(depth_of, item.values()), default=0)
    if isinstance(item, list):
        return 1 + max(map(depth_of, item), default=0)
    return 0


def deep(levels: int) -> dict[str, Any]:
    return {"n": deep(levels - 1)} if levels > 1 else {"n": 1}


# -- whole-text, control-token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_text", "sent"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("nul\x00byte", "nulbyte"),
        ("x <|endoftext|> y", "x <| endoftext |> y"),
        ("<|fim_prefix|><|im_start|>", "<| fim_prefix |><| im_start |>"),
        ("a <| b |> c", "a <| b |> c"),
        ("plain", "plain"),
    ],
)
async def test_whole_text_and_control_tokens_are_made_safe(given_text: str, sent: str) -> None:
    async with StubHoncho(store) as stub, client(stub.url) as honcho:
        value(await honcho.add_messages("w", "s", [OutMessage("ada", text(given_text))], within()))
        assert stub.seen[0].json()["messages"][0]["content"] == sent
        assert wire.safe_text(given_text) == sent
        assert wire.safe_text(sent) == sent, "the rule changes nothing twice"


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_safe_text_always_encodes_and_holds_no_control_token(anything: str) -> None:
    safe = wire.safe_text(anything)
    safe.encode()
    assert "\x00" not in safe
    assert not regex.search(r"<\|[A-Za-z0-9_]{1,32}\|>", safe)


# -- content-split -------------------------------------------------------------------------------------------------


async def test_over_long_content_becomes_linked_messages_that_join_to_the_text() -> None:
    long = ("wörd " * 11_000) + FAMILY * 3
    when = datetime(2026, 1, 1, tzinfo=UTC)
    messages = [OutMessage("ada", text(long), {"position": 4}, when), OutMessage("ada", text("short"))]
    async with StubHoncho(store) as stub, client(stub.url) as honcho:
        assert len(value(await honcho.add_messages("w", "s", messages, within()))) == 4
        rows = stub.seen[0].json()["messages"]
    parts, last = rows[:3], rows[3]
    assert "".join(row["content"] for row in parts) == long
    assert all(len(row["content"]) <= 25_000 for row in parts)
    assert [(row["metadata"]["part"], row["metadata"]["parts"]) for row in parts] == [(1, 3), (2, 3), (3, 3)]
    assert len({row["metadata"]["part_of"] for row in parts}) == 1
    assert all(row["metadata"]["position"] == 4 and row["created_at"].startswith("2026-01-01") for row in parts)
    assert "metadata" not in last


def test_the_link_is_the_same_when_the_same_message_is_sent_again() -> None:
    message = OutMessage("ada", text("x" * 30_000), {}, datetime(2026, 1, 1, tzinfo=UTC))
    assert wire.message_bodies([message]) == wire.message_bodies([message])


CLUSTERS = ["a", " ", "é", "e\u0301", FAMILY, "\U0001f1e9\U0001f1ea", "\r\n", "ก็"]
CALM = settings(max_examples=50, deadline=None)


@CALM
@given(st.lists(st.sampled_from(CLUSTERS), max_size=200).map("".join), st.integers(8, 40))
def test_a_split_loses_nothing_and_cuts_between_graphemes(content: str, limit: int) -> None:
    pieces = wire.split_content(content, limit)
    assert "".join(pieces) == content
    assert all(len(piece) <= limit for piece in pieces)
    whole = [found.end() for found in regex.finditer(r"\X", content)]
    place = 0
    for piece in pieces[:-1]:
        place += len(piece)
        assert place in whole


def test_one_grapheme_that_is_longer_than_a_message_is_cut_all_the_same() -> None:
    zalgo = "a" + "\u0301" * 1_000
    pieces = wire.split_content(zalgo, 100)
    assert "".join(pieces) == zalgo
    assert max(map(len, pieces)) <= 100


# -- batch-split ---------------------------------------------------------------------------------------------------


async def test_more_than_a_hundred_messages_go_in_order_in_several_requests() -> None:
    messages = [OutMessage("ada", text(f"message {number}")) for number in range(250)]
    async with StubHoncho(store) as stub, client(stub.url) as honcho:
        assert len(value(await honcho.add_messages("w", "s", messages, within()))) == 250
        sizes = [len(seen.json()["messages"]) for seen in stub.seen]
        sent = [row["content"] for seen in stub.seen for row in seen.json()["messages"]]
    assert sizes == [100, 100, 50]
    assert sent == [f"message {number}" for number in range(250)]


async def test_a_failure_between_two_batches_says_how_much_was_stored() -> None:
    messages = [OutMessage("ada", text("x")) for _ in range(150)]
    stub = StubHoncho(lambda seen: store(seen) if len(stub.seen) == 1 else Said({}, 500))
    async with stub, client(stub.url) as honcho:
        lost = failure(await honcho.add_messages("w", "s", messages, within()))
    assert (lost.kind, lost.done) == (FailureKind.UNKNOWN_OUTCOME, 100)


async def test_conclusions_are_split_cut_and_never_blank() -> None:
    contents = [text("x" * 70_000), *(text(f"c{number}") for number in range(120))]
    async with StubHoncho(store) as stub, client(stub.url) as honcho:
        ids = value(
            await honcho.create_conclusions("w", contents, observer="a", observed="a", session="s", call=within())
        )
        assert len(ids) == 121
        first = stub.seen[0].json()["conclusions"][0]
        assert (len(first["content"]), first["session_id"]) == (65_535, "s")
        assert [len(seen.json()["conclusions"]) for seen in stub.seen] == [100, 21]
        none = failure(await honcho.create_conclusions("w", [], observer="a", observed="a", call=within()))
        assert (none.kind, none.bytes_sent, len(stub.seen)) == (FailureKind.REFUSED, False, 2)


async def test_no_messages_are_no_request() -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        assert value(await honcho.add_messages("w", "s", [], within())) == ()
        assert stub.seen == []


# -- clamp, blank --------------------------------------------------------------------------------------------------


async def test_numbers_and_questions_stay_inside_the_limits() -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        await honcho.session_context(
            "w", "s", peer_target="u", max_conclusions=0, tokens=-5, summary=False, call=within()
        )
        await honcho.session_context(
            "w", "s", peer_target="u", max_conclusions=999, tokens=10**9, summary=False, call=within()
        )
        assert "max_conclusions=1&tokens=0&" in stub.seen[0].query
        assert "max_conclusions=100&tokens=100000&" in stub.seen[1].query
        await honcho.chat("w", "u", text("q" * 20_000), call=within())
        assert len(stub.seen[2].json()["query"]) == 10_000
        await honcho.session_search("w", "s", text("q" * 20_000), limit=-3, call=within())
        assert (len(stub.seen[3].json()["query"]), stub.seen[3].json()["limit"]) == (2_000, 1)


# -- metadata (133) ------------------------------------------------------------------------------------------------


def cycle() -> dict[str, Any]:
    turning: dict[str, Any] = {}
    turning["again"] = turning
    return turning


def list_cycle() -> list[Any]:
    turning: list[Any] = [1]
    turning.append(turning)
    return turning


CASES: dict[str, dict[Any, Any]] = {
    "nan": {"score": math.nan, "kept": 1},
    "inf": {"score": math.inf, "minus": -math.inf, "kept": 1},
    "depth 6": {**deep(6), "kept": 1},
    "101 keys": {f"k{number}": number for number in range(101)},
    "non-string keys": {1: "a", None: "b", ("t",): "c", "kept": 1},
    "bytes": {"raw": b"\x00\xff", "kept": 1},
    "datetime": {"at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 2), "kept": 1},
    "a cycle": {"loop": cycle(), "kept": 1},
    "a list cycle": {"loop": list_cycle(), "kept": 1},
    "objects": {"x": object(), "f": len, "kept": 1},
    "surrogates": {"k\ud800": "v\ud800", "kept": 1},
    "huge": {"i": 10**5000, "s": "x" * 10**6, "l": list(range(10**5)), "kept": 1},
    "plain kinds": {"d": Decimal("1.5"), "u": UUID(int=1), "set": {1}, "t": (1, 2), "n": None, "b": True, "kept": 1},
}


@pytest.mark.parametrize("name", CASES)
async def test_133_metadata_is_cleaned_before_it_is_sent_and_the_message_goes_out(name: str) -> None:
    async with StubHoncho(store) as stub, client(stub.url) as honcho:
        value(await honcho.add_messages("w", "s", [OutMessage("ada", text("hello"), CASES[name])], within()))
        sent = stub.seen[0].json()["messages"][0]["metadata"]
    assert len(sent) <= 100
    assert depth_of(sent) <= 5
    assert len(json.dumps(sent, allow_nan=False)) < 20_000
    if "kept" in CASES[name]:
        assert sent["kept"] == 1


def test_133_what_fits_is_sent_as_it_is() -> None:
    fits = {**deep(5), "list": [1, 2.5, "x", None, True, {"a": []}]}
    assert wire.clean_metadata(fits) == fits
    assert wire.clean_metadata(CASES["datetime"])["at"] == "2026-01-01T00:00:00+00:00"


LEAVES = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=9), st.binary(max_size=3))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2))


@CALM
@given(
    st.dictionaries(
        st.one_of(st.text(max_size=3), st.integers()), st.recursive(LEAVES, nested, max_leaves=12), max_size=4
    )
)
def test_133_whatever_comes_in_what_goes_out_is_plain_json(anything: dict[Any, Any]) -> None:
    cleaned = wire.clean_metadata(anything)
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == cleaned
    assert depth_of(cleaned) <= 5


@pytest.mark.parametrize("hours", [-14, 14])
def test_a_time_that_no_calendar_holds_in_utc_is_left_to_the_server(hours: int) -> None:
    edge = datetime.max if hours < 0 else datetime.min
    beyond = OutMessage("ada", text("hello"), created_at=edge.replace(tzinfo=timezone(timedelta(hours=hours))))
    assert "created_at" not in wire.message_bodies([beyond])[0]
    assert wire.stamp(edge) == edge.replace(tzinfo=UTC).isoformat(timespec="microseconds")


def test_a_split_message_with_full_metadata_keeps_room_for_its_link() -> None:
    full = {f"k{number}": number for number in range(100)}
    bodies = wire.message_bodies([OutMessage("ada", text("x" * 30_000), full)])
    assert [len(body["metadata"]) for body in bodies] == [100, 100]
    assert bodies[0]["metadata"]["parts"] == 2
