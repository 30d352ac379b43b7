"""Two people and a shared room through one process: turns interleaved (`--turns 10000` for a release), each with
words of its own.

Everybody's words are marked by who said them where. Nothing marked as one person's private words is in anything made
for the other, and nothing private is in anything made for the room: blocks, questions, uploads, search hits. The
server is the embedded one, which shows of a person what they said, so that a mixed-up name would show.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.local.process import start
from honcho_actors.model import Context, Reason
from tests.privacy.relay import Relay

WORD = re.compile(r"(ana|bob)(own|room)[0-9]{6}")
PEOPLE = ("ana", "bob")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with start(tmp_path / "honcho") as running:
        yield running.url


def marks(text: str) -> set[str]:
    """Who said the words of a text, and where: `anaown`, `bobroom` ..."""
    return {found[1] + found[2] for found in WORD.finditer(text)}


def shown(context: Context) -> set[str]:
    return marks(context.system + context.user_message + "".join(section.body for section in context.sections))


class Conversation:
    """Takes the turns of two people, each in two rooms of their own and in one that they share."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.dice = random.Random(5)
        self.served = {"ana": 0, "bob": 0, "room": 0}
        self.number = 0

    def turn(self) -> None:
        person = self.dice.choice(PEOPLE)
        shared = self.dice.random() < 0.3
        self.number += 1
        word = f"{person}{'room' if shared else 'own'}{self.number:06}"
        key = "room" if shared else f"{person}-{self.dice.choice('12')}"
        text = f"I want to talk about {word} and about what it means to me in the long run."
        audience = "shared" if shared else "private"
        request = TurnRequest(key, user=person, query=text, audience=audience)  # type: ignore[arg-type]
        context = self.memory.context(request, budget=0.5)
        found = shown(context)
        if shared:
            assert found == set(), found
            assert context.reason is Reason.SHARED_AUDIENCE
            self.served["room"] += 1
        else:
            other = "bob" if person == "ana" else "ana"
            assert not {mark for mark in found if mark.startswith(other)}, (person, found)
            self.served[person] += bool(found)
        turn = Turn(key, person, text, f"Noted, {word} matters to you.", audience=audience)  # type: ignore[arg-type]
        while (receipt := self.memory.capture(turn)).reason == "overloaded":
            time.sleep(0.01)
        assert receipt.reason in (None, ""), receipt.reason
        if self.number % 250 == 0:
            assert self.memory.flush(60.0)
            for name in PEOPLE:
                self.memory.refresh(TurnRequest(f"{name}-1", user=name))

    def search(self) -> None:
        for person, other in (PEOPLE, PEOPLE[::-1]):
            for key in (f"{person}-1", f"{person}-2"):
                found = self.memory.search("what it means in the long run", "session", key, limit=50)
                assert found
                assert {mark for hit in found for mark in marks(hit.text)} == {f"{person}own"}
            said = self.memory.search("what it means in the long run", "agent", person, limit=50)
            assert said
            assert not any(mark.startswith(other) for hit in said for mark in marks(hit.text))
        assert self.memory.search("what it means in the long run", "session", "nobody-1", limit=50) == ()
        assert self.memory.search("what it means in the long run", "session", None, limit=50) == ()

    def tools(self) -> None:
        """What a model is told, tool by tool: to each of the two their own words (those said in the room are theirs,
        too), and in the room nobody's."""
        asked = "what it means in the long run"
        calls: list[tuple[str, dict[str, Any]]] = [
            ("honcho_search", {"query": asked, "scope": "mine", "limit": 50}),
            ("honcho_search", {"query": asked, "scope": "session", "limit": 50}),
            ("honcho_search", {"query": asked, "facts": True, "limit": 50}),
            ("honcho_context", {}),
            ("honcho_context", {"query": asked}),
            ("honcho_profile", {}),
            ("honcho_conclude", {"query": asked}),
            ("honcho_reasoning", {"query": asked}),
        ]
        tools = {tool.name: tool for tool in self.memory.tools(aliases=False)}
        assert {name for name, _ in calls} == set(tools)
        told = 0
        for person, other in (PEOPLE, PEOPLE[::-1]):
            for name, args in calls:
                answer = tools[name].call(args, TurnRequest(f"{person}-1", user=person))
                found = marks(answer.text + repr(answer.details))
                assert not {mark for mark in found if mark.startswith(other)}, (name, found)
                told += bool(found)
                shared = tools[name].call(args, TurnRequest("room", user=person, audience="shared"))
                assert marks(shared.text + repr(shared.details)) == set(), name
        assert told >= 4


def owner_of(target: str, body: str) -> set[str]:
    """Whose words a request may hold, by the session or the peer that it is about."""
    parts = target.split("?")[0].split("/")
    if "sessions" in parts[:-1]:
        name = parts[parts.index("sessions") + 1]
        person = name.split("-")[0]
        return {f"{person}own"} if person in PEOPLE else {"anaroom", "bobroom"}
    if "peers" in parts[:-1]:
        person = parts[parts.index("peers") + 1]
        target_peer = json.loads(body or "{}").get("target") or person
        return {f"{target_peer}own"} if target_peer in PEOPLE else set()
    return set()


@pytest.mark.timeout(300)
def test_no_text_of_one_is_in_anything_made_for_the_other(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    turns: int = request.config.getoption("--turns", default=1_000)
    with Relay(server) as relay:
        settings = Settings(
            base_url=relay.url,
            require_user=True,
            representation_ttl=0.1,
            state_dir=tmp_path / "state",
            cache_dir=tmp_path / "cache",
        )
        with Memory.start(settings) as memory:
            talk = Conversation(memory)
            for _ in range(turns):
                talk.turn()
            assert memory.flush(200.0)
            for _ in range(200):
                talk.turn()
            talk.search()
            talk.tools()
            assert memory.flush(60.0)
        requests = relay.requests()
    uploads = asked = 0
    for method, target, body in requests:
        found = marks(target + body)
        assert found <= owner_of(target, body), (method, target, found)
        if target.endswith("/messages"):
            uploads += 1
            for message in json.loads(body)["messages"]:
                said = marks(message["content"])
                assert len(said) == 1
                assert message["peer_id"] in (next(iter(said))[:3], "assistant")
        asked += target.endswith("/chat") and bool(found)
    assert talk.served["ana"] > 50
    assert talk.served["bob"] > 50
    assert talk.served["room"] > turns // 5
    assert uploads
    assert asked
    assert (
        sum(len(json.loads(body)["messages"]) for _, target, body in requests if target.endswith("/messages"))
        >= 2 * turns
    )
