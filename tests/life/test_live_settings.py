"""Settings that change while memory runs: in force at the next turn, without a restart, and never half.

A `reload` stands for the poll of once a second, which does the same on the warden's thread; one test waits for the
poll.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.model import Context, Reason, State
from tests.life.conftest import Environment
from tests.support.capture_rig import texts
from tests.support.memory_world import Server, until
from tests.support.shared_faults import Faults

Start = Callable[[], Memory]
Readable = Callable[..., Server]
TOMATOES = ("Ann grows tomatoes.", ["Name: Ann"])


def ask(memory: Memory, key: str = "one", user: str | None = "ann", budget: float = 20.0) -> Context:
    return memory.context(TurnRequest(session_key=key, user=user, query="where were we with it?"), budget)


def say(memory: Memory, text: str, key: str = "one", user: str | None = "ann") -> str:
    return memory.capture(Turn(key, user, text, None)).wait("accepted", 20.0).value


def at_rest(memory: Memory) -> None:
    """No refresh runs, so that none of the settings before is under way."""
    value = memory.meters.registry.get_sample_value
    until(lambda: value("honcho_actors_refresh_in_progress") == 0.0, 20.0)


class TestServer:
    def test_nothing_of_the_old_server_is_served_for_the_new_one_and_the_next_turn_asks_there(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        first, second = readable(ann=TOMATOES), readable(ann=("Ann sails.", []))
        environment(first.url)
        one = memory()
        assert "tomatoes" in ask(one).system
        at_rest(one)
        asked = len(first.remote.asked)
        environment(second.url)
        one.reload()
        for key in ("one", "two"):
            found = ask(one, key)
            assert "tomatoes" not in found.system + found.user_message
            assert "sails" in found.system
        at_rest(one)
        assert len(first.remote.asked) == asked
        environment(first.url)
        one.reload()
        back = ask(one)
        assert (back.state, "tomatoes" in back.system, "sails" in back.system) == (State.WARM, True, False)

    def test_a_server_that_failed_says_nothing_of_the_next_one(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        good = readable(ann=TOMATOES)
        environment("http://127.0.0.1:9")
        one = memory()
        for number in range(8):
            last = ask(one, f"talk-{number}", f"person-{number}")
        assert last.reason is Reason.BREAKER_OPEN
        environment(good.url)
        one.reload()
        assert "tomatoes" in ask(one).system

    def test_what_is_queued_for_the_old_server_waits_for_it_and_goes_nowhere_else(
        self, environment: Environment, memory: Start, server: str, faults: Faults
    ) -> None:
        environment(faults.url, workspace="queued")
        one = memory()
        faults.down()
        assert say(one, "said for the old one", "old") == "accepted"
        environment(server)
        one.reload()
        assert say(one, "said for the new one", "new") in ("accepted", "delivered")
        until(lambda: one.status().outbox.get("delivered", 0) >= 1, 20.0)
        assert texts(server, "new", "queued") == ["said for the new one"]
        assert one.status().outbox["pending_turns"] == 1
        assert [one["id"] for one in sessions(server, "queued")] == ["new"]
        faults.up()
        environment(faults.url)
        one.reload()
        assert one.flush(20.0)
        assert texts(server, "old", "queued") == ["said for the old one"]

    def test_the_poll_takes_it_up_by_itself(self, environment: Environment, memory: Start, readable: Readable) -> None:
        first, second = readable(ann=TOMATOES), readable(ann=("Ann sails.", []))
        environment(first.url)
        one = memory()
        assert "tomatoes" in ask(one).system
        epoch = one.settings.epoch
        environment(second.url)
        until(lambda: one.settings.epoch == epoch + 1, 20.0)
        assert "sails" in ask(one).system


class TestWhoAndWhere:
    def test_another_peer_is_another_person_at_the_next_turn(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        people = readable(ann=TOMATOES, eve=("Eve breeds lynxes.", []))
        environment(people.url, user_peer="ann")
        one = memory()
        assert "tomatoes" in ask(one, user=None).system
        environment(user_peer="eve")
        one.reload()
        found = ask(one, user=None)
        assert "lynxes" in found.system
        assert "tomatoes" not in found.system + found.user_message

    def test_another_assistant_speaks_from_the_next_turn_on(
        self, environment: Environment, memory: Start, server: str
    ) -> None:
        environment(server, workspace="assistants")
        one = memory()
        one.capture(Turn("one", "ann", "hello", "I am the first"))
        assert one.flush(20.0)
        environment(ai_peer="second")
        one.reload()
        one.capture(Turn("one", "ann", "hello again", "I am the second"))
        assert one.flush(20.0)
        url = f"{server}/v3/workspaces/assistants/sessions/one/messages/list"
        spoken = [(item["peer_id"], item["content"]) for item in httpx.post(url, json={}).json()["items"]]
        assert ("assistant", "I am the first") in spoken
        assert ("second", "I am the second") in spoken

    @pytest.mark.parametrize("strategy", ["directory", "global"])
    def test_another_strategy_names_the_next_turn_and_the_old_session_keeps_what_is_queued(
        self, environment: Environment, memory: Start, server: str, faults: Faults, tmp_path: Path, strategy: str
    ) -> None:
        workspace = f"strategy-{strategy}"
        environment(faults.url, workspace=workspace, session_strategy="session")
        one = memory()
        faults.down()
        assert say(one, "before the change") == "accepted"
        environment(session_strategy=strategy)
        one.reload()
        assert say(one, "after the change") == "accepted"
        faults.up()
        assert one.flush(20.0)
        assert texts(server, "one", workspace) == ["before the change"]
        others = [found["id"] for found in sessions(server, workspace) if found["id"] != "one"]
        assert [texts(server, other, workspace) for other in others] == [["after the change"]]


class TestMode:
    def test_every_recall_mode_is_in_force_at_the_next_turn(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        environment(readable(ann=TOMATOES).url, recall_mode="hybrid")
        one = memory()
        assert "tomatoes" in ask(one).system
        tools = one.tools()
        assert tools
        environment(recall_mode="tools")
        one.reload()
        assert ask(one).reason is Reason.TOOLS_MODE
        assert one.tools()
        environment(recall_mode="context")
        one.reload()
        assert "tomatoes" in ask(one).system
        assert one.tools() == ()
        assert tools[0].call({}, TurnRequest(session_key="one", user="ann")).error is not None
        environment(enabled="false")
        one.reload()
        assert ask(one).reason is Reason.DISABLED
        assert say(one, "not now") == "skipped"

    def test_reading_only_keeps_what_is_queued_and_sends_it_when_it_ends(
        self, environment: Environment, memory: Start, server: str, faults: Faults
    ) -> None:
        environment(faults.url, workspace="reading-only")
        one = memory()
        faults.down()
        assert say(one, "said before") == "accepted"
        environment(save_messages="false")
        one.reload()
        faults.up()
        assert say(one, "said meanwhile") == "skipped"
        assert ask(one).reason is Reason.NOTHING_KNOWN
        assert one.flush(0.5) is False
        assert "add_messages" not in faults.requests()
        environment(save_messages="true")
        one.reload()
        assert one.flush(20.0)
        assert texts(server, "one", "reading-only") == ["said before"]


class TestLimits:
    def test_more_requests_at_once_are_let_through_from_the_next_turn_on(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        people = readable(**{f"person-{number}": (f"Number {number}.", []) for number in range(6)})
        gate = people.remote.closed["session_context"] = threading.Event()
        environment(people.url, max_concurrent_requests=1, request_timeout=60)
        one = memory()
        request = [TurnRequest(session_key=f"talk-{number}", user=f"person-{number}") for number in range(6)]
        for wanted in request[:4]:
            one.prewarm(wanted)
        asked = partial(people.remote.count, "session_context")
        until(lambda: asked() >= 1 and one.status().client.get("waiting", 0) >= 1, 20.0)
        assert asked() == 1
        environment(max_concurrent_requests=5)
        one.reload()
        one.prewarm(request[4])
        until(lambda: asked() == 5, 20.0)
        environment(max_concurrent_requests=2)
        one.reload()
        one.prewarm(request[5])
        gate.set()
        until(lambda: one.status().sessions["persons"] == 6, 20.0)

    def test_a_smaller_table_drops_what_is_too_much_at_the_next_turn(
        self, environment: Environment, memory: Start, readable: Readable
    ) -> None:
        people = readable(**{f"person-{number}": (f"Number {number}.", []) for number in range(12)})
        environment(people.url, max_sessions=100)
        one = memory()
        for number in range(10):
            ask(one, f"talk-{number}", f"person-{number}")
        at_rest(one)
        assert one.status().sessions["sessions"] == 10
        environment(max_sessions=4)
        one.reload()
        assert "Number 10" in ask(one, "talk-10", "person-10").system
        until(lambda: one.status().sessions["sessions"] <= 4, 20.0)
        assert "Number 10" in ask(one, "talk-10", "person-10").system

    def test_another_wait_is_granted_to_the_next_turn(self, environment: Environment, memory: Start, hung: str) -> None:
        environment(hung, first_turn_wait=0.3)
        one = memory()
        request = TurnRequest(session_key="one", user="ann", query="where were we?")
        assert 0.1 < one.context(request).waited < 20.0
        environment(first_turn_wait=0.0)
        one.reload()
        assert one.context(TurnRequest(session_key="two", user="bob", query="where were we?")).waited == 0.0


def sessions(url: str, workspace: str) -> list[dict[str, str]]:
    """The sessions of a workspace, as the server lists them."""
    reply = httpx.post(f"{url}/v3/workspaces/{workspace}/sessions/list", json={})
    return list(reply.json()["items"])
