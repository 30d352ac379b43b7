"""Memory ingest as a host sees it (B3): bounded halves, the switch, credentials, order."""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from typing import Any

import pytest

from honcho_actors.host.ingest import Ingest, IngestState
from honcho_actors.host.providers import MemoryProviders
from honcho_actors.host.summary import HALF_BYTES, bounded, summarised
from honcho_actors.model import Turn
from honcho_actors.privacy.egress import Blank, Withheld


class Keeper:
    """A provider that keeps what it is told."""

    inline = True

    def __init__(self) -> None:
        self.told: list[Turn] = []

    def search(self, query: Any, deadline: float) -> list[Any]:
        return []

    def put(self, turn: Turn) -> None:
        self.told.append(turn)


def secret() -> str:
    return "sk-" + "a1B2c3D4e5F6g7H8" * 2


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


def ingest(keeper: Keeper, **more: Any) -> Ingest:
    providers = MemoryProviders()
    providers.register("keeper", keeper)
    return Ingest(providers, **more)


CUTS = ("a", "é", "e\u0301", "我", "😀", "👩\u200d👩\u200d👧", "🇩🇪", "ن", "\u0e01\u0e33")


class TestBounds:
    @pytest.mark.parametrize("letter", CUTS, ids=[unicodedata.name(one[0], "control") for one in CUTS])
    @pytest.mark.parametrize("shift", range(4))
    def test_a_half_is_at_most_2000_bytes_the_mark_counted_in_and_no_character_is_split(
        self, letter: str, shift: int
    ) -> None:
        whole = "x" * shift + letter * 4_000
        short = bounded(whole)
        assert len(short.encode()) <= HALF_BYTES
        assert short.endswith("…")
        kept = short[:-2]
        assert whole.startswith(kept)
        rest = kept[shift:]
        assert rest == letter * (len(rest) // len(letter))
        assert len(short.encode()) > HALF_BYTES - 60

    @pytest.mark.parametrize("text", ["", "  ", "short", "x" * 2_000, "é" * 1_000, "我" * 666])
    def test_what_fits_stays_as_it_is(self, text: str) -> None:
        assert bounded(text) == text.strip()

    def test_both_halves_are_bounded_and_the_rest_of_the_turn_is_the_same(self) -> None:
        turn = Turn("s", "ines", ("one " * 400, "two " * 400), "three " * 900, turn_id="t", metadata={"k": "v"})
        short = summarised(turn)
        assert isinstance(short, Turn)
        assert isinstance(short.prompt, str)
        assert short.prompt.startswith("one one")
        assert max(len(half.encode()) for half in (short.prompt, short.answer or "")) <= HALF_BYTES
        assert (short.session_key, short.user, short.turn_id, dict(short.metadata)) == ("s", "ines", "t", {})

    @pytest.mark.parametrize(
        ("prompt", "answer", "left"),
        [
            ("hi", None, ("hi", None)),
            ("", "hi", ("", "hi")),
            ("hi", " ", ("hi", "")),
            (("a", "", "b"), "c", ("a\n\nb", "c")),
        ],
    )
    def test_a_blank_half_is_left_blank_and_an_unanswered_run_stays_unanswered(
        self, prompt: Any, answer: str | None, left: tuple[str, str | None]
    ) -> None:
        short = summarised(Turn("s", prompt=prompt, answer=answer))
        assert isinstance(short, Turn)
        assert (short.prompt, short.answer) == left

    @pytest.mark.parametrize("prompt", ["", "  ", "\u200b", (), ("", " ")])
    def test_where_neither_half_says_anything_there_is_nothing(self, prompt: Any) -> None:
        assert isinstance(summarised(Turn("s", prompt=prompt, answer="\n")), Blank)

    @pytest.mark.parametrize("half", ["prompt", "answer"])
    @pytest.mark.parametrize("place", ["at the start", "across the cut", "far behind the cut"])
    def test_a_credential_in_either_half_drops_the_turn_wherever_it_stands(self, half: str, place: str) -> None:
        before = {"at the start": "", "across the cut": "word " * 397, "far behind the cut": "word " * 4_000}[place]
        halves = {"prompt": "hello there", "answer": "good day", half: f"{before}my key is {secret()} ok"}
        assert isinstance(summarised(Turn("s", prompt=halves["prompt"], answer=halves["answer"])), Withheld)

    def test_what_only_both_halves_together_say_drops_it_too(self) -> None:
        assert isinstance(summarised(Turn("s", prompt="my password:", answer="Tr0ub4dor&3xyz")), Withheld)


class TestIngest:
    def test_turns_are_handed_on_in_order_short_and_under_their_own_id(self, keeper: Keeper) -> None:
        line = ingest(keeper)
        for number in range(50):
            turn = Turn("s", "ines", f"prompt {number}", "w " * 4_000, turn_id=f"t{number}")
            assert line.ingest(turn) is IngestState.QUEUED
        assert line.drain(20.0)
        assert [(one.prompt, one.turn_id) for one in keeper.told] == [(f"prompt {n}", f"t{n}") for n in range(50)]
        assert all(len((one.answer or "").encode()) <= HALF_BYTES for one in keeper.told)
        assert line.status() == {"handed_on": 50, "queued": 50, "waiting": 0}

    @pytest.mark.parametrize(
        ("turn", "state"),
        [
            (Turn("", prompt="x"), IngestState.NO_SESSION),
            (Turn("   ", prompt="x"), IngestState.NO_SESSION),
            (Turn(7, prompt="x"), IngestState.NO_SESSION),  # type: ignore[arg-type]
            (None, IngestState.NO_TURN),
            ({"session_key": "s"}, IngestState.NO_TURN),
        ],
        ids=["no key", "blank key", "odd key", "nothing", "a mapping"],
    )
    def test_what_belongs_to_no_conversation_is_refused(self, keeper: Keeper, turn: Any, state: IngestState) -> None:
        line = ingest(keeper)
        assert line.ingest(turn) is state
        assert line.drain(20.0)
        assert keeper.told == []

    def test_the_hosts_switch_session_search_closes_it_and_a_switch_that_fails_is_closed(self, keeper: Keeper) -> None:
        def fails() -> bool:
            raise OSError("the flags cannot be read")

        on = [False]
        for gate in (False, fails, lambda: on[0]):
            line = ingest(keeper, session_search=gate)
            assert line.ingest(Turn("s", prompt="x")) is IngestState.OFF
        on[0] = True
        assert line.ingest(Turn("s", prompt="x")) is IngestState.QUEUED
        assert line.drain(20.0)
        assert len(keeper.told) == 1

    def test_a_credential_reaches_no_provider_and_is_not_in_the_counts(self, keeper: Keeper) -> None:
        line = ingest(keeper)
        line.ingest(Turn("s", prompt=f"key {secret()}", answer="x"))
        line.ingest(Turn("s", prompt="x", answer=f"key {secret()}"))
        line.ingest(Turn("s", prompt=" "))
        line.ingest(Turn("s", prompt="fine"))
        assert line.drain(20.0)
        assert [one.prompt for one in keeper.told] == ["fine"]
        assert line.status() == {"waiting": 0, "blank": 1, "handed_on": 1, "queued": 4, "withheld": 2}

    def test_it_returns_at_once_on_a_loop_and_from_many_threads(self, keeper: Keeper) -> None:
        line = ingest(keeper)

        async def hand_in() -> tuple[IngestState, bool]:
            return line.ingest(Turn("s", prompt="from a loop")), line.drain(5.0)

        assert asyncio.run(hand_in()) == (IngestState.QUEUED, False)
        threads = [
            threading.Thread(target=lambda: [line.ingest(Turn("s", prompt=f"w {n}")) for n in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20.0)
        assert line.drain(20.0)
        assert len(keeper.told) == 201

    def test_too_much_at_once_is_refused_and_counted_not_kept(self, keeper: Keeper, monkeypatch: Any) -> None:
        from honcho_actors.host import ingest as module

        monkeypatch.setattr(module, "MAX_QUEUED_CHARS", 1_000)
        line = ingest(keeper)
        assert line.ingest(Turn("s", prompt="x" * 2_000)) is IngestState.OVERLOADED
        assert line.ingest(Turn("s", prompt="x")) is IngestState.QUEUED
        assert line.status()["overloaded"] == 1

    def test_after_close_nothing_is_taken_and_what_was_taken_has_been_handed_on(self, keeper: Keeper) -> None:
        line = ingest(keeper)
        for number in range(100):
            line.ingest(Turn("s", prompt=f"{number}"))
        assert line.close(20.0)
        assert len(keeper.told) == 100
        assert line.ingest(Turn("s", prompt="late")) is IngestState.CLOSED
        assert line.close(20.0)
