"""`Memory` as a user meets it: over real sockets and real files, on threads and on event loops."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.host import ContextRegistry
from honcho_actors.model import Placement, Reason, ReceiptState, SkipReason, State
from honcho_actors.privacy import identity
from tests.runtime.conftest import MakeMemory
from tests.support.memory_world import until
from tests.support.stopwatch import Stopwatch

UNREACHABLE = "http://127.0.0.1:9"
SAID = "I restore a clinker dinghy from 1963 in an unheated shed."


def ask(session: str, user: str = "ines", query: str = "where were we with the boat?") -> TurnRequest:
    return TurnRequest(session_key=session, user=user, query=query)


def say(session: str, text: str = SAID, user: str = "ines", **more: object) -> Turn:
    return Turn(session, user, text, "What a find.", **more)  # type: ignore[arg-type]


def counted(memory: Memory) -> bool:
    """The manager has seen every turn that was served."""
    return bool(memory.status().sessions["uncounted_turns"] == 0)


class TestTurns:
    def test_what_was_said_is_served_to_the_next_conversation_of_the_same_person_and_to_nobody_else(
        self, make: MakeMemory, server: str
    ) -> None:
        memory = make(server, workspace="turns-1")
        assert memory.context(ask("one")).reason is Reason.NOTHING_KNOWN
        assert memory.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED
        memory.refresh(ask("one"))
        until(lambda: "1963" in memory.context(ask("one")).system)
        fresh = memory.context(ask("two"))
        assert (fresh.state, fresh.reason, fresh.waited) == (State.WARM, Reason.HIT, 0.0)
        assert "1963" in fresh.system
        assert fresh.sections[0].placement is Placement.SYSTEM
        other = memory.context(ask("three", user="tomasz"))
        assert (other.state, other.system, other.user_message) == (State.COLD, "", "")

    def test_the_same_object_serves_event_loops(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="turns-2")

        async def talk() -> tuple[State, ReceiptState, bool, int]:
            first = await memory.acontext(ask("one"))
            receipt = await memory.acapture(say("one"))
            return first.state, receipt.state, await memory.aflush(30.0), len(await memory.asearch("dinghy", key="one"))

        assert asyncio.run(talk()) == (State.COLD, ReceiptState.ACCEPTED, True, 1)

    def test_the_sync_form_on_an_event_loop_serves_what_is_there_and_never_waits(
        self, make: MakeMemory, server: str
    ) -> None:
        memory = make(server, workspace="turns-3")

        async def talk() -> tuple[Reason, float]:
            begun = time.monotonic()
            return memory.context(ask("one")).reason, time.monotonic() - begun

        reason, took = asyncio.run(talk())
        assert reason is Reason.EVENT_LOOP
        assert took < 10.0, "a wait would be twenty"

    def test_a_cold_turn_never_outlives_its_budget(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)
        memory.context(ask("first"), 0.1)  # what the first turn of a process loads is not what is measured
        begun = Stopwatch()
        found = memory.context(ask("one"), 0.6)
        took, whole = begun.seconds, begun.elapsed
        assert (found.state, found.reason) == (State.COLD, Reason.DEADLINE)
        assert took < 0.6
        assert 0.3 < found.waited <= whole

    @pytest.mark.parametrize("broken", [None, 5, "text", object()])
    def test_a_call_with_nonsense_never_raises(self, make: MakeMemory, broken: object) -> None:
        memory = make(UNREACHABLE)
        assert memory.context(broken).state is State.OFF  # type: ignore[arg-type]
        assert memory.capture(broken).state is ReceiptState.SKIPPED  # type: ignore[arg-type]
        assert memory.search(broken) == ()  # type: ignore[arg-type]
        memory.prewarm(broken)  # type: ignore[arg-type]
        memory.refresh(broken)  # type: ignore[arg-type]

    def test_a_host_collects_it_through_the_contributor(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="turns-4")
        memory.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0)
        registry = ContextRegistry()
        registry.register("memory", memory.contributor(), inline=True)
        assert until(lambda: any("1963" in section.body for section in registry.collect(ask("two")).sections))


class TestWithoutMemory:
    def test_a_runtime_without_its_tree_answers_off(self, make: MakeMemory) -> None:
        memory = make(UNREACHABLE, tree=False)
        assert memory.context(ask("one")).state is State.OFF
        assert memory.capture(say("one")).state is ReceiptState.SKIPPED
        assert (memory.search("x", key="one"), memory.flush(1.0), memory.status().state) == ((), True, "off")

    def test_neither_server_nor_key_is_off_with_the_reason_in_status(self, make: MakeMemory) -> None:
        memory = make()
        assert memory.context(ask("one")).reason is Reason.NOT_CONFIGURED
        assert memory.status().health == "memory is off: no server and no key is set"

    def test_a_wrong_base_url_is_off_with_the_reason_in_status(self, make: MakeMemory) -> None:
        memory = make("localhost:8000")
        assert memory.context(ask("one")).reason is Reason.NOT_CONFIGURED
        assert "the server's address cannot be used" in memory.status().health
        assert any("base_url" in problem for problem in memory.status().problems)

    def test_99_a_key_that_comes_late_has_what_was_captured_before_delivered_without_a_restart(
        self, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HONCHO_ACTORS_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("HONCHO_ACTORS_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("HONCHO_WORKSPACE_ID", "late")
        with Memory.start() as memory:
            receipts = [memory.capture(say("one", f"thing number {number}")) for number in range(3)]
            assert [one.wait(ReceiptState.ACCEPTED, 30.0) for one in receipts] == [ReceiptState.ACCEPTED] * 3
            monkeypatch.setenv("HONCHO_URL", server)
            memory.reload()
            assert [one.wait(ReceiptState.DELIVERED, 30.0) for one in receipts] == [ReceiptState.DELIVERED] * 3

    def test_100_a_changed_peer_is_in_force_at_the_next_turn(
        self, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("STATE", "CACHE"):
            monkeypatch.setenv(f"HONCHO_ACTORS_{name}_DIR", str(tmp_path / name))
        monkeypatch.setenv("HONCHO_URL", server)
        monkeypatch.setenv("HONCHO_WORKSPACE_ID", "changed")
        with Memory.start() as memory:
            memory.capture(Turn("one", None, "my name is Ada", "hello"))
            assert memory.flush(30.0)
            monkeypatch.setenv("HONCHO_ACTORS_USER_PEER", "somebody-else")
            until(lambda: memory.settings.user_peer == "somebody-else", 30.0)
            memory.capture(Turn("one", None, "my name is Eve", "hello"))
            assert memory.flush(30.0)
        page = httpx.post(f"{server}/v3/workspaces/changed/peers/list", json={}).json()
        assert {"user", "somebody-else"} <= {peer["id"] for peer in page["items"]}

    def test_a_state_directory_that_cannot_be_written_leaves_reading_on_and_says_so(
        self, make: MakeMemory, server: str, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        memory = make(server, state_dir=tmp_path / "file" / "state", workspace="unwritable")
        assert memory.context(ask("one")).reason is Reason.NOTHING_KNOWN
        receipt = memory.capture(say("one"))
        assert receipt.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        assert receipt.reason in (SkipReason.STORE_FAILED, SkipReason.GIVEN_UP)
        status = memory.status()
        assert status.state == "degraded"
        assert status.problems
        json.dumps(status.as_dict())


class TestBesideTurns:
    def test_a_search_stays_inside_its_scope(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="search")
        memory.capture(say("one"))
        memory.capture(say("two", "My cello is from 1963 too.", user="tomasz"))
        assert memory.flush(30.0)
        inside = memory.search("1963", "session", "one")
        assert [(one.scope, one.key, one.peer) for one in inside] == [("session", "one", "ines")]
        assert inside[0].text == SAID
        assert {one.peer for one in memory.search("1963", "agent", "tomasz")} == {"tomasz"}
        assert {one.peer for one in memory.search("1963", "global")} == {"ines", "tomasz"}
        assert {one.peer for one in memory.search("1963", "workspace", "search")} == {"ines", "tomasz"}
        for scope, key in (
            ("session", None),
            ("session", " "),
            ("agent", None),
            ("workspace", "other"),
            ("odd", "one"),
        ):
            assert memory.search("1963", scope, key) == ()

    def test_a_search_on_a_dead_server_or_for_nothing_is_empty(self, make: MakeMemory) -> None:
        memory = make(UNREACHABLE)
        assert memory.context(ask("one"), 0.5).system == ""
        assert memory.search("1963", "session", "one") == ()
        assert memory.search("1963", "global") == ()
        assert memory.search("  ", "session", "one") == ()

    def test_an_opted_out_conversation_is_not_captured_and_an_opted_in_one_is(
        self, make: MakeMemory, server: str
    ) -> None:
        memory = make(server, workspace="opting")
        memory.opt_out("one")
        receipt = memory.capture(say("one"))
        assert receipt.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        assert receipt.reason == SkipReason.OPTED_OUT
        memory.opt_in("one")
        assert memory.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED

    def test_forgetting_removes_what_is_here_and_says_what_stays_there(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="forgetting")
        memory.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0)
        memory.context(ask("one"))
        forgotten = memory.forget("ines")
        assert forgotten.done
        assert "stays on" in forgotten.remains
        assert "ines" in forgotten.remains
        until(lambda: memory.status().sessions["persons"] == 0)
        assert memory.forget(" ").done is False

    def test_prewarming_makes_the_first_turn_warm(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="prewarm")
        memory.prewarm(ask("one"))
        until(lambda: memory.status().sessions["persons"] == 1)
        assert memory.context(ask("one")).waited == 0.0


class TestLife:
    def test_a_start_touches_no_network_and_is_quick(self, make: MakeMemory) -> None:
        make(UNREACHABLE).close(1.0)  # what the first start of a process loads is not what is measured
        best = min(self.started(make) for _ in range(3))
        assert best < 1.0

    @staticmethod
    def started(make: MakeMemory) -> float:
        begun = time.monotonic()
        memory = make(UNREACHABLE)
        took = time.monotonic() - begun
        memory.close(1.0)
        return took

    def test_it_starts_and_ends_inside_a_running_loop(self, server: str, tmp_path: Path) -> None:
        async def live() -> State:
            settings = Settings(base_url=server, state_dir=tmp_path / "s", cache_dir=tmp_path / "c", workspace="loop")
            async with Memory.start(settings) as memory:
                found = await memory.acontext(ask("one"))
                return found.state

        assert asyncio.run(live()) is State.COLD

    def test_a_closed_runtime_answers_off_and_may_be_closed_again(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="closing")
        assert memory.close(30.0) is True
        assert memory.close(30.0) is True
        assert memory.context(ask("one")).reason is Reason.CLOSED
        receipt = memory.capture(say("one"))
        assert (receipt.state, receipt.reason) == (ReceiptState.SKIPPED, SkipReason.CLOSED)
        assert memory.status().state == "closed"

    def test_a_close_with_a_hung_server_keeps_its_timeout_from_two_threads(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)
        memory.capture(say("one")).wait(ReceiptState.ACCEPTED, 30.0)
        memory.context(ask("one"), 0.2)
        begun = Stopwatch()
        closers = [threading.Thread(target=memory.close, args=(2.0,)) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(30.0)
        assert begun.seconds < 3.5
        assert memory.status().state == "closed"

    def test_what_was_accepted_before_a_close_is_delivered_by_the_next_runtime(
        self, make: MakeMemory, server: str
    ) -> None:
        first = make(UNREACHABLE, workspace="next")
        assert first.capture(say("one")).wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.ACCEPTED
        first.close(1.0)
        second = make(UNREACHABLE, workspace="next")
        until(lambda: second.status().outbox.get("pending_turns") == 1)

    def test_the_next_runtime_knows_from_the_ledger_which_conversations_the_server_has(
        self, make: MakeMemory, server: str
    ) -> None:
        first = make(server, workspace="ledger")
        assert first.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED
        first.close(5.0)
        second = make(server, workspace="ledger")
        capture, settings = second._capture, second._cell.current
        known, other = (identity.resolve(ask(key), settings) for key in ("one", "two"))
        assert isinstance(known, identity.Identity)
        assert isinstance(other, identity.Identity)
        until(lambda: capture.is_on_server(known.session))
        assert not capture.is_on_server(other.session)
        assert second.forget("ines").done
        assert not capture.is_on_server(known.session)

    def test_105_runtimes_that_come_and_go_on_one_registry_go_on_counting(self, make: MakeMemory, server: str) -> None:
        registry = CollectorRegistry()
        for number in range(1, 4):
            memory = make(server, registry=registry, workspace="registry")
            memory.context(ask(f"one-{number}", user=f"user-{number}"))
            until(partial(counted, memory))
            memory.close(2.0)
            labels = {"path": "cold", "outcome": "nothing_known"}
            assert registry.get_sample_value("honcho_actors_turns_total", labels) == number

    def test_two_runtimes_in_one_process_do_not_disturb_each_other(
        self, make: MakeMemory, server: str, tmp_path: Path
    ) -> None:
        one = make(server, workspace="two-a")
        two = make(server, workspace="two-b", state_dir=tmp_path / "other", cache_dir=tmp_path / "other-cache")
        one.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0)
        one.close(2.0)
        assert two.context(ask("one")).reason is Reason.NOTHING_KNOWN
        assert two.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED


class TestStatus:
    def test_108_a_port_that_is_taken_is_told_and_the_runtime_runs(self, make: MakeMemory, server: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = other.getsockname()[1]
            memory = make(server, metrics_port=taken, workspace="ports")
            assert f"metrics_port {taken} cannot be used: address already in use" in memory.status().problems
            assert memory.context(ask("one")).reason is Reason.NOTHING_KNOWN

    def test_the_status_is_json_and_holds_no_key_and_no_text(self, make: MakeMemory, server: str) -> None:
        key = "key-" + "z" * 24
        memory = make(server, api_key=key, workspace="status")
        memory.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0)
        memory.context(ask("one"))
        shown = json.dumps(memory.status().as_dict())
        assert key not in shown
        assert "clinker" not in shown
        assert json.loads(shown)["settings"]["api_key"] == "present"
        assert memory.status().state == "ready"

    def test_the_last_delivery_and_the_pending_turns_are_counted(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="counting")
        memory.capture(say("one", at=datetime(2026, 3, 2, tzinfo=UTC))).wait(ReceiptState.DELIVERED, 30.0)
        until(lambda: memory.status().outbox.get("pending_turns") == 0)
        until(lambda: memory.status().outbox.get("last_delivery") is not None)
        value = memory.meters.registry.get_sample_value
        assert value("honcho_actors_deliveries_total", {"outcome": "delivered"}) == 1.0

    def test_the_admin_pages_of_a_running_runtime_show_the_tree(
        self, make: MakeMemory, server: str, tmp_path: Path
    ) -> None:
        memory = make(server, workspace="pages", metrics_port=0)
        found = json.loads((tmp_path / "state" / "admin.json").read_text())
        headers = {"Authorization": f"Bearer {found['token']}"}
        tree = httpx.get(f"{found['url']}/tree", headers=headers).json()
        assert [row["child"] for row in tree if row["supervisor"] == "root"] == [
            "io",
            "read_side",
            "snapshots",
            "warden",
            "endpoint",
            "write_side",
        ]
        assert {row["state"] for row in tree} == {"running"}
        memory.context(ask("one"))
        rows = httpx.get(f"{found['url']}/sessions", headers=headers).json()
        assert [row["key"] for row in rows] == ["one"]
        values = httpx.get(f"{found['url']}/settings", headers=headers).json()["values"]
        assert values["workspace"] == "pages"
        assert httpx.get(f"{found['url']}/outbox", headers=headers).json()["open"] is True
        assert httpx.get(str(memory.status().endpoints["metrics"])).status_code == 200
