"""Where the outbox ends, what a removal takes along, and what two threads make of one turn."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from honcho_actors import store
from honcho_actors.capture import delivering, forking, inspect, retaining
from honcho_actors.capture.accepting import Conversations
from honcho_actors.capture.clocks import Reading, read_clock
from honcho_actors.capture.content import copied_metadata
from honcho_actors.capture.receipt import Receipt
from honcho_actors.capture.salvage import salvage
from honcho_actors.capture.schema import MIGRATIONS
from honcho_actors.model import Realm, ReceiptState
from honcho_actors.privacy import egress
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, turn

REALM = Realm("server", "w", "")
NOW = Reading("boot", 100.0, 1_000_000)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(store.open_outbox(tmp_path / "outbox.db", MIGRATIONS).connection) as connection:
        yield connection


def put(outbox: sqlite3.Connection, session: str, state: int, table: str | None = None, **more: object) -> int:
    """One turn of one message in this state; gives its number."""
    place = Conversations().find(outbox, REALM, session)[0]
    outbox.execute(
        "INSERT INTO batch(id, conversation, key, user, audience, state, open, accepted, born)"
        " VALUES(randomblob(16),?,?,'ann','private',?,?,0,?)",
        (place, session, state, int(table == "message"), more.get("born", 0.0)),
    )
    batch = int(outbox.execute("SELECT max(seq) FROM batch").fetchone()[0])
    if table is not None:
        ended = ", state, reason, ended" if table == "aside" else ""
        outbox.execute(
            "INSERT INTO"
            f" {table}(conversation, lane, batch, position, peer, text, said, metadata, reasoning{ended})"
            f" VALUES(?,1,?,0,'ann','text',1,'{{}}',1{', 2, ?, 1' if ended else ''})",
            (place, batch, *(("status_422",) if ended else ())),
        )
    return batch


def test_room_is_made_of_the_ledger_then_of_what_was_set_aside_and_of_what_is_owed_last(
    outbox: sqlite3.Connection,
) -> None:
    owed = put(outbox, "a", 0, "message")
    aside = put(outbox, "b", 2, "aside")
    for _ in range(15):
        put(outbox, "c", 1)
    left = []
    while retaining.make_room(outbox, limit=1)[1]:
        left.append([row[0] for row in outbox.execute("SELECT seq FROM batch ORDER BY seq LIMIT 2")])
    assert left == [[owed, aside], [owed, aside], [owed], []]
    for table in ("message", "aside"):
        assert outbox.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_turn_that_expires_takes_its_set_aside_half_along_and_can_be_imported_again(
    outbox: sqlite3.Connection,
) -> None:
    batch = put(outbox, "a", 0, "message")
    outbox.execute(
        "INSERT INTO aside(conversation, lane, batch, position, peer, text, said, metadata, reasoning, state, reason,"
        " ended) SELECT conversation, lane, batch, 1, peer, text, said, metadata, reasoning, 2, 'status_422', 1"
        " FROM message"
    )
    outbox.execute("INSERT INTO imported SELECT id FROM batch WHERE seq=?", (batch,))
    assert [one.reason for one in retaining.expire_old(outbox, born_before=1.0, limit=10)] == ["retention_age"]
    for table in ("message", "aside", "batch", "imported"):
        assert outbox.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_what_is_saved_without_its_turn_or_its_conversation_is_listed_and_no_number_is_given_out_again(
    outbox: sqlite3.Connection, tmp_path: Path
) -> None:
    for session in ("a", "b"):
        put(outbox, session, 0, "message")
    outbox.execute("DELETE FROM batch WHERE conversation=1")
    outbox.execute("DELETE FROM conversation WHERE id=2")
    new = tmp_path / "new" / "outbox.db"
    with contextlib.closing(store.open_outbox(new, MIGRATIONS).connection) as target:
        assert salvage(tmp_path / "outbox.db", target) == 2
        assert Conversations().find(target, REALM, "another")[0] == 3
    found = inspect.entries(new)
    assert [(one.state, one.reason, one.user) for one in found] == [("set_aside", "salvaged", "ann")] * 2
    assert sorted(one.remote_session for one in found) == ["a", "lost-2"]
    assert [part["text"] for one in inspect.export(new, reveal=True) for part in one["parts"]] == ["text", "text"]


def test_a_fork_of_whose_parent_everything_is_withheld_starts_fresh_and_owes_nothing(
    outbox: sqlite3.Connection,
) -> None:
    put(outbox, "child", 0, "message")
    outbox.execute("INSERT INTO fork(child, id, parent_session, made) VALUES(1, x'00', 'parent', 0)")
    claimed = delivering.claim(outbox, 1, owner="me", alive=lambda name: True, now=NOW, lease_time=60.0)
    assert isinstance(claimed, delivering.Claimed)
    fork = forking.Pending(b"\0", "parent", "anchor", 1, 0)
    done = forking.copy_page(outbox, claimed.lease, fork, (), complete=True, wall_us=1)
    assert done == forking.Resolved("parent_empty")
    assert outbox.execute("SELECT count(*) FROM batch WHERE state=0").fetchone() == (1,)


def test_what_a_copy_says_of_itself_is_screened_again() -> None:
    secret = "sk-" + "proj-" + "aB3dE5fG7hI9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
    given = {"note": f"my key is {secret}", "turn_id": secret, "place": "here", "part": 1, "parts": 2, "batch_id": "00"}
    assert copied_metadata(given, egress.DEFAULT) == {"place": "here", "part": 1, "parts": 2}
    assert copied_metadata({"turn_id": "m-17", "unanswered": True}, egress.DEFAULT) == {
        "turn_id": "m-17",
        "unanswered": True,
    }


def test_two_threads_that_hand_over_one_turn_at_once_hold_one_receipt(state: Path) -> None:
    with Rig(state, None) as rig:
        ready = [rig.capture._prepare(turn(1), False) for _ in range(2)]  # both have looked before either goes on
        first, second = (rig.capture._admit(one) for one in ready if not isinstance(one, Receipt))
        assert first is second
        assert first.wait("accepted", 20.0) is ReceiptState.ACCEPTED


def test_a_turn_that_is_handed_over_while_everything_ends_is_answered(state: Path) -> None:
    with Rig(state, None) as rig:
        ready = rig.capture._prepare(turn(1), False)  # it has looked, and then the rest of the program closes
        assert not isinstance(ready, Receipt)
        rig.close()
        receipt = rig.capture._admit(ready)
        assert (receipt.wait("accepted", 20.0), receipt.reason) == (ReceiptState.SKIPPED, "closed")


def test_receipts_are_looked_through_while_others_hand_turns_over(state: Path) -> None:
    core = Rig(state, None)
    with core as rig:
        shared, held, done = rig.capture.core, [], threading.Event()

        def hand_over() -> None:
            number = 0
            while not done.is_set():
                number += 1
                held.append(shared.admit(number.to_bytes(16, "big"), Receipt("00")))

        thread = threading.Thread(target=hand_over)
        thread.start()
        try:
            assert until(lambda: len(held) > 20_000, 30.0)
            for _ in range(20):
                assert shared.awaited() == []
        finally:
            done.set()
            thread.join()


def test_the_outboxs_own_clock_is_written_down_while_it_runs(state: Path) -> None:
    shift = [0.0]

    def clock() -> Reading:
        now = read_clock()
        return Reading(now.boot, now.seconds + shift[0], now.wall_us)

    with Rig(state, None, ports={"read_clock": clock}) as rig:
        rig.capture.capture(turn(1)).wait("accepted", 20.0)
        shift[0] = 30 * 86_400.0
        rig.capture.capture(turn(2)).wait("accepted", 20.0)

        def written() -> float:
            with contextlib.closing(store.open_reader(state / "outbox.db")) as reader:
                value = reader.execute("SELECT value FROM meta WHERE name='age'").fetchone()[0]
            return float(str(value).split("|")[0])

        assert until(lambda: written() >= shift[0], 20.0)


def test_what_is_forgotten_while_somebody_reads_leaves_the_log_when_they_are_done(state: Path) -> None:
    with Rig(state, None) as rig:
        rig.capture.capture(turn(1, user="ann", prompt="a secret of ann's")).wait("accepted", 20.0)
        with contextlib.closing(store.open_reader(state / "outbox.db")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM message").fetchone()
            assert rig.capture.forget("ann").done
        files = [state / "outbox.db", state / "outbox.db-wal"]
        assert until(lambda: not any(b"a secret of ann's" in path.read_bytes() for path in files), 20.0)
