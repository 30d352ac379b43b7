"""Scopes are never widened, rotations never mixed, files are private (field cases 64, 74, 75, 78), through a running
`Memory`."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.local.process import start
from honcho_actors.model import ReceiptState
from tests.privacy.relay import Relay


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start(tmp_path_factory.mktemp("honcho")) as running:
        yield running.url


def memory_on(url: str, tmp_path: Path, **more: Any) -> Memory:
    return Memory.start(Settings(base_url=url, state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **more))


@pytest.mark.parametrize("scope", ["session", "agent", "workspace", "everything", None])
@pytest.mark.parametrize("key", [None, "", "   ", [], 7])
def test_case_74_a_scope_without_its_key_is_empty_and_asks_nobody(
    server: str, tmp_path: Path, scope: Any, key: Any
) -> None:
    with Relay(server) as relay, memory_on(relay.url, tmp_path) as memory:
        assert memory.search("anything at all", scope, key) == ()
        assert relay.requests() == []


def searched(relay: Relay) -> list[str]:
    """The sessions that were searched, in the order of the requests."""
    return [target.split("/")[-2] for _, target, _ in relay.requests() if target.endswith("/search")]


@pytest.mark.parametrize("key", ["nobody-was-here", " quiet", "quiet ", "QUIET", "other/quiet", "x" * 500])
def test_case_74_a_conversation_that_nothing_here_knows_is_empty_and_asks_nobody(
    server: str, tmp_path: Path, key: str
) -> None:
    with Relay(server) as relay, memory_on(relay.url, tmp_path, workspace="case74") as memory:
        memory.capture(Turn("quiet", "ana", "the lighthouse in winter", None))
        assert memory.flush(30.0)
        assert memory.search("lighthouse", "session", key) == ()
        assert searched(relay) == []


def test_case_74_a_conversation_is_known_by_its_turn_alone_and_by_its_delivery_alone_and_over_a_restart(
    server: str, tmp_path: Path
) -> None:
    with Relay(server) as relay:
        with memory_on(relay.url, tmp_path, workspace="case74b", recall_mode="tools") as memory:  # no turn is tabled
            memory.capture(Turn("told", "ana", "the lighthouse in winter", None))
            assert memory.flush(30.0)
            assert [hit.text for hit in memory.search("lighthouse", "session", "told")] == ["the lighthouse in winter"]
        with memory_on(relay.url, tmp_path, workspace="case74b", recall_mode="tools") as memory:
            assert len(memory.search("lighthouse", "session", "told")) == 1
        assert searched(relay) == ["told", "told"]
        with memory_on(relay.url, tmp_path / "new", workspace="case74b", save_messages=False) as memory:
            assert memory.search("lighthouse", "session", "told") == ()
            assert searched(relay) == ["told", "told"]
            memory.context(TurnRequest("told", user="ana", query="what about the lighthouse?"))
            assert len(memory.search("lighthouse", "session", "told")) == 1
        with memory_on(relay.url, tmp_path, workspace="another") as memory:
            assert memory.search("lighthouse", "session", "told") == ()
        assert searched(relay) == ["told", "told", "told"]


@pytest.mark.parametrize("hold", [{"audience": "shared"}, {"partition": "house"}])
def test_case_74_a_shared_room_and_another_partition_do_not_make_a_private_conversation_known(
    server: str, tmp_path: Path, hold: dict[str, Any]
) -> None:
    with Relay(server) as relay, memory_on(relay.url, tmp_path, workspace="case74c") as memory:
        memory.capture(Turn("room", "ana", "the lighthouse in winter", None, **hold))
        memory.context(TurnRequest("room", user="ana", **hold))
        assert memory.flush(30.0)
        assert memory.search("lighthouse", "session", "room") == ()
        assert searched(relay) == []


def test_case_74_where_a_key_is_one_persons_another_persons_conversation_does_not_make_it_known(
    server: str, tmp_path: Path
) -> None:
    with (
        Relay(server) as relay,
        memory_on(relay.url, tmp_path, workspace="case74d", session_strategy="global", user_peer="ines") as memory,
    ):
        memory.capture(Turn("talk", "ana", "the lighthouse in winter", None))
        assert memory.flush(30.0)
        assert memory.search("lighthouse", "session", "talk") == ()
        assert searched(relay) == []
        memory.capture(Turn("talk", "ines", "the lighthouse in spring", None))
        assert memory.flush(30.0)
        assert {hit.text for hit in memory.search("lighthouse", "session", "talk")} == {"the lighthouse in spring"}


def test_case_75_a_search_carries_its_scope_and_finds_only_that(server: str, tmp_path: Path) -> None:
    with Relay(server) as relay, memory_on(relay.url, tmp_path, workspace="case75") as memory:
        for number in range(120):
            memory.capture(Turn("crowd", "ana", f"the lighthouse keeper number {number}", None))
        for number in range(3):
            memory.capture(Turn("quiet", "ana", f"the lighthouse in winter {number}", None))
        assert memory.flush(30.0)
        found = memory.search("lighthouse", "session", "quiet", limit=10)
        assert {hit.text for hit in found} == {f"the lighthouse in winter {number}" for number in range(3)}
        assert {hit.session for hit in found} == {"quiet"}
        searches = [target for _, target, _ in relay.requests() if target.endswith("/search")]
        assert searches == ["/v3/workspaces/case75/sessions/quiet/search"]


def test_case_64_what_was_queued_for_one_conversation_goes_there_after_a_switch_to_another(
    server: str, tmp_path: Path
) -> None:
    with Relay(server) as relay, memory_on(relay.url, tmp_path, workspace="case64", settle_time=0.2) as memory:
        relay.say(503, b"{}")
        for number in range(3):
            memory.capture(Turn("first", "ana", f"to the first {number}", None))
        last = [memory.capture(Turn("second", "ana", f"to the second {number}", None)) for number in range(2)]
        assert last[-1].wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.ACCEPTED
        relay.pass_on()
        assert memory.flush(40.0)
        sent: dict[str, list[str]] = {}
        for _, target, body in relay.requests():
            if target.endswith("/messages"):
                texts = [message["content"] for message in json.loads(body)["messages"]]
                sent.setdefault(target.split("/")[-2], []).extend(texts)
    assert {text[:9] for text in sent["first"]} == {"to the fi"}
    assert {text[:9] for text in sent["second"]} == {"to the se"}


@pytest.mark.parametrize("umask", [0o002, 0o000])
def test_case_78_files_are_for_their_owner_alone_whatever_the_umask(server: str, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with memory_on(server, tmp_path, workspace=f"case78-{umask}") as memory:
            memory.capture(Turn("room", "ana", "hello", "hello")).wait(ReceiptState.DELIVERED, 30.0)
            found = {
                path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if "home" not in path.parts
            }
    finally:
        os.umask(before)
    ours = {path: mode for path, mode in found.items() if {"state", "cache"} & set(path.parts)}
    assert any(path.suffix == ".db" for path in ours)
    assert {mode for path, mode in ours.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in ours.items() if path.is_file()} == {0o600}


def test_an_opt_out_after_a_yes_holds_at_the_next_turn_and_after_a_restart(server: str, tmp_path: Path) -> None:
    with memory_on(server, tmp_path, workspace="optout") as memory:
        assert (
            memory.capture(Turn("room", "ana", "yes", None)).wait(ReceiptState.DELIVERED, 30.0)
            is ReceiptState.DELIVERED
        )
        memory.opt_out("room")
        after = memory.capture(Turn("room", "ana", "no more", None))
        assert after.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        assert after.reason == "opted_out"
        other = memory.capture(Turn("other", "ana", "still here", None))
        assert other.wait(ReceiptState.ACCEPTED, 30.0) is not ReceiptState.SKIPPED
    with memory_on(server, tmp_path, workspace="optout") as memory:
        assert memory.capture(Turn("room", "ana", "no", None)).wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        memory.opt_in("room")
        back = memory.capture(Turn("room", "ana", "again", None))
        assert back.wait(ReceiptState.ACCEPTED, 30.0) is not ReceiptState.SKIPPED


def test_forgetting_a_person_leaves_none_of_their_words_in_any_file_and_others_untouched(tmp_path: Path) -> None:
    with memory_on("http://127.0.0.1:9", tmp_path, first_turn_wait=0.05) as memory:
        for number in range(20):
            for person in ("ana", "bob"):
                turn = Turn(
                    f"{person}-room", person, f"{person}word{number:03} was said here", f"heard {person}word{number:03}"
                )
                assert memory.capture(turn).wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.ACCEPTED
        gone = memory.forget("ana")
        assert gone.done
        assert gone.undelivered_turns == 20
        assert "ana" in gone.remains
    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
    assert b"anaword" not in kept
    assert kept.count(b"bobword") >= 20
