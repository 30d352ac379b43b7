"""Degraded and recovered as a host, an operator and a turn meet it: each trouble is really made, and really ends."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.host import ContextRegistry
from honcho_actors.model import Cause, Reason, ReceiptState, SkipReason, State
from honcho_actors.runtime import HealthChange
from honcho_actors.runtime.health import Limits
from tests.runtime.conftest import MakeMemory
from tests.support.memory_world import Server, until

UNREACHABLE = "http://127.0.0.1:9"


def ask(session: str, user: str = "ann") -> TurnRequest:
    return TurnRequest(session_key=session, user=user, query="what about the garden?")


def causes(memory: Memory) -> list[str]:
    shown = memory.status().as_dict()
    assert (shown["state"] == "degraded") is bool(shown["degraded"]["causes"])
    assert (shown["degraded"]["since"] is None) is not bool(shown["degraded"]["causes"])
    return [one["cause"] for one in shown["degraded"]["causes"]]


def gauge(memory: Memory, cause: Cause) -> float:
    value = memory.meters.registry.get_sample_value("honcho_actors_degraded", {"cause": cause.value})
    assert value is not None
    return value


def limits(memory: Memory, **changed: Any) -> None:
    """Other bars than the defaults: what is measured against them is real."""
    assert memory._tree is not None
    memory._tree.telling._limits = Limits(**changed)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def fail(memory: Memory, times: int = 5) -> None:
    """Cold turns of people that nobody knows yet: each reads once."""
    for number in range(times):
        memory.context(ask(f"f{number}-{time.monotonic()}", f"somebody-{number}"), 5.0)


class TestAnOutage:
    def test_it_is_in_status_on_every_block_in_the_metric_and_one_log_line_each_way(
        self, make: MakeMemory, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "honcho_actors")
        memory = make(server.url)
        told: list[HealthChange] = []
        threads: set[str] = set()

        def callback(change: HealthChange) -> None:
            told.append(change)
            threads.add(threading.current_thread().name)

        memory.on_health(callback)
        before = memory.context(ask("one"))
        assert (before.state, before.degraded) == (State.COLD, ())
        assert causes(memory) == []

        server.remote.statuses["session_context"] = 500
        server.remote.statuses["peer_context"] = 500
        fail(memory)
        until(lambda: Cause.BREAKER_OPEN in causes(memory))
        assert set(causes(memory)) == {Cause.BREAKER_OPEN, Cause.REFRESH_FAILING}
        assert gauge(memory, Cause.BREAKER_OPEN) == gauge(memory, Cause.REFRESH_FAILING) == 1.0
        until(lambda: Cause.BREAKER_OPEN in memory.context(ask("one")).degraded)
        warm = memory.context(ask("one"))
        assert (warm.state, warm.system) == (State.WARM, before.system), "not a byte of the block depends on it"
        assert Cause.BREAKER_OPEN in memory.context(ask("new", "stranger"), 1.0).degraded
        assert Cause.BREAKER_OPEN in memory.context(ask("new", "stranger"), 0.0).degraded
        assert Cause.BREAKER_OPEN in memory.context(ask("another")).degraded, "a known person's new conversation"
        assert "fails repeatedly" in memory.status().health
        ran = memory.status().as_dict()["workers"]["base"]
        assert (ran["last_error"], ran["last_error_at"] <= ran["last_run"]) in [
            ("failed", True),
            ("breaker_open", True),
        ]

        server.remote.statuses.clear()

        def recovered() -> bool:
            fail(memory, 1)
            return causes(memory) == []

        until(recovered)
        until(lambda: memory.context(ask("one")).degraded == ())
        assert gauge(memory, Cause.BREAKER_OPEN) == gauge(memory, Cause.REFRESH_FAILING) == 0.0
        until(lambda: told and not told[-1].degraded)
        assert threads == {"honcho-health"}
        assert [change.degraded for change in told[:-1]] == [True] * (len(told) - 1)
        began = [cause for change in told for cause in change.began]
        ended = [cause for change in told for cause in change.ended]
        assert sorted(began) == sorted(ended) == sorted([Cause.BREAKER_OPEN, Cause.REFRESH_FAILING])
        lines = [record for record in caplog.records if record.name == "honcho_actors.health"]
        assert len(lines) == 4, [record.getMessage() for record in lines]
        assert all(record.levelno == logging.WARNING for record in lines)
        assert sorted(vars(record)["cause"] for record in lines) == sorted([*began, *ended])
        assert "somebody" not in caplog.text

    def test_a_rejected_key_is_told_at_the_first_read(self, make: MakeMemory, server: Server) -> None:
        server.remote.statuses["session_context"] = 401
        memory = make(server.url, api_key="key-" + "w" * 20)
        assert memory.context(ask("one"), 5.0).reason is Reason.UNAUTHORIZED
        until(lambda: causes(memory) == [Cause.UNAUTHORIZED])
        server.remote.statuses.clear()

        def recovered() -> bool:
            fail(memory, 1)
            return causes(memory) == []

        until(recovered)

    def test_a_hosts_registry_gets_it_with_the_contribution(self, make: MakeMemory, server: Server) -> None:
        memory = make(server.url)
        memory.context(ask("one"))
        server.remote.statuses["session_context"] = 500
        server.remote.statuses["peer_context"] = 500
        fail(memory, 3)
        registry = ContextRegistry()
        registry.register("memory", memory.contributor(), inline=True)
        until(lambda: memory.context(ask("one")).degraded)
        assert "tomatoes" in registry.collect(ask("one")).sections[0].body


class TestTheOtherCauses:
    def test_an_outbox_that_cannot_be_written(self, make: MakeMemory, server: Server, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        memory = make(server.url, state_dir=tmp_path / "file" / "state")
        memory.capture(Turn("one", "ann", "a", "b")).wait(ReceiptState.ACCEPTED, 20.0)
        assert until(lambda: Cause.STORE in causes(memory) or Cause.GIVEN_UP in causes(memory))

    def test_turns_that_are_all_skipped(self, make: MakeMemory) -> None:
        memory = make(UNREACHABLE, require_user=True)
        for number in range(10):
            assert memory.capture(Turn(f"s{number}", None, "a", "b")).reason == SkipReason.NO_IDENTITY
        assert causes(memory) == [Cause.NOTHING_CAPTURED]
        assert "no_identity: 10" in memory.status().health
        memory.capture(Turn("one", "ann", "a", "b")).wait(ReceiptState.ACCEPTED, 20.0)
        assert until(lambda: Cause.NOTHING_CAPTURED not in causes(memory))

    def test_what_waits_too_long_for_its_delivery(self, make: MakeMemory) -> None:
        memory = make(UNREACHABLE)
        limits(memory, oldest=0.2)
        memory.capture(Turn("one", "ann", "a", "b")).wait(ReceiptState.ACCEPTED, 20.0)
        assert until(lambda: Cause.OUTBOX_STUCK in causes(memory))

    def test_a_disk_that_is_nearly_full(self, make: MakeMemory, server: Server) -> None:
        memory = make(server.url)
        limits(memory, free_bytes=1 << 60)
        assert until(lambda: causes(memory) == [Cause.DISK])

    def test_a_manager_that_dies_again_and_again(self, make: MakeMemory, server: Server) -> None:
        memory = make(server.url)
        for generation in range(1, 4):
            until(lambda generation=generation: memory.status().sessions["generation"] == generation)  # type: ignore[misc]
            manager = memory._sessions.table.manager
            assert manager is not None
            manager.kill()
            until(lambda generation=generation: memory.status().sessions["generation"] > generation)  # type: ignore[misc]
        until(lambda: Cause.RESTARTS in causes(memory))
        assert memory.context(ask("one")).reason is Reason.FILLED

    def test_plain_http_to_a_public_address_is_off_and_says_why(self, make: MakeMemory) -> None:
        memory = make("http://192.0.2.7")
        status = memory.status()
        assert (status.state, "https is demanded" in status.health) == ("off", True)
        fail(memory, 3)
        assert causes(memory) == []

    def test_memory_that_is_only_read_is_not_degraded(self, make: MakeMemory, server: Server) -> None:
        memory = make(server.url, save_messages=False)
        for number in range(12):
            memory.capture(Turn(f"s{number}", "ann", "a", "b"))
        assert causes(memory) == []


class TestCallbacks:
    def test_one_that_blocks_or_raises_holds_up_nobody_and_the_next_changes_are_told_in_order(
        self, make: MakeMemory, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        memory = make(server.url)
        free = threading.Event()
        told: list[HealthChange] = []

        def blocks(change: HealthChange) -> None:
            free.wait(30.0)
            raise RuntimeError("a host's own mistake")

        memory.on_health(blocks)
        memory.on_health(told.append)
        limits(memory, free_bytes=1 << 60)
        assert until(lambda: causes(memory) == [Cause.DISK])
        limits(memory)
        until(lambda: causes(memory) == [])
        assert memory.context(ask("one")).reason is Reason.FILLED
        assert told == []
        free.set()
        until(lambda: len(told) == 2)
        assert [change.degraded for change in told] == [True, False]
        assert [record.message for record in caplog.records].count("a callback for the health failed") == 1

    def test_one_that_was_taken_back_is_not_called_and_one_without_a_tree_never(
        self, make: MakeMemory, server: Server
    ) -> None:
        memory = make(server.url)
        told: list[HealthChange] = []
        take_back = memory.on_health(told.append)
        take_back()
        take_back()
        limits(memory, free_bytes=1 << 60)
        assert until(lambda: causes(memory) == [Cause.DISK])
        make(tree=False).on_health(told.append)()
        assert told == []

    def test_no_thread_is_left_after_the_last_change(self, make: MakeMemory, server: Server) -> None:
        memory = make(server.url)
        told: list[HealthChange] = []
        memory.on_health(told.append)
        limits(memory, free_bytes=1 << 60)
        until(lambda: told)
        assert until(lambda: "honcho-health" not in {thread.name for thread in threading.enumerate()})

    def test_a_child_that_was_forked_in_the_middle_of_a_look_can_be_asked_and_tells_nobody(
        self, make: MakeMemory, server: Server, tmp_path: Path
    ) -> None:
        memory = make(server.url)
        told: list[HealthChange] = []
        memory.on_health(told.append)
        assert memory._tree is not None
        with memory._tree.telling._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: what is tested here
            child = os.fork()
            if child == 0:
                try:
                    state = memory.status().state
                    memory.on_health(told.append)()
                    os._exit(0 if state == "closed" and not told else 1)
                finally:
                    os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert memory.status().state == "ready"
