"""A turn of millions of characters: bounded for its caller, split and delivered whole, and nobody else waits for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.capture.content import METADATA_LOOKED, clean_metadata
from honcho_actors.capture.intake import GROUP_CHARS, LARGE_CHARS, MAX_TURN_CHARS
from honcho_actors.model import ReceiptState, SkipReason, Turn
from honcho_actors.privacy import egress
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, said, stored, texts, turn

PATIENCE = 30.0
LONG = "a word and then another " * 5_000


class Slow:
    """A gate that stands still at a large text until it is let go: what is screened apart takes any time it likes."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.at = threading.Event()
        self.thread = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(egress.DEFAULT, name)

    def parts(self, text: object, size: int, **more: Any) -> Any:
        if isinstance(text, str) and len(text) > LARGE_CHARS:
            self.thread = threading.current_thread().name
            self.at.set()
            assert self.go.wait(PATIENCE)
        return egress.DEFAULT.parts(text, size, **more)


@pytest.mark.timeout(120)
def test_case_51_five_megabytes_are_split_and_arrive_whole(honcho: str, workspace: str, state: Path) -> None:
    text = "\u4e00\u4e8c\u4e09\u56db\u4e94 " * 320_000 + "."
    assert len(text.encode()) > 5_000_000
    with Rig(state, honcho, workspace=workspace) as rig:
        receipt = rig.capture.capture(Turn(session_key="s", prompt=text, answer="short"))
        after = rig.capture.capture(turn(1))
        assert after.wait("delivered", 55.0) is ReceiptState.DELIVERED
        assert receipt.state is ReceiptState.DELIVERED
    messages = stored(honcho, "s", workspace)
    assert "".join(message["content"] for message in messages[:-3]) == text
    assert max(len(message["content"]) for message in messages) <= 25_000
    assert [message["content"] for message in messages[-3:]] == ["short", *said(1)]


def test_a_turn_that_nobody_can_have_said_is_skipped_at_once_and_says_why(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        whole = "x" * MAX_TURN_CHARS
        for far in (
            Turn(session_key="s", prompt=whole, answer="y"),
            Turn(session_key="s", prompt=("x" * 1_000_000,) * 9, answer=None),
            Turn(session_key="s", prompt=("",) * (MAX_TURN_CHARS + 1), answer=None),
        ):
            receipt = rig.capture.capture(far)
            assert (receipt.state, receipt.reason) == (ReceiptState.SKIPPED, SkipReason.TOO_LARGE)
        assert rig.capture.status()["skipped"] == {"too_large": 3}
        assert rig.meters.registry.get_sample_value("honcho_actors_captures_total", {"outcome": "too_large"}) == 3.0
        assert rig.capture.capture(turn(1)).wait("accepted", PATIENCE) is ReceiptState.ACCEPTED


def test_nobody_waits_for_a_large_turn_but_its_own_conversation(honcho: str, workspace: str, state: Path) -> None:
    gate = Slow()
    with Rig(state, honcho, workspace=workspace, ports={"gate": gate}) as rig:
        large = rig.capture.capture(turn(1, prompt=LONG))
        behind = rig.capture.capture(turn(2))
        assert gate.at.wait(PATIENCE)
        assert gate.thread == "honcho-screen"
        for number in range(3):
            other = rig.capture.capture(turn(number, "other"))
            assert other.wait("delivered", PATIENCE) is ReceiptState.DELIVERED
        assert (large.state, behind.state) == (ReceiptState.PENDING, ReceiptState.PENDING)
        assert until(lambda: rig.capture.status()["waiting_for_disk"] == 2, PATIENCE)
        gate.go.set()
        assert behind.wait("delivered", PATIENCE) is ReceiptState.DELIVERED
    found = texts(honcho, "s", workspace)
    assert "".join(found[:-3]) == LONG.strip()
    assert found[-3:] == ["answer 1", *said(2)]


def test_a_flush_waits_for_the_large_turns_before_it(honcho: str, workspace: str, state: Path) -> None:
    gate = Slow()
    with Rig(state, honcho, workspace=workspace, ports={"gate": gate}) as rig:
        rig.capture.capture(turn(1, prompt=LONG))
        assert gate.at.wait(PATIENCE)
        assert rig.capture.flush(0.2) is False
        flushed: list[bool] = []
        waiting = threading.Thread(target=lambda: flushed.append(rig.capture.flush(PATIENCE)))
        waiting.start()
        gate.go.set()
        waiting.join(PATIENCE)
        assert flushed == [True]


def test_an_opt_out_holds_for_what_comes_after_it_and_not_for_the_large_turn_before(
    honcho: str, workspace: str, state: Path
) -> None:
    gate = Slow()
    with Rig(state, honcho, workspace=workspace, ports={"gate": gate}) as rig:
        large = rig.capture.capture(turn(1, "other", prompt=LONG))
        assert gate.at.wait(PATIENCE)
        before = rig.capture.capture(turn(1))
        rig.capture.opt_out("s")  # returns after 2 s; its entry stands behind the large turn
        after = rig.capture.capture(turn(2))
        gate.go.set()
        assert after.wait("accepted", PATIENCE) is ReceiptState.SKIPPED
        assert after.reason == "opted_out"
        assert before.wait("delivered", PATIENCE) is ReceiptState.DELIVERED
        assert large.wait("delivered", PATIENCE) is ReceiptState.DELIVERED


def test_a_writer_that_dies_leaves_the_large_turn_and_what_waits_behind_it_to_its_successor(
    honcho: str, workspace: str, state: Path
) -> None:
    gate = Slow()
    with Rig(state, honcho, workspace=workspace, ports={"gate": gate}) as rig:
        rig.capture.capture(turn(1, prompt=LONG))
        last = rig.capture.capture(turn(2))
        assert gate.at.wait(PATIENCE)
        writer: Any = rig.capture.core.writer
        writer.kill()
        assert until(lambda: rig.capture.core.generation >= 2, PATIENCE)
        gate.go.set()
        assert last.wait("delivered", PATIENCE) is ReceiptState.DELIVERED
    assert texts(honcho, "s", workspace)[-3:] == ["answer 1", *said(2)]


def test_a_stop_gives_a_large_turn_up_with_a_reason_and_writes_what_waited_behind_it(
    workspace: str, state: Path
) -> None:
    gate = Slow()
    rig = Rig(state, None, workspace=workspace, ports={"gate": gate}).__enter__()
    large = rig.capture.capture(turn(1, prompt=LONG))
    behind = rig.capture.capture(turn(2))
    assert gate.at.wait(PATIENCE)
    rig.close()
    gate.go.set()
    assert (large.state, large.reason) == (ReceiptState.SKIPPED, "closed")
    assert behind.state is ReceiptState.ACCEPTED


def test_many_turns_of_middle_size_are_written_in_groups_of_bounded_characters(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        taken: list[int] = []
        take = rig.capture.core.intake.take

        def taking() -> Any:
            group = take()
            taken.append(sum(getattr(item, "chars", 0) for item in group))
            return group

        rig.capture.core.intake.take = taking  # type: ignore[method-assign]
        receipts = [rig.capture.capture(turn(number, prompt="m" * 90_000)) for number in range(30)]
        assert all(receipt.wait("accepted", PATIENCE) is ReceiptState.ACCEPTED for receipt in receipts)
    assert max(taken) < GROUP_CHARS + LARGE_CHARS
    assert sum(taken) > 30 * 90_000


@pytest.mark.parametrize(
    "metadata",
    [
        {f"key {number}": "v" * 100_000 for number in range(80)},
        {"nested": [[["w" * 2_000] * 100] * 100] * 100},
        {"numbers": [list(range(100))] * 100, **{f"more {n}": [[[1] * 100] * 100] * 100 for n in range(80)}},
    ],
    ids=["long", "nested", "many"],
)
def test_metadata_is_looked_at_up_to_a_bound_and_the_rest_is_left_out(metadata: dict[str, Any]) -> None:
    looked = 0

    class Counting:
        def verdict(self, text: str, budget: int, **more: Any) -> Any:
            nonlocal looked
            looked += len(text)
            return egress.DEFAULT.verdict(text, budget, **more)

    clean_metadata(metadata, Counting())  # type: ignore[arg-type]
    assert looked <= METADATA_LOOKED
