"""A scripted Honcho that knows persons and keeps what it is sent, and runtimes that stand before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from honcho_actors import Memory, TurnRequest
from tests.support.memory_world import Remote, Server, until
from tests.support.stub_honcho import Answer, Said, Seen
from tests.support.tools_rig import runtime


class Held(NamedTuple):
    """One message as the server has it."""

    peer: str
    text: str
    unanswered: bool


@dataclass
class Keeper(Remote):
    """What the server knows of persons (`persons`), and what it was sent (`held`, by session)."""

    held: dict[str, list[Held]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    """What the dialectic says of a person, where it is asked about them."""

    async def __call__(self, seen: Seen) -> Answer:
        parts = [unquote(part) for part in seen.path.split("/") if part]
        if parts[-1] == "messages" and seen.method == "POST":
            messages = seen.json()["messages"]
            held = self.held.setdefault(parts[4], [])
            for one in messages:
                unanswered = bool((one.get("metadata") or {}).get("unanswered"))
                held.append(Held(one["peer_id"], one["content"], unanswered))
            return Said([{"id": f"m{number}", **one} for number, one in enumerate(messages)], 201)
        if parts[-1] in ("workspaces", "sessions", "peers") and seen.method == "POST":
            body = seen.json()
            return Said({"id": body["id"] if "id" in body else parts[-2]}, 201)
        if parts[-1] == "config":
            return Said({})
        if parts[-1] == "chat" and parts[4] in self.about:
            return Said({"content": self.about[parts[4]]})
        if parts[-1] == "card":
            return Said({"peer_card": self.persons[parts[4]][1] if parts[4] in self.persons else None})
        if parts[-1] == "list":
            return Said({"items": [], "total": 0, "page": 1, "size": 50, "pages": 0})
        return await super().__call__(seen)


ANN = "Ann grows tomatoes."
BOB = "Bob keeps bees."


def keeper() -> Keeper:
    """Knows ann and bob, and nobody else; its dialectic answers nothing."""
    return Keeper(
        {"ann": (ANN, ["Name: Ann"]), "bob": (BOB, ["Name: Bob"])},
        answer=lambda query: None,
    )


class House:
    """One runtime before one keeper."""

    def __init__(self, memory: Memory, remote: Keeper) -> None:
        self.memory = memory
        self.remote = remote

    def said(self, session: str) -> list[Held]:
        """What the server holds of a conversation, once everything is delivered."""
        assert self.memory.flush(20.0)
        return list(self.remote.held.get(session, []))

    def holds(self, session: str, expected: list[Held]) -> bool:
        """Whether exactly this comes to the server: whoever left may be noticed a moment later."""
        until(lambda: len(self.said(session)) >= len(expected), 20.0)
        return self.said(session) == expected

    def warm(self, session: str, user: str) -> None:
        """Has the conversation loaded before it begins, without a turn of its own."""
        self.memory.prewarm(TurnRequest(session_key=session, user=user))
        until(lambda: self.held(session, user), 20.0)

    def held(self, session: str, user: str) -> bool:
        found = self.memory.context(TurnRequest(session_key=session, user=user, query="/held"), 0.0)
        return bool(found.state in ("warm", "restored"))


@contextmanager
def house(folder: Path, remote: Keeper | None = None, **settings: Any) -> Iterator[House]:
    """A runtime and its keeper, for as long as the block lasts. A cold turn may wait long: the machine may be busy."""
    given = {"first_turn_wait": 30.0, **settings}
    with Server(remote or keeper()) as server, runtime(folder, server.url, **given) as memory:
        assert isinstance(server.remote, Keeper)
        yield House(memory, server.remote)


@contextmanager
def down(folder: Path) -> Iterator[House]:
    """A runtime whose server is not there, and that does not wait for it at its end."""
    with runtime(folder, "http://127.0.0.1:9", first_turn_wait=0.3) as memory:
        yield House(memory, keeper())
        memory.close(0.2)


def settled(home: House) -> None:
    """Whatever the turns until now started has ended."""

    def idle() -> bool:
        sessions = home.memory.status().sessions
        running = home.memory.meters.registry.get_sample_value("honcho_actors_refresh_in_progress")
        return bool(sessions["uncounted_turns"] == 0) and running == 0

    assert home.memory.flush(20.0)
    until(idle, 20.0)
