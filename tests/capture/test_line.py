"""The whole way: a turn is handed over, accepted, delivered, and stands on the server once."""

from __future__ import annotations

from pathlib import Path

from honcho_actors.model import ReceiptState
from tests.support.capture_rig import Rig, said, stored, texts, turn


def test_a_turn_is_pending_at_once_then_accepted_then_delivered(honcho: str, workspace: str, state: Path) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        receipt = rig.capture.capture(turn(1))
        assert receipt.state in (ReceiptState.PENDING, ReceiptState.ACCEPTED)
        assert receipt.wait("accepted", 30.0) in (ReceiptState.ACCEPTED, ReceiptState.DELIVERED)
        assert receipt.wait("delivered", 30.0) is ReceiptState.DELIVERED
        assert rig.capture.flush(30.0) is True
        status = rig.capture.status()
        assert (status["pending_turns"], status["delivered"], status["doubled"]) == (0, 2, 0)
        assert [key.key for key in rig.uploaded] == ["s"]
    messages = stored(honcho, "s", workspace)
    assert [message["content"] for message in messages] == said(1)
    assert [message["peer_id"] for message in messages] == ["user", "assistant"]
    for position, message in enumerate(messages):
        metadata = message["metadata"]
        assert metadata["batch_id"] == receipt.batch_id
        assert metadata["position"] == position
        assert len(metadata["delivery_id"]) == 32
        assert metadata["turn_id"] == "t1"


def test_turns_of_many_conversations_each_stand_in_order(honcho: str, workspace: str, state: Path) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        for number in range(30):
            for session in ("a", "b", "c"):
                rig.capture.capture(turn(number, session))
        assert rig.capture.flush(20.0)
    for session in ("a", "b", "c"):
        assert texts(honcho, session, workspace) == said(*range(30))


def test_what_was_captured_without_any_server_is_delivered_when_one_is_configured(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        for number in range(3):
            assert rig.capture.capture(turn(number)).wait("accepted", 30.0) is ReceiptState.ACCEPTED
        assert rig.capture.flush(0.3) is False
        rig.change(base_url=honcho)
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(0, 1, 2)
