"""What goes wrong around the writer: broken files, a crashed writer, a full intake, forks of the process, stops."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.capture import inspect
from honcho_actors.capture.intake import Captured, Intake
from honcho_actors.model import ReceiptState, Turn
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, said, texts, turn
from tests.support.shared_faults import faults
from tests.support.stopwatch import Stopwatch


def test_a_corrupt_outbox_is_set_aside_and_what_can_be_read_of_it_is_delivered(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, "http://127.0.0.1:9", workspace=workspace) as rig:
        for number in range(400):
            last = rig.capture.capture(turn(number, answer="z" * 400))
        last.wait("accepted", 30.0)
    path = state / "outbox.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = db.execute("SELECT count(*) FROM message").fetchone()[0]
    page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name='message_batch'").fetchone()[0]
    db.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = os.urandom(4096)
    path.write_bytes(bytes(data))
    with Rig(state, "http://127.0.0.1:9", workspace=workspace) as rig:
        assert until(lambda: rig.capture.status()["set_aside_files"] == ["outbox.corrupt-1.db"])
        assert until(lambda: rig.capture.status().get("pending_messages") == whole)
        assert rig.capture.capture(turn(1000)).wait("accepted", 30.0) is ReceiptState.ACCEPTED


@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
def test_a_file_that_is_no_database_is_kept_under_a_new_name_and_capture_goes_on(
    honcho: str, workspace: str, state: Path, damage: str
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        rig.capture.capture(turn(1)).wait("delivered", 30.0)
    path = state / "outbox.db"
    data = path.read_bytes()
    path.write_bytes({"truncated": data[: len(data) // 3], "text": b"not a database" * 500, "empty": b""}[damage])
    with Rig(state, honcho, workspace=workspace) as rig:
        assert rig.capture.capture(turn(2)).wait("delivered", 30.0) is ReceiptState.DELIVERED
        kept = [entry.name for entry in state.iterdir() if "corrupt" in entry.name and entry.suffix == ".db"]
        assert kept == ([] if damage == "empty" else ["outbox.corrupt-1.db"])
    assert texts(honcho, "s", workspace) == said(1, 2)


def test_what_is_captured_after_the_state_directory_was_removed_is_on_disk_again(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        rig.capture.capture(turn(1)).wait("accepted", 30.0)
        shutil.rmtree(state)
        assert rig.capture.capture(turn(2)).wait("accepted", 30.0) is ReceiptState.ACCEPTED
        assert [entry.turn_id for entry in inspect.entries(state / "outbox.db")] == ["t2"]
        assert [path.name for path in (state / "owners").iterdir()] == [rig.capture.core.owner.name]


def test_a_writer_that_dies_in_the_middle_of_a_group_is_replaced_and_no_turn_is_lost_or_doubled(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:
        for number in range(30):
            rig.capture.capture(turn(number))
            if number in (10, 20):
                writer: Any = rig.capture.core.writer
                writer.kill()
        assert until(lambda: rig.capture.core.generation >= 2)
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(*range(30))


def test_a_call_that_was_lost_with_its_caller_is_made_good(workspace: str, state: Path) -> None:
    """What an abandoned actor sends is dropped, its call to the writer too: everybody else takes that call for made."""
    with Rig(state, None, workspace=workspace) as rig:
        assert rig.capture.capture(turn(1)).wait("accepted", 20.0) is ReceiptState.ACCEPTED
        assert until(lambda: not rig.capture.core.intake.awake, 20.0)
        rig.capture.core.intake.awake = True
        assert rig.capture.capture(turn(2)).wait("accepted", 20.0) is ReceiptState.ACCEPTED


def test_a_flush_outlives_the_writer_that_took_it(honcho: str, workspace: str, state: Path) -> None:
    away = [{"fault": "status", "on": ["add_messages"], "status": 503}]
    with faults(honcho, away) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        assert rig.capture.capture(turn(1)).wait("accepted", 30.0) == "accepted"
        core = rig.capture.core
        flushed: list[bool] = []
        waiting = threading.Thread(target=lambda: flushed.append(rig.capture.flush(20.0)))
        waiting.start()
        assert until(lambda: len(core.flushes) == 1)
        writer: Any = core.writer
        before = core.generation
        writer.kill()
        assert until(lambda: core.generation > before)
        proxy.plan([])
        waiting.join(25.0)
        assert flushed == [True]
    assert texts(honcho, "s", workspace) == said(1)


def test_a_full_intake_skips_after_at_most_50_ms_and_says_so(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace, intake=Intake(limit=10)) as rig:
        rig.capture.capture(turn(0)).wait("accepted", 30.0)
        blocker = sqlite3.connect(state / "outbox.db", isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        stuck = rig.capture.capture(turn(1))

        def in_hand() -> bool:
            hand = rig.capture.core.intake.in_hand
            return any(isinstance(item, Captured) and item.receipt is stuck for item in hand)

        assert until(in_hand, 20.0)
        accepted = [rig.capture.capture(turn(number)) for number in range(2, 12)]
        began = Stopwatch()
        refused = rig.capture.capture(turn(99))
        assert began.seconds < 0.5
        assert (refused.state, refused.reason) == (ReceiptState.SKIPPED, "overloaded")
        assert rig.capture.status()["skipped"]["overloaded"] == 1

        async def on_a_loop() -> float:
            started = time.monotonic()
            assert rig.capture.capture(turn(100)).state is ReceiptState.SKIPPED
            return time.monotonic() - started

        assert min(asyncio.run(on_a_loop()) for _ in range(5)) < 0.02
        blocker.execute("COMMIT")
        blocker.close()
        assert all(receipt.wait("accepted", 20.0) is ReceiptState.ACCEPTED for receipt in accepted)


def test_a_receipt_can_be_awaited_on_any_loop_and_waited_for_on_any_thread(
    honcho: str, workspace: str, state: Path
) -> None:
    with Rig(state, honcho, workspace=workspace) as rig:

        async def both() -> list[ReceiptState]:
            receipt = await rig.capture.acapture(turn(1))
            assert receipt.state in (ReceiptState.ACCEPTED, ReceiptState.DELIVERED)
            other = rig.capture.capture(turn(2))
            states = [await other, await other.until("delivered", 30.0)]
            assert await rig.capture.aflush(30.0)
            return states

        states = asyncio.run(both())
        assert states[0] in (ReceiptState.ACCEPTED, ReceiptState.DELIVERED)
        assert states[1] is ReceiptState.DELIVERED
        receipt = rig.capture.capture(turn(3))
        seen: list[ReceiptState] = []
        threads = [threading.Thread(target=lambda: seen.append(receipt.wait("delivered", 30.0))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [ReceiptState.DELIVERED] * 8


def test_a_wait_ends_at_its_timeout_with_the_state_reached(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        receipt = rig.capture.capture(turn(1))
        assert receipt.wait("accepted", 30.0) is ReceiptState.ACCEPTED
        began = Stopwatch()
        assert receipt.wait("delivered", 0.2) is ReceiptState.ACCEPTED
        assert began.elapsed > 0.15
        assert began.seconds < 5.0


def test_case_34_ten_conversations_with_pending_turns_and_a_hanging_server_stop_in_one_budget_and_arrive_later_once(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho, [{"fault": "hang", "on": ["add_messages"]}]) as proxy:
        rig = Rig(state, proxy.url, workspace=workspace).__enter__()
        for session in range(10):
            for number in range(5):
                last = rig.capture.capture(turn(number, f"s{session}"))
        last.wait("accepted", 30.0)
        time.sleep(0.2)
        began = Stopwatch()
        rig.close()
        assert began.seconds < 8.0
        proxy.plan([])
        with Rig(state, proxy.url, workspace=workspace) as rig:
            assert rig.capture.flush(30.0)
    for session in range(10):
        assert texts(honcho, f"s{session}", workspace) == said(*range(5))


def test_an_outage_of_many_conversations_is_one_line_and_its_end_another_and_a_stop_in_it_says_nothing(
    honcho: str, workspace: str, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said_of_deliveries() -> list[str]:
        return [record.getMessage() for record in caplog.records if "deliveries" in record.getMessage()]

    refusing = [{"fault": "status", "on": ["*"], "status": 401}]
    with faults(honcho, refusing) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        for number in range(12):
            rig.capture.capture(turn(1, f"s{number}")).wait("accepted", 20.0)
        assert until(lambda: not rig.capture.flush(0.3) and len(said_of_deliveries()) == 1, 20.0)
        assert rig.capture.flush(0.3) is False
        proxy.plan([])
        assert rig.capture.flush(20.0)
        assert until(lambda: len(said_of_deliveries()) == 2, 20.0)
        proxy.plan([{"fault": "hang", "on": ["*"]}])
        for number in range(12):
            rig.capture.capture(turn(2, f"s{number}")).wait("accepted", 20.0)
        assert until(lambda: len(rig.capture.core.limits) == 12, 20.0)
    began, ended = said_of_deliveries()
    assert began == "deliveries fail: unauthorized; what was captured is kept, and tried again by itself"
    assert ended == "deliveries go again"
    assert [record.getMessage() for record in caplog.records if "conversation-" in record.getMessage()] == []


def test_case_35_what_is_captured_after_the_stop_is_refused_with_a_reason(workspace: str, state: Path) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        rig.capture.capture(turn(1)).wait("accepted", 30.0)
    late = rig.capture.capture(turn(2))
    assert (late.state, late.reason) == (ReceiptState.SKIPPED, "closed")
    assert rig.capture.flush(0.2) is False
    with Rig(state, None, workspace=workspace) as again:
        assert again.capture.capture(turn(3)).wait("accepted", 30.0) is ReceiptState.ACCEPTED


def test_case_37_a_full_intake_does_not_keep_the_stop_waiting(workspace: str, state: Path) -> None:
    rig = Rig(state, None, workspace=workspace).__enter__()
    rig.capture.capture(turn(0)).wait("accepted", 30.0)
    blocker = sqlite3.connect(state / "outbox.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    receipts = [rig.capture.capture(turn(number)) for number in range(1, 200)]
    began = Stopwatch()
    rig.capture.close()
    rig.tree.stop(6.0)
    rig.runtime.close(2.0)
    assert began.seconds < 15.0
    blocker.execute("COMMIT")
    blocker.close()
    assert all(receipt.state is not ReceiptState.DELIVERED for receipt in receipts)


def test_case_122_a_forked_child_neither_hangs_nor_delivers_nor_keeps_its_parent_alive(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        proxy.down()
        for number in range(5):
            rig.capture.capture(turn(number)).wait("accepted", 30.0)
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            began = time.monotonic()
            receipt = rig.capture.capture(turn(77))
            flushed = rig.capture.flush(1.0)
            os.write(write, f"{receipt.reason} {flushed} {time.monotonic() - began < 10.0}".encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        assert os.read(read, 100) == b"closed False True"
        os.close(read)
        assert rig.capture.core.owner.alive(rig.capture.core.owner.name)
        proxy.up()
        assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(*range(5))


@pytest.mark.parametrize(
    "odd",
    [
        Turn(session_key=""),
        Turn(session_key="s", prompt=("a", 7, None, "b")),  # type: ignore[arg-type]
        Turn(session_key="s", prompt=None),  # type: ignore[arg-type]
        Turn(session_key=7, prompt="x"),  # type: ignore[arg-type]
        Turn(session_key="s\ud83d", prompt="x", turn_id="t\ud83d"),
        Turn(session_key="s", prompt="x", at="yesterday"),  # type: ignore[arg-type]
        Turn(session_key="s", prompt="x", metadata=7),  # type: ignore[arg-type]
        None,
    ],
    ids=["no session", "odd parts", "no prompt", "key 7", "surrogates", "odd time", "odd metadata", "None"],
)
def test_whatever_a_host_hands_in_capture_never_raises_and_the_writer_goes_on(
    workspace: str, state: Path, odd: Any
) -> None:
    with Rig(state, None, workspace=workspace) as rig:
        receipt = rig.capture.capture(odd)
        assert receipt.wait("accepted", 30.0) in (ReceiptState.ACCEPTED, ReceiptState.SKIPPED)
        assert rig.capture.capture(turn(1)).wait("accepted", 30.0) is ReceiptState.ACCEPTED
        assert rig.capture.core.generation == 1
