"""Whose call it is, which gate answers, where it looks: TC1 to TC26 of the original's table, and the one door for
adapters."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Settings, ToolResult, Turn, TurnRequest
from honcho_actors.host.crew import Crew
from honcho_actors.privacy import identity, names
from honcho_actors.privacy.identity import Identity
from honcho_actors.satellite.locating import MOST_LOOKS, Locating
from honcho_actors.satellite.tools import Outcome, ToolError
from honcho_actors.satellite.tools.arguments import Arguments
from honcho_actors.satellite.tools.gates import Asker, admit, may_write
from honcho_actors.satellite.tools.toolbox import ALIASES as ALIAS_DEFINITIONS
from honcho_actors.satellite.tools.toolbox import TOOLS
from honcho_actors.sessions.facade import MANAGER
from tests.satellite.test_tools_calls import usual
from tests.support.memory_world import until
from tests.support.tools_rig import ALIASES, FIVE, GOOD, Stub, counted, runtime, tool, use

URL = "http://127.0.0.1:9"
READS = {name: GOOD[name] for name in FIVE}
WRITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("honcho_profile", {"card": ["Name: Ines"]}),
    ("honcho_conclude", {"conclusion": "Likes rain."}),
    ("honcho_conclude", {"delete_id": "f1"}),
    ("honcho_remember", {"content": "Likes rain."}),
)


@pytest.fixture(scope="module")
def _running() -> Iterator[Stub]:
    with Stub(usual) as stub:
        yield stub


@pytest.fixture
def stub(_running: Stub) -> Iterator[Stub]:
    _running.script = usual
    _running.seen.clear()
    yield _running
    _running.script = usual


@pytest.fixture(scope="module")
def memory(_running: Stub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with runtime(tmp_path_factory.mktemp("plumbing"), _running.url, recall_mode="tools") as running:
        yield running


def settled(**changed: Any) -> Settings:
    return Settings(**{"base_url": URL, "workspace": "w", **changed})


def admitted(request: Any, *, off: bool = False, **changed: Any) -> Asker | ToolError | None:
    """The asker, or the reason why there is none."""
    found = admit(settled(**changed), request, off=off)
    return found if isinstance(found, Asker) else found.error


def asker(request: TurnRequest, **changed: Any) -> Asker:
    found = admitted(request, **changed)
    assert isinstance(found, Asker)
    return found


SAID = TurnRequest(session_key="s", user="ines")


class TestGates:
    @pytest.mark.parametrize(
        ("changed", "error"),
        [
            pytest.param({"base_url": None}, ToolError.NOT_CONFIGURED, id="TC1"),
            pytest.param({"enabled": False, "api_key": "hch-key-of-a-test"}, ToolError.NOT_CONFIGURED, id="TC2"),
            pytest.param({"recall_mode": "context"}, ToolError.CONTEXT_MODE, id="TC3"),
        ],
    )
    def test_a_closed_gate_refuses_reads_and_writes(
        self, stub: Stub, tmp_path: Path, changed: dict[str, Any], error: ToolError
    ) -> None:
        assert admitted(SAID, **changed) is error
        url = changed.pop("base_url", stub.url)
        with runtime(tmp_path, url, recall_mode="tools") as memory:
            tools = {one.name: one for one in memory.tools()}
            memory._cell.publish(Settings(**{"base_url": url, "workspace": "w", **changed}))
            for name, args in (*READS.items(), *WRITES):
                found = tools[name].call(args, SAID)
                assert (found.error, found.outcome) == (error, Outcome.REFUSED)
        assert stub.seen == []

    def test_tc4_with_uploads_off_a_write_is_refused_and_a_read_is_let_through(
        self, stub: Stub, tmp_path: Path
    ) -> None:
        with runtime(tmp_path, stub.url, save_messages=False, recall_mode="tools") as memory:
            for name, args in WRITES:
                assert use(memory, name, args).error is ToolError.READ_ONLY
            assert stub.seen == []
            for name, args in READS.items():
                assert use(memory, name, args).error is None
            assert stub.seen != []

    def test_tc5_open_gates_let_both_through(self, memory: Memory, stub: Stub) -> None:
        assert may_write(settled()) is None
        for name, args in (*READS.items(), *WRITES[:2]):
            assert use(memory, name, args).error is None

    @pytest.mark.parametrize(
        ("changed", "request_", "error"),
        [
            ({"enabled": False, "recall_mode": "context", "save_messages": False}, None, ToolError.NOT_CONFIGURED),
            ({"recall_mode": "context", "save_messages": False}, None, ToolError.CONTEXT_MODE),
            ({"save_messages": False}, TurnRequest(scope="subagent", audience="shared"), ToolError.SUBAGENT),
            ({"save_messages": False}, TurnRequest(audience="shared"), ToolError.SHARED_AUDIENCE),
            ({"save_messages": False}, TurnRequest(user=" "), ToolError.NO_SESSION),
            ({"save_messages": False}, TurnRequest("s", user=" "), ToolError.NO_IDENTITY),
        ],
    )
    def test_tc6_the_outermost_reason_is_reported(
        self, changed: dict[str, Any], request_: TurnRequest | None, error: ToolError
    ) -> None:
        assert admitted(request_, **changed) is error
        assert admitted(request_, off=True, **changed) is ToolError.OFF

    def test_tc7_what_does_not_say_that_it_writes_is_a_read(self) -> None:
        writing = set()
        for one in (*TOOLS, *ALIAS_DEFINITIONS):
            for name, args in ((one.name, GOOD[one.name]), *WRITES):
                if name == one.name:
                    work = one.plan(args, settled())
                    assert not isinstance(work, ToolResult)
                    if work.writes:
                        writing.add((name, *args))
        assert writing == {(name, *args) for name, args in WRITES}


class TestWhose:
    @pytest.mark.parametrize(
        ("request_", "key"),
        [
            pytest.param(TurnRequest("a", "b", "/c", user="ines"), "a", id="TC8 session_key first"),
            pytest.param(TurnRequest(None, "b", "/c", user="ines"), "b", id="TC9 session_id next"),
            pytest.param(TurnRequest(None, None, "/c", user="ines"), "/c", id="TC10 cwd last"),
            pytest.param(TurnRequest("  ", "b", "/c", user="ines"), "b", id="TC12 blank is skipped"),
            pytest.param(TurnRequest("", " ", "/c", user="ines"), "/c", id="TC12 blanks are skipped"),
            pytest.param(TurnRequest(7, "b", user="ines"), "b", id="TC13 no text"),  # type: ignore[arg-type]
        ],
    )
    def test_the_conversation_is_the_first_that_is_named(self, request_: TurnRequest, key: str) -> None:
        assert asker(request_).identity.session.key == key

    @pytest.mark.parametrize("request_", [TurnRequest(user="ines"), TurnRequest(" ", "", "\n", user="ines"), None, "s"])
    def test_tc11_tc16_tc19_new_value_without_a_conversation_there_is_no_asker(self, request_: Any) -> None:
        # The original gave the configured pair and a name derived from nothing; a call that belongs nowhere is refused.
        assert admitted(request_) is ToolError.NO_SESSION

    @pytest.mark.parametrize(("value", "there"), [("x", True), (" x ", True), ("我", True)])
    def test_tc14_a_text_that_is_not_blank_is_present(self, value: str, there: bool) -> None:
        arguments = Arguments({"query": value}, ("query",))
        assert (arguments.has("query"), arguments.string("query") != "") == (there, there)

    @pytest.mark.parametrize("value", ["", "  ", "\n\t"])
    def test_tc15_a_blank_one_is_absent(self, value: str) -> None:
        assert Arguments({"query": value}, ("query",)).string("query") == ""
        assert not Arguments({"query": None}, ("query",)).has("query")

    def test_tc17_an_unknown_conversation_has_the_asking_person_and_the_configured_assistant(self) -> None:
        found = asker(TurnRequest("never seen"), user_peer="me", ai_peer="helper").identity
        assert (found.user_peer, found.ai_peer) == ("me", "helper")
        named = asker(TurnRequest("never seen", user="ines"), user_peer="me", ai_peer="helper").identity
        assert (named.user_peer, named.ai_peer) == ("ines", "helper")

    @pytest.mark.parametrize("strategy", ["session", "directory", "global"])
    @pytest.mark.parametrize("key", ["plain", "telegram:42/one two", "x" * 300, "!!!", "我的"])
    def test_tc18_the_remote_name_of_a_call_is_that_of_the_turn_and_of_its_capture(
        self, stub: Stub, tmp_path: Path, strategy: str, key: str
    ) -> None:
        settings = settled(session_strategy=strategy)
        turn = identity.resolve(TurnRequest(key, user="ines"), settings)
        capture = identity.resolve(Turn(key, "ines", "x"), settings)
        call = asker(TurnRequest(key, user="ines"), session_strategy=strategy).identity
        assert isinstance(turn, Identity)
        assert isinstance(capture, Identity)
        assert call.remote_session == turn.remote_session == capture.remote_session
        with runtime(tmp_path, stub.url, session_strategy=strategy, recall_mode="tools") as memory:
            use(memory, "honcho_search", {"query": "rain"}, "ines", key)
        assert stub.ops() == [f"POST sessions/{turn.remote_session}/search"]

    def test_tc22_with_the_manager_away_a_call_still_knows_whose_it_is(self, stub: Stub, tmp_path: Path) -> None:
        with runtime(tmp_path, stub.url, recall_mode="tools") as memory:
            tree = memory._tree
            assert tree is not None
            manager = tree.runtime.registry.whereis(MANAGER)
            assert manager is not None
            manager.kill()
            found = use(memory, "honcho_search", {"query": "rain"}, "ines", "never seen")
            assert (found.error, stub.ops()) == (None, [f"POST sessions/{names.session_id('never seen')}/search"])

    def test_tc21_tc25_new_value_there_is_no_latest_conversation_to_fall_back_to(
        self, memory: Memory, stub: Stub
    ) -> None:
        # The original took the conversation that was served last, whoever's it was; TC26 with it.
        use(memory, "honcho_search", {"query": "rain"}, "ines", "served last")
        before = len(stub.seen)
        for name, args in READS.items():
            assert tool(memory, name).call(args, TurnRequest(user="tomasz")).error is ToolError.NO_SESSION
        assert len(stub.seen) == before

    def test_tc23_tc24_a_served_conversation_is_the_calls_own_and_an_unknown_one_stays_itself(
        self, stub: Stub, tmp_path: Path
    ) -> None:
        with runtime(tmp_path, stub.url) as memory:
            memory.context(TurnRequest("served", user="ines", query="does it rain?"), budget=20.0)
            use(memory, "honcho_search", {"query": "rain"}, "ines", "served")
            use(memory, "honcho_search", {"query": "rain"}, "ines", "another")
            found = [one.path.split("/")[-2] for one in stub.seen if one.path.endswith("/search")]
            loaded = {
                one.path.split("/")[-2] for one in stub.seen if "/sessions/" in one.path and "context" in one.path
            }
            assert found == ["served", "another"]
            assert "served" in loaded
            assert "another" not in loaded

    def test_tc20_the_client_is_the_runtimes_own_and_follows_the_server_that_is_set(
        self, stub: Stub, tmp_path: Path
    ) -> None:
        with Stub(usual) as other, runtime(tmp_path, stub.url, recall_mode="tools") as memory:
            assert use(memory, "honcho_search", {"query": "rain"}).error is None
            memory._cell.publish(Settings(base_url=other.url, workspace="w", recall_mode="tools"))
            assert use(memory, "honcho_search", {"query": "rain"}).error is None
            assert (len(stub.seen), len(other.seen)) == (1, 1)


class TestOneDoor:
    def test_the_five_are_shown_and_every_name_is_run(self, memory: Memory) -> None:
        assert [one["function"]["name"] for one in memory.tool_schemas(SAID)] == list(FIVE)
        assert [one["name"] for one in memory.tool_schemas(style="anthropic")] == list(FIVE)
        for shown, one in zip(memory.tool_schemas(SAID), memory.tools(aliases=False), strict=True):
            assert shown["function"]["parameters"] == one.schema
            assert shown["function"]["description"] == one.description
        for name in (*FIVE, *ALIASES):
            found = memory.call_tool(name, json.dumps(GOOD[name]), SAID)
            assert (name, found.error, bool(found.text)) == (name, None, True)

    def test_none_are_shown_to_subagents_to_several_people_and_in_context_mode(
        self, stub: Stub, tmp_path: Path
    ) -> None:
        with runtime(tmp_path, stub.url) as memory:
            assert len(memory.tool_schemas(SAID)) == 5
            assert memory.tool_schemas(TurnRequest("s", user="ines", scope="subagent")) == []
            assert memory.tool_schemas(TurnRequest("s", user="ines", audience="shared")) == []
            memory._cell.publish(Settings(base_url=stub.url, workspace="w", recall_mode="context"))
            assert memory.tool_schemas(SAID) == memory.tool_schemas() == []
            assert memory.call_tool("honcho_search", {"query": "rain"}, SAID).error is ToolError.CONTEXT_MODE
            sub = TurnRequest("s", user="ines", scope="subagent")
            assert memory.call_tool("honcho_search", {"query": "rain"}, sub).error is ToolError.SUBAGENT
            shared = TurnRequest("s", user="ines", audience="shared")
            assert memory.call_tool("honcho_search", {"query": "rain"}, shared).error is ToolError.SHARED_AUDIENCE
        assert stub.seen == []

    @pytest.mark.parametrize("name", ["honcho_nothing", "", None, 7, "Honcho_Search"])
    def test_a_tool_that_there_is_not_is_answered(self, memory: Memory, stub: Stub, name: Any) -> None:
        found = memory.call_tool(name, {}, SAID)
        assert (found.error, found.outcome) == (ToolError.UNKNOWN_TOOL, Outcome.REFUSED)
        assert json.loads(json.dumps(found.details)) == {"outcome": "refused", "error": "unknown_tool"}
        assert stub.seen == []

    @pytest.mark.parametrize("sent", ["{", "not json", "[1, 2]", "7", '"query"', "[" * 50_000, "null null"])
    def test_text_that_is_no_json_object_is_answered_and_nothing_is_sent(
        self, memory: Memory, stub: Stub, sent: str
    ) -> None:
        found = memory.call_tool("honcho_search", sent, SAID)
        assert (found.error, found.outcome) == (ToolError.BAD_ARGUMENT, Outcome.REFUSED)
        assert stub.seen == []

    def test_it_is_awaited_on_a_loop_and_the_sync_form_says_so_there(self, memory: Memory) -> None:
        async def both() -> tuple[ToolResult, ToolResult]:
            return (
                await memory.acall_tool("honcho_context", None, SAID),
                memory.call_tool("honcho_context", None, SAID),
            )

        awaited, blocked = asyncio.run(both())
        assert (awaited.error, blocked.error) == (None, ToolError.EVENT_LOOP)

    def test_without_a_request_a_call_belongs_to_nobody_and_with_the_tree_off_everything_says_so(
        self, memory: Memory
    ) -> None:
        assert memory.call_tool("honcho_context", {}, None).error is ToolError.NO_SESSION
        with Memory.start(Settings(base_url=URL), tree=False) as bare:
            assert bare.call_tool("honcho_context", {}, SAID).error is ToolError.OFF
            assert len(bare.tool_schemas()) == 5

    def test_calls_through_the_door_are_counted_like_any_other(self, memory: Memory, stub: Stub) -> None:
        before = counted(memory, "honcho_search", "ok")
        memory.call_tool("honcho_search", {"query": "rain"}, SAID)
        assert counted(memory, "honcho_search", "ok") == before + 1


class TestLocating:
    def test_with_strategy_repo_a_call_and_a_search_look_at_no_disk_on_an_event_loop(
        self, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked: list[bool] = []
        root = identity.repository_root

        def watched(directory: str) -> str:
            try:
                asyncio.get_running_loop()
                looked.append(True)
            except RuntimeError:
                looked.append(False)
            return root(directory)

        monkeypatch.setattr(identity, "repository_root", watched)
        repo = tmp_path / "repo" / "deep" / "er"
        repo.mkdir(parents=True)
        (tmp_path / "repo" / ".git").mkdir()
        request = TurnRequest(session_key="s", cwd=os.fspath(repo), user="ines")
        with runtime(tmp_path, stub.url, session_strategy="repo", user_peer="ines") as memory:
            memory.context(request, budget=20.0)
            until(lambda: memory.search("rain", "session", "s"))
            expected = identity.locate(
                asker(request, base_url=stub.url, session_strategy="repo", user_peer="ines").identity
            ).remote_session
            looked.clear()
            assert memory.call_tool("honcho_search", {"query": "rain"}, request).error is None
            assert memory.call_tool("honcho_context", {}, request).error is None
            assert memory.call_tool("honcho_conclude", {"conclusion": "Likes rain."}, request).error is None
            memory.search("rain", "session", "s")

            async def on_a_loop() -> None:
                await memory.acall_tool("honcho_search", {"query": "rain"}, request)
                await memory.asearch("rain", "session", "s")

            asyncio.run(on_a_loop())
            assert looked.count(False) >= 6
            assert looked.count(True) == 0
            searched = {one.path.split("/")[-2] for one in stub.seen if one.path.endswith("/search")}
            assert searched == {expected}

    def test_a_disk_that_hangs_costs_the_call_its_time_and_so_many_threads_and_then_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release = threading.Event()

        def hangs(directory: str) -> str:
            release.wait(60.0)
            return directory

        monkeypatch.setattr(identity, "repository_root", hangs)
        who = asker(TurnRequest(session_key="s", cwd=os.sep, user="ines"), session_strategy="repo").identity

        async def look(locating: Locating, times: int) -> list[str]:
            ends = []
            for _ in range(times):
                begun = asyncio.get_running_loop().time()
                try:
                    ends.append(await locating(who, begun + 0.01))
                except TimeoutError as error:
                    ends.append(str(error))
            return ends

        try:
            found = asyncio.run(look(Locating(), MOST_LOOKS + 2))
            assert found == [""] * MOST_LOOKS + ["the file system does not answer"] * 2
        finally:
            release.set()

    def test_every_other_strategy_looks_at_nothing(self) -> None:
        who = asker(TurnRequest(session_key="s", user="ines")).identity

        async def look() -> str:
            return await Locating()(who, 0.0)

        assert asyncio.run(look()) == "s"

    def test_a_crew_gives_its_places_back(self) -> None:
        crew = Crew("test", 2)
        release = threading.Event()
        first, second = crew.submit(lambda: release.wait(30.0)), crew.submit(lambda: 1 / 0)
        assert first is not None
        assert second is not None
        good, error = second.result()
        assert (good, type(error)) == (False, ZeroDivisionError)
        third = crew.submit(lambda: 7)
        assert third is not None
        assert third.result() == (True, 7)
        release.set()
        assert first.result() == (True, True)
        assert crew.working == 0
