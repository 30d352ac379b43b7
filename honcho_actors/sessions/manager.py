"""The SessionManager: single writer of the published table, the one who counts turns and starts refreshes.

A thread actor that never waits: workers do what takes time. Marks advance when a refresh starts, so an outage costs one
attempt a window. A failed read never replaces a good layer. After a crash the next manager adopts the published table:
turns go on being served from it meanwhile, and whatever the old workers still bring is late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Any

from honcho_actors.model import Context, Reason, State
from honcho_actors.privacy.identity import Identity, resolve
from honcho_actors.sessions.dispatch import Dispatch
from honcho_actors.sessions.flights import Flight
from honcho_actors.sessions.jobs import OUTCOMES, REASONS, BaseJob, DialecticJob, Done, SummaryJob
from honcho_actors.sessions.messages import (
    DRAIN,
    Drain,
    Forget,
    Load,
    LookAtLine,
    Open,
    Overdue,
    Readable,
    Republish,
    Restored,
    Started,
    Sweep,
    Taken,
    TurnRecord,
    Uploaded,
    Wanted,
)
from honcho_actors.sessions.ports import Ports
from honcho_actors.sessions.serving import Gate
from honcho_actors.sessions.shelf import Shelf, filled
from honcho_actors.sessions.table import EPOCH, FLAGS, KNOWN, P_FLAGS, STABLE, Entry, Table, flat
from honcho_actors.sessions.turns import decide
from honcho_actors.sessions.waiting import Waiting
from supervision import Down, ThreadActor, Waiter
from supervision import Reason as StopReason
from supervision.logged import unsaid

FAILED_LOAD_PAUSE = 30.0
"""Seconds until a conversation that could never be loaded is tried again; doubled for each failure, with jitter."""
FAILED_LOAD_PAUSE_MAX = 300.0
COMPLAIN_EVERY = 60.0
"""Seconds between two lines of one kind: what fails for everybody must not fill a log."""
SLICE = 256
"""Entries handled in one go when many have to be looked at."""
SWEEP_EVERY = 30.0
"""Seconds between two idle sweeps, at most; a short idle time is swept more often."""

_log = logging.getLogger("honcho_actors.sessions")


class SessionManager(ThreadActor):
    """Writes `table`. `ports` is everything that it needs of others."""

    mailbox_limit = 100_000

    def __init__(self, table: Table, ports: Ports) -> None:
        super().__init__()
        self._table = table
        self._ports = ports
        self._meters = ports.meters
        self._waiting = Waiting()
        self._unshown = 0
        self._shows_again = False
        self._complained: dict[str, float] = {}

    # -- life ----------------------------------------------------------------------------------------------------------

    def on_start(self) -> None:
        table = self._table
        table.generation += 1
        for entry in table.entries.lively.values():
            _adopt(entry)
        self._shelf = Shelf(table, self._ports, self._evicted, self.clock.now())
        self._residence = self._shelf.residence
        for key in self._residence.never_loaded():
            if (kept := table.entries.look(key)) is not None:
                _adopt(kept)
                self._residence.changed(kept)
        self._dispatch = Dispatch(self, table, self._ports, self._residence.settle)
        self._flights = self._dispatch.flights
        table.woken = False
        table.manager = self.actor_ref
        self.actor_ref.cast(DRAIN)
        if table.keeper is not None:
            table.keeper.cast(Taken())
        self._plan_sweep()
        self._gauges()

    def on_stop(self, reason: StopReason) -> None:
        table = self._table
        if table.manager is self.actor_ref:
            table.manager = None
        gone = Context((), State.COLD, Reason.CLOSED if table.closed else Reason.WORKER_DIED)
        for flight in self._flights.all():
            self._flights.end(flight.job.number)
        for entry in list(table.entries.lively.values()):
            self._waiting.answer(entry, gone, "shutdown")
        self._gauges()

    def on_receive(self, message: object) -> None:
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)
        elif message is None:
            self._shows_again = False
        self._unshown += 1
        if self._unshown >= SLICE or self.actor_inbox.empty():
            self._unshown = 0
            self._gauges()
        elif not self._shows_again:  # what waits there may be nothing that is handed to us: we are asked once more
            self._shows_again = self.actor_ref.cast(None)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _drain(self, message: Drain) -> None:
        """Counts what was served, a bounded number at a time: a cold turn must not wait behind a flood of warm ones."""
        table = self._table
        table.woken = False
        feed = table.feed
        for _ in range(SLICE):
            if not self._count_one():
                break
        if feed and not table.woken:
            table.woken = self.actor_ref.cast(DRAIN)

    def _count_one(self) -> bool:
        """The next turn of the feed; False when there is none."""
        try:
            turn = self._table.feed.popleft()
        except IndexError:
            return False
        try:
            self._served(turn)
        except Exception:  # noqa: BLE001 boundary: what one turn says or a port raises costs no other conversation
            self._say(logging.WARNING, "turn_not_counted", "a turn could not be counted")
        return True

    def _served(self, turn: TurnRecord) -> None:
        """A turn was answered. A warm one is counted now; one that had waited was counted when it was opened."""
        context = turn.context
        if context is not None and turn.cause != "cancelled":
            self._meters.turn(context.state, context.reason, context.waited, context.age)
        if turn.key is None:
            return
        if not turn.request.automated and turn.cause != "cancelled":
            self._table.served += 1
        if turn.cause:
            self._meters.waiters_resolved.labels(turn.cause).inc()
            entry = self._residence.find(turn.key)
            if entry is not None:
                entry.opened = entry.opened or turn.cause != "cancelled"
                self._waiting.prune(entry)
                self._residence.settle(entry)
            return
        entry = self._shelf.entry(turn.key, turn.settings, self.clock.now())
        if entry is None:
            return
        self._residence.touch(entry, turn.at)
        entry.opened = True
        self._due(entry, turn)

    def _open(self, message: Open) -> None:
        """A cold turn. One whose time is over before it is read was not served: it counts and starts nothing."""
        turn, deadline, waiter = message
        now = self.clock.now()
        if waiter.resolved or now >= deadline or turn.key is None:
            return
        try:
            self._park(turn, deadline, waiter, now)
        except Exception:  # noqa: BLE001 boundary: as for a turn that was served; and whoever waits is answered
            self._say(logging.WARNING, "load_not_started", "a load could not be started")
            waiter.resolve(Context((), State.COLD, Reason.SERVER_ERROR), "result")

    def _park(self, turn: TurnRecord, deadline: float, waiter: Waiter[Context], now: float) -> None:
        """Starts the load of a cold turn, and answers it now if there is nothing to wait for."""
        assert turn.key is not None
        entry = None if self._waiting.full else self._shelf.entry(turn.key, turn.settings, self.clock.now())
        if entry is None:
            waiter.resolve(Context((), State.COLD, Reason.OVERLOADED), "overloaded")
            return
        self._residence.touch(entry, now)
        loads_already = bool(entry.base_job)
        due_now = self._due(entry, turn, deadline)
        if entry.block is not None:
            waiter.resolve(filled(entry, now, turn.settings), "result")
        elif not entry.base_job or entry.opened or (loads_already and not due_now):
            waiter.resolve(Context((), State.COLD, entry.reason), "result")
        else:
            self._waiting.park(entry, waiter)
            if self._table.snapshots == "loading" and self._table.keeper is not None:
                self._table.keeper.cast(Wanted(entry.key, entry.person))
            flight = self._flights.get(entry.base_job)
            if flight is not None:
                flight.awaited = True
            self._residence.settle(entry)

    def _due(self, entry: Entry, turn: TurnRecord, deadline: float = inf) -> bool:
        """Counts the turn and starts what it makes due. True when the turn was substantive."""
        settings, now = turn.settings, self.clock.now()
        person = self._table.persons.get(entry.person)
        if entry.block is not None and entry.block[EPOCH] != settings.epoch:
            self._shelf.publish(entry, settings)
        plan = decide(entry, person, turn.request.query, settings, now)
        had_block = entry.block is not None and bool(entry.block[STABLE])
        if plan.counted:
            entry.turns += 1
        wants_base = plan.base and not entry.base_job
        wants_answer = plan.dialectic and plan.counted and not entry.dialectic_job
        identity = resolve(turn.request, settings) if wants_base or wants_answer else None
        if not isinstance(identity, Identity):
            return plan.counted
        if wants_base:
            started = self._dispatch.base(entry, identity, settings, plan.turn, "turn", deadline=deadline)
            if started and plan.counted:
                entry.base_mark = plan.turn
        if wants_answer:
            question = (identity, settings, turn.request.query, plan.turn, not had_block)
            if person is not None and person[P_FLAGS] & KNOWN:
                self._dispatch.dialectic(entry, question)
            elif entry.base_job:
                entry.question_due = question
        self._residence.settle(entry)
        return plan.counted

    # -- ends of jobs --------------------------------------------------------------------------------------------------

    def _started(self, message: Started) -> None:
        flight = self._dispatch.started(message)
        if flight is not None:
            if self._table.closed:
                self._lost(flight, "cancelled", Reason.CLOSED, "shutdown")
            else:
                self._lost(flight, "worker_died", Reason.OVERLOADED, "overloaded")

    def _done(self, done: Done) -> None:
        flight = self._flights.end(done.number)
        if done.worker is not None:
            self._dispatch.free(done.worker)
        if flight is None:
            self._meters.late_results.labels("refresh").inc()
            self._advance()
            return
        try:
            if isinstance(flight.job, DialecticJob):
                self._answered(flight, flight.job, done)
            elif isinstance(flight.job, SummaryJob):
                self._summarised(flight, done)
            else:
                self._based(flight, done)
        except Exception:  # noqa: BLE001 boundary: one conversation's text (or a host's counter) never hurts another's
            self._say(logging.WARNING, "not_rendered", "what was read of a conversation could not be rendered")
            for entry in flight.entries:
                self._failed(entry, Reason.SERVER_ERROR, "result")
        self._ended(flight, done)

    def _down(self, down: Down) -> None:
        flight = self._flights.of_worker(down.ref)
        if flight is not None:
            self._lost(flight, "worker_died", Reason.WORKER_DIED, "worker_down")

    def _overdue(self, message: Overdue) -> None:
        flight = self._flights.get(message.number)
        if flight is not None:
            worker = flight.worker
            self._lost(flight, "timed_out", Reason.SERVER_ERROR, "worker_down")
            self._dispatch.end_worker(worker)

    def _lost(self, flight: Flight, outcome: str, reason: Reason, cause: str) -> None:
        """A flight ended without a report: like a failed read, for everyone whom it would have answered."""
        self._flights.end(flight.job.number)
        self._ports.spend.give_back(flight.reserved - 1)
        self._meters.refresh.labels(flight.job.layer, outcome).inc()
        self._meters.runs.ended(flight.job.layer.value, outcome)
        if isinstance(flight.job, BaseJob):
            self._read_failed(reason)
            for entry in flight.entries:
                self._failed(entry, reason, cause)
        self._ended(flight, None)

    def _ended(self, flight: Flight, done: Done | None) -> None:
        job = flight.job
        if done is not None:
            if done.failure is not None:
                outcome = OUTCOMES.get(done.failure, "failed")
            else:
                outcome = "ok" if done.known else "nothing_known"
            self._meters.refresh.labels(job.layer, outcome).inc()
            self._meters.runs.ended(job.layer.value, "" if done.failure is None else outcome)
            took = max(0.0, self.clock.now() - flight.started)
            self._meters.refresh_duration.labels(job.layer).observe(took, done.exemplar)
        for entry in flight.entries:
            self._residence.settle(entry)
        settings = self._ports.cell.current
        self._residence.bound(settings.max_sessions, settings.max_cache_bytes)
        self._advance()

    def _advance(self) -> None:
        """Lets the next in line begin."""
        self._unsent(self._dispatch.advance())

    def _look_at_line(self, message: LookAtLine) -> None:
        self._advance()  # a changed limit makes room without anybody's end
        self._unsent(self._dispatch.hopeless())

    def _unsent(self, flights: list[Flight]) -> None:
        """What is dropped unsent was not attempted: the next turn is as due, and whoever still waits is told now."""
        closed = self._table.closed
        why = Reason.CLOSED if closed else Reason.OVERLOADED
        for flight in flights:
            self._meters.refresh.labels(flight.job.layer, "cancelled").inc()
            for entry in flight.entries:
                entry.base_mark = entry.summary_mark = entry.question_due = None
                self._waiting.answer(entry, Context((), State.COLD, why), "shutdown" if closed else "overloaded")
                self._residence.settle(entry)

    def _based(self, flight: Flight, done: Done) -> None:
        """A base read came back. Its failure changes nothing that was good before."""
        settings = self._ports.cell.current
        if done.failure is not None:
            reason = REASONS.get(done.failure, Reason.SERVER_ERROR)
            self._read_failed(reason)
            for entry in flight.entries:
                self._failed(entry, reason, "result")
            return
        self._table.failed_reads, self._table.failed_why = 0, ""
        now = self.clock.now()
        if flight.alone:
            self._table.read_took(now - flight.began)
        leader = flight.leader
        summary_is_new = False
        if done.summary is None and isinstance(flight.job, BaseJob) and flight.job.summary:
            leader.summary_mark = None
        if done.summary is not None and done.summary != leader.summary:
            leader.summary = done.summary
            summary_is_new = True
        flags = KNOWN if done.known else 0
        if not self._shelf.know(leader.person, done.representation, done.card, now, flags, settings, now):
            for entry in flight.entries:
                self._failed(entry, Reason.OVERLOADED, "overloaded")
            return
        for entry in flight.entries:
            entry.failures = 0
            entry.retry_at = 0.0
            self._shelf.publish(entry, settings, read_now=True)
            self._waiting.answer(entry, filled(entry, now, settings), "result")
            question, entry.question_due = entry.question_due, None
            if question is not None and done.known and not entry.dialectic_job:
                self._dispatch.dialectic(entry, question)
        if summary_is_new:
            self._shelf.save_session(leader, settings)
        aboard = {entry.key for entry in flight.entries}
        others = [key for key in self._residence.conversations(leader.person) if key not in aboard]
        if others:
            self._republish(Republish(leader.person, others))

    def _read_failed(self, reason: Reason) -> None:
        """A base read failed, for whomever it was."""
        self._table.failed_reads += 1
        self._table.failed_why = reason.value

    def _readable(self, message: Readable) -> None:
        """Nobody reads at present, and the server would answer. What has failed meanwhile is newer than that."""
        if self._table.failed_reads == message.failed:
            self._table.failed_reads, self._table.failed_why = 0, ""

    def _failed(self, entry: Entry, reason: Reason, cause: str) -> None:
        """A base read failed. A conversation that was never loaded is left alone for a while, the others go by
        cadence."""
        entry.question_due = None
        if entry.block is None:
            entry.reason = reason
            entry.summary_mark = None
            pause = min(FAILED_LOAD_PAUSE * (1 << min(entry.failures, 8)), FAILED_LOAD_PAUSE_MAX)
            entry.retry_at = self.clock.now() + pause * (0.8 + 0.4 * self._ports.jitter())
            self._complain(reason)
            entry.failures += 1
        context = (
            Context((), State.COLD, reason)
            if entry.block is None
            else filled(entry, self.clock.now(), self._ports.cell.current)
        )
        self._waiting.answer(entry, context, cause)
        self._residence.settle(entry)

    def _complain(self, reason: Reason) -> None:
        """One line a minute for all conversations together: an outage must not fill a log. It is no warning: that is
        for whoever looks at all of them (`runtime.health`)."""
        self._say(logging.INFO, "load_failed", f"memory of a conversation could not be loaded: {reason}")

    def _say(self, level: int, event: str, text: str) -> None:
        """One line a minute for each kind; the others at DEBUG."""
        now = self.clock.now()
        if now - self._complained.get(event, now - COMPLAIN_EVERY) >= COMPLAIN_EVERY:
            self._complained[event] = now
        else:
            level = logging.DEBUG
        _log.log(level, text, exc_info=unsaid(), extra={"event": event})

    def _summarised(self, flight: Flight, done: Done) -> None:
        entry = flight.leader
        if done.failure is None and done.summary is not None and done.summary != entry.summary:
            entry.summary = done.summary
            if entry.block is not None:
                self._shelf.publish(entry, self._ports.cell.current)
            self._shelf.save_session(entry, self._ports.cell.current)

    def _answered(self, flight: Flight, job: DialecticJob, done: Done) -> None:
        self._ports.spend.give_back(max(0, flight.reserved - done.calls))
        for _ in range(done.calls):
            self._meters.dialectic_calls.labels(flight.trigger).inc()
        if done.failure is not None:
            return
        entry = flight.leader
        entry.empties = 0 if done.answer else entry.empties + 1
        entry.answer = done.answer
        entry.answered_turn = job.turn
        entry.answered_at = self.clock.now()
        if entry.block is not None:
            self._shelf.publish(entry, self._ports.cell.current)

    # -- publication ---------------------------------------------------------------------------------------------------

    def _republish(self, message: Republish) -> None:
        """Further conversations of a person of whom something new is known, a slice at a time."""
        settings = self._ports.cell.current
        for key in message.keys[:SLICE]:
            entry = self._table.entries.look(key)
            if entry is not None:
                self._shelf.publish(entry, settings)
                self._residence.changed(entry)
                self._waiting.answer(entry, filled(entry, self.clock.now(), settings), "result")
        if rest := message.keys[SLICE:]:
            self.actor_ref.cast(Republish(message.person, rest))

    # -- loads, uploads, forgetting, restoring -------------------------------------------------------------------------

    def _load(self, message: Load) -> None:
        entry = self._shelf.entry(message.key, message.settings, self.clock.now())
        if entry is None:
            return
        self._residence.touch(entry, self.clock.now())
        if entry.base_job and message.again:
            entry.base_mark = None
        if not entry.base_job and (entry.block is None or message.again) and self.clock.now() >= entry.retry_at:
            trigger = "refresh" if message.again else "prewarm"
            self._dispatch.base(entry, message.identity, message.settings, entry.turns, trigger, message.again)
        self._residence.settle(entry)

    def _uploaded(self, message: Uploaded) -> None:
        """Touches the entry, and admits one that only uploads. A person who was not known may be from now on; one of
        whom nothing was ever read is read at their first delivery, so that the first turn is warm."""
        key = flat(message.session)
        now = self.clock.now()
        settings = self._ports.cell.current
        entry = self._residence.admit(key, now, settings.max_sessions)
        if entry is None:
            return
        self._residence.touch(entry, now)
        entry.uploads += 1
        if entry.block is None and entry.person in self._table.persons:
            entry.began_warm = True
            self._shelf.publish(entry, settings)
        if entry.block is None and not entry.base_job and entry.uploads == 1 and Gate(settings).reads(key):
            self._dispatch.person(entry, settings)
        elif entry.block is not None and not entry.block[FLAGS] & KNOWN:
            entry.base_mark = None

    def _forget(self, message: Forget) -> None:
        gone = Context((), State.COLD, Reason.NO_IDENTITY)
        for _ in range(len(self._table.feed)):  # what was served before is counted before, and reads nobody afterwards
            self._count_one()
        self._shelf.forget_told()
        for key in [one for one in self._table.entries if one[4] == message.peer]:
            entry = self._residence.find(key)
            if entry is None:
                continue
            self._waiting.answer(entry, gone, "evicted")
            for number in (entry.base_job, entry.dialectic_job, entry.summary_job):
                flight = self._flights.end(number) if number else None
                if flight is not None:
                    self._dispatch.end_worker(flight.worker)
            self._residence.drop(entry, "forgotten")
        for person in [one for one in self._table.persons if one[4] == message.peer]:
            self._residence.drop_person(person)
        self._advance()

    def _restored(self, message: Restored) -> None:
        """A slice of snapshots. Whoever waited for one of these persons is answered."""
        for person in self._shelf.restore(message, self.clock.now()):
            if others := self._residence.conversations(person):
                self._republish(Republish(person, others))
        if not message.wanted:
            message.keeper.cast(Taken())

    # -- bounds --------------------------------------------------------------------------------------------------------

    def _plan_sweep(self) -> None:
        every = min(SWEEP_EVERY, max(0.05, self._ports.cell.current.idle_ttl / 4))
        self.send_after(every, Sweep(None))

    def _sweep(self, message: Sweep) -> None:
        settings = self._ports.cell.current
        slices = message.keys
        if slices is None:
            slices = self._residence.keys_in_slices(SLICE)
            self._residence.bound(settings.max_sessions, settings.max_cache_bytes)
        keys = next(slices, None)
        if keys is None:
            self._residence.idle_persons(self.clock.now() - settings.idle_ttl)
            self._plan_sweep()
            return
        self._residence.idle(keys, self.clock.now() - settings.idle_ttl)
        self.actor_ref.cast(Sweep(slices))

    def _evicted(self, reason: str) -> None:
        self._meters.session_evictions.labels(reason).inc()

    def _gauges(self) -> None:
        meters, table = self._meters, self._table
        meters.sessions.set(len(table.entries))
        meters.cache_bytes.set(table.bytes)
        meters.cold_waiters.set(self._waiting.count)
        meters.refresh_in_progress.set(len(self._flights))


def _adopt(entry: Entry) -> None:
    """An entry of an earlier manager: its jobs are nobody's any more, and one that was never loaded is as due as at
    first."""
    if entry.block is None:
        entry.base_mark = None
        entry.asked_mark = None
        entry.retry_at = 0.0
    entry.base_job = entry.dialectic_job = entry.summary_job = 0
    entry.waiters = None
    entry.question_due = None


_HANDLERS: dict[type[Any], Callable[[SessionManager, Any], None]] = {
    Drain: SessionManager._drain,
    Open: SessionManager._open,
    Load: SessionManager._load,
    Uploaded: SessionManager._uploaded,
    Forget: SessionManager._forget,
    Done: SessionManager._done,
    Down: SessionManager._down,
    Overdue: SessionManager._overdue,
    Started: SessionManager._started,
    LookAtLine: SessionManager._look_at_line,
    Readable: SessionManager._readable,
    Sweep: SessionManager._sweep,
    Republish: SessionManager._republish,
    Restored: SessionManager._restored,
}
