"""The SessionManager: single writer of the published table, the one who counts turns and starts refreshes.

A thread actor that never waits: workers do what takes time. Marks advance when a refresh starts, so an outage costs one
attempt a window. A failed read never replaces a good layer. After a crash the next manager adopts the published table:
turns go on being served from it meanwhile, and whatever the old workers still bring is late.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

from honcho_actors.metrics import Meters
from honcho_actors.model import Context, Reason, SessionKey, State
from honcho_actors.privacy.identity import Identity, locate, resolve
from honcho_actors.sessions import publishing
from honcho_actors.sessions.block import Limits, made_with
from honcho_actors.sessions.budget import Counter, utf8_thirds
from honcho_actors.sessions.cadence import SpendBudget, level_for
from honcho_actors.sessions.flights import Flight, Flights
from honcho_actors.sessions.jobs import (
    GRACE_SECONDS,
    MAX_JOB_SECONDS,
    OUTCOMES,
    REASONS,
    BaseJob,
    DialecticJob,
    Done,
    Job,
    SummaryJob,
)
from honcho_actors.sessions.messages import (
    DRAIN,
    Drain,
    Forget,
    Load,
    Open,
    Overdue,
    PersonSnapshot,
    Republish,
    Restored,
    SessionSnapshot,
    Started,
    Sweep,
    Taken,
    TurnRecord,
    Unsaved,
    Uploaded,
)
from honcho_actors.sessions.questions import screened_message
from honcho_actors.sessions.residence import Residence
from honcho_actors.sessions.table import (
    EPOCH,
    FLAGS,
    KNOWN,
    P_BLOCK,
    P_CARD,
    P_FLAGS,
    P_MADE_AT,
    P_REPRESENTATION,
    RESTORED,
    STABLE,
    Entry,
    Key,
    Person,
    PersonId,
    Table,
    context_of,
    flat,
    person_of,
)
from honcho_actors.sessions.turns import decide, max_conclusions, server_tokens, wants_summary
from honcho_actors.sessions.waiting import Waiting
from honcho_actors.sessions.worker import ClientFactory, RefreshWorker
from honcho_actors.settings import Settings, SettingsCell
from supervision import BRUTAL_KILL, ChildSpec, Down, NoProc, Ref, Reply, Restart, ThreadActor
from supervision import Reason as StopReason

FAILED_LOAD_PAUSE = 30.0
"""Seconds until a conversation that could never be loaded is tried again; doubled for each failure, with jitter."""
FAILED_LOAD_PAUSE_MAX = 300.0
SLICE = 256
"""Entries handled in one go when many have to be looked at."""
SWEEP_EVERY = 30.0
"""Seconds between two idle sweeps, at most; a short idle time is swept more often."""

_log = logging.getLogger("honcho_actors.sessions")

REFRESH_SUPERVISOR = "honcho.refresh"
"""The registered name of the supervisor that the workers run under."""
UNSAVED_MAX = 20_000
"""Changes that may wait to be saved; further ones are not kept for the next process."""


class Ports:
    """What the manager is given: who answers what it may not know itself. Shared by every manager of one runtime."""

    def __init__(
        self,
        cell: SettingsCell,
        meters: Meters,
        client: ClientFactory,
        *,
        is_established: Callable[[SessionKey], bool] = lambda session: False,
        counter: Counter = utf8_thirds,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.cell = cell
        self.meters = meters
        self.client = client
        self.is_established = is_established
        self.counter = counter
        self.jitter = jitter
        self.spend = SpendBudget()


class SessionManager(ThreadActor):
    """Writes `table`. `ports` is everything that it needs of others."""

    mailbox_limit = 100_000

    def __init__(self, table: Table, ports: Ports) -> None:
        super().__init__()
        self._table = table
        self._ports = ports
        self._meters = ports.meters
        self._waiting = Waiting()

    # -- life ----------------------------------------------------------------------------------------------------------

    def on_start(self) -> None:
        table = self._table
        table.generation += 1
        self._flights = Flights(table.generation)
        for entry in table.entries.values():
            _adopt(entry)
        self._residence = Residence(table, self._evicted)
        table.woken = False
        table.manager = self.actor_ref
        self.actor_ref.tell(DRAIN)
        if table.keeper is not None:
            table.keeper.cast(Taken())
        self._plan_sweep()
        self._gauges()

    def on_stop(self, reason: StopReason) -> None:  # type: ignore[override]
        table = self._table
        if table.manager is self.actor_ref:
            table.manager = None
        gone = Context((), State.COLD, Reason.CLOSED)
        for flight in self._flights.all():
            self._flights.end(flight.job.number)
        for entry in list(table.entries.values()):
            self._waiting.answer(entry, gone, "shutdown")
        self._gauges()

    def on_receive(self, message: object) -> None:
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _drain(self, _: Drain) -> None:
        table = self._table
        table.woken = False
        feed = table.feed
        while feed:
            try:
                turn = feed.popleft()
            except IndexError:
                break
            self._served(turn)
        self._gauges()

    def _served(self, turn: TurnRecord) -> None:
        """A turn was answered. A warm one is counted now; one that had waited was counted when it was opened."""
        context = turn.context
        if context is not None and turn.cause != "cancelled":
            self._meters.turn(context.state, context.reason, context.waited, context.age)
        if turn.key is None:
            return
        if turn.cause:
            self._meters.waiters_resolved.labels(turn.cause).inc()
            entry = self._table.entries.get(turn.key)
            if entry is not None:
                entry.opened = True
                self._waiting.prune(entry)
                self._residence.settle(entry)
            return
        entry = self._entry(turn.key, turn.settings)
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
        entry = None if self._waiting.full else self._entry(turn.key, turn.settings)
        if entry is None:
            waiter.resolve(Context((), State.COLD, Reason.OVERLOADED), "overloaded")
            return
        self._residence.touch(entry, now)
        loads_already = bool(entry.base_job)
        due_now = self._due(entry, turn)
        if entry.block is not None:
            waiter.resolve(_filled(entry, now, turn.settings), "result")
        elif not entry.base_job or entry.opened or (loads_already and not due_now):
            waiter.resolve(Context((), State.COLD, entry.reason), "result")
        else:
            self._waiting.park(entry, waiter)
            self._residence.settle(entry)
        self._gauges()

    def _due(self, entry: Entry, turn: TurnRecord) -> bool:
        """Counts the turn and starts what it makes due. True when the turn was substantive."""
        settings, now = turn.settings, self.clock.now()
        person = self._table.persons.get(entry.person)
        if entry.block is not None and entry.block[EPOCH] != settings.epoch:
            self._publish(entry, settings)
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
            started = self._base(entry, identity, settings, plan.turn, "turn")
            if started and plan.counted:
                entry.base_mark = plan.turn
        if wants_answer:
            question = (identity, settings, turn.request.query, plan.turn, not had_block)
            if person is not None and person[P_FLAGS] & KNOWN:
                self._dialectic(entry, question)
            elif entry.base_job:
                entry.question_due = question
        self._residence.settle(entry)
        return plan.counted

    def _entry(self, key: Key, settings: Settings) -> Entry | None:
        """The entry, admitted if it is new; a new one of a known person has a block at once."""
        entry = self._table.entries.get(key)
        if entry is not None:
            return entry
        entry = self._residence.admit(key, self.clock.now(), settings.max_sessions)
        if entry is None:
            return None
        if entry.person in self._table.persons:
            entry.began_warm = True
            self._publish(entry, settings)
        self._residence.bound(settings.max_sessions, settings.max_cache_bytes)
        return entry if self._table.entries.get(key) is entry else None

    # -- starting jobs -------------------------------------------------------------------------------------------------

    def _base(
        self, entry: Entry, identity: Identity, settings: Settings, index: int, trigger: str, again: bool = False
    ) -> bool:
        """Starts or joins the read of a person's part. True when one is under way for this entry now."""
        session = self._remote(entry, identity)
        established = self._established(entry, identity)
        summary = again or wants_summary(entry, settings, index, established)
        person = self._table.persons.get(entry.person)
        now = self.clock.now()
        flight = self._flights.of_person(entry.person)
        seconds = min(settings.request_timeout, MAX_JOB_SECONDS)
        workspace = identity.realm.workspace
        if flight is not None:
            Flights.join(flight, entry)
            if summary and (established or again) and not entry.summary_job:
                job: Job = SummaryJob(
                    self._flights.number(), entry.key, workspace, session, identity.user_peer, seconds
                )
                if self._launch(job, entry, trigger):
                    entry.summary_mark = index
            entry.base_at = now
            return True
        job = BaseJob(
            self._flights.number(),
            entry.key,
            workspace,
            session,
            identity.user_peer,
            max_conclusions(settings.context_tokens),
            server_tokens(person, settings, summary),
            summary,
            seconds,
            cold=entry.block is None,
        )
        if not self._launch(job, entry, trigger):
            entry.reason = Reason.OVERLOADED
            return False
        entry.base_at = now
        if entry.block is None:
            entry.reason = Reason.LOADING
        if summary:
            entry.summary_mark = index
        return True

    def _dialectic(self, entry: Entry, question: Any) -> None:
        """Asks what bears on the conversation, as far as the hour's budget goes."""
        identity, settings, query, index, cold = question
        entry.question_due = None
        depth = self._ports.spend.reserve(settings.dialectic_depth, self.clock.now(), settings.dialectic_per_hour)
        if depth == 0:
            self._meters.refresh.labels("dialectic", "budget").inc()
            return
        message = "" if cold else screened_message(query)
        job = DialecticJob(
            self._flights.number(),
            entry.key,
            identity.realm.workspace,
            self._remote(entry, identity) if self._established(entry, identity) else None,
            identity.user_peer,
            message,
            cold,
            level_for(message or None, settings.reasoning_level, settings.reasoning_level_cap),
            depth,
            settings.dialectic_max_chars,
            index + 1,
            min(settings.dialectic_timeout, MAX_JOB_SECONDS),
        )
        if self._launch(job, entry, "cold" if cold else "turn", depth):
            entry.asked_mark = index
        else:
            self._ports.spend.give_back(depth)

    def _launch(self, job: Job, entry: Entry, trigger: str, reserved: int = 0) -> bool:
        """Has a worker started, without waiting for it. False when there is no room or nobody to start it."""
        supervisor = self.runtime.registry.whereis(REFRESH_SUPERVISOR)
        if supervisor is None or self._flights.full:
            return False
        spec = ChildSpec(
            "worker",
            RefreshWorker,
            args=(job, self.actor_ref, self._ports.client),
            restart=Restart.TEMPORARY,
            shutdown=BRUTAL_KILL,
        )
        try:
            reply: Reply[Any] = supervisor.start_child(spec, block=False)
        except NoProc:
            return False
        flight = Flight(job, entry, self.clock.now(), trigger)
        flight.reserved = reserved
        self._flights.begin(flight)
        me, number = self.actor_ref, job.number
        reply.subscribe(lambda: me.cast(Started(number, reply)))
        flight.timer = self.send_after(job.seconds + GRACE_SECONDS, Overdue(number))
        self._residence.settle(entry)
        return True

    def _started(self, message: Started) -> None:
        """A worker runs, or could not be started. One whose flight has ended meanwhile has no work any more."""
        flight = self._flights.get(message.number)
        try:
            worker: Ref[Any] | None = message.reply.get(timeout=0)
        except Exception:  # noqa: BLE001 boundary: a worker that does not start costs one refresh, not the manager
            worker = None
        if flight is None:
            self._end_worker(worker)
        elif worker is None:
            self._lost(flight, "worker_died", Reason.OVERLOADED, "overloaded")
        else:
            self._flights.runs(flight, worker)
            flight.monitor = self.monitor(worker)

    def _end_worker(self, worker: Ref[Any] | None) -> None:
        """Has a worker ended whose work nobody wants any more: its call is cancelled, its socket closed."""
        supervisor = self.runtime.registry.whereis(REFRESH_SUPERVISOR)
        if supervisor is not None and worker is not None and worker.is_alive():
            try:
                supervisor.terminate_child(worker, block=False)
            except NoProc:
                pass  # the supervisor is ending, and ends its workers

    def _established(self, entry: Entry, identity: Identity) -> bool:
        """Whether the server is known to have the conversation: something was delivered, or the ledger says so."""
        return entry.uploads > 0 or self._ports.is_established(identity.session)

    def _remote(self, entry: Entry, identity: Identity) -> str:
        """The conversation's name on the server. A repository is looked for here, off the turn path."""
        entry.remote = identity.remote_session or locate(identity).remote_session
        return entry.remote

    # -- ends of jobs --------------------------------------------------------------------------------------------------

    def _done(self, done: Done) -> None:
        flight = self._flights.end(done.number)
        if flight is None:
            self._meters.late_results.labels("refresh").inc()
            return
        if isinstance(flight.job, DialecticJob):
            self._answered(flight, flight.job, done)
        elif isinstance(flight.job, SummaryJob):
            self._summarised(flight, done)
        else:
            self._based(flight, flight.job, done)
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
            self._end_worker(worker)

    def _lost(self, flight: Flight, outcome: str, reason: Reason, cause: str) -> None:
        """A flight ended without a report: like a failed read, for everyone whom it would have answered."""
        self._flights.end(flight.job.number)
        self._ports.spend.give_back(flight.reserved - 1)
        self._meters.refresh.labels(flight.job.layer, outcome).inc()
        if isinstance(flight.job, BaseJob):
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
            self._meters.refresh_duration.labels(job.layer).observe(max(0.0, self.clock.now() - flight.started))
        for entry in flight.entries:
            self._residence.settle(entry)
        settings = self._ports.cell.current
        self._residence.bound(settings.max_sessions, settings.max_cache_bytes)
        self._gauges()

    def _based(self, flight: Flight, job: BaseJob, done: Done) -> None:
        """A base read came back. Its failure changes nothing that was good before."""
        settings = self._ports.cell.current
        if done.failure is not None:
            reason = REASONS.get(done.failure, Reason.SERVER_ERROR)
            for entry in flight.entries:
                self._failed(entry, reason, "result")
            return
        now = self.clock.now()
        leader = flight.leader
        summary_is_new = False
        if done.summary is not None and done.summary != leader.summary:
            leader.summary = done.summary
            summary_is_new = True
        flags = KNOWN if done.known else 0
        if not self._know(leader.person, done.representation, done.card, now, flags, settings):
            for entry in flight.entries:
                self._failed(entry, Reason.OVERLOADED, "overloaded")
            return
        for entry in flight.entries:
            entry.failures = 0
            entry.retry_at = 0.0
            self._publish(entry, settings, read_now=True)
            self._waiting.answer(entry, _filled(entry, now, settings), "result")
            question, entry.question_due = entry.question_due, None
            if question is not None and done.known and not entry.dialectic_job:
                self._dialectic(entry, question)
        if summary_is_new:
            self._save_session(leader, settings)
        others = [entry.key for entry in self._residence.conversations(leader.person) if entry not in flight.entries]
        if others:
            self._republish(Republish(leader.person, others))

    def _failed(self, entry: Entry, reason: Reason, cause: str) -> None:
        """A base read failed. A conversation that was never loaded is left alone for a while, the others go by
        cadence."""
        entry.question_due = None
        if entry.block is None:
            entry.reason = reason
            pause = min(FAILED_LOAD_PAUSE * (1 << min(entry.failures, 8)), FAILED_LOAD_PAUSE_MAX)
            entry.retry_at = self.clock.now() + pause * (0.8 + 0.4 * self._ports.jitter())
            if entry.failures == 0:
                _log.warning("memory of a conversation could not be loaded: %s", reason)
            entry.failures += 1
        context = (
            Context((), State.COLD, reason)
            if entry.block is None
            else _filled(entry, self.clock.now(), self._ports.cell.current)
        )
        self._waiting.answer(entry, context, cause)
        self._residence.settle(entry)

    def _summarised(self, flight: Flight, done: Done) -> None:
        entry = flight.leader
        if done.failure is None and done.summary is not None and done.summary != entry.summary:
            entry.summary = done.summary
            if entry.block is not None:
                self._publish(entry, self._ports.cell.current)
            self._save_session(entry, self._ports.cell.current)

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
            self._publish(entry, self._ports.cell.current)

    # -- publication ---------------------------------------------------------------------------------------------------

    def _limits(self, settings: Settings) -> Limits:
        return Limits(settings.context_tokens, settings.dialectic_max_chars, self._ports.counter)

    def _know(
        self,
        person: PersonId,
        representation: str,
        card: tuple[str, ...],
        made_at: float,
        flags: int,
        settings: Settings,
        kept: PersonSnapshot | None = None,
    ) -> bool:
        """Publishes what is known of a person. False when there is no room for one more."""
        before = self._table.persons.get(person)
        known = publishing.person(
            representation,
            card,
            made_at=made_at,
            flags=flags,
            before=before,
            limits=self._limits(settings),
            epoch=settings.epoch,
            text=kept.text if kept is not None and kept.made_with == made_with(self._limits(settings)) else None,
        )
        if not self._residence.keep_person(person, known, settings.max_sessions):
            return False
        if kept is None and flags & KNOWN and _worth_saving(before, known):
            text, how = known[P_BLOCK][STABLE], made_with(self._limits(settings))
            self._save(person, PersonSnapshot(person, known[P_REPRESENTATION], known[P_CARD], made_at, 0.0, text, how))
        return True

    def _publish(
        self, entry: Entry, settings: Settings, read_now: bool = False, kept: SessionSnapshot | None = None
    ) -> None:
        """Renders and publishes the block of one conversation out of what is known now."""
        known = self._table.persons.get(entry.person)
        if known is None:
            return
        before = entry.block
        made_turn = entry.turns if read_now else (before[3] if before is not None else 0)
        limits = self._limits(settings)
        entry.block = publishing.block(
            entry,
            known,
            made_turn=made_turn,
            limits=limits,
            epoch=settings.epoch,
            text=kept.text if kept is not None and kept.made_with == made_with(limits) else None,
        )
        entry.ready = None
        entry.reason = Reason.HIT
        self._residence.weigh(entry)

    def _republish(self, message: Republish) -> None:
        """Further conversations of a person of whom something new is known, a slice at a time."""
        settings = self._ports.cell.current
        for key in message.keys[:SLICE]:
            entry = self._table.entries.get(key)
            if entry is not None:
                self._publish(entry, settings)
                self._waiting.answer(entry, _filled(entry, self.clock.now(), settings), "result")
        if rest := message.keys[SLICE:]:
            self.actor_ref.cast(Republish(message.person, rest))

    # -- loads, uploads, forgetting, restoring -------------------------------------------------------------------------

    def _load(self, message: Load) -> None:
        entry = self._entry(message.key, message.settings)
        if entry is None:
            return
        self._residence.touch(entry, self.clock.now())
        if not entry.base_job and (entry.block is None or message.again) and self.clock.now() >= entry.retry_at:
            trigger = "refresh" if message.again else "prewarm"
            self._base(entry, message.identity, message.settings, entry.turns, trigger, message.again)
        self._residence.settle(entry)

    def _uploaded(self, message: Uploaded) -> None:
        """Touches the entry, and admits one that only uploads. A person who was not known may be from now on."""
        key = flat(message.session)
        now = self.clock.now()
        entry = self._residence.admit(key, now, self._ports.cell.current.max_sessions)
        if entry is None:
            return
        self._residence.touch(entry, now)
        entry.uploads += 1
        if entry.block is None and entry.person in self._table.persons:
            entry.began_warm = True
            self._publish(entry, self._ports.cell.current)
        if entry.block is not None and not entry.block[FLAGS] & KNOWN:
            entry.base_mark = None

    def _forget(self, message: Forget) -> None:
        gone = Context((), State.COLD, Reason.NO_IDENTITY)
        for entry in [one for one in self._table.entries.values() if one.key[4] == message.peer]:
            self._waiting.answer(entry, gone, "evicted")
            for number in (entry.base_job, entry.dialectic_job, entry.summary_job):
                flight = self._flights.end(number) if number else None
                if flight is not None:
                    self._end_worker(flight.worker)
            self._residence.drop(entry, "forgotten")
        for person in [one for one in self._table.persons if one[4] == message.peer]:
            self._residence.drop_person(person)
        self._gauges()

    def _restored(self, message: Restored) -> None:
        """Snapshots take their place like anything else, and never that of something that was read in this process."""
        settings = self._ports.cell.current
        now = self.clock.now()
        realm = (settings.server_id, settings.workspace)
        for kept in message.persons:
            if kept.person[0] != realm[0] or kept.person in self._table.persons:
                continue
            made_at = now - max(0.0, message.wall_now - kept.made_at)
            if not self._know(kept.person, kept.representation, kept.card, made_at, KNOWN | RESTORED, settings, kept):
                break
            self._table.restored += 1
            others = [entry.key for entry in self._residence.conversations(kept.person)]
            if others:
                self._republish(Republish(kept.person, others))
        for session in message.sessions:
            if session.key[0] != realm[0] or session.key in self._table.entries:
                continue
            if person_of(session.key) not in self._table.persons or len(self._table.entries) >= settings.max_sessions:
                continue
            entry = self._residence.admit(session.key, now, settings.max_sessions)
            if entry is None:
                break
            entry.summary = session.summary
            entry.began_warm = True
            self._publish(entry, settings, kept=session)
            self._table.restored += 1
        self._residence.bound(settings.max_sessions, settings.max_cache_bytes)
        self._gauges()
        message.keeper.cast(Taken())

    def _save_session(self, entry: Entry, settings: Settings) -> None:
        text = entry.block[STABLE] if entry.block is not None else ""
        how = made_with(self._limits(settings)) if text else ""
        self._save(entry.key, SessionSnapshot(entry.key, entry.summary, 0.0, text, how))

    def _save(self, key: tuple[str, ...], snapshot: PersonSnapshot | SessionSnapshot) -> None:
        """Leaves a change for the keeper. Never waits."""
        unsaved, keeper = self._table.unsaved, self._table.keeper
        if len(unsaved) >= UNSAVED_MAX:
            return
        unsaved[key] = snapshot
        if keeper is not None and len(unsaved) == 1:
            keeper.cast(Unsaved())

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
            before = self.clock.now() - settings.idle_ttl
            self._residence.idle_persons(list(self._table.persons), before)
            self._plan_sweep()
            self._gauges()
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


def _worth_saving(before: Person | None, known: Person) -> bool:
    """Something is new, or an hour has gone by: a snapshot that is only confirmed must not grow old."""
    if before is None or before[P_FLAGS] != known[P_FLAGS]:
        return True
    texts_differ = before[P_REPRESENTATION] != known[P_REPRESENTATION] or before[P_CARD] != known[P_CARD]
    return texts_differ or before[P_MADE_AT] // 3600 != known[P_MADE_AT] // 3600


def _filled(entry: Entry, now: float, settings: Settings) -> Context:
    """The answer of a cold turn whose base layer is there."""
    block = entry.block
    assert block is not None
    found = context_of(block, now, settings.volatile_max_age)
    reason = Reason.FILLED if found.reason is Reason.HIT else found.reason
    return Context(found.sections, State.COLD, reason, 0.0, found.age, found.system, found.user_message)


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
    Sweep: SessionManager._sweep,
    Republish: SessionManager._republish,
    Restored: SessionManager._restored,
}
