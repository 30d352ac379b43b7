"""Requests at the edge of what a server takes: filters of every kind, wrong types, half-empty bodies, impossible names.

None of them was recorded. They are asked of two servers in the same order, and the answers compared; or of `local`
alone, and each answer held to be a decent one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.contract.steps import NO_BODY, Raw

W = "/v3/workspaces/odd-{x}"


@dataclass(frozen=True)
class Odd:
    method: str
    path: str
    body: Any = NO_BODY
    differs: str = ""
    """Why `local` answers otherwise than Honcho; empty where it does not."""

    @property
    def name(self) -> str:
        body = "" if self.body is NO_BODY else f" {self.body}"
        return f"{self.method} {self.path.removeprefix(W)}{body}"[:110]


NEAREST = "a search by words returns what matches, one by embeddings what is nearest"
WORDING = "another wording"
STRICTER = "refused (422) where Honcho fails (500) or finds nothing"

SETUP = (
    Odd("POST", "/v3/workspaces", {"id": "odd-{x}", "metadata": {"a": 1}}),
    Odd(
        "POST",
        W + "/sessions",
        {"id": "s", "peers": {"alice": {}, "bot": {"observe_others": True, "observe_me": False}}, "metadata": {"n": 3}},
    ),
    Odd("POST", W + "/sessions", {"id": "s2", "metadata": {"t": "y", "n": 5}}),
    Odd("POST", W + "/peers", {"id": "carl", "metadata": {"role": "cook"}}),
    Odd(
        "POST",
        W + "/sessions/s/messages",
        {
            "messages": [
                {
                    "peer_id": "alice",
                    "content": f"m{n} tea",
                    "metadata": {"i": n, "k": f"v{n % 2}", "l": ["a", n], "d": {"e": n}},
                    "created_at": f"2026-01-0{n + 1}T10:00:00Z",
                    "configuration": {"reasoning": {"enabled": False}},
                }
                for n in range(5)
            ]
        },
    ),
)

READS = """
/peers/alice/context?target=ghost  /peers/alice/card?target=ghost  /peers/alice/context?target=
/sessions/s/context?peer_target=alice&peer_perspective=ghost  /sessions/s/context?peer_target=
/sessions/s/context?summary=maybe  /sessions/s/context?limit_to_session=1&peer_target=alice
/sessions/s/context?tokens=  /sessions/s/context?tokens=1.5  /sessions/s/context?tokens=10.0
/sessions/s/context?search_max_distance=x&peer_target=alice  /sessions/s/context?max_conclusions=0&peer_target=alice
/sessions/s/peers?page=0  /sessions/s/peers?page=abc  /sessions/s/peers?size=abc  /queue/status?session_id=
/queue/status?observer_id=alice  /sessions/bad%20id/context  /sessions/bad%20id/summaries  /peers/bad%20id/context
/peers/bad%20id/card  /sessions/bad%20id/peers  /sessions/s/messages/x%20y  /sessions/s/messages  /nothing  /peers/alice
"""

MESSAGE_FILTERS: tuple[Any, ...] = (
    *({"peer_id": value} for value in ("alice", ["alice", "z"], {"in": ["alice"]}, {"ne": "alice"}, None, {}, [])),
    *({"peer_id": value} for value in ({"contains": "li"}, {"icontains": "LI"}, {"gt": "a"})),
    *({"token_count": value} for value in ({"gte": 1}, "2", True, 10**400)),
    *({"created_at": value} for value in ("2026-01-02T10:00:00Z", {"gte": "2026-01-02", "lt": "2026-01-04"}, None)),
    *({"created_at": value} for value in ({"gte": "nope"}, ["2026-01-02T10:00:00Z"], {"zz": 1})),
    *({"metadata": {"i": value}} for value in ({"gte": 3}, {"in": [1, 2]}, 2.0, "2", {"gte": "3"}, {"zz": 1})),
    *(
        {"metadata": {"k": value}}
        for value in ("v1", {"ne": "v1"}, {"contains": "v"}, {"icontains": "V1"}, ["v1"], "*")
    ),
    *({"metadata": value} for value in ({"l": ["a"]}, {"d": {"e": 2}}, {"d": {"e": {"gt": 2}}}, {"absent": None})),
    *({"metadata": value} for value in ({"zz": "*"}, [1], None, {"k": {"gt": "v0"}}, {"l": {"contains": "a"}})),
    {"AND": []},
    {"AND": {}},
    {"AND": [1]},
    *({"OR": value} for value in ([], [{"peer_id": "bot"}, {"metadata": {"i": 0}}])),
    {"OR": [{"peer_id": f"p{number}"} for number in range(1_100)]},
    *({"NOT": value} for value in ([], [{"metadata": {"i": 0}}], {"metadata": {"i": 0}})),
    *({name: "x"} for name in ("session_id", "workspace_id", "id", "content", "*")),
    "x",
    None,
)
MESSAGES: tuple[Any, ...] = (
    *({"peer_id": "a", "content": value} for value in (None, 5, "   ")),
    *({"peer_id": value, "content": "x"} for value in (5, None)),
    *({"peer_id": "a", "content": "x", "metadata": value} for value in (None, "x", {"a\0b": "c\0d"})),
    *({"peer_id": "a", "content": "x", "configuration": value} for value in (None, "x", {"reasoning": None})),
    {"peer_id": "a", "content": "x", "configuration": {"reasoning": {"enabled": "no"}}},
    *({"peer_id": "a", "content": "x", "created_at": value} for value in (1700000000, 1.5, "1700000000", "2024-01-01")),
    *({"peer_id": "a", "content": "x", "created_at": value} for value in ("2024-01-01 10:00", "2024-01-01T10:00", "")),
    *({"peer_id": "a", "content": "x", "created_at": value} for value in ("20240101T100000Z", "2024-W01-1", True)),
    {"peer_id": "a", "content": "x", "created_at": []},
    *({"peer_id": "a", "content": "x", "created_at": value} for value in (1700000000000, "1700000000000", "1.7e9")),
    {"peer_id": "a", "content": "x", "created_at": "2024-01-01t10:00:00z"},
    {"peer_id": "a", "content": "x", "metadata": {"n": {"l": [{"m": [{"k": {"z": 1}}]}]}}},
    {"peer_id": "a", "content": "x", "metadata": {"l": [[[[[[[1]]]]]]]}},
    "x",
    None,
    [],
)
RAW = (
    Raw(""),
    Raw("null"),
    Raw("[]"),
    Raw('{"messages":[]} trailing'),
    Raw("\ufeff{}"),
    Raw('{"messages":[{"peer_id":"a","content":"x"}]}', "application/vnd.api+json"),
    Raw('{"messages":[{"peer_id":"a","content":"x"}]}', "application/json; charset=utf-8"),
    Raw('{"messages":[{"peer_id":"a","content":"x"}]}', ""),
    Raw('{"messages":[{"peer_id":"a","content":"x"}]}', "text/x+json"),
    Raw("[" * 3000),
    Raw('{"n":' + "1" * 5000 + "}"),
)
ALLOWLISTS: tuple[Any, ...] = ([], "s", {"in": ["s"]}, {"ne": "s"})
BODIES: tuple[Any, ...] = ({"messages": None}, {"messages": {}}, {}, [], None, 5, "x", *RAW)
WRITES: tuple[tuple[str, str, Any], ...] = (
    ("PUT", "/peers/bad%20id", {"metadata": {}}),
    ("PUT", "/sessions/bad%20id", {"metadata": {}}),
    ("POST", "/sessions/bad%20id/peers", {"alice": {}}),
    ("PUT", "/peers/bad%20id/card", {"peer_card": []}),
    ("POST", "/peers/bad%20id/chat", {"query": "x"}),
    ("POST", "/peers/bad%20id/representation", {}),
    ("POST", "/peers/bad%20id/sessions", {}),
    ("DELETE", "/sessions/bad%20id", NO_BODY),
    ("POST", "/sessions/bad%20id/search", {"query": "x"}),
    ("POST", "/sessions/bad%20id/messages/list", {}),
    ("PUT", "/sessions/s/peers/carl/config", {"observe_me": True}),
    ("PUT", "/sessions/s/peers/ghost/config", {"observe_me": True}),
    ("PUT", "/sessions/nope/peers/alice/config", {"observe_me": True}),
    ("GET", "/sessions/s/peers/carl/config", NO_BODY),
    ("PUT", "/sessions/s/peers/alice/config", {"observe_me": None, "observe_others": True}),
    ("GET", "/sessions/s/peers/alice/config", NO_BODY),
    ("PUT", "/sessions/s/peers/alice/config", {}),
    ("PUT", "/sessions/s/peers/alice/config", {"observe_me": "yes"}),
    ("PUT", "/sessions/s/peers/alice/config", []),
    ("PUT", "/sessions/s/peers", {f"o{n}": {"observe_others": True} for n in range(11)}),
    ("POST", "/sessions/s/peers", {"": {}}),
    ("PUT", "/sessions/s/peers", {"bad id": {}}),
    ("POST", "/sessions", {"id": "sx", "peers": {"bad id": {}}}),
    ("POST", "/sessions", {"id": "sy", "peers": None}),
    ("POST", "/sessions", {"id": "sz", "configuration": None, "metadata": None}),
    ("POST", "/sessions", {"id": None}),
    ("POST", "/sessions", {"id": 5}),
    ("POST", "/sessions", {"id": "sc", "configuration": {"summary": {"messages_per_short_summary": "20"}}}),
    ("POST", "/sessions", {"id": "sd", "configuration": {"summary": None, "reasoning": None, "zz": None}}),
    ("POST", "/sessions", {"id": "se", "configuration": []}),
    ("POST", "/sessions", {"id": "sf", "configuration": {"reasoning": []}}),
    ("POST", "/peers", {"id": "pp", "configuration": None}),
    ("POST", "/peers", {"id": "pp", "configuration": []}),
    ("PUT", "", {"metadata": None, "configuration": None}),
    ("PUT", "", {"configuration": {"zz": 1}}),
    ("PUT", "", {}),
    ("DELETE", "/sessions/s2/peers", []),
    ("DELETE", "/sessions/s2/peers", {}),
    ("DELETE", "/sessions/s2/peers", [5]),
    ("DELETE", "/sessions/s2/peers", NO_BODY),
    ("POST", "/sessions/s2/peers", {"carl": {"observe_me": False}}),
    ("PUT", "/sessions/s2/peers", {"carl": {"observe_others": True}}),
    ("GET", "/sessions/s2/peers/carl/config", NO_BODY),
    ("DELETE", "/sessions/s2/peers", ["carl"]),
    ("GET", "/sessions/s2/peers", NO_BODY),
    ("GET", "/sessions/s2/peers/carl/config", NO_BODY),
    ("PUT", "/sessions/s2/peers/carl/config", {"observe_me": True}),
    ("GET", "/sessions/s2/peers", NO_BODY),
    ("GET", "/sessions/s2/peers/carl/config", NO_BODY),
    ("POST", "/peers/carl/sessions", {"filters": {"id": "s2"}}),
    ("POST", "/sessions/s2/peers", {"carl": {}}),
    ("GET", "/sessions/s2/peers/carl/config", NO_BODY),
    ("POST", "/search", {"query": None}),
    ("POST", "/search", {}),
    ("POST", "/search", {"query": 5}),
    ("POST", "/search", {"query": "tea", "limit": None}),
    ("POST", "/search", {"query": "tea", "limit": "5"}),
    ("POST", "/search", {"query": "tea", "limit": 5.5}),
    ("POST", "/search", {"query": "tea", "limit": True}),
    ("POST", "/search", {"query": "a <|endoftext|>"}),
    ("POST", "/search", {"query": "a \ud800"}),
    ("POST", "/search", {"query": "word " * 9_000}),
    ("POST", "/peers/alice/chat", {"query": "x", "reasoning_level": None}),
    ("POST", "/peers/alice/chat", {"query": "x", "stream": None}),
    ("POST", "/peers/alice/chat", {"query": "x", "target": ""}),
    ("POST", "/peers/alice/chat", {"query": "x", "filters": {"session_id": 5}}),
    ("POST", "/peers/alice/chat", {"query": "x", "response_format": "x"}),
    ("POST", "/peers/alice/chat", {"query": "x", "response_format": {}}),
    ("POST", "/peers/alice/chat", {}),
    ("POST", "/peers/alice/representation", {"max_conclusions": None}),
    ("POST", "/peers/alice/representation", {"include_most_frequent": None, "search_top_k": None}),
    ("POST", "/peers/alice/representation", {"filters": {"peer_id": "x"}}),
    *(("POST", "/peers/alice/representation", {"filters": {"session_id": value}}) for value in ALLOWLISTS),
    ("POST", "/peers/alice/representation", {"target": "ghost"}),
    ("POST", "/peers/alice/representation", {"session_id": "s", "filters": {"session_id": ["s2"]}}),
    ("POST", "/peers/alice/representation", []),
    ("PUT", "/peers/alice/card", {"peer_card": [5]}),
    ("PUT", "/peers/alice/card", {}),
    ("PUT", "/peers/alice/card", {"peer_card": ["a\0b", ""]}),
    ("GET", "/peers/alice/card", NO_BODY),
    ("POST", "/schedule_dream", {"dream_type": "omni"}),
    ("PATCH", "", NO_BODY),
    ("DELETE", "/peers/alice", NO_BODY),
    ("POST", "/peers/list/", {}),
)


def all_requests() -> Iterator[Odd]:
    for path in READS.split():
        yield Odd("GET", W + path)
    for query in ("reverse=maybe", "page=0", "size=1e1"):
        yield Odd("POST", f"{W}/sessions/s/messages/list?{query}", {})
    for path in ("/sessions/list?reverse=true", "/peers/list?reverse=true&size=1", "/sessions/list?page=2&size=1"):
        yield Odd("POST", W + path, {})
    for wanted in MESSAGE_FILTERS:
        yield Odd("POST", W + "/sessions/s/messages/list", {"filters": wanted})
    for wanted in (
        {"id": ["s", "s2"]},
        {"id": {"ne": "s"}},
        {"metadata": {"n": {"gt": 3}}},
        {"zz": 1},
        {"peer_id": "a"},
    ):
        yield Odd("POST", W + "/sessions/list", {"filters": wanted})
    for wanted in ({"metadata": {"role": "cook"}}, {"is_active": True}, {"zz": 1}, {"id": {"icontains": "AL"}}):
        yield Odd("POST", W + "/peers/list", {"filters": wanted})
    yield Odd(
        "POST", W + "/conclusions", {"observations": [{"content": "t", "observer_id": "carl", "observed_id": "carl"}]}
    )
    for wanted in ({"observer": "carl"}, {"level": "zz"}, {"level": ["explicit"]}, {"content": "t"}, {"zz": 1}):
        yield Odd("POST", W + "/conclusions/list", {"filters": wanted})
    for wanted in ({"session_id": "*"}, {"observer": {"in": ["carl"]}}, {"metadata": {"a": 1}}, {"id": "x"}):
        yield Odd("POST", W + "/conclusions/list", {"filters": wanted})
    pair = {"observer": "carl", "observed": "carl"}
    yield Odd("POST", W + "/conclusions/query", {"query": "zzz", "filters": pair}, NEAREST)
    yield Odd("POST", W + "/conclusions/query", {"query": "t", "distance": 2, "filters": pair})
    yield Odd("POST", W + "/conclusions/query", {"query": "t", "filters": {"observer": "carl"}}, WORDING)
    yield Odd(
        "POST", W + "/conclusions/query", {"query": "t", "filters": {**pair, "observer": {"in": ["carl"]}}}, STRICTER
    )
    for message in MESSAGES:
        yield Odd("POST", W + "/sessions/s3/messages", {"messages": [message]})
    for body in BODIES:
        yield Odd("POST", W + "/sessions/s3/messages", body)
    yield Odd("POST", W + "/sessions/s3/messages", Raw('{"messages":[{"peer_id":"a","content":NaN}]}'), STRICTER)
    for method, path, body in WRITES:
        yield Odd(method, W + path, body)
    for fields in ({"metadata": None}, {"configuration": None}):
        yield Odd("POST", "/v3/workspaces", {"id": "odd2-{x}", **fields})
    yield Odd("PUT", "/v3/workspaces/bad%20id", {"metadata": {}})
    yield Odd("POST", "/v3/workspaces/bad%20id/peers", {"id": "a"})
