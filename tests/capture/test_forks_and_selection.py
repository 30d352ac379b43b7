"""Forks by copy, read-only, opting out, forgetting, presets, and whose rows go where."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.capture.importer import import_files
from honcho_actors.honcho.client import HonchoClient
from honcho_actors.model import ReceiptState
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, said, stored, texts, turn
from tests.support.shared_faults import faults
from tests.support.stopwatch import Stopwatch


def rows(state: Path, query: str) -> list[Any]:
    reader = sqlite3.connect(state / "outbox.db")
    try:
        return reader.execute(query).fetchall()
    finally:
        reader.close()


def member(url: str, workspace: str, session: str, peer: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/v3/workspaces/{workspace}/sessions/{session}/peers/{peer}/config", timeout=30) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


# -- forks -------------------------------------------------------------------------------------------------------------


def test_a_fork_copies_the_parent_up_to_the_turn_once_and_before_what_the_child_says(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        for number in range(4):
            rig.capture.capture(turn(number, "parent"))
        assert rig.capture.flush(30.0)
        rig.capture.fork("parent", "child", at="t2")
        rig.capture.capture(turn(50, "child"))
        assert rig.capture.flush(30.0)
        rig.capture.capture(turn(51, "child"))
        assert rig.capture.flush(30.0)
    assert texts(honcho, "child", workspace) == said(0, 1, 2, 50, 51)
    copied = stored(honcho, "child", workspace)[:6]
    parent = stored(honcho, "parent", workspace)
    assert [message["metadata"]["copied_from"] for message in copied] == [message["id"] for message in parent[:6]]
    assert len({message["metadata"]["fork"] for message in copied}) == 1
    assert [message["metadata"]["position"] for message in copied] == list(range(6))
    assert [message["created_at"] for message in copied] == [message["created_at"] for message in parent[:6]]
    assert [message["peer_id"] for message in copied] == ["user", "assistant"] * 3


def test_copied_messages_are_sent_with_derivation_switched_off(honcho: str, workspace: str, state: Path) -> None:
    sent: list[Any] = []

    class Watched:
        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, name: str) -> Any:
            return getattr(self._client, name)

        async def add_messages(self, workspace: str, session: str, messages: Any, call: Any) -> Any:
            sent.extend((session, message.text.text, message.reasoning) for message in messages)
            return await self._client.add_messages(workspace, session, messages, call)

    with Rig(state, honcho, workspace=workspace, wrap=Watched) as rig:
        rig.capture.capture(turn(1, "parent"))
        rig.capture.flush(30.0)
        rig.capture.fork("parent", "child", at="t1")
        rig.capture.capture(turn(2, "child"))
        assert rig.capture.flush(30.0)
    assert [reasoning for session, _, reasoning in sent if session == "child"] == [False, False, True, True]
    assert all(reasoning for session, _, reasoning in sent if session == "parent")


def test_the_childs_first_delivery_waits_for_the_parents_turns_up_to_the_fork(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        proxy.down()
        for number in range(3):
            rig.capture.capture(turn(number, "parent"))
        rig.capture.fork("parent", "child", at="t1")
        rig.capture.capture(turn(9, "child")).wait("accepted", 30.0)
        proxy.up()
        assert rig.capture.flush(20.0)
    assert texts(honcho, "child", workspace) == said(0, 1, 9)
    assert texts(honcho, "parent", workspace) == said(0, 1, 2)


def test_a_fork_of_250_messages_survives_a_lost_acknowledgement_of_its_copy(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        for number in range(125):
            rig.capture.capture(turn(number, "parent"))
        assert rig.capture.flush(20.0)
        proxy.plan([{"fault": "commit_then_drop", "on": ["add_messages"], "times": 2}])
        rig.capture.fork("parent", "child")
        rig.capture.capture(turn(500, "child"))
        assert rig.capture.flush(20.0)
    assert texts(honcho, "child", workspace) == said(*range(125), 500)


def test_a_fork_without_record_anchor_or_content_starts_fresh_and_says_why(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1, "parent"))
        rig.capture.flush(30.0)
        rig.capture.fork("nobody", "a", at="t1")
        rig.capture.fork("parent", "b", at="no such turn")
        rig.capture.opt_out("unused")
        rig.capture.fork("b", "c")
        for child in "abc":
            rig.capture.capture(turn(2, child))
        assert rig.capture.flush(30.0)
    for child in "ab":
        assert texts(honcho, child, workspace) == said(2)
    found = rows(
        state, "SELECT c.session, f.state, f.reason FROM fork f JOIN conversation c ON c.id=f.child ORDER BY 1"
    )
    assert found[:2] == [("a", "fresh", "no_record"), ("b", "fresh", "no_anchor")]
    assert found[2][1:] == ("fresh", "parent_empty")


def test_a_fork_needs_no_user_where_every_turn_must_name_one(honcho: str, workspace: str, state: Path) -> None:
    with Rig(state, honcho, workspace=workspace, require_user=True) as rig:
        rig.capture.capture(turn(1, "parent", user="ann"))
        rig.capture.fork("parent", "child", at="t1")
        rig.capture.capture(turn(2, "child", user="ann"))
        assert rig.capture.flush(30.0)
    assert texts(honcho, "child", workspace) == said(1, 2)


def test_a_fork_of_a_fork_has_the_whole_history(honcho: str, workspace: str, state: Path) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1, "a"))
        rig.capture.fork("a", "b", at="t1")
        rig.capture.capture(turn(2, "b"))
        rig.capture.fork("b", "c", at="t2")
        rig.capture.capture(turn(3, "c"))
        assert rig.capture.flush(20.0)
    assert texts(honcho, "c", workspace) == said(1, 2, 3)


# -- read-only and selection -------------------------------------------------------------------------------------------


def test_read_only_fences_what_is_queued_creates_nothing_and_keeps_everything(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, None, workspace=workspace) as rig:
        rig.capture.capture(turn(1)).wait("accepted", 30.0)
        rig.change(base_url=proxy.url, save_messages=False)
        receipt = rig.capture.capture(turn(2))
        assert (receipt.state, receipt.reason) == (ReceiptState.SKIPPED, "read_only")
        rig.capture.fork("s", "child")
        began = Stopwatch()
        assert rig.capture.flush(20.0) is False  # nothing is sent: there is nothing to wait for
        assert began.seconds < 10.0
        time.sleep(1.2)
        assert not proxy.requests()
        assert rig.capture.status()["pending_turns"] == 1
        rig.change(save_messages=True)
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(1)


def test_read_only_that_begins_in_a_backlog_stops_before_the_next_request(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        for number in range(300):
            last = rig.capture.capture(turn(number))
        last.wait("accepted", 30.0)
    slow = [{"fault": "latency", "on": ["add_messages"], "delay": 0.5}]
    with faults(honcho, slow) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        assert until(lambda: proxy.requests().get("add_messages", 0) >= 1)
        rig.change(save_messages=False)
        begun = proxy.requests()["add_messages"]
        assert until(lambda: rig.capture.status()["waiting"] == {"read_only": 1})
        assert proxy.requests()["add_messages"] <= begun + 1
    assert len(texts(honcho, "s", workspace)) in (100, 200)


def test_opting_out_is_effective_for_what_is_captured_from_then_on_and_survives_a_restart(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1))
        rig.capture.opt_out("s")
        out = rig.capture.capture(turn(2))
        assert out.wait("accepted", 30.0) is ReceiptState.SKIPPED
        assert out.reason == "opted_out"
        assert rig.capture.capture(turn(2, "other")).wait("accepted", 30.0) is not ReceiptState.SKIPPED
    with Rig(state, honcho, workspace=workspace) as rig:
        assert rig.capture.capture(turn(3)).wait("accepted", 30.0) is ReceiptState.SKIPPED
        rig.capture.opt_in("s")
        rig.capture.capture(turn(4))
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(1, 4)


def test_forgetting_a_person_removes_their_rows_and_names_what_remains(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        rig.capture.capture(turn(1, "ann-1", user="ann"))
        rig.capture.capture(turn(1, "bob-1", user="bob"))
        assert rig.capture.flush(30.0)
        proxy.down()
        rig.capture.capture(turn(2, "ann-1", user="ann", prompt="a secret of ann's")).wait("accepted", 30.0)
        rig.capture.capture(turn(2, "bob-1", user="bob")).wait("accepted", 30.0)
        gone = rig.capture.forget("ann")
        assert (gone.done, gone.undelivered_turns, gone.remembered_turns) == (True, 1, 1)
        assert len(gone.remote_sessions) == 1
        for path in state.glob("outbox.db*"):
            assert b"a secret of ann's" not in path.read_bytes()
        proxy.up()
        assert rig.capture.flush(30.0)
    assert rows(state, "SELECT count(*) FROM batch WHERE user='ann'") == [(0,)]
    ann = gone.remote_sessions[0]
    assert texts(honcho, ann, workspace) == said(1)


class InLine:
    """The client, with a line in front of it: what stands there is asked once more whether it is wanted."""

    def __init__(self, client: HonchoClient, meanwhile: Callable[[], object]) -> None:
        self._client = client
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def add_messages(self, *given: Any) -> Any:
        thread = threading.Thread(target=self._meanwhile)
        thread.start()
        while thread.is_alive():  # noqa: ASYNC110 (a thread sets it)
            await asyncio.sleep(0.01)
        return await self._client.add_messages(*given)


@pytest.mark.parametrize("event", ["read-only begins", "somebody is forgotten"])
def test_a_delivery_that_stands_in_line_is_not_made_after(event: str, honcho: str, workspace: str, state: Path) -> None:
    happened: list[str] = []

    def meanwhile() -> None:
        if not happened:
            happened.append(event)
            if event == "somebody is forgotten":
                assert rig.capture.forget("ann").done
            else:
                rig.change(save_messages=False)

    with Rig(state, honcho, workspace=workspace, wrap=lambda client: InLine(client, meanwhile)) as rig:
        rig.capture.capture(turn(1, user="ann"))
        rig.capture.capture(turn(2, user="bob")).wait("accepted", 20.0)
        assert until(lambda: bool(happened), 20.0)
        if event == "read-only begins":
            assert until(lambda: rig.capture.status()["waiting"] == {"read_only": 1}, 20.0)
            assert texts(honcho, "s", workspace) == []
            rig.change(save_messages=True)
        assert rig.capture.flush(20.0)
    assert texts(honcho, "s", workspace) == (said(2) if event == "somebody is forgotten" else said(1, 2))


def test_who_was_forgotten_and_comes_back_is_not_put_into_the_conversation_of_somebody_else(
    honcho: str, workspace: str, state: Path
) -> None:
    """The row number of ann's conversation is given out again: what was remembered of it leads to bob's."""
    with Rig(state, honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1, "ann-1", user="ann"))
        assert rig.capture.forget("ann").done
        rig.capture.capture(turn(7, "bob-1", user="bob"))
        rig.capture.capture(turn(2, "ann-1", user="ann"))
        assert rig.capture.flush(20.0)
    assert texts(honcho, "bob-1", workspace) == said(7)
    assert texts(honcho, "ann-1", workspace) == said(2)


# -- where it goes -----------------------------------------------------------------------------------------------------


def test_what_was_said_before_there_was_a_server_stands_before_what_is_said_after(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        for number in (1, 3, 5):
            rig.change(base_url=None)
            rig.capture.capture(turn(number)).wait("accepted", 20.0)
            rig.change(base_url=honcho)
            rig.capture.capture(turn(number + 1)).wait("delivered", 20.0)
        rig.capture.capture(turn(7, "other"))
        assert rig.capture.flush(20.0)
    assert texts(honcho, "s", workspace) == said(1, 2, 3, 4, 5, 6)
    assert texts(honcho, "other", workspace) == said(7)


def test_a_turn_that_is_captured_again_once_there_is_a_server_is_the_same_turn(
    honcho: str, workspace: str, state: Path, tmp_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "hi"}), "utf-8")
    with Rig(state, None, workspace=workspace) as rig:
        first = rig.capture.capture(turn(1))
        assert import_files(rig.capture, [path]).accepted == 1
        rig.change(base_url=honcho)
        again = rig.capture.capture(turn(1))
        assert again.wait("delivered", 20.0) is ReceiptState.DELIVERED
        assert (again.batch_id, again.repeated) == (first.batch_id, True)
        assert import_files(rig.capture, [path]).known == 1
        assert rig.capture.flush(20.0)
    assert texts(honcho, "s", workspace) == said(1)
    assert texts(honcho, "talk", workspace) == ["hi"]
    with Rig(state, honcho, workspace=workspace) as rig:
        rows_of_imports = rows(state, "SELECT count(*) FROM imported")
        sqlite3.connect(state / "outbox.db", isolation_level=None).execute("DELETE FROM batch").connection.close()
        assert import_files(rig.capture, [path]).known == 1, "for ever, whatever the ledger has forgotten"
    assert rows_of_imports == [(2,)]


def test_members_are_established_with_their_preset_before_the_first_message(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        rig.capture.capture(turn(1))
        assert rig.capture.flush(30.0)
    for peer in ("user", "assistant"):
        assert member(honcho, workspace, "s", peer) == {"observe_me": True, "observe_others": True}
    with Rig(state, honcho, workspace=workspace, observation_mode="unified") as rig:
        rig.capture.capture(turn(1, "unified"))
        assert rig.capture.flush(30.0)
    assert member(honcho, workspace, "unified", "user") == {"observe_me": True, "observe_others": False}
    assert member(honcho, workspace, "unified", "assistant") == {"observe_me": False, "observe_others": True}


def test_a_member_that_another_tool_made_without_flags_is_mended(honcho: str, workspace: str, state: Path) -> None:
    with Rig(state / "other", honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1))
        assert rig.capture.flush(30.0)
    body = json.dumps({"observe_me": None, "observe_others": None}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for peer in ("user", "assistant"):
        url = f"{honcho}/v3/workspaces/{workspace}/sessions/s/peers/{peer}/config"
        headers = {"content-type": "application/json"}
        opener.open(urllib.request.Request(url, data=body, method="PUT", headers=headers), timeout=30).close()
    with Rig(state / "ours", honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(2))
        assert rig.capture.flush(30.0)
    assert member(honcho, workspace, "s", "assistant") == {"observe_me": True, "observe_others": True}


def test_a_second_person_who_joins_a_conversation_is_established_before_they_speak(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        shared = {"audience": "shared"}
        rig.capture.capture(turn(1, "group", user="ann", **shared))
        rig.capture.capture(turn(2, "group", user="bob", **shared))
        assert rig.capture.flush(30.0)
        session = rows(state, "SELECT session FROM conversation")
    assert len(session) == 1
    messages = stored(honcho, session[0][0], workspace)
    assert [message["content"] for message in messages] == said(1, 2)
    assert len({message["peer_id"] for message in messages}) == 3


def test_rows_go_to_the_workspace_and_server_for_which_they_were_captured(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, "http://127.0.0.1:9", workspace=workspace) as rig:
        rig.capture.capture(turn(1)).wait("accepted", 30.0)
        rig.change(base_url=honcho, workspace=f"{workspace}-b")
        rig.capture.capture(turn(2)).wait("delivered", 30.0)
        assert until(lambda: rig.capture.status()["waiting"] == {"other_server": 1})
        rig.change(workspace=f"{workspace}-c")
        rig.capture.capture(turn(3)).wait("delivered", 30.0)
    assert texts(honcho, "s", workspace) == []
    assert texts(honcho, "s", f"{workspace}-b") == said(2)
    assert texts(honcho, "s", f"{workspace}-c") == said(3)


def test_the_same_turn_twice_is_one_batch_and_the_same_words_twice_are_two(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        first = rig.capture.capture(turn(1))
        again = rig.capture.capture(turn(1))
        assert first.batch_id == again.batch_id
        assert rig.capture.flush(30.0)
        late = rig.capture.capture(turn(1))
        assert late.wait("delivered", 30.0) is ReceiptState.DELIVERED
        for _ in range(2):
            rig.capture.capture(turn(2, turn_id=None))
        assert rig.capture.flush(30.0)
    with Rig(state, honcho, workspace=workspace) as rig:
        assert rig.capture.capture(turn(1)).wait("delivered", 30.0) is ReceiptState.DELIVERED
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(1, 2, 2)
