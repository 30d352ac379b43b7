"""Summaries and the token budget of a session context: fifty messages of about sixteen tokens, a summary every ten."""

from __future__ import annotations

from typing import Any

from tests.contract.steps import Step, fault
from tests.contract.unify import ANY

WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do"
COUNT = 50
_CONTEXT = "/v3/workspaces/bud-{x}/sessions/sb-{x}/context"


def fits(tokens: int, *, summary: bool | None = None, empty: bool = False) -> Any:
    """Whole messages, contiguous up to the newest, within the budget together with the summary."""

    def check(body: Any, names: dict[str, str]) -> None:
        if body["messages"] and isinstance(body["messages"][-1], str):
            return  # a recording that was cut
        cost = sum(message["token_count"] for message in body["messages"])
        kept = body["summary"]
        assert cost + (kept["token_count"] if kept else 0) <= max(0, tokens)
        if kept:
            assert kept["token_count"] <= 0.4 * tokens
        numbers = [int(message["content"].split()[0]) for message in body["messages"]]
        assert numbers == list(range(COUNT - len(numbers), COUNT))
        if summary is not None:
            assert (kept is not None) is summary
        assert (not numbers) is empty

    return check


def _step(name: str, query: str, tokens: int, **known: Any) -> Step:
    return Step(f"context budget {name}", "GET", _CONTEXT + query, check=fits(tokens, **known))


STEPS = [
    Step(
        "budget session w/ summary config",
        "POST",
        "/v3/workspaces/bud-{x}/sessions",
        {
            "id": "sb-{x}",
            "peers": {"alice": {}, "bot": {"observe_me": False}},
            "configuration": {"summary": {"messages_per_short_summary": 10, "messages_per_long_summary": 20}},
        },
        status=201,
        expect={"configuration": {"summary": {"messages_per_short_summary": 10, "messages_per_long_summary": 20}}},
    ),
    Step(
        "summary config too small",
        "POST",
        "/v3/workspaces/bud-{x}/sessions",
        {"id": "sb-{x}x", "configuration": {"summary": {"messages_per_short_summary": 5}}},
        status=422,
        expect=fault("greater_than_equal", "body", "configuration", "summary", "messages_per_short_summary"),
    ),
    Step(
        None,
        "POST",
        "/v3/workspaces/bud-{x}/sessions/sb-{x}/messages",
        {"messages": [{"peer_id": ("alice", "bot")[n % 2], "content": f"{n} {WORDS}"} for n in range(COUNT)]},
        status=201,
    ),
    Step(
        None,
        "GET",
        "/v3/workspaces/bud-{x}/queue/status",
        until=lambda body: (
            body["total_work_units"] > 0 and body["pending_work_units"] + body["in_progress_work_units"] == 0
        ),
    ),
    Step(
        "summaries after 50 messages",
        "GET",
        "/v3/workspaces/bud-{x}/sessions/sb-{x}/summaries",
        expect={
            "id": "sb-{x}",
            "short_summary": {
                "content": ANY,
                "message_id": ANY,
                "summary_type": "honcho_chat_summary_short",
                "created_at": ANY,
                "token_count": ANY,
            },
        },
        until=lambda body: body["short_summary"] is not None,
    ),
    Step("context budget {}", "GET", _CONTEXT, expect={"summary": ANY, "messages": ANY, "peer_card": None}),
    _step("{'summary': 'false'}", "?summary=false", 100_000, summary=False),
    _step("{'tokens': 1000}", "?tokens=1000", 1000, summary=True),
    _step("{'tokens': 200}", "?tokens=200", 200),
    _step("{'tokens': 100}", "?tokens=100", 100),
    _step("{'tokens': 50}", "?tokens=50", 50),
    _step("{'tokens': 30}", "?tokens=30", 30),
    _step("{'tokens': 20}", "?tokens=20", 20, summary=False),
    _step("{'tokens': 5}", "?tokens=5", 5, summary=False, empty=True),
    _step("{'tokens': 200, 'summary': 'false'}", "?tokens=200&summary=false", 200, summary=False),
    _step("{'tokens': 1000, 'peer_target': 'alice'}", "?tokens=1000&peer_target=alice", 1000),
    Step(
        "context budget {'tokens': 300, 'peer_target': 'alice'}",
        "GET",
        _CONTEXT + "?tokens=300&peer_target=alice",
        expect={"messages": [], "summary": None, "peer_representation": ANY, "peer_card": None},
    ),
    Step(
        "context budget {'tokens': 300, 'peer_target': 'alice', 'limit_to_session': 'true'}",
        "GET",
        _CONTEXT + "?tokens=300&peer_target=alice&limit_to_session=true",
        expect={"messages": [], "summary": None, "peer_representation": ANY, "peer_card": None},
    ),
    _step(
        "{'tokens': 300, 'peer_target': 'alice', 'max_conclusions': 2}",
        "?tokens=300&peer_target=alice&max_conclusions=2",
        300,
    ),
    Step(
        "context budget {'tokens': 0, 'peer_target': 'alice'}",
        "GET",
        _CONTEXT + "?tokens=0&peer_target=alice",
        expect={"messages": [], "summary": None, "peer_representation": ANY},
    ),
    Step(
        "out-of-order created_at",
        "POST",
        "/v3/workspaces/bud-{x}/sessions/sb-{x}o/messages",
        {
            "messages": [
                {"peer_id": "alice", "content": "first-sent 2025", "created_at": "2025-01-01T00:00:00+02:00"},
                {"peer_id": "alice", "content": "second-sent 2024", "created_at": "2024-01-01T00:00:00Z"},
                {"peer_id": "alice", "content": "naive", "created_at": "2024-06-01T00:00:00"},
            ]
        },
        status=201,
        expect=[
            {"id": "{id1}", "created_at": "2025-01-01T00:00:00+02:00"},
            {"id": "{id2}", "created_at": "2024-01-01T00:00:00Z"},
            {"id": "{id3}", "created_at": "2024-06-01T00:00:00"},
        ],
    ),
    Step(
        "list order",
        "POST",
        "/v3/workspaces/bud-{x}/sessions/sb-{x}o/messages/list",
        {},
        expect={
            "items": [
                {"id": "{id1}", "created_at": "2024-12-31T22:00:00Z"},
                {"id": "{id2}", "created_at": "2024-01-01T00:00:00Z"},
                {"id": "{id3}", "created_at": "2024-06-01T00:00:00Z"},
            ]
        },
    ),
    Step(
        "context order",
        "GET",
        "/v3/workspaces/bud-{x}/sessions/sb-{x}o/context",
        expect={"messages": [{"id": "{id1}"}, {"id": "{id2}"}, {"id": "{id3}"}]},
    ),
]
