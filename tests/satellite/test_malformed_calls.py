"""Field cases 88 and 89 and more of their kind: over 200 malformed calls, an answer to each, and no request for any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from honcho_actors import Memory, TurnRequest
from honcho_actors.satellite.tools import Outcome, ToolError, ToolResult
from tests.satellite.test_tools_calls import MALFORMED, usual
from tests.support.tools_rig import ALIASES, FIVE, Stub, runtime, secret

REQUEST = TurnRequest(session_key="s", user="ines")


class Call(NamedTuple):
    """One call as a model may send it, and what it is answered."""

    kind: str
    tool: Any
    arguments: Any
    error: ToolError = ToolError.BAD_ARGUMENT


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


NUMBERS: tuple[Any, ...] = (
    0, -3, 2.7, True, [5], "ten", "", " ", "-1", "1e3", "0x10", "١٠", "1_000", float("nan"), float("inf"),
    {"a": 1}, "9" * 40, -(10**30), b"5", deep(3), -float("inf"),
)  # fmt: skip
NO_TEXTS: tuple[Any, ...] = (7, True, 2.5, ["x"], {}, {"text": "x"}, b"x", deep(500), [None], ("x",))
BLANKS: tuple[Any, ...] = (None, "", "   ", "\n\t\r", "\u200b\u2060", "\ufeff", "\u3164", "\x00", "\u00a0\u2003")
TEXTS: tuple[tuple[str, str], ...] = (
    ("honcho_search", "query"),
    ("honcho_reasoning", "query"),
    ("memory_query", "query"),
    ("honcho_chat", "query"),
    ("honcho_remember", "content"),
)
EXCLUSIVE: tuple[dict[str, Any], ...] = (
    {},
    {"conclusion": None},
    {"conclusion": "   "},
    {"conclusion": "", "query": "", "delete_id": ""},
    {"conclusion": "x", "delete_id": "y"},
    {"conclusion": "x", "query": "y"},
    {"query": "x", "delete_id": "y"},
    {"conclusion": "x", "query": "y", "delete_id": "z"},
    {"conclusion": ["x"], "query": "y"},
    {"conclusion": "x", "query": 7},
    {"top_k": 5},
)
IDS: tuple[Any, ...] = (
    "../x", "a b", "x/../../peers", "%2e%2e", "é", "x" * 101, "\u202ex", "a\x00b", "x?y=1", "x#y", "我的", "\ud800", 7,
)  # fmt: skip
CARDS: tuple[Any, ...] = (
    [], "one line", 7, True, {"a": "b"}, [""], ["  "], ["ok", 7], [None], [["x"]], ["x"] * 51, [{"t": 1}], [b"x"],
    ["x" * 501], ["ok", "\u200b"], [True], deep(3), ["x"] * 100_000,
)  # fmt: skip
NOT_OBJECTS: tuple[Any, ...] = ("[]", "7", '"query"', "true", "{", "{'query': 'x'}", "query=x", "[" * 50_000, 7, ["x"])
UNKNOWN: tuple[dict[Any, Any], ...] = ({"nonsense": 1}, {"Query": "x"}, {7: "x"}, {"query ": "x"}, {"\ud800": 1})

CALLS: tuple[Call, ...] = (
    # Text is JSON at this door, so "{}" is an object here.
    *(Call("as in the table", name, args) for label, name, args in MALFORMED if not isinstance(args, str)),
    *(Call("89 limit", "honcho_search", {"query": "x", "limit": value}) for value in NUMBERS),
    *(Call("tokens", "honcho_context", {"tokens": value}) for value in NUMBERS),
    *(Call("top_k", "honcho_conclude", {"query": "x", "top_k": value}) for value in NUMBERS),
    *(Call("89 text", tool, {name: value}) for tool, name in TEXTS for value in (*NO_TEXTS, *BLANKS)),
    *(Call("focus", "honcho_context", {"query": value}) for value in (*NO_TEXTS, *BLANKS) if value is not None),
    *(Call("88 exclusive", "honcho_conclude", args) for args in EXCLUSIVE),
    *(Call("id", "honcho_conclude", {"delete_id": value}) for value in IDS),
    *(Call("card", "honcho_profile", {"card": value}) for value in CARDS),
    *(Call("size", "honcho_conclude", {"conclusion": "x" * size}) for size in (2_001, 30_000, 1_000_000)),
    *(Call("size", "honcho_remember", {"content": "é" * size}) for size in (2_001, 30_000, 1_000_000)),
    *(Call("not an object", tool, value) for tool in (*FIVE, *ALIASES) for value in NOT_OBJECTS),
    *(Call("unknown parameter", tool, value) for tool in FIVE for value in UNKNOWN),
    *(Call("no such tool", name, {"query": "x"}, ToolError.UNKNOWN_TOOL) for name in ("", "search", None, 7, ["x"])),
    *(
        Call("withheld", tool, {name: f"the key is {secret()} ok"}, ToolError.WITHHELD)
        for tool, name in (*TEXTS, ("honcho_context", "query"), ("honcho_conclude", "conclusion"))
    ),
    Call("withheld", "honcho_profile", {"card": ["fine", f"{secret()} is the key"]}, ToolError.WITHHELD),
)


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(usual) as running:
        yield running


@pytest.fixture(scope="module")
def memory(stub: Stub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with runtime(tmp_path_factory.mktemp("malformed"), stub.url, recall_mode="tools") as running:
        yield running


def test_there_are_over_200_of_them() -> None:
    assert len(CALLS) >= 200
    assert {"88 exclusive", "89 limit", "89 text", "size", "card", "not an object", "withheld"} <= {
        one.kind for one in CALLS
    }


@pytest.mark.parametrize("kind", sorted({one.kind for one in CALLS}))
@pytest.mark.parametrize("way", ["call", "acall"])
def test_each_is_answered_and_for_none_is_anything_sent(memory: Memory, stub: Stub, kind: str, way: str) -> None:
    those = [one for one in CALLS if one.kind == kind]
    stub.seen.clear()

    async def awaited() -> list[ToolResult]:
        return [await memory.acall_tool(one.tool, one.arguments, REQUEST) for one in those]

    if way == "acall":
        answers = asyncio.run(awaited())
    else:
        answers = [memory.call_tool(one.tool, one.arguments, REQUEST) for one in those]
    for one, found in zip(those, answers, strict=True):
        told = repr(one)[:200]
        assert found.error is one.error, told
        assert found.outcome is (Outcome.WITHHELD if one.error is ToolError.WITHHELD else Outcome.REFUSED), told
        assert 20 < len(found.text) < 500, told
        assert json.loads(json.dumps(found.details))["error"] == str(one.error), told
        assert secret() not in repr(found), told
        found.text.encode()
    assert stub.seen == []
