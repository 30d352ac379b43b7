"""The common object: a turn is begun once, finished once, and its bytes come again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from honcho_actors import TurnRequest
from honcho_actors.host import Replays
from honcho_actors.integrations import Turns, current, talking
from honcho_actors.integrations.who import subagent
from honcho_actors.model import Reason, State
from honcho_actors.sessions.histories import histories
from tests.integrations.keeper import ANN, Held, House, down, house, keeper, settled
from tests.support.memory_world import Server
from tests.support.tools_rig import runtime

ASK = TurnRequest(session_key="s", user="ann")
BOTH = [Held("ann", "where were we?", False), Held("assistant", "At the ribs.", False)]


class TestOneTurn:
    def test_what_is_known_comes_in_two_halves_and_what_was_said_is_captured_once(self, home: House) -> None:
        with Turns(home.memory) as turns, turns.begin(ASK, "where were we?") as turn:
            assert ANN in turn.system
            assert turn.known
            assert not turn.over
            first = turn.finish("At the ribs.")
            assert turn.answered
            assert turn.finish("At the ribs.") is first
            assert turn.finish(None) is first
        assert home.said("s") == BOTH

    def test_it_is_the_same_on_an_event_loop(self, home: House) -> None:
        async def talk() -> str:
            turns = Turns(home.memory)
            async with await turns.abegin(ASK, "where were we?") as turn:
                receipt = await turn.afinish("At the ribs.")
                assert receipt is not None
                assert receipt.state in ("accepted", "delivered")
                return turn.system

        assert ANN in asyncio.run(talk())
        assert home.said("s") == BOTH

    def test_an_answer_that_never_came_is_captured_as_unanswered(self, home: House) -> None:
        with Turns(home.memory).begin(ASK, "where were we?"):
            pass
        assert home.said("s") == [Held("ann", "where were we?", True)]

    def test_a_blank_answer_is_none(self, home: House) -> None:
        turn = Turns(home.memory).begin(ASK, "where were we?")
        turn.finish("  \n")
        assert not turn.answered
        assert home.said("s") == [Held("ann", "where were we?", True)]

    def test_an_answer_that_comes_after_all_is_captured_alone(self, home: House) -> None:
        turn = Turns(home.memory).begin(ASK, "where were we?")
        turn.finish(None)
        turn.finish("At the ribs.")
        turn.finish("At the ribs.")
        assert home.said("s") == [Held("ann", "where were we?", True), Held("assistant", "At the ribs.", False)]

    def test_a_newer_turn_ends_the_open_one_of_its_conversation_and_of_no_other(self, home: House) -> None:
        turns = Turns(home.memory)
        old, other = turns.begin(ASK, "one"), turns.begin(TurnRequest(session_key="t", user="ann"), "elsewhere")
        new = turns.begin(ASK, "two")
        assert (old.over, old.answered, other.over, new.over) == (True, False, False, False)
        assert home.said("s") == [Held("ann", "one", True)]

    def test_closing_ends_what_is_open(self, home: House) -> None:
        with Turns(home.memory) as turns:
            turns.begin(ASK, "one")
            turns.begin(TurnRequest(session_key="t", user="bob"), "two")
        assert home.said("s") == [Held("ann", "one", True)]
        assert home.said("t") == [Held("bob", "two", True)]

    def test_above_the_bound_the_conversations_that_were_used_least_recently_end(
        self, home: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("honcho_actors.integrations.turns.MAX_CONVERSATIONS", 3)
        turns = Turns(home.memory)
        requests = [TurnRequest(session_key=f"s{number}", user="ann") for number in range(4)]
        first, second, third = (turns.meet(one, ["hello"], 0) for one in requests[:3])
        assert turns.meet(requests[0], ["hello"], 0) is first
        turns.meet(requests[3], ["hello"], 0)
        assert (first.over, second.over, third.over) == (False, True, False)

    def test_the_shared_turns_of_a_runtime_end_before_it_drains(self, tmp_path: Path) -> None:
        with house(tmp_path) as home:
            turns = Turns.of(home.memory)
            assert Turns.of(home.memory) is turns
            turns.begin(ASK, "one")
            assert home.memory.close(20.0)
            assert home.remote.held["s"] == [Held("ann", "one", True)]

    def test_several_texts_of_one_turn_are_captured_in_their_order(self, home: House) -> None:
        Turns(home.memory).begin(ASK, ["one", "two"]).finish("Both.")
        assert [one.text for one in home.said("s")] == ["one", "two", "Both."]

    def test_whoever_finishes_first_on_whatever_thread_captures_and_nobody_else(self, home: House) -> None:
        turns = Turns(home.memory)
        for number in range(50):
            turn = turns.begin(TurnRequest(session_key=f"race-{number}", user="ann"), "go")
            start = threading.Barrier(4)

            def end(turn: object = turn, start: threading.Barrier = start) -> None:
                start.wait()
                turn.finish("Gone.")  # type: ignore[attr-defined]

            threads = [threading.Thread(target=end) for _ in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        for number in range(50):
            assert [one.text for one in home.said(f"race-{number}")] == ["go", "Gone."]

    def test_cancelled_while_memory_is_awaited_what_was_said_is_captured_as_unanswered(self, tmp_path: Path) -> None:
        remote = keeper()
        remote.closed["session_context"] = gate = threading.Event()
        with house(tmp_path, remote, first_turn_wait=30.0) as home:

            async def talk() -> None:
                task = asyncio.create_task(Turns(home.memory).abegin(ASK, "where were we?"))
                while not remote.count("session_context"):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

            asyncio.run(talk())
            gate.set()
            assert home.said("s") == [Held("ann", "where were we?", True)]


class TestNobody:
    def test_without_a_user_where_one_is_required_there_is_no_memory_and_no_capture(self, home: House) -> None:
        turns = Turns(home.memory, require_user=True)
        for user in (None, "", "  "):
            turn = turns.begin(TurnRequest(session_key="s", user=user), "who am I?")
            assert (turn.known, turn.system, turn.beside(["who am I?"])) == (False, "", ("",))
            assert turn.finish("Nobody.") is None
        assert home.memory.flush(20.0)
        assert home.remote.held == {}

    def test_a_subagent_gets_nothing_and_is_not_captured(self, home: House) -> None:
        with talking(ASK), subagent():
            request = current()
            assert request is not None
            turn = Turns(home.memory).begin(request, "look it up")
        assert (turn.context.state, turn.context.reason) == (State.OFF, Reason.SUBAGENT)
        turn.finish("Found.")
        assert home.said("s") == []

    def test_a_subagent_of_nobody_is_nobody(self) -> None:
        with subagent():
            assert current() is None

    def test_a_subagent_of_whom_an_adapter_is_bound_to_is_one_until_somebody_is_named(self) -> None:
        with subagent():
            bound = current(ASK)
            assert bound is not None
            assert (bound.user, bound.scope) == ("ann", "subagent")
            with talking(session_key="t", user="bob") as named, subagent():
                below = current(ASK)
                assert below is not None
                assert (below.user, below.scope) == ("bob", "subagent")
            with talking(named):
                assert current(ASK) is named
        assert current(ASK) is ASK

    def test_who_is_talking_holds_inside_the_block_and_for_tasks_started_in_it(self) -> None:
        async def ask() -> TurnRequest | None:
            await asyncio.sleep(0)
            return current()

        async def talk() -> tuple[TurnRequest | None, TurnRequest | None]:
            with talking(session_key="s", user="ann"):
                task = asyncio.create_task(ask())
            return await task, current()

        assert asyncio.run(talk()) == (ASK, None)

    def test_an_automated_turn_is_read_for_and_not_captured(self, home: House) -> None:
        request = TurnRequest(session_key="s", user="ann", automated=True)
        turn = Turns(home.memory).begin(request, "the daily look")
        assert ANN in turn.system
        turn.finish("Done.")
        assert home.said("s") == []

    def test_read_only_reads_and_captures_nothing(self, tmp_path: Path) -> None:
        with house(tmp_path, save_messages=False) as home:
            turn = Turns(home.memory).begin(ASK, "where were we?")
            assert ANN in turn.system
            turn.finish("At the ribs.")
            assert home.remote.held == {}

    def test_with_memory_down_a_turn_goes_on_and_is_kept(self, tmp_path: Path) -> None:
        with down(tmp_path) as home:
            turn = Turns(home.memory).begin(ASK, "where were we?")
            assert (turn.known, turn.system) == (True, "")
            receipt = turn.finish("At the ribs.")
            assert receipt is not None
            assert receipt.wait("accepted", 20.0) == "accepted"


class TestReplay:
    def test_each_message_gets_its_own_block_again_at_every_later_call(self, tmp_path: Path) -> None:
        remote = keeper()
        answers = iter(f"It is about {one}." for one in ("sowing", "pruning", "picking", "storing", "cooking"))
        remote.answer = lambda query: next(answers)
        with house(tmp_path, remote, dialectic_cadence=1) as home:
            turns = Turns(home.memory)
            said: list[str] = []
            seen: list[tuple[str, ...]] = []
            for number in range(4):
                said.append(f"and now, at length, what about number {number} of the beds?")
                turn = turns.begin(ASK, said[-1])
                calls = [turn.beside(said) for _ in range(3)]
                assert calls[0] == calls[1] == calls[2]
                seen.append(calls[0])
                turn.finish(f"Bed {number} is fine.")
                settled(home)
            for earlier, later in pairwise(seen):
                assert later[: len(earlier)] == earlier
            assert len({one for one in seen[-1] if one}) >= 2

    def test_with_a_store_the_bytes_survive_a_restart(self, tmp_path: Path) -> None:
        said = ["and now, at length, what about the beds?", "and what about the paths between them?"]
        seen = []
        remote = keeper()
        with Server(remote) as server:
            for number in range(2):
                remote.about = {"ann": f"It is about {number}."}
                with (
                    runtime(tmp_path, server.url, dialectic_cadence=1) as memory,
                    contextlib.closing(histories(memory.settings)) as store,
                    Turns(memory, replays=Replays(store)) as turns,
                ):
                    home = House(memory, remote)
                    home.warm("s", "ann")
                    turns.begin(ASK, said[0]).finish("Yes.")
                    settled(home)
                    turn = turns.begin(ASK, said[1])
                    seen.append((turn.system, turn.beside(said)))
                    turn.finish("Yes.")
        assert "It is about 0." in seen[0][1][1]
        assert seen[1] == seen[0]

    def test_memory_that_is_lost_for_now_keeps_the_system_text_that_the_turn_before_had(self, tmp_path: Path) -> None:
        replays, systems = Replays(), []
        with Server(keeper()) as server:
            for folder in ("one", "two"):
                with runtime(tmp_path / folder, server.url, first_turn_wait=30.0) as memory:
                    turn = Turns(memory, replays=replays).begin(ASK, "where were we?")
                    systems.append((turn.context.system, turn.system))
                server.remote.statuses.update(session_context=500, peer_context=500)
        assert systems[1][0] == ""
        assert systems[1][1] == systems[0][1] != ""

    def test_an_echo_of_what_was_added_is_not_captured(self, tmp_path: Path) -> None:
        remote = keeper()
        remote.about = {"ann": "It is about sowing."}
        with house(tmp_path, remote, dialectic_cadence=1) as home:
            turns = Turns(home.memory)
            turns.begin(ASK, "what about the beds, at length?").finish("Fine.")
            settled(home)
            turn = turns.begin(ASK, "and what about the paths between them?")
            (added,) = turn.beside(["and what about the paths between them?"])
            assert "It is about sowing." in added
            turn.finish("They are fine." + added)
            assert home.said("s")[-1] == Held("assistant", "They are fine.", False)

    def test_who_is_forgotten_is_forgotten_here_too(self, home: House) -> None:
        turns = Turns.of(home.memory)
        turn = turns.begin(ASK, "one")
        mark = turns.replays.mark(turn.talk)
        assert home.memory.forget("ann").done
        assert turns.replays.mark(turn.talk) != mark

    def test_a_turn_that_is_open_when_its_person_is_forgotten_gives_nothing_and_captures_nothing(
        self, home: House
    ) -> None:
        turns = Turns(home.memory)
        turn, met = turns.begin(ASK, "one"), turns.meet(TurnRequest(session_key="t", user="ann"), ["two"], 0)
        assert ANN in turn.system
        assert home.memory.forget("ann").done
        for one, said in ((turn, "one"), (met, "two")):
            assert one.finish("At the ribs.") is None
            assert (one.over, one.answered, one.system, one.beside([said])) == (True, False, "", ("",))
        assert home.said("s") == home.said("t") == []

    def test_who_is_forgotten_is_forgotten_in_every_ledger_of_the_runtime_and_nobody_else(self, home: House) -> None:
        with (
            contextlib.closing(histories(home.memory.settings)) as store,
            Turns(home.memory, replays=Replays(store)) as turns,
        ):
            turn, other = turns.begin(ASK, "one"), turns.begin(TurnRequest(session_key="t", user="bob"), "two")
            marks = [turns.replays.mark(one.talk) for one in (turn, other)]
            assert home.memory.forget("ann").done
            assert [turns.replays.mark(one.talk) == mark for one, mark in zip((turn, other), marks, strict=True)] == [
                False,
                True,
            ]


class TestRecognising:
    def test_the_calls_of_a_tool_loop_are_one_turn(self, home: House) -> None:
        turns = Turns(home.memory)
        first = turns.meet(ASK, ["where were we?"], 0)
        again = turns.meet(ASK, ["where were we?"], 1)
        assert again is first
        again.finish("At the ribs.")
        assert home.said("s") == BOTH

    def test_after_an_error_the_same_call_goes_on_with_the_same_turn(self, home: House) -> None:
        turns = Turns(home.memory)
        turns.meet(ASK, ["where were we?"], 0).finish(None)
        turns.meet(ASK, ["where were we?"], 0).finish("At the ribs.")
        assert home.said("s") == [Held("ann", "where were we?", True), Held("assistant", "At the ribs.", False)]

    def test_the_same_words_after_an_answer_are_a_new_turn(self, home: House) -> None:
        turns = Turns(home.memory)
        turns.meet(ASK, ["where were we?"], 0).finish("At the ribs.")
        turns.meet(ASK, ["where were we?"], 0).finish("At the ribs.")
        assert home.said("s") == BOTH + BOTH

    def test_unless_the_caller_names_the_turn(self, home: House) -> None:
        turns = Turns(home.memory)
        turns.meet(ASK, ["where were we?"], 0, turn_id="m1").finish("At the ribs.")
        turns.meet(ASK, ["where were we?"], 0, turn_id="m1").finish("At the ribs.")
        assert home.said("s") == BOTH

    def test_what_was_said_before_and_never_answered_is_not_captured_again(self, home: House) -> None:
        turns = Turns(home.memory)
        turns.meet(ASK, ["one"], 0).finish(None)
        turns.meet(ASK, ["one", "two"], 0).finish("Both.")
        assert [(one.text, one.unanswered) for one in home.said("s")] == [
            ("one", True),
            ("two", False),
            ("Both.", False),
        ]

    def test_of_a_history_that_was_never_met_only_what_follows_the_models_last_words_is_new(self, home: House) -> None:
        turns = Turns(home.memory)
        turns.meet(ASK, ["old", "older", "new", "newest"], 2).finish("Yes.")
        assert [one.text for one in home.said("s")] == ["new", "newest", "Yes."]

    def test_in_the_middle_of_a_tool_loop_that_was_never_met_only_the_answer_is_new(self, home: House) -> None:
        turn = Turns(home.memory).meet(ASK, ["old"], 1)
        assert ANN in turn.system
        turn.finish("Yes.")
        assert home.said("s") == [Held("assistant", "Yes.", False)]

    def test_where_the_models_server_keeps_the_messages_the_open_turn_goes_on(self, home: House) -> None:
        turns = Turns(home.memory)
        turn = turns.meet(ASK, ["where were we?"], 0)
        assert turns.meet(ASK, [], 0) is turn

    def test_the_same_call_made_twice_at_once_is_one_turn(self, home: House) -> None:
        async def talk() -> None:
            turns = Turns(home.memory)
            met = await asyncio.gather(*(turns.ameet(ASK, ["where were we?"], 0) for _ in range(5)))
            assert len({id(one) for one in met}) == 1
            assert ANN in met[0].system
            for one in met:
                one.finish("At the ribs.")

        asyncio.run(talk())
        assert home.said("s") == BOTH

    def test_the_same_call_made_by_many_threads_at_once_is_one_turn(self, home: House) -> None:
        home.warm("s", "ann")
        turns = Turns(home.memory)
        start = threading.Barrier(8)

        def call() -> None:
            start.wait()
            turn = turns.meet(ASK, ["where were we?"], 0)
            start.wait()
            turn.finish("At the ribs.")

        threads = [threading.Thread(target=call) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert home.said("s") == BOTH
