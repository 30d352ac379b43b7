"""The pure parts: filters, rules, times, tokens, extraction."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honcho_actors.local import conclusions, extract, filters, ids, messages, rules, schema, times, tokens
from honcho_actors.local.deriver import Deriver
from honcho_actors.local.errors import Faults, Refused
from honcho_actors.local.messages import COLUMNS
from honcho_actors.local.store import Store
from tests.local.conftest import Space

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab*", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_everything_contains_itself(value: Any) -> None:
    text = json.dumps(value)
    assert filters.contains(text, text)


@given(st.dictionaries(st.text("ab", min_size=1, max_size=2), JSON, max_size=3), st.text("cd", min_size=1), JSON)
def test_an_object_contains_what_is_left_when_a_key_is_taken_away(value: dict[str, Any], key: str, more: Any) -> None:
    assert filters.contains(json.dumps({**value, key: more}), json.dumps(value))
    assert not filters.contains(json.dumps(value), json.dumps({**value, key: more}))


@pytest.mark.parametrize(
    ("stored", "wanted", "holds"),
    [
        ({"a": 5}, {"a": 5.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": [1, 2, 3]}, {"a": [3, 1]}, True),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": "x"}, {"a": {}}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
    ],
)
def test_containment_is_honchos(stored: Any, wanted: Any, holds: bool) -> None:
    assert filters.contains(json.dumps(stored), json.dumps(wanted)) is holds


@given(JSON)
def test_no_filter_breaks_the_compiler(value: Any) -> None:
    for given_filter in (value, {"metadata": value}, {"created_at": value}, {"peer_id": value}, {"AND": [value]}):
        try:
            sql, params = filters.compile_filters(given_filter, COLUMNS, "Message", session=1)
        except Refused:
            continue
        assert sql.count("?") == len(params)


BATCHES = [
    {"peer_id": "alice", "content": "one", "metadata": {"id": "aa", "n": 1, "tags": ["x", "y"]}},
    {"peer_id": "bob", "content": "two", "metadata": {"id": "ab", "n": 2, "deep": {"k": "v"}}},
    {"peer_id": "alice", "content": "three", "metadata": {"id": "aa", "n": 10.5}},
]
ASKED = [
    ({"metadata": {"id": "aa"}}, "one three"),
    ({"metadata": {"id": "AA"}}, ""),
    ({"metadata": {"id": "*"}}, "one two three"),
    ({"metadata": {}}, "one two three"),
    ({"metadata": {"id": "aa", "n": 1.0}}, "one"),
    ({"metadata": {"n": {"gte": 2}}}, "two three"),
    ({"metadata": {"n": {"gt": 1, "lt": 10}}}, "two"),
    ({"metadata": {"id": {"in": ["ab", "zz"]}}}, "two"),
    ({"metadata": {"id": {"ne": "aa"}}}, "two"),
    ({"metadata": {"id": {"icontains": "B"}}}, "two"),
    ({"metadata": {"tags": ["y"]}}, "one"),
    ({"metadata": {"deep": {"k": "v"}}}, "two"),
    ({"metadata": {"absent": "x"}}, ""),
    ({"peer_id": ["alice", "zed"]}, "one three"),
    ({"peer_id": {"ne": "alice"}}, "two"),
    ({"peer_id": "*"}, "one two three"),
    ({"OR": [{"peer_id": "bob"}, {"metadata": {"n": 1}}]}, "one two"),
    ({"NOT": [{"peer_id": "bob"}]}, "one three"),
    ({"AND": [{"peer_id": "alice"}, {"NOT": [{"metadata": {"n": 1}}]}]}, "three"),
    ({"created_at": {"gte": "2026-05-02T00:00:00Z", "lte": "2026-05-02T23:59:59+00:00"}}, "two"),
    ({"created_at": "2026-05-02T10:00:00.000001Z"}, "two"),
    ({"metadata": {"id": "ab"}, "created_at": {"gte": "2026-05-02", "lt": "2026-05-03"}}, "two"),
    ({"session_id": "s"}, "one two three"),
    ({"session_id": "other"}, ""),
]


def test_filters_find_what_they_say(space: Space) -> None:
    batch = [{**item, "created_at": f"2026-05-0{day}T10:00:00.000001Z"} for day, item in enumerate(BATCHES, 1)]
    space.post("/sessions/s/messages", {"messages": batch}, 201)
    for wanted, expected in ASKED:
        page = space.post("/sessions/s/messages/list", {"filters": wanted}, 200)
        assert " ".join(item["content"] for item in page["items"]) == expected, wanted
        assert page["total"] == len(page["items"])


def test_metadata_that_was_replaced_is_found_by_the_new_and_not_by_the_old(space: Space) -> None:
    made = space.say("s", ("alice", "one"), metadata={"id": "old"})
    space.put(f"/sessions/s/messages/{made[0]['id']}", {"metadata": {"id": "new"}}, 200)
    totals = [
        space.post("/sessions/s/messages/list", {"filters": {"metadata": {"id": key}}})["total"]
        for key in ("old", "new")
    ]
    assert totals == [0, 1]


def test_a_filter_of_very_many_terms_and_of_a_number_without_end_is_one_that_sqlite_takes() -> None:
    wanted = {"OR": [{"metadata": {"k": number}} for number in range(900)] + [{"token_count": 10**400}]}
    sql, params = filters.compile_filters(wanted, COLUMNS, "Message")
    with closing(schema.connect(Path(":memory:"), durable=False)) as database:
        database.executescript(schema.TABLES)
        assert database.execute(f"SELECT count(*) FROM messages WHERE {sql}", params).fetchone()[0] == 0


def test_a_store_of_the_first_format_is_brought_to_this_one_and_a_later_one_is_left_alone(tmp_path: Path) -> None:
    path = schema.prepare(tmp_path)
    with closing(schema.connect(path, durable=False)) as database:
        columns = database.execute("SELECT name FROM pragma_table_info('members')").fetchall()
        database.executescript("ALTER TABLE members DROP COLUMN left_at; PRAGMA user_version=1")
        schema.prepare(tmp_path)
        assert database.execute("SELECT name FROM pragma_table_info('members')").fetchall() == columns
        database.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    with pytest.raises(schema.Unusable, match="format"):
        schema.prepare(tmp_path)


@pytest.mark.parametrize("query", ["word " * 9_000, "tea \ud800", "a <|endoftext|>"], ids=["long", "no text", "token"])
def test_a_query_that_cannot_be_embedded_is_refused_as_by_honcho(space: Space, query: str) -> None:
    body = json.dumps({"query": query, "filters": {"observer": "a", "observed": "a"}})
    for path in ("/search", "/conclusions/query"):
        reply = space.client.post(space.base + path, content=body, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.json()["detail"]) == (422, "Query exceeds maximum token limit of 8192.")


@pytest.mark.parametrize("reverse", [False, True])
def test_pages_cover_the_list_once_in_order(space: Space, reverse: bool) -> None:
    space.say("s", *[("alice", str(number)) for number in range(25)])
    seen = []
    for page in range(1, 5):
        answer = space.post(f"/sessions/s/messages/list?page={page}&size=10&reverse={reverse}", {}, 200)
        assert (answer["total"], answer["pages"], answer["page"], answer["size"]) == (25, 3, page, 10)
        seen += [int(item["content"]) for item in answer["items"]]
    assert seen == sorted(range(25), reverse=reverse)


BEYOND = ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"]
"""Stored by Honcho, which can then list the session no more."""


@pytest.mark.parametrize(
    "text",
    ["yesterday", "", "2026-13-01", "2026-02-30T00:00:00Z", "99999999999999999999", True, [], {}, 1e300, *BEYOND],
)
def test_what_is_no_time_is_refused(text: Any) -> None:
    with pytest.raises(times.NotATime):
        times.moment(text)


@pytest.mark.parametrize(
    ("text", "utc", "echo"),
    [
        ("2025-01-01T00:00:00+02:00", "2024-12-31T22:00:00Z", "2025-01-01T00:00:00+02:00"),
        ("2024-06-01T00:00:00", "2024-06-01T00:00:00Z", "2024-06-01T00:00:00"),
        ("2024-01-02T03:04:05.000006Z", "2024-01-02T03:04:05.000006Z", "2024-01-02T03:04:05.000006Z"),
        ("2024-01-02", "2024-01-02T00:00:00Z", "2024-01-02T00:00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
        (1_700_000_000, "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
        ("1700000000000", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
    ],
)
def test_a_time_is_read_as_utc_and_echoed_as_it_came(text: str | int, utc: str, echo: str) -> None:
    read = times.moment(text)
    assert (times.iso(read.us), read.echo) == (utc, echo)


@given(st.text(max_size=200))
def test_only_the_empty_text_costs_nothing(text: str) -> None:
    assert (tokens.count(text) == 0) is (text == "")


@given(st.text(max_size=300))
def test_what_is_extracted_is_bounded_and_labelled(text: str) -> None:
    line = extract.said("alice", text * 3)
    assert line is None or (line.startswith("alice said: ") and len(line) <= extract.MAX_CHARS + 20)


def test_questions_are_left_out_of_what_was_said() -> None:
    assert (
        extract.said("a", "I live in Lisbon. Do you? It is sunny here!")
        == "a said: I live in Lisbon. It is sunny here!"
    )
    assert extract.said("a", "Do you?") is None


def test_ids_have_honchos_form() -> None:
    made = {ids.new_id() for _ in range(200)}
    assert len(made) == 200
    assert all(len(one) == ids.LENGTH and rules.ID.fullmatch(one) for one in made)


def test_every_fault_of_a_request_is_told_at_once() -> None:
    faults = Faults()
    rule = rules.record({"id": rules.Field(rules.identifier(), required=True), "n": rules.Field(rules.integer(1, 5))})
    rule({"id": "a b", "n": 9}, ("body",), faults)
    assert [(fault["type"], fault["loc"]) for fault in faults.found] == [
        ("string_pattern_mismatch", ["body", "id"]),
        ("less_than_equal", ["body", "n"]),
    ]


@given(JSON)
def test_no_value_breaks_a_rule(value: Any) -> None:
    for rule in (
        rules.identifier(),
        rules.integer(1, 5),
        rules.number(0, 1),
        rules.boolean,
        rules.metadata,
        rules.moments,
        rules.array(rules.text(), 1, 2),
        rules.map_of(rules.record({"a": rules.Field(rules.boolean)})),
        rules.literal("a", "b"),
    ):
        faults = Faults()
        rule(value, ("body",), faults)
        assert all(fault["loc"][0] == "body" and fault["type"] for fault in faults.found)


def test_an_item_that_cannot_be_derived_is_given_up_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extracted = extract.said

    def broken(peer: str, text: str) -> str | None:
        if "poison" in text:
            raise RuntimeError("an unforeseen fault")
        return extracted(peer, text)

    monkeypatch.setattr(extract, "said", broken)

    async def run() -> str:
        store = Store(tmp_path)
        deriver = Deriver(store, None, retry=0.01)
        batch = [
            {"peer_id": "alice", "content": text, "metadata": None, "configuration": None, "created_at": None}
            for text in ("I keep bees.", "this is poison", "I live in Lisbon.")
        ]
        await store.write(messages.add, "w", "s", batch)
        task = asyncio.create_task(deriver.run())
        try:
            async with asyncio.timeout(30):
                while True:
                    rows = await store.read(conclusions.chosen, "w", "alice", "alice", limit=5)
                    if len(rows) == 2:
                        return conclusions.written(rows)
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            await asyncio.wait([task])
            store.close()

    known = asyncio.run(run())
    assert "I keep bees." in known
    assert "I live in Lisbon." in known
