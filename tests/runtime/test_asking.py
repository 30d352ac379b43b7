"""A process at rest whose reads had failed finds out that the server is back; and what a forgetting leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, TurnRequest
from honcho_actors.model import Cause, Realm, SessionKey
from honcho_actors.privacy import names
from honcho_actors.runtime import asking
from honcho_actors.runtime.health import Limits
from tests.runtime.conftest import MakeMemory
from tests.support.memory_world import Server, until


def read(memory: Memory, user: str) -> None:
    memory.context(TurnRequest(session_key=f"of-{user}", user=user, query="what about the garden?"), 10.0)


def causes(memory: Memory) -> set[str]:
    return {one["cause"] for one in memory.status().as_dict()["degraded"]["causes"]}


def test_a_process_at_rest_recovers_when_the_server_does_and_asks_about_nobody_in_a_conversation(
    make: MakeMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        server.remote.statuses = {"session_context": 500, "peer_context": 500}
        memory = make(server.url)
        memory._tree.telling._limits = Limits(clear_for=0.01)  # type: ignore[union-attr]
        for number in range(6):
            read(memory, f"p{number}")
        assert causes(memory) == {Cause.REFRESH_FAILING, Cause.BREAKER_OPEN}
        before = len(server.remote.asked)
        server.remote.statuses.clear()
        memory._tree._asking._due = 0.0  # type: ignore[union-attr]  # its half minute is over
        monkeypatch.setattr(asking, "FIRST", 0.05)
        monkeypatch.setattr(asking, "MOST", 0.05)
        until(lambda: memory.status().state == "ready")
        asked = server.remote.asked[before:]
        assert {(one.op, one.peer) for one in asked} == {("peer_context", memory.settings.user_peer)}
        assert memory.status().sessions["failed_reads"] == 0


class Seen:
    """What `Asking` looks at, and what it asks, without anybody behind it."""

    def __init__(self, memory: Memory) -> None:
        self.now, self.asked = 1000.0, 0
        tree: Any = memory._tree
        self.table, self.cell = tree.sessions.table, memory._cell
        self.asking = asking.Asking(
            self.cell, self.table, tree.clients, self._submit, lambda: self.now, jitter=lambda: 0.5
        )

    def _submit(self, coroutine: Any) -> Any:
        coroutine.close()
        self.asked += 1

    def over(self, seconds: int) -> int:
        """How often it asked in a time in which nothing else happened."""
        before = self.asked
        for _ in range(seconds):
            self.now += 1.0
            self.asking.look()
        return self.asked - before


def test_it_is_asked_seldom_and_seldomer_never_beside_reads_and_at_once_when_the_settings_change(
    make: MakeMemory,
) -> None:
    seen = Seen(make("http://127.0.0.1:9"))
    assert seen.over(1000) == 0, "nothing is wrong"
    for failed in range(1, 200):
        seen.table.failed_reads = failed
        assert seen.over(3) == 0, "somebody reads"
    assert seen.over(31) == 1
    assert seen.over(3600) <= 3600 / asking.MOST + 4
    seen.cell.publish(type(seen.cell.current)(base_url="http://127.0.0.1:10", state_dir=seen.cell.current.state_dir))
    assert seen.over(1) == 1
    seen.table.failed_reads = 0
    assert seen.over(1000) == 0


def test_a_delivery_that_lands_while_somebody_is_forgotten_leaves_nothing_of_them(
    make: MakeMemory, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(server, workspace="lands")
    forget = memory._capture.forget
    settings = memory.settings
    realm = Realm(settings.server_id, names.workspace_id("lands"))

    def lands(user: str) -> Any:
        memory._sessions.note_upload(SessionKey(realm, "one", user))
        return forget(user)

    monkeypatch.setattr(memory._capture, "forget", lands)
    assert memory.forget("ines").done
    shown = memory.status().sessions
    assert (shown["sessions"], shown["persons"]) == (0, 0)


def test_it_is_not_done_where_snapshots_can_not_be_reached(make: MakeMemory, server: str, tmp_path: Path) -> None:
    (tmp_path / "cache" / "cache.db").mkdir(parents=True)
    memory = make(server, workspace="unreached")
    assert memory.forget("ines").done is False
