"""A writer that is given up in the middle of a group: its thread goes on unheard, and its successor answers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from honcho_actors.model import ReceiptState
from supervision import Ref
from tests.support.capture_rig import Rig, turn
from tests.support.memory_world import until


@pytest.mark.parametrize("killed", ["before it commits", "after it has committed"])
def test_whoever_waits_for_a_turn_is_answered_by_the_successor(workspace: str, state: Path, killed: str) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        core = rig.capture.core
        assert rig.capture.capture(turn(0)).wait("accepted", 20.0) is ReceiptState.ACCEPTED
        first, second, inside = threading.Event(), threading.Event(), threading.Event()

        def hold(gate: threading.Event) -> Any:
            def act(connection: object) -> None:
                inside.set()
                gate.wait(20.0)

            return act

        core.submit(hold(first), in_order=True)
        assert inside.wait(20.0)
        inside.clear()
        receipt = rig.capture.capture(turn(1))
        answered: list[ReceiptState] = []
        waiting = threading.Thread(target=lambda: answered.append(receipt.wait("accepted")), daemon=True)
        waiting.start()
        until(lambda: receipt.awaited, 20.0)
        held = core.submit(hold(second), in_order=True)
        first.set()
        assert inside.wait(20.0)
        writer = cast("Ref[Any]", core.writer)
        if killed == "after it has committed":  # its announcements are what nobody hears
            receipt_advance = type(receipt).advance

            def late(self: Any, *words: Any) -> bool:
                if self is receipt and core.writer is writer:
                    writer.kill()
                return receipt_advance(self, *words)

            patch = pytest.MonkeyPatch()
            patch.setattr(type(receipt), "advance", late)
        else:
            writer.kill()
        second.set()
        waiting.join(20.0)
        if killed == "after it has committed":
            patch.undo()
        assert answered == [ReceiptState.ACCEPTED]
        assert held.result(rig.runtime.clock.now() + 20.0) is None
        assert core.generation == 2


def test_one_that_is_given_up_while_it_ends_leaves_what_is_left_and_the_leases_to_its_successor(
    workspace: str, state: Path
) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        core = rig.capture.core
        assert rig.capture.capture(turn(0)).wait("accepted", 20.0) is ReceiptState.ACCEPTED
        first, second, inside = threading.Event(), threading.Event(), threading.Event()
        threads: list[threading.Thread] = []

        def hold(gate: threading.Event) -> Any:
            def act(connection: object) -> None:
                threads.append(threading.current_thread())
                inside.set()
                gate.wait(20.0)

            return act

        core.submit(hold(first), in_order=True)
        assert inside.wait(20.0)
        inside.clear()
        writer = cast("Ref[Any]", core.writer)
        held = core.submit(hold(second), in_order=True)
        writer.stop(block=False)
        first.set()
        assert inside.wait(20.0)  # in its last words
        writer.kill()
        until(lambda: core.generation == 2, 20.0)
        second.set()
        assert held.result(rig.runtime.clock.now() + 20.0) is None
        until(lambda: not threads[0].is_alive(), 20.0)
        assert threads.count(threads[0]) == 2
        assert rig.capture.capture(turn(1)).wait("accepted", 20.0) is ReceiptState.ACCEPTED
        assert (state / "owners" / core.owner.name).exists()
