"""What each operation puts on the wire and takes from the reply (CL1 to CL16, CL20, CL29 to CL31): real sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs

import pytest

from honcho_actors.honcho import operations
from honcho_actors.honcho.client import HonchoClient, Observation, OutMessage
from honcho_actors.honcho.outcomes import FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import QueueStatus, SessionContext
from honcho_actors.local.faultproxy_plan import OPERATIONS as FORESEEN
from honcho_actors.metrics import OPERATIONS
from tests.support.calls import client, failure, read_context, text, within
from tests.support.stub_honcho import Said, Seen, StubHoncho


async def ask(
    reply: Any, use: Callable[[HonchoClient], Awaitable[Outcome[Any]]], status: int = 200
) -> tuple[Any, Seen]:
    """One call against a server that says `reply`: the outcome's value, and the request as it came in."""
    async with StubHoncho(lambda seen: Said(reply, status)) as stub, client(stub.url) as honcho:
        outcome = await use(honcho)
        assert len(stub.seen) == 1, outcome
        return (outcome.value if isinstance(outcome, Ok) else outcome), stub.seen[0]


def query_of(seen: Seen) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(seen.query).items()}


async def test_CL1_creating_a_workspace_sends_its_id_and_nothing_that_would_replace_metadata() -> None:
    named, seen = await ask({"id": "w", "metadata": {}}, lambda h: h.ensure_workspace("w", call=within()), 201)
    assert (seen.method, seen.path, seen.json(), named.id) == ("POST", "/v3/workspaces", {"id": "w"}, "w")


async def test_CL2_creating_a_peer_goes_below_the_workspace_with_its_id() -> None:
    _, seen = await ask({"id": "ada"}, lambda h: h.ensure_peer("w", "ada", call=within()))
    assert (seen.path, seen.json()) == ("/v3/workspaces/w/peers", {"id": "ada"})


async def test_CL3_creating_a_session_maps_each_peer_to_its_flags() -> None:
    members = {"ada": Observation(True, False), "bot": Observation(observe_others=True)}
    _, seen = await ask({"id": "s"}, lambda h: h.ensure_session("w", "s", members, within()))
    assert seen.path == "/v3/workspaces/w/sessions"
    assert seen.json() == {
        "id": "s",
        "peers": {"ada": {"observe_me": True, "observe_others": False}, "bot": {"observe_others": True}},
    }


async def test_CL4_setting_a_member_sends_the_two_flags_and_nothing_else() -> None:
    async with StubHoncho(lambda seen: Said(b"", 204)) as stub, client(stub.url) as honcho:
        assert await honcho.set_member("w", "s", "ada", Observation(True, False), within()) == Ok(None, 204)
        assert stub.seen[0].method == "PUT"
        assert stub.seen[0].path == "/v3/workspaces/w/sessions/s/peers/ada/config"
        assert stub.seen[0].json() == {"observe_me": True, "observe_others": False}


async def test_CL5_messages_go_under_one_key_with_metadata_and_our_own_time() -> None:
    when = datetime(2026, 3, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    messages = [
        OutMessage("ada", text("hello"), {"batch_id": "ab12", "position": 0}, when),
        OutMessage("bot", text("hi"), reasoning=False),
    ]
    ids, seen = await ask([{"id": "m1"}, {"id": "m2"}], lambda h: h.add_messages("w", "s", messages, within()), 201)
    assert ids == ("m1", "m2")
    assert seen.path == "/v3/workspaces/w/sessions/s/messages"
    assert seen.json() == {
        "messages": [
            {
                "content": "hello",
                "peer_id": "ada",
                "metadata": {"batch_id": "ab12", "position": 0},
                "created_at": "2026-03-01T10:00:00.000000+00:00",
            },
            {"content": "hi", "peer_id": "bot", "configuration": {"reasoning": {"enabled": False}}},
        ]
    }


async def test_CL6_the_context_read_sends_the_options_that_are_given() -> None:
    context, seen = await ask(
        {"peer_representation": "text", "peer_card": ["a"], "summary": {"content": "sum"}, "messages": [{}, {}]},
        lambda h: h.session_context(
            "w",
            "s",
            peer_target="ada",
            peer_perspective="bot",
            max_conclusions=25,
            tokens=3000,
            summary=True,
            call=within(),
        ),
    )
    assert context == SessionContext("text", ("a",), "sum", 2)
    assert (seen.method, seen.path) == ("GET", "/v3/workspaces/w/sessions/s/context")
    assert query_of(seen) == {
        "peer_target": "ada",
        "peer_perspective": "bot",
        "max_conclusions": "25",
        "tokens": "3000",
        "summary": "true",
        "include_most_frequent": "false",
    }


async def test_CL7_the_context_read_omits_what_is_not_given_and_always_says_tokens_and_most_frequent() -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        await read_context(honcho)
        assert query_of(stub.seen[0]) == {
            "peer_target": "user",
            "max_conclusions": "10",
            "tokens": "0",
            "summary": "false",
            "include_most_frequent": "false",
        }
        assert stub.seen[0].body == b""


async def test_CL8_the_peer_context_has_its_own_route() -> None:
    context, seen = await ask(
        {"representation": "r", "peer_card": None},
        lambda h: h.peer_context("w", "bot", target="ada", max_conclusions=500, call=within()),
    )
    assert (context.representation, context.card) == ("r", ())
    assert seen.path == "/v3/workspaces/w/peers/bot/context"
    assert query_of(seen) == {"target": "ada", "max_conclusions": "100", "include_most_frequent": "false"}


async def test_CL9_chat_is_not_streamed_and_gives_the_content() -> None:
    answer, seen = await ask(
        {"content": " she likes tea "},
        lambda h: h.chat("w", "ada", text("what?"), session_id="s", target="ada", level="high", call=within()),
    )
    assert answer == "she likes tea"
    assert seen.path == "/v3/workspaces/w/peers/ada/chat"
    assert seen.json() == {
        "query": "what?",
        "stream": False,
        "session_id": "s",
        "target": "ada",
        "reasoning_level": "high",
    }


async def test_CL10_session_search_posts_the_query_and_gives_a_list() -> None:
    row = {"id": "m", "content": "x", "peer_id": "ada", "session_id": "s", "created_at": "2026-01-02T03:04:05.6Z"}
    found, seen = await ask([row], lambda h: h.session_search("w", "s", text("tea"), limit=500, call=within()))
    assert (found[0].id, found[0].text, found[0].peer, found[0].session) == ("m", "x", "ada", "s")
    assert found[0].created_at == datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    assert (seen.path, seen.json()) == ("/v3/workspaces/w/sessions/s/search", {"query": "tea", "limit": 100})


async def test_CL11_workspace_search_has_a_default_limit_and_takes_filters() -> None:
    found, seen = await ask(
        {"items": []}, lambda h: h.workspace_search("w", text("tea"), filters={"peer_id": "ada"}, call=within())
    )
    assert found == ()
    assert seen.path == "/v3/workspaces/w/search"
    assert seen.json() == {"query": "tea", "limit": 10, "filters": {"peer_id": "ada"}}


async def test_peer_search_stays_below_the_peer() -> None:
    _, seen = await ask([], lambda h: h.peer_search("w", "ada", text("tea"), call=within()))
    assert seen.path == "/v3/workspaces/w/peers/ada/search"


async def test_CL12_reading_a_card_unwraps_it() -> None:
    lines, seen = await ask({"peer_card": ["a", " b "]}, lambda h: h.get_card("w", "bot", target="ada", call=within()))
    assert lines == ("a", "b")
    assert (seen.path, seen.query) == ("/v3/workspaces/w/peers/bot/card", "target=ada")


async def test_CL13_setting_a_card_puts_its_lines() -> None:
    lines, seen = await ask(
        {"peer_card": ["a"]}, lambda h: h.put_card("w", "ada", [text("a")], target="ada", call=within())
    )
    assert lines == ("a",)
    assert (seen.method, seen.query, seen.json()) == ("PUT", "target=ada", {"peer_card": ["a"]})


async def test_CL14_creating_conclusions_drops_an_absent_session() -> None:
    ids, seen = await ask(
        [{"id": "c1"}],
        lambda h: h.create_conclusions("w", [text("likes tea")], observer="ada", observed="ada", call=within()),
        201,
    )
    assert ids == ("c1",)
    assert seen.path == "/v3/workspaces/w/conclusions"
    assert seen.json() == {"conclusions": [{"content": "likes tea", "observer_id": "ada", "observed_id": "ada"}]}


async def test_CL15_querying_conclusions_puts_the_pair_inside_the_filters() -> None:
    found, seen = await ask(
        [{"id": "c", "content": "x", "observer_id": "ada", "observed_id": "ada", "session_id": None}],
        lambda h: h.query_conclusions("w", text("tea"), observer="ada", observed="ada", call=within()),
    )
    assert (found[0].id, found[0].level) == ("c", "explicit")
    assert seen.path == "/v3/workspaces/w/conclusions/query"
    assert seen.json() == {"query": "tea", "top_k": 10, "filters": {"observer": "ada", "observed": "ada"}}


async def test_CL16_deleting_a_conclusion_takes_an_empty_body_and_says_whether_it_was_there() -> None:
    gone, seen = await ask(b"", lambda h: h.delete_conclusion("w", "c1", call=within()), 204)
    assert (gone, seen.method, seen.path) == (True, "DELETE", "/v3/workspaces/w/conclusions/c1")
    absent, _ = await ask(
        {"detail": "Conclusion not found"}, lambda h: h.delete_conclusion("w", "c1", call=within()), 404
    )
    assert absent is False
    for other in ({"detail": "Not Found"}, b"<html>404 page not found</html>", b"", {"message": "no route matched"}):
        lost, _ = await ask(other, lambda h: h.delete_conclusion("w", "c1", call=within()), 404)
        assert (lost.kind, lost.absent) == (FailureKind.REFUSED, False), "that it is gone is for Honcho to say"


def test_every_operation_has_its_label_in_the_metrics_and_its_name_in_the_fault_proxy() -> None:
    names = {found.name for found in vars(operations).values() if isinstance(found, operations.Operation)}
    assert names == set(OPERATIONS) == {name for name, _, _ in FORESEEN}


async def test_CL20_what_goes_into_a_path_is_percent_encoded() -> None:
    _, seen = await ask(b"", lambda h: h.delete_conclusion("w", "a/b c?é..", call=within()), 204)
    assert seen.target == "/v3/workspaces/w/conclusions/a%2Fb%20c%3F%C3%A9.."
    _, seen = await ask(b"", lambda h: h.delete_conclusion("w", "..", call=within()), 204)
    assert seen.target == "/v3/workspaces/w/conclusions/%2E%2E"


@pytest.mark.parametrize("bad", ["a b", "a/b", "", "é", "x\n", "y" * 513, "a.b"])
async def test_CL20_a_name_that_breaks_the_id_rule_is_refused_before_it_is_sent(bad: str) -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        messages = [OutMessage("ada", text("hello"))]
        outcomes = [
            await honcho.add_messages("w", bad, messages, within()),
            await honcho.add_messages("w", "s", [OutMessage(bad, text("hello"))], within()),
            await honcho.ensure_session("w", "s", {bad: Observation()}, within()),
            await honcho.chat(bad, "ada", text("x"), call=within()),
            await honcho.get_card("w", "ada", target=bad, call=within()),
        ]
        assert {failure(outcome).kind for outcome in outcomes} == {FailureKind.REFUSED}
        assert not any(failure(outcome).bytes_sent for outcome in outcomes)
        assert stub.seen == []


@pytest.mark.parametrize("content", [None, "", "   ", 7, {"explicit": []}])
async def test_CL29_a_null_or_blank_chat_answer_is_no_answer_and_no_failure(content: object) -> None:
    answer, _ = await ask({"content": content}, lambda h: h.chat("w", "ada", text("x"), call=within()))
    assert answer is None


@pytest.mark.parametrize("card", [None, "one line", {"a": 1}, 7, [None, 7, ["x"]]])
async def test_CL30_an_odd_card_is_no_card(card: object) -> None:
    lines, _ = await ask({"peer_card": card}, lambda h: h.get_card("w", "ada", call=within()))
    assert lines == ()


@pytest.mark.parametrize("reply", [{"items": "x"}, {"total": 3}, "text", 7, [None, {"id": 1}, {"id": "m"}]])
async def test_CL31_an_odd_search_reply_finds_nothing(reply: object) -> None:
    found, _ = await ask(reply, lambda h: h.session_search("w", "s", text("x"), call=within()))
    assert found == ()


async def test_messages_are_listed_by_page_with_a_filter() -> None:
    reply = {
        "items": [
            {"id": "m", "content": "x", "peer_id": "p", "metadata": {"delivery_id": "d"}, "created_at": "nonsense"}
        ],
        "total": 1,
        "page": 2,
        "size": 1,
        "pages": 1,
    }
    filters = {"metadata": {"delivery_id": "d"}}
    page, seen = await ask(
        reply,
        lambda h: h.list_messages("w", "s", filters=filters, page=2, size=1, reverse=True, call=within()),
    )
    assert (page.total, page.page, page.pages, page.items[0].created_at) == (1, 2, 1, None)
    assert page.items[0].metadata == {"delivery_id": "d"}
    assert (seen.path, seen.json()) == ("/v3/workspaces/w/sessions/s/messages/list", {"filters": filters})
    assert query_of(seen) == {"page": "2", "size": "1", "reverse": "true"}


async def test_a_page_without_items_is_no_page_because_absence_decides_about_sending_again() -> None:
    for reply in ({}, {"total": 0}, None, "x", {"items": None}):
        outcome, _ = await ask(reply, lambda h: h.list_messages("w", "s", call=within()))
        assert outcome.kind is FailureKind.BAD_REPLY, reply


async def test_the_smaller_reads_have_their_routes() -> None:
    status, seen = await ask(
        {"total_work_units": 4, "completed_work_units": 1, "in_progress_work_units": 1, "pending_work_units": 2},
        lambda h: h.queue_status("w", session="s", call=within()),
    )
    assert status == QueueStatus(4, 1, 1, 2)
    assert seen.target == "/v3/workspaces/w/queue/status?session_id=s"
    flags, seen = await ask(
        {"observe_me": None, "observe_others": True}, lambda h: h.get_member("w", "s", "ada", call=within())
    )
    assert flags == Observation(None, True)
    short, seen = await ask(
        {"id": "s", "short_summary": {"content": "short"}, "long_summary": None},
        lambda h: h.summaries("w", "s", call=within()),
    )
    assert (short.short, short.long, seen.path) == ("short", "", "/v3/workspaces/w/sessions/s/summaries")
    peers, seen = await ask(
        {"items": [{"id": "ada"}, 7], "total": 1},
        lambda h: h.list_peers("w", filters={"id": "ada"}, call=within()),
    )
    assert ([peer.id for peer in peers.items], seen.path) == (["ada"], "/v3/workspaces/w/peers/list")
    _, seen = await ask({"items": []}, lambda h: h.list_sessions("w", call=within()))
    assert seen.path == "/v3/workspaces/w/sessions/list"
    conclusions, seen = await ask(
        {"items": [{"id": "c", "content": "x"}], "total": 1},
        lambda h: h.list_conclusions("w", filters={"session_id": None}, reverse=True, call=within()),
    )
    assert (conclusions.total, conclusions.items[0].text, seen.json()) == (1, "x", {"filters": {"session_id": None}})


async def test_health_lies_outside_the_version_and_must_say_ok() -> None:
    healthy, seen = await ask({"status": "ok"}, lambda h: h.health(call=within()))
    assert (healthy, seen.path) == (True, "/health")
    other, _ = await ask({"status": "starting"}, lambda h: h.health(call=within()))
    assert other.kind is FailureKind.BAD_REPLY


@pytest.mark.parametrize("reply", [{}, [], [{"id": None}], "ok", None, [{"id": "a"}, {"id": "b"}]])
async def test_what_was_stored_without_its_ids_is_not_taken_for_stored(reply: object) -> None:
    messages = [OutMessage("ada", text("x"))]
    outcome, _ = await ask(reply, lambda h: h.add_messages("w", "s", messages, within()), 201)
    assert outcome.kind is FailureKind.UNKNOWN_OUTCOME


@pytest.mark.parametrize("odd", [float("nan"), object(), "\ud800", {1, 2}])
async def test_a_filter_that_cannot_be_said_in_json_is_refused_and_not_raised(odd: object) -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        refused = failure(await honcho.list_messages("w", "s", filters={"metadata": {"x": odd}}, call=within()))
        assert (refused.kind, refused.bytes_sent, stub.seen) == (FailureKind.REFUSED, False, [])
