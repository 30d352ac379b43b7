"""The part of docs/tools.md that shows each tool: its schema and what it really answers, of each kind.

`python -m tests.support.tools_page` writes it between the two marks of the page; a test holds the page to it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from honcho_actors import Memory, TurnRequest
from honcho_actors.privacy import fence
from honcho_actors.satellite.tools import Outcome
from tests.support.stub_honcho import Answer, Said, Seen
from tests.support.tools_rig import ALIASES, FIVE, Stub, runtime, secret, tool

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "tools.md"
BEGIN: Final = "<!-- made by tests/support/tools_page.py: begin -->"
END: Final = "<!-- made by tests/support/tools_page.py: end -->"

FACT: Final = {
    "id": "8poprJKAGrU0zvt1I2Qwl",
    "content": "Ines sails in winter.",
    "observer_id": "ines",
    "observed_id": "ines",
    "session_id": "s",
}
MESSAGE: Final = {
    "id": "m1",
    "content": "I restore a clinker dinghy from 1963 in an unheated shed.",
    "peer_id": "ines",
    "session_id": "s",
    "created_at": "2026-11-30T14:15:00Z",
}


class Server:
    """A server that holds one of everything, nothing, or answers with an error."""

    def __init__(self) -> None:
        self.holds = "something"
        self.card: list[str] = []
        self.deleted = False

    def __call__(self, seen: Seen) -> Answer:
        if self.holds == "trouble":
            return Said({"detail": "broken"}, 503)
        some = self.holds == "something"
        end = seen.path.rsplit("/", 1)[-1]
        rows = [FACT] if some and not self.deleted else []
        match (seen.method, end):
            case ("POST", "search"):
                return Said([MESSAGE] if some else [])
            case ("POST", "chat"):
                return Said({"content": "She restores old boats, slowly, and sails them in winter." if some else None})
            case ("PUT", "card"):
                self.card = seen.json()["peer_card"]
                return Said({"peer_card": self.card})
            case (_, "card"):
                return Said({"peer_card": (self.card or ["Name: Ines", "Allergic to nuts"]) if some else []})
            case ("POST", "query"):
                return Said(rows)
            case ("POST", "list") if "/messages/" in seen.path:
                return Said({"items": [MESSAGE] if some else [], "total": 1, "page": 1, "size": 20, "pages": 1})
            case ("POST", "list"):
                return Said({"items": rows, "total": len(rows), "page": 1, "size": 50, "pages": 1})
            case ("POST", "messages"):
                return Said([{**MESSAGE, "id": f"m{n}"} for n, _ in enumerate(seen.json()["messages"])], 201)
            case ("POST", "conclusions"):
                return Said([FACT], 201)
            case ("DELETE", _):
                self.deleted = True
                return Said(b"", 204)
            case (_, "context"):
                known = {"representation": "Ines sails in winter." if some else "", "peer_card": ["Name: Ines"] * some}
                if "/sessions/" in seen.path:
                    said = {"peer_representation": known["representation"], "peer_card": known["peer_card"]}
                    return Said({"id": "s", "messages": [], **said})
                return Said({"peer_id": "ines", **known})
        return Said({"id": "ines"})


class Example(NamedTuple):
    """One call; `shown` is what stands on the page in place of arguments that hold a credential."""

    kind: str
    args: dict[str, Any]
    holds: str = "something"
    shown: str = ""
    read_only: bool = False


def _withheld(name: str) -> Example:
    text = '["the key is sk-…"]' if name == "card" else '"the key is sk-…"'
    held = f"the key is {secret()}"
    return Example("withheld", {name: [held] if name == "card" else held}, shown=f'{{"{name}": {text}}}')


READ_ONLY: Final = "read only"
EXAMPLES: Final[dict[str, tuple[Example, ...]]] = {
    "honcho_search": (
        Example("ok", {"query": "dinghy"}),
        Example("ok", {"query": "winter", "facts": True}),
        Example("nothing found", {"query": "dinghy", "scope": "mine"}, "nothing"),
        Example("failed", {"query": "dinghy"}, "trouble"),
        Example("refused", {"query": "dinghy", "limit": 0}),
        Example("refused", {"query": "dinghy", "scope": "workspace"}),
        _withheld("query"),
    ),
    "honcho_context": (
        Example("ok", {"query": "winter"}),
        Example("nothing found", {}, "nothing"),
        Example("failed", {}, "trouble"),
        Example("refused", {"tokens": "many"}),
        _withheld("query"),
    ),
    "honcho_profile": (
        Example("ok", {}),
        Example("ok", {"card": ["Name: Ines", "Sails in winter", "Sails in winter"]}),
        Example("nothing found", {}, "nothing"),
        Example("failed", {"card": ["Name: Ines"]}, "trouble"),
        Example("refused", {"card": []}),
        _withheld("card"),
        Example(READ_ONLY, {"card": ["Name: Ines"]}, read_only=True),
    ),
    "honcho_conclude": (
        Example("ok", {"conclusion": "Ines sails in winter."}),
        Example("ok", {"delete_id": "8poprJKAGrU0zvt1I2Qwl"}),
        Example("nothing found", {"query": "winter"}, "nothing"),
        Example("nothing found", {"delete_id": "of-a-message"}),
        Example("failed", {"conclusion": "Ines sails in winter."}, "trouble"),
        Example("refused", {"conclusion": "x", "delete_id": "y"}),
        _withheld("conclusion"),
        Example(READ_ONLY, {"conclusion": "Ines sails in winter."}, read_only=True),
    ),
    "honcho_reasoning": (
        Example("ok", {"query": "What does she care about?", "reasoning_level": "max"}),
        Example("nothing found", {"query": "What does she care about?"}, "nothing"),
        Example("failed", {"query": "What does she care about?"}, "trouble"),
        Example("refused", {"query": "  "}),
        _withheld("query"),
    ),
}
OUTCOMES: Final = {
    "ok": Outcome.OK,
    "nothing found": Outcome.NOTHING_FOUND,
    "failed": Outcome.FAILED,
    "refused": Outcome.REFUSED,
    "withheld": Outcome.WITHHELD,
    READ_ONLY: Outcome.READ_ONLY,
}


def made() -> str:
    """The section, from a runtime that really runs."""
    server = Server()
    with tempfile.TemporaryDirectory() as folder, Stub(server) as stub:
        given = {"recall_mode": "tools"}
        with (
            runtime(Path(folder) / "a", stub.url, **given) as memory,
            runtime(Path(folder) / "b", stub.url, save_messages=False, **given) as closed,
        ):
            parts = [_one(memory, closed, server, stub, name) for name in FIVE]
            parts.append(_others(memory))
    return "\n\n".join(parts)


def _one(memory: Memory, closed: Memory, server: Server, stub: Stub, name: str) -> str:
    lines = [f"### `{name}`", "", "```json", _schema(tool(memory, name).schema), "```"]
    request = TurnRequest(session_key="s", user="ines")
    for example in EXAMPLES[name]:
        server.holds, server.card, server.deleted = example.holds, [], False
        before = len(stub.seen)
        found = (closed if example.read_only else memory).call_tool(name, example.args, request)
        sent = len(stub.seen) - before
        if found.outcome is not OUTCOMES[example.kind]:
            raise AssertionError(f"{name} {example.kind}: {found.outcome}, {found.text}")
        shown = example.shown or json.dumps(example.args, ensure_ascii=False)
        why = f", `{found.error}`" if found.error is not None else ""
        text = found.text.replace(fence.LABEL, "(the label of the fence)")
        cost = f"{sent or 'no'} request{'' if sent == 1 else 's'}"
        lines += ["", f"*{example.kind}*{why}, of `{shown}`; {cost}:", "", "```", text, "```"]
    return "\n".join(lines)


def _others(memory: Memory) -> str:
    lines = ["### The other names", "", "```json"]
    lines += [f'{{"{name}": {_schema(tool(memory, name).schema)}}}' for name in ALIASES]
    return "\n".join([*lines, "```"])


def _schema(schema: dict[str, Any]) -> str:
    return json.dumps(_bare(schema), ensure_ascii=False)


def _bare(value: Any) -> Any:
    """Without descriptions: those are for models, and long."""
    if isinstance(value, dict):
        return {name: _bare(one) for name, one in value.items() if name != "description" or not isinstance(one, str)}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def between(page: str) -> str:
    """What stands between the marks."""
    return page.split(BEGIN, 1)[1].split(END, 1)[0].strip("\n")


def main(write: Callable[[str], object] = PAGE.write_text) -> None:
    """Writes the page anew."""
    page = PAGE.read_text()
    before, after = page.split(BEGIN, 1)[0], page.split(END, 1)[1]
    write(f"{before}{BEGIN}\n\n{made()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
