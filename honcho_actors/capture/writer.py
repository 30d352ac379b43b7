"""The only writer of the outbox: one thread, one connection, one commit for everything that waits.

Turns are screened here, off the caller's thread (a large one apart, see `screening`), then written in the order in
which they were handed over, together with the deliveries' own entries, in one transaction with one flush to the disk. A
receipt becomes *accepted* after that flush, never before. What can't be written says so; the actor itself does not fail
because of a disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from honcho_actors import store
from honcho_actors.capture import accepting, content, retaining
from honcho_actors.capture.clocks import AgeClock, Reading
from honcho_actors.capture.core import KNOWN_ON_SERVER, WAKE, Core, Trouble, final_state, log
from honcho_actors.capture.intake import Captured, Entry, Failed, Item, Large
from honcho_actors.capture.receipt import Receipt
from honcho_actors.capture.salvage import salvage
from honcho_actors.capture.schema import MIGRATIONS
from honcho_actors.capture.screening import drafted, screen_large
from honcho_actors.model import ReceiptState, SkipReason
from honcho_actors.store import StoreFailed, StoreReason
from supervision import Reason, ThreadActor, Token

LOCKED_FOR = 10.0
"""Seconds that captures wait for a file that another process holds."""
EPISODE = 60.0
"""Failures of one kind that are not further apart than this are one episode, and one warning."""
LARGE_FOR = 3.0
"""Seconds that a stop gives a large turn to be screened; then it is skipped, and what waited behind it is written."""
SAVE_EVERY = 900.0
"""Seconds of the outbox's own clock that a loss of power can take back."""
TICK_BUSY = 0.25
TICK_IDLE = 2.0
_SHARE = 30.0


class Tick:
    """Time to publish counts and to answer who waits."""


@dataclass(frozen=True, slots=True)
class Works:
    """For the sweeper: these conversations were given work."""

    conversations: tuple[int, ...]


class OutboxWriter(ThreadActor):
    """Owns `outbox.db`. Messages: WAKE (look at the intake) and its own `Tick`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._connection: sqlite3.Connection | None = None
        self._conversations = accepting.Conversations()
        self._moves = core.moves
        self._age = AgeClock()
        self._saved = 0.0
        self._version = -1
        self._dirty = True
        self._unwiped = False
        self._ticking: Token | None = None
        self._episode = ("", 0.0)
        self._cost = 0.0
        """Seconds that must lie between two counts of the outbox, so that counting never takes much of this thread."""

    def on_start(self) -> None:
        self._core.writer = self.actor_ref
        self._core.generation += 1
        self._core.intake.awake = True
        self.actor_ref.tell(WAKE)
        self.actor_ref.tell(Tick())

    def on_receive(self, message: object) -> None:
        if message is WAKE:
            self._core.intake.awake = False
            self._work()
            if self._core.intake.ready and not self.fenced:  # nobody hears the call of one that was given up
                self._core.wake()
        elif isinstance(message, Tick):
            self._tick()
            if self._core.intake.ready and not self.fenced:  # a call that was lost with whoever made it
                self.actor_ref.tell(WAKE)
        if self.fenced:  # given up in the middle of this: nobody else will ever close the file
            self._close()

    def on_stop(self, reason: Reason) -> None:
        core = self._core
        until = time.monotonic() + LARGE_FOR
        while len(core.intake) and not self.fenced:
            if core.intake.ready:
                self._work()
            elif not core.closed:
                break  # the successor hears of the large turn that is being screened
            elif time.monotonic() < until:
                time.sleep(0.01)
            else:
                for item in core.intake.drop_large():
                    core.skipped(SkipReason.CLOSED)
                    item.receipt.advance(ReceiptState.SKIPPED, SkipReason.CLOSED.value)
        core.shut = core.closed
        if core.intake.ready and not self.fenced:
            self._work()
        if self.fenced and not core.closed:  # given up meanwhile: what is left, and the leases, are the successor's
            self._close()
            return
        with contextlib.suppress(StoreFailed, sqlite3.Error):
            if self._connection is not None:
                self._save_age(core.ports.read_clock())
        self._close()
        if core.closed:
            for _, waiter in core.flushes:
                waiter.resolve(False, "shutdown")
        core.owner.close()

    def __del__(self) -> None:
        self._close()

    # -- groups --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        intake = self._core.intake
        group = intake.take()
        screen_large(self._core)
        if not group:
            if self._connection is None:
                with contextlib.suppress(StoreFailed):
                    self._open()
            return
        prepared = [self._prepared(item) for item in group]
        try:
            self._write(prepared)
        except Exception as error:  # noqa: BLE001 boundary: one item that can't be written never takes the others along
            text = "a group could not be written: %s; its items are written one by one"
            log.error(text, type(error).__name__, extra={"event": "group_not_written"})
            for one in prepared:
                self._write_alone(one)
        if not self.fenced:  # given up in the middle: nobody heard of it, so the successor does it again and says so
            intake.done()

    def _prepared(self, item: Item) -> tuple[Captured | Entry[Any], content.Drafted | None]:
        if isinstance(item, Large):
            return item.item, item.drafted
        return item, drafted(self._core, item) if isinstance(item, Captured) else None

    def _write_alone(self, one: tuple[Captured | Entry[Any], content.Drafted | None]) -> None:
        try:
            self._write([one])
        except Exception as error:  # noqa: BLE001 boundary: as above; this is the one, and its caller hears of it
            self._refuse([one[0]], StoreFailed(StoreReason.UNUSABLE, self._core.path, type(error).__name__))

    def _write(self, prepared: list[tuple[Captured | Entry[Any], content.Drafted | None]]) -> None:
        """Commits a group, waiting for a locked file for a while; refuses it when it can't be stored."""
        deadline = time.monotonic() + (1.0 if self._core.closed else LOCKED_FOR)
        while True:
            try:
                self._commit(prepared)
                return
            except StoreFailed as failed:
                locked = failed.reason is StoreReason.LOCKED
                if locked and time.monotonic() < deadline and not self.fenced:
                    continue
                self._refuse([item for item, _ in prepared], failed)
                return

    def _commit(self, prepared: list[tuple[Captured | Entry[Any], content.Drafted | None]]) -> None:
        """One transaction for the whole group; then, and only then, everybody hears of it. Raises StoreFailed."""
        connection = self._open()
        results: list[object] = []
        work: set[int] = set()
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._notice_others(connection)
            now = self._core.ports.read_clock()
            self._age = self._core.age_clock = self._age.at(now)
            for item, found in prepared:
                if isinstance(item, Entry):
                    results.append(self._carry_out(connection, item))
                    continue
                assert found is not None
                taken = self._accept(connection, item, found, now)
                if isinstance(taken, accepting.Accepted) and taken.fresh:
                    work.add(taken.conversation)
                results.append(taken)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._conversations.forget()
            reason = store.reason_of(error)
            if reason is StoreReason.CORRUPT:
                self._close()
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            raise StoreFailed(reason, self._core.path, str(name)) from error
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._conversations.forget()
            raise
        if self._core.wipe:
            self._core.wipe = False
            self._wipe(connection)
        if self._core.trouble.reason:
            self._core.trouble = Trouble()
        if not self._dirty:
            self._dirty = True
            self._tick_in(max(TICK_BUSY, self._cost))
        for (item, _), result in zip(prepared, results, strict=True):
            self._announce(item, result)
        if work:
            self._core.tell_sweeper(Works(tuple(work)))
        if self._core.flushes:
            self._answer_flushes(connection)

    def _wipe(self, connection: sqlite3.Connection) -> None:
        """Takes out of the write-ahead log what was removed for good; while somebody reads there, at the next tick."""
        with contextlib.suppress(sqlite3.Error):
            self._unwiped = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])

    def _accept(
        self, connection: sqlite3.Connection, item: Captured, found: content.Drafted, now: Reading
    ) -> accepting.Accepted | SkipReason:
        place = (content.storable(item.identity.session.key), content.storable(item.identity.realm.partition))
        if place in self._core.opted_out:
            return SkipReason.OPTED_OUT
        if found.draft is None:
            return found.skipped or SkipReason.BLANK
        return accepting.accept(
            connection, self._conversations, found.draft, wall_us=now.wall_us, age=self._age.age, keep=item.keep
        )

    def _carry_out(self, connection: sqlite3.Connection, entry: Entry[object]) -> object:
        connection.execute("SAVEPOINT entry")
        try:
            value = entry.act(connection)
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 boundary: one entry's failure is its own asker's, never its neighbours'
            connection.execute("ROLLBACK TO entry")
            connection.execute("RELEASE entry")
            return Failed(error)
        connection.execute("RELEASE entry")
        if self._moves != self._core.moves:  # what stood there is gone, and its number may be given out again
            self._moves = self._core.moves
            self._conversations.forget()
        return value

    def _announce(self, item: Captured | Entry[Any], result: object) -> None:
        if isinstance(item, Entry):
            if item.after is not None and not isinstance(result, Failed):
                try:
                    result = item.after(result)
                except Exception as error:  # noqa: BLE001 boundary: as above; the entry itself is committed
                    result = Failed(error)
            if isinstance(result, FlushMark):
                self._core.flushes.append((result.mark, item.waiter))
                return
            item.waiter.resolve(result)
            return
        captures = self._core.ports.meters.captures
        if isinstance(result, SkipReason):
            self._core.skipped(result)
            item.receipt.advance(ReceiptState.SKIPPED, result.value)
        elif isinstance(result, accepting.Accepted):
            captures.labels("accepted" if result.fresh else "duplicate").inc()
            self._core.taken += 1
            item.receipt.repeated = not result.fresh
            if result.earlier is not None:
                item.receipt.batch_id = result.earlier.hex()
            item.receipt.advance(ReceiptState.ACCEPTED)
            if result.state:
                item.receipt.advance(final_state(result.state), result.reason)
            elif not result.fresh:
                self._core.receipts.setdefault(item.batch_id, item.receipt)

    def _refuse(self, group: list[Captured | Entry[Any]], failed: StoreFailed) -> None:
        """Nothing of this group is stored; each caller hears so. One warning for an episode, not for a turn."""
        trouble = Trouble(failed.reason.value, str(failed))
        episode = (trouble.reason, time.monotonic())
        before, self._episode = self._episode, episode
        if before[0] != episode[0] or episode[1] - before[1] > EPISODE:
            text = "the outbox can't be written: %s; turns are not captured until it can"
            log.warning(text, failed, extra={"event": "outbox_not_written", "reason": failed.reason.value})
        self._core.trouble = trouble
        for item in group:
            if isinstance(item, Entry):
                item.waiter.resolve(Failed(failed))
            else:
                self._core.skipped(SkipReason.STORE_FAILED)
                item.receipt.advance(ReceiptState.SKIPPED, SkipReason.STORE_FAILED.value)

    # -- the file ------------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        core = self._core
        if self._connection is not None:
            if not _removed(core.path):
                return self._connection
            self._close()  # what is written to a file without a name would reach nobody
        store.private_directory(core.directory)
        core.owner.open()
        opened = store.open_outbox(core.path, MIGRATIONS)
        connection = opened.connection
        try:
            if opened.set_aside is not None:
                connection.execute("BEGIN IMMEDIATE")
                saved = salvage(opened.set_aside.path, connection)
                connection.execute("COMMIT")
                core.set_aside_files = (*core.set_aside_files, opened.set_aside.path.name)
                log.warning(
                    "the outbox was %s; it is kept as %s, and %d undelivered messages were taken over from it",
                    opened.set_aside.reason.value,
                    opened.set_aside.path.name,
                    saved,
                    extra={"event": "outbox_set_aside", "file": opened.set_aside.path.name, "messages": saved},
                )
            connection.execute("PRAGMA secure_delete=FAST")
            row = connection.execute("SELECT value FROM meta WHERE name='age'").fetchone()
            if row is not None:
                age, boot, seconds, wall = str(row[0]).split("|")
                self._age = core.age_clock = AgeClock(float(age), boot, float(seconds), int(wall))
                self._saved = self._age.age
            core.opted_out |= retaining.opted_out(connection)
            core.know(retaining.on_server(connection, KNOWN_ON_SERVER))
            core.ledger_read = True
        except sqlite3.Error as error:
            connection.close()
            raise StoreFailed(store.reason_of(error), core.path, type(error).__name__) from error
        self._connection = connection
        self._conversations.forget()
        self._version = -1
        core.owner.sweep()
        core.tell_sweeper(ReadOutbox())
        return connection

    def _close(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _notice_others(self, connection: sqlite3.Connection) -> bool:
        """Another process may have spoken in the same conversation: nothing remembered may be older than its commit."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return False
        self._version = version
        self._conversations.forget()
        return True

    def _save_age(self, now: Reading) -> None:
        connection = self._open()
        self._age = self._core.age_clock = age = self._age.at(now)
        self._saved = age.age
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES('age', ?)", (f"{age.age!r}|{age.boot}|{age.seconds!r}|{age.wall_us}",)
        )

    # -- what is told --------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        core = self._core
        try:
            connection = self._open()
            now = core.ports.read_clock()
            if self._age.boot == "" or self._age.at(now).age - self._saved >= SAVE_EVERY:
                self._save_age(now)
            if self._unwiped:
                self._wipe(connection)
            others = self._notice_others(connection)
            if self._dirty or others or core.counts is None or core.counts.turns:
                began = time.perf_counter()
                self._publish(connection)
                self._cost = _SHARE * (time.perf_counter() - began)
            self._dirty = False
            if self._core.flushes:
                self._answer_flushes(connection)
            watched: dict[bytes, list[Receipt]] = {}
            for receipt in core.awaited():
                receipt.advance(receipt.state)  # what a predecessor that was given up said was not heard
                if receipt.state is ReceiptState.ACCEPTED:
                    watched.setdefault(bytes.fromhex(receipt.batch_id), []).append(receipt)
            for batch_id, (state, reason) in retaining.states(connection, list(watched)[:500]).items():
                for receipt in watched[batch_id] if state else ():
                    receipt.advance(final_state(state), reason)
        except (StoreFailed, sqlite3.Error) as failed:
            reason = failed.reason if isinstance(failed, StoreFailed) else store.reason_of(failed)
            if reason is StoreReason.CORRUPT:
                self._close()
            elif reason is not StoreReason.LOCKED:
                core.trouble = Trouble(reason.value, str(failed))
        self._tick_in(max(TICK_BUSY, self._cost) if self._core.flushes or self._dirty else TICK_IDLE)

    def _tick_in(self, seconds: float) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._ticking = self.send_after(seconds, Tick())

    def _publish(self, connection: sqlite3.Connection) -> None:
        core = self._core
        age = self._age.at(core.ports.read_clock()).age
        core.counts = counts = retaining.counts(connection, age)
        meters = core.ports.meters
        meters.outbox_pending.set(counts.turns)
        meters.outbox_oldest_age.set(counts.oldest or 0.0)
        meters.outbox_bytes.set(counts.file_bytes)
        meters.outbox_set_aside.set(counts.set_aside)
        if counts.last_delivery is not None:
            meters.last_delivery.set(counts.last_delivery)

    def _answer_flushes(self, connection: sqlite3.Connection) -> None:
        settings = self._core.settings
        hopeless = settings.read_only or not settings.configured
        waiting = self._core.flushes
        for flush in list(waiting):
            mark, waiter = flush
            if not waiter.resolved:
                if not retaining.owed_until(connection, mark):
                    self._publish(connection)
                    waiter.resolve(True)
                elif hopeless:
                    waiter.resolve(False, "nothing is sent")
            if (
                waiter.resolved and flush in waiting
            ):  # what an abandoned writer says is not heard: its successor says it
                waiting.remove(flush)


def _removed(path: Path) -> bool:
    """Whether the file stands there no longer; False where that can't be seen."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


@dataclass(frozen=True, slots=True)
class FlushMark:
    """The result of a flush entry: its waiter is answered when nothing up to `mark` is owed."""

    mark: int


class ReadOutbox:
    """For the sweeper: the outbox has been opened; read what there is to do."""


def flush_mark(connection: sqlite3.Connection) -> FlushMark:
    """An entry: everything that was accepted before this one."""
    return FlushMark(retaining.newest(connection))
