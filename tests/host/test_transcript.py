"""The two histories of a conversation, the ledger for frameworks, and what a prompt says of its prefix."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from honcho_actors.host import (
    Collected,
    Entry,
    Kept,
    MemoryTranscripts,
    Outcome,
    OutcomeState,
    Prefix,
    Prompt,
    Replay,
    Replays,
    Transcript,
    Transcripts,
    transcript,
)
from honcho_actors.host.history import digest_of
from honcho_actors.model import Context, Placement, Realm, Reason, Section, SessionKey, State

FOR_NOW = (
    Reason.LOADING,
    Reason.DEADLINE,
    Reason.BREAKER_OPEN,
    Reason.UNAUTHORIZED,
    Reason.SERVER_ERROR,
    Reason.WORKER_DIED,
    Reason.OVERLOADED,
    Reason.EVENT_LOOP,
    Reason.GIVEN_UP,
    Reason.CLOSED,
)
SESSION = SessionKey(Realm("server", "w"), "telegram:1", "ann")


def memory(stable: str = "She likes tea.", moving: str = "", reason: Reason = Reason.HIT) -> Context:
    """What memory gives, as Memory has finished it."""
    halves = ((stable, Placement.SYSTEM), (moving, Placement.USER_MESSAGE))
    sections = tuple(Section("T", text, where) for text, where in halves if text)
    return Context(sections, State.WARM, reason, system=stable, user_message=moving)


def nothing(reason: Reason) -> Context:
    return Context((), State.COLD, reason)


def told(talk: Transcript, context: Context | Collected, typed: str, answer: str = "Yes.", static: str = "S") -> Prompt:
    """One turn."""
    prompt = talk.compose(static, context, typed)
    talk.user(prompt)
    talk.assistant(answer)
    return prompt


# -- what people and models see ----------------------------------------------------------------------------------------


def test_tool_calls_and_results_are_replayed_and_not_shown() -> None:
    talk = Transcript("s")
    prompt = talk.compose("S", memory(moving="moves"), "look it up")
    talk.user(prompt)
    talk.tool('{"call": 1}', "assistant")
    talk.tool("found")
    talk.assistant("It is so.", sent='[{"text": "It is so."}]')
    assert talk.shown() == (("user", "look it up"), ("assistant", "It is so."))
    assert talk.replay() == (
        ("user", prompt.user),
        ("assistant", '{"call": 1}'),
        ("tool", "found"),
        ("assistant", '[{"text": "It is so."}]'),
    )


def test_case_82_an_answer_that_quotes_what_was_added_is_shown_without_it_and_replayed_as_it_was() -> None:
    talk = Transcript("s")
    prompt = talk.compose("S", memory(moving="moves"), "hi")
    talk.user(prompt)
    talk.assistant(f"You gave me: {prompt.added}. Fine.")
    assert talk.shown()[-1] == ("assistant", "You gave me: \n\n. Fine.")
    assert talk.replay()[-1] == ("assistant", f"You gave me: {prompt.added}. Fine.")
    scrubber = talk.scrubber()
    assert scrubber.feed(prompt.added[:50]) + scrubber.feed(prompt.added[50:]) + scrubber.end() == "\n\n"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=6))
def test_whatever_is_typed_is_shown_and_replayed_to_the_byte_also_after_a_restart(turns: list[tuple[str, str]]) -> None:
    store = MemoryTranscripts()
    talk = Transcript("s", store)
    sent = []
    for typed, moving in turns:
        sent.append(told(talk, memory(moving=moving), typed).user)
    for one in (talk, Transcript("s", store)):
        assert [text for role, text in one.shown() if role == "user"] == [typed for typed, _ in turns]
        assert [text for role, text in one.replay() if role == "user"] == sent
        assert [one.strip(text) for text in sent] == [typed for typed, _ in turns]


def test_a_turn_that_was_composed_twice_and_sent_once_is_kept_once() -> None:
    talk = Transcript("s")
    talk.compose("S", memory(moving="first"), "hi")
    prompt = talk.compose("S", memory(moving="second"), "hi")
    talk.user(prompt)
    assert talk.replay() == (("user", prompt.user),)
    assert "second" in prompt.user


# -- what a prompt says of its prefix ----------------------------------------------------------------------------------


def test_a_prompt_says_whether_it_extends_the_one_before() -> None:
    talk = Transcript("s", MemoryTranscripts())
    assert told(talk, memory(), "1").prefix is Prefix.NEW
    assert told(talk, memory(moving="a"), "2").prefix is Prefix.CONTINUED
    assert told(talk, memory(moving="b"), "3").prefix is Prefix.CONTINUED
    assert told(talk, memory("She likes coffee."), "4").prefix is Prefix.MEMORY_CHANGED
    assert told(talk, memory("She likes coffee."), "5", static="S2").prefix is Prefix.STATIC_CHANGED
    assert told(talk, memory("She likes coffee."), "6", static="S2").prefix is Prefix.CONTINUED
    assert told(talk, nothing(Reason.NOTHING_KNOWN), "7", static="S2").prefix is Prefix.MEMORY_CHANGED


def test_without_a_store_the_first_turn_of_a_process_says_that_a_new_prefix_begins_and_why() -> None:
    assert told(Transcript("s"), memory(), "1").prefix is Prefix.NO_STORE


def test_with_a_store_the_first_turn_after_a_restart_extends_the_last_one_before_it() -> None:
    store = MemoryTranscripts()
    told(Transcript("s", store), memory(moving="a"), "1")
    after = Transcript("s", store)
    assert not after.fresh
    assert after.compose("other", memory(), "2").prefix is Prefix.STATIC_CHANGED
    assert after.compose("S", memory("She likes coffee."), "2").prefix is Prefix.MEMORY_CHANGED
    assert told(after, memory(), "2").prefix is Prefix.CONTINUED


class Broken:
    """A store that fails in every way that a port can."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept

    def load(self, name: str) -> Kept | None:
        if self.kept is None:
            raise OSError("no disk")
        return self.kept

    def save(self, name: str, owner: str, head: str | None, at: int, rows: Sequence[str]) -> None:
        raise OSError("no disk")

    def drop(self, name: str) -> None:
        raise OSError("no disk")


HEAD = json.dumps({"mark": "0" * 32, "sent": ["", ""], "held": {}})


@pytest.mark.parametrize("kind", [Transcript, Replay])
@pytest.mark.parametrize(
    "kept",
    [
        None,
        Kept(""),
        Kept("not JSON"),
        Kept("[]"),
        Kept('{"mark": "short", "sent": ["", ""], "held": {}}'),
        Kept(HEAD, ("not JSON",)),
        Kept(HEAD, ('["system", "x", "y"]',)),
        Kept(HEAD, ('["user", 7, null]',)),
        Kept(HEAD, ("[]",)),
        Kept(HEAD, ("7",)),
    ],
)
def test_what_cannot_be_read_begins_a_new_prefix_that_says_so_and_no_turn_fails(
    kept: Kept | None, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        talk = kind("s", Broken(kept), "ann")
        prompt = talk.compose("S", memory(moving="m"), "hi", *([0] if kind is Replay else []))
        assert prompt.prefix is Prefix.STORE_FAILED
        assert talk.fresh
        assert talk.mark != "0" * 32
        if kind is Transcript:
            talk.user(prompt)
            assert talk.replay() == (("user", prompt.user),)


def test_compacting_rewinding_and_outgrowing_begin_a_new_prefix_and_say_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryTranscripts()
    talk = Transcript("s", store)
    for number in range(4):
        told(talk, memory(), str(number))
    talk.compact(6, Entry("user", "In short: three turns.", None))
    assert talk.replay()[:2] == (("user", "In short: three turns."), ("user", "3"))
    assert talk.shown()[0] == ("user", "3")
    assert told(talk, memory(), "4").prefix is Prefix.COMPACTED
    talk.rewind(3)
    assert told(talk, memory(), "again").prefix is Prefix.REWOUND
    assert told(talk, memory(), "on").prefix is Prefix.CONTINUED
    talk.rewind(99)
    assert Transcript("s", store).replay() == talk.replay()
    monkeypatch.setattr(transcript, "MAX_ROWS", 8)
    seen = [told(talk, memory(), str(number)).prefix for number in range(10)]
    assert set(seen) == {Prefix.CONTINUED, Prefix.TRIMMED}
    assert len(talk.replay()) <= 8
    assert talk.replay()[0][0] == "user", "it is cut where a turn begins"
    assert Transcript("s", store).replay() == talk.replay()
    monkeypatch.setattr(transcript, "MAX_BYTES", 2_000)
    for number in range(20):
        told(talk, memory(), str(number) * 300)
        assert talk.size <= 2_000 + len("She likes tea.")


# -- the stable half that is held --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", FOR_NOW)
def test_the_stable_half_stays_while_memory_cannot_be_had_for_now_also_over_a_restart(reason: Reason) -> None:
    store = MemoryTranscripts()
    talk = Transcript("s", store, owner="ann")
    before = told(talk, memory(moving="m"), "1")
    for one in (talk, Transcript("s", store, owner="ann")):
        prompt = one.compose("S", nothing(reason), "2")
        assert (prompt.system, prompt.added, prompt.prefix) == (before.system, "", Prefix.CONTINUED)
    told(talk, nothing(reason), "2")
    assert told(talk, memory(), "3").prefix is Prefix.CONTINUED


@pytest.mark.parametrize("reason", [one for one in Reason if one not in FOR_NOW])
def test_a_turn_that_must_have_no_memory_loses_the_stable_half_at_once(reason: Reason) -> None:
    talk = Transcript("s", owner="ann")
    told(talk, memory(), "1")
    assert told(talk, nothing(reason), "2").system == "S"
    assert told(talk, nothing(Reason.DEADLINE), "3").system == "S", "and it does not come back from nowhere"


def test_without_an_owner_nothing_is_held_and_nothing_of_it_kept() -> None:
    store = MemoryTranscripts()
    talk = Transcript("s", store)
    told(talk, memory(), "1")
    assert told(talk, nothing(Reason.DEADLINE), "2").system == "S"
    kept = store.load("s")
    assert kept is not None
    assert "tea" not in kept.head


def test_of_several_contributors_each_keeps_its_own_and_loses_its_own() -> None:
    def collected(mine: str, late: OutcomeState, reason: Reason | None = None) -> Collected:
        sections = (Section("Mine", mine, Placement.SYSTEM),) if mine else ()
        other = (Section("Other", "stands", Placement.SYSTEM),)
        first = Outcome("mine", late, taken=len(sections), ours=True, reason=reason)
        return Collected(sections + other, (first, Outcome("other", OutcomeState.OK, taken=1)))

    talk = Transcript("s", owner="ann")
    whole = told(talk, collected("fact", OutcomeState.OK, Reason.HIT), "1").system
    for state in (OutcomeState.LATE, OutcomeState.FAILED, OutcomeState.BUSY, OutcomeState.EVENT_LOOP):
        assert told(talk, collected("", state), "2").system == whole
    assert told(talk, collected("", OutcomeState.NOTHING, Reason.DEADLINE), "3").system == whole
    assert "fact" not in told(talk, collected("", OutcomeState.NOTHING, Reason.SHARED_AUDIENCE), "4").system
    assert "fact" not in told(talk, collected("", OutcomeState.NOTHING), "5").system


# -- the ledger --------------------------------------------------------------------------------------------------------


def test_the_first_writer_wins_and_an_edited_message_is_another() -> None:
    ledger = Replay("s")
    first = ledger.compose("S", memory(moving="first"), "hi", 0)
    again = ledger.compose("S", memory(moving="second"), "hi", 0)
    assert again.user == first.user
    assert ledger.compose("S", memory(moving="third"), "hi!", 0).user != first.user
    assert ledger.applied(["hi", "unknown"]) == [first.user, "unknown"]
    assert ledger.get(5, digest_of("hi")) is None
    assert ledger.keep(6, digest_of("met"), "") == ""
    assert ledger.get(6, digest_of("met")) == ""
    assert ledger.cleaned(f"Said: {first.added}.") == "Said: \n\n."


def test_a_framework_that_sends_a_clean_history_sends_prefixes_of_it_also_after_a_restart() -> None:
    store = MemoryTranscripts()
    said: list[str] = []
    before: list[str] = []
    for number in range(9):
        if number in (0, 4):
            ledgers = Replays(store)
        said.append(f"message {number}")
        ledger = ledgers.open((SESSION, "main"))
        prompt = ledger.compose("S", memory(moving=f"thought {number}"), said[-1], number)
        texts = ledger.applied(said)
        assert texts[: len(before)] == before
        assert texts[-1] == prompt.user
        assert prompt.prefix is (Prefix.CONTINUED if number else Prefix.NEW)
        before = texts


def test_ledgers_by_key_keep_from_many_threads_and_lose_nothing() -> None:
    store = MemoryTranscripts()
    ledgers = Replays(store)

    def work(first: int) -> None:
        for number in range(first, 400, 4):
            assert ledgers.keep(SESSION, number, digest_of(str(number)), f"block {number}") == f"block {number}"
            ledgers.keep(SESSION, number, digest_of(str(number)), "late")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    again = Replays(store)
    assert again.mark(SESSION) == ledgers.mark(SESSION)
    for number in range(400):
        assert again.get(SESSION, number, digest_of(str(number))) == f"block {number}"


def test_a_ledger_is_bounded_and_says_that_it_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_ROWS", 10)
    store = MemoryTranscripts()
    ledger = Replay("s", store)
    seen = [ledger.compose("S", memory(moving=str(number)), str(number), number) for number in range(30)]
    assert {one.prefix for one in seen[1:]} == {Prefix.CONTINUED, Prefix.TRIMMED}
    kept = store.load("s")
    assert kept is not None
    assert len(kept.rows) <= 10
    again = Replay("s", store)
    assert again.applied([str(number) for number in range(30)])[-1] == seen[-1].user


# -- all conversations of a process ------------------------------------------------------------------------------------


def test_a_conversation_is_opened_once_and_comes_back_with_its_id_and_every_byte() -> None:
    store = MemoryTranscripts()
    talks = Transcripts(store, max_open=4)
    first = talks.open(SESSION)
    assert (first.owner, talks.open(SESSION)) == ("ann", first)
    told(first, memory(moving="m"), "1")
    replay, mark = first.replay(), first.mark
    for number in range(20):
        talks.open(f"other {number}")
    assert talks.status()["open"] <= 4
    assert talks.open(SESSION) is first, "somebody holds it, so there is no second one"
    del first
    gc.collect()
    for number in range(20):
        talks.open(f"other {number}")
    gc.collect()
    back = talks.open(SESSION)
    assert (back.mark, back.replay(), back.fresh) == (mark, replay, False)


def test_bytes_are_bounded_too() -> None:
    talks = Transcripts(MemoryTranscripts(), max_bytes=100_000)
    for number in range(300):
        told(talks.open(f"talk {number}"), memory(), "x" * 1000)
    assert talks.status()["bytes"] <= 200_000


def test_without_a_store_a_conversation_that_had_to_leave_begins_anew_and_says_so() -> None:
    talks = Transcripts(max_open=2)
    mark = talks.open("a").mark
    for number in range(9):
        talks.open(str(number))
    gc.collect()
    back = talks.open("a")
    assert back.mark != mark
    assert back.compose("S", memory(), "hi").prefix is Prefix.NO_STORE


def test_forgetting_a_person_drops_every_conversation_of_theirs_and_what_is_kept_of_it() -> None:
    store = MemoryTranscripts()
    talks = Transcripts(store)
    ann, bob = talks.open(SESSION), talks.open(SESSION._replace(user="bob"))
    told(ann, memory(), "mine")
    told(bob, memory(), "his")
    assert talks.forget("ann") == 1
    assert (ann.replay(), ann.size) == ((), 0)
    told(ann, memory(), "said to an object that somebody still held")
    assert Transcripts(store).open(SESSION).replay() == ()
    assert Transcripts(store).open(SESSION._replace(user="bob")).replay() == bob.replay()
    talks.drop(SESSION._replace(user="bob"))
    assert store.load(json.dumps(SESSION._replace(user="bob"), separators=(",", ":"))) is None


def test_those_who_open_the_same_conversation_at_once_get_the_same_one_and_the_others_leave_nothing_behind() -> None:
    class Slow(MemoryTranscripts):
        def load(self, name: str) -> Kept | None:
            barrier.wait(20)
            return super().load(name)

    barrier = threading.Barrier(8)
    store = Slow()
    talks = Transcripts(store)
    found: list[Transcript] = []

    def turn() -> None:
        talk = talks.open("a")
        talk.tool("x")
        found.append(talk)

    threads = [threading.Thread(target=turn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    kept = MemoryTranscripts.load(store, "a")
    assert kept is not None
    assert json.loads(kept.head)["mark"] == found[0].mark


def test_on_a_loop_the_store_is_read_on_another_thread() -> None:
    class Notes(MemoryTranscripts):
        def load(self, name: str) -> Kept | None:
            threads.append(threading.current_thread())
            return super().load(name)

    threads: list[threading.Thread] = []
    talks = Transcripts(Notes())

    async def opened() -> tuple[Transcript, Transcript]:
        return await talks.aopen("a"), await talks.aopen("a")

    first, second = asyncio.run(opened())
    assert first is second
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon  # a thread of the loop's own executor is none, and the exit of a process waits for it
