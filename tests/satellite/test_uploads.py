"""Uploads as the original's table knows them: SM29 and SM43 to SM48, against the embedded server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.model import ReceiptState, SkipReason, Turn
from tests.support.capture_rig import Rig, server, stored, texts


@pytest.fixture(scope="module")
def honcho(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("server")) as handle:
        yield handle.url


@pytest.fixture
def workspace() -> str:
    return f"w-{uuid.uuid4().hex[:12]}"


def said(prompt: Any = "When do I water?", answer: str | None = "In the morning.") -> Turn:
    return Turn(session_key="s", user="ann", prompt=prompt, answer=answer)


def test_sm29_saving_switched_off_while_running_stops_uploads_from_then_on(
    honcho: str, workspace: str, tmp_path: Path
) -> None:
    with Rig(tmp_path / "s", honcho, workspace=workspace) as rig:
        rig.capture.capture(said()).wait(ReceiptState.DELIVERED, 30.0)
        rig.change(save_messages=False)
        late = rig.capture.capture(said("And in winter?", "Hardly."))
        assert (late.wait(ReceiptState.ACCEPTED, 30.0), late.reason) == (ReceiptState.SKIPPED, SkipReason.READ_ONLY)
        assert texts(honcho, "s", workspace) == ["When do I water?", "In the morning."]


def test_sm43_nothing_is_uploaded_while_saving_is_off(honcho: str, workspace: str, tmp_path: Path) -> None:
    with Rig(tmp_path / "s", honcho, workspace=workspace, save_messages=False) as rig:
        receipt = rig.capture.capture(said())
        assert receipt.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        assert rig.capture.flush(30.0)
        assert texts(honcho, "s", workspace) == []


def test_sm44_nothing_is_uploaded_without_a_server_and_nothing_is_lost(
    honcho: str, workspace: str, tmp_path: Path
) -> None:
    # New value: what is captured without a server is kept on disk and delivered once one is configured.
    with Rig(tmp_path / "s", None, workspace=workspace) as rig:
        receipt = rig.capture.capture(said())
        assert receipt.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.ACCEPTED
        assert not rig.capture.flush(0.2)
        assert texts(honcho, "s", workspace) == []


def test_sm45_both_halves_are_uploaded_each_under_its_own_peer(honcho: str, workspace: str, tmp_path: Path) -> None:
    with Rig(tmp_path / "s", honcho, workspace=workspace) as rig:
        rig.capture.capture(said()).wait(ReceiptState.DELIVERED, 30.0)
        assert [(one["peer_id"], one["content"]) for one in stored(honcho, "s", workspace)] == [
            ("ann", "When do I water?"),
            ("assistant", "In the morning."),
        ]


@pytest.mark.parametrize(
    ("turn", "left"),
    [(said(" \n", "Hello."), ["Hello."]), (said("Hello.", "  "), ["Hello."]), (said("Hi.", None), ["Hi."])],
)
def test_sm46_a_blank_half_is_left_out(
    honcho: str, workspace: str, tmp_path: Path, turn: Turn, left: list[str]
) -> None:
    with Rig(tmp_path / "s", honcho, workspace=workspace) as rig:
        rig.capture.capture(turn).wait(ReceiptState.DELIVERED, 30.0)
        assert texts(honcho, "s", workspace) == left


def test_sm47_a_message_over_the_limit_is_sent_in_pieces_of_at_most_that_size(
    honcho: str, workspace: str, tmp_path: Path
) -> None:
    # New value: the original cut the rest off; nothing of what was said is lost here.
    long = "word " * 100
    with Rig(tmp_path / "s", honcho, workspace=workspace, message_max_chars=120) as rig:
        rig.capture.capture(said(long, None)).wait(ReceiptState.DELIVERED, 30.0)
        pieces = texts(honcho, "s", workspace)
        assert max(map(len, pieces)) <= 120
        assert [word for piece in pieces for word in piece.split()] == long.split()


def test_sm48_an_upload_that_fails_raises_nothing_and_is_tried_again(
    honcho: str, workspace: str, tmp_path: Path
) -> None:
    with Rig(tmp_path / "s", "http://127.0.0.1:9", workspace=workspace) as rig:
        receipt = rig.capture.capture(said())
        assert receipt.wait(ReceiptState.DELIVERED, 0.5) is ReceiptState.ACCEPTED
        assert not rig.capture.flush(0.1)
