"""What an operator sees of the outbox, and may do to it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from honcho_actors.capture import inspect
from honcho_actors.store import StoreFailed
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, said, texts, turn
from tests.support.shared_faults import faults


def test_what_waits_is_listed_and_what_was_said_is_shown_only_when_asked_for(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        receipt = rig.capture.capture(turn(1))
        receipt.wait("accepted", 30.0)
    path = state / "outbox.db"
    (entry,) = inspect.entries(path)
    assert (entry.batch_id, entry.state, entry.messages, entry.turn_id) == (receipt.batch_id, "accepted", 2, "t1")
    hidden = json.dumps([one.as_dict() for one in inspect.show(path, entry.batch_id)] + list(inspect.export(path)))
    assert "question" not in hidden
    assert [one.text for one in inspect.show(path, entry.batch_id, reveal=True)] == said(1)
    assert [part["text"] for one in inspect.export(path, reveal=True) for part in one["parts"]] == said(1)
    assert inspect.show(path, "not an id") == []


def test_what_was_set_aside_can_be_retried_and_is_delivered_once(honcho: str, workspace: str, state: Path) -> None:
    refusing = [{"fault": "status", "on": ["add_messages"], "status": 422}]
    with (
        faults(honcho, refusing) as proxy,
        Rig(state, proxy.url, workspace=workspace) as rig,
    ):
        rig.capture.capture(turn(1))
        assert rig.capture.flush(30.0)
        path = state / "outbox.db"
        (entry,) = inspect.entries(path)
        assert (entry.state, entry.reason, entry.messages) == ("set_aside", "status_422", 2)
        proxy.plan([])
        assert inspect.retry(path, entry.batch_id) == 2
        assert inspect.retry(path) == 0
        with Rig(state, proxy.url, workspace=workspace) as rig:
            assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(1)
    assert inspect.entries(path) == []
    assert [entry.state for entry in inspect.entries(path, states=frozenset({"delivered"}))] == ["delivered"]


def test_what_is_retried_from_outside_is_noticed_by_the_running_process(
    honcho: str, workspace: str, state: Path
) -> None:
    refusing = [{"fault": "status", "on": ["add_messages"], "status": 422}]
    with faults(honcho, refusing) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        rig.capture.capture(turn(1))
        assert rig.capture.flush(30.0)
        proxy.plan([])
        assert inspect.retry(state / "outbox.db") == 2
        assert until(lambda: rig.capture.status().get("delivered") == 2, 30.0)
    assert texts(honcho, "s", workspace) == said(1)


def test_an_absent_file_is_said_so(tmp_path: Path) -> None:
    for call in (inspect.entries, inspect.retry):
        with pytest.raises(StoreFailed):
            call(tmp_path / "outbox.db")
    assert not (tmp_path / "outbox.db").exists()


def test_a_broken_file_is_left_to_its_owner_who_takes_over_what_can_be_read(state: Path) -> None:
    with Rig(state, None) as rig:
        for number in range(100):
            last = rig.capture.capture(turn(number, answer="z" * 2_000))
        last.wait("accepted", 20.0)
    path = state / "outbox.db"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    with contextlib.suppress(StoreFailed):
        inspect.retry(path)
    assert path.read_bytes()[:16] == data[:16]
    assert not list(state.glob("outbox.corrupt-*"))
    with Rig(state, None) as rig:
        assert until(lambda: rig.capture.status().get("pending_turns", 0) > 50, 20.0)


def test_a_file_of_a_later_version_or_of_somebody_else_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    for pragma in ("application_id=7", "application_id=0x48414f42; PRAGMA user_version=99"):
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.executescript(f"PRAGMA {pragma}; CREATE TABLE IF NOT EXISTS t(a);")
        with pytest.raises(StoreFailed):
            inspect.retry(path)
