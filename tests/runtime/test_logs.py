"""What the library logs: on `logging` alone, with an `event` for machines, and nothing that anybody wrote or is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from honcho_actors import Turn, TurnRequest
from honcho_actors.model import Cause
from honcho_actors.runtime import HealthChange
from tests.runtime.conftest import MakeMemory
from tests.runtime.test_degraded import causes
from tests.support.memory_world import Server, until

WORDS = "a clinker dinghy from 1963 in an unheated shed"
PERSON = "ines-of-the-harbour"
CONVERSATION = "telegram-group-4711"
KEY = "key-" + "l" * 24


def test_every_line_has_an_event_and_no_word_name_or_key_and_stdout_stays_empty(
    make: MakeMemory,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """At DEBUG, through an outage, a rejected key, dead actors, a broken outbox, wrong settings and a bad callback."""
    caplog.set_level(logging.DEBUG)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "outbox.db").write_bytes(b"this is no database" * 300)
    with Server() as server:
        server.remote.statuses.update({"session_context": 500, "peer_context": 401})
        memory = make(server.url, api_key=KEY, search_limit="soon", admin_port=0, state_dir=state)

        def spoils(change: HealthChange) -> None:
            raise ValueError(WORDS)

        memory.on_health(spoils)
        for number in range(6):
            asked = TurnRequest(session_key=f"{CONVERSATION}-{number}", user=f"{PERSON}-{number}", query=WORDS)
            memory.context(asked, 5.0)
            memory.capture(Turn(f"{CONVERSATION}-{number}", f"{PERSON}-{number}", WORDS, WORDS))
        until(lambda: Cause.BREAKER_OPEN in causes(memory))
        manager = memory._sessions.table.manager
        assert manager is not None
        generation = memory.status().sessions["generation"]
        manager.kill()
        until(lambda: memory.status().sessions["generation"] > generation)
        until(lambda: any("callback for the health" in record.getMessage() for record in caplog.records))
        memory.close(2.0)
    ours = [record for record in caplog.records if record.name.startswith("honcho_actors")]
    assert len({record.name for record in ours}) >= 3
    assert [record.getMessage() for record in ours if not hasattr(record, "event")] == []
    shown = caplog.text + repr([vars(record) for record in ours])
    for hidden in (WORDS, "dinghy", PERSON, CONVERSATION, KEY):
        assert hidden not in shown, hidden
    assert capfd.readouterr().out == ""
    warned = [record.getMessage() for record in ours if record.levelno >= logging.WARNING]
    assert len(warned) == len(set(warned)), "one line for a condition"
