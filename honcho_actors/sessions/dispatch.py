"""Starting refreshes: from *this layer of this conversation is due* to a worker that runs, without waiting for it.

Decides what one request asks for and whether one is needed at all: a person whose read is under way is joined, a
summary that can't exist is not asked for, a question is asked as far as the hour's budget goes. Part of the
SessionManager.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from honcho_actors.model import Reason
from honcho_actors.privacy.identity import Identity, locate
from honcho_actors.sessions.cadence import level_for
from honcho_actors.sessions.flights import Flight, Flights
from honcho_actors.sessions.jobs import GRACE_SECONDS, MAX_JOB_SECONDS, BaseJob, DialecticJob, Job, SummaryJob
from honcho_actors.sessions.messages import LOOK, Overdue, Started
from honcho_actors.sessions.ports import Ports
from honcho_actors.sessions.questions import screened_message
from honcho_actors.sessions.table import Entry, Table
from honcho_actors.sessions.turns import max_conclusions, server_tokens, wants_summary
from honcho_actors.sessions.worker import LEAVE, Next, RefreshWorker
from honcho_actors.settings import Settings
from supervision import BRUTAL_KILL, ChildSpec, NoProc, Ref, Reply, Restart, ThreadActor

REFRESH_SUPERVISOR = "honcho.refresh"
"""The registered name of the supervisor that the workers run under."""

CROWD = 8
"""First reads at once from which a worker stays for the next in line."""
SPARE = 32
"""Workers that wait for a slot of the client, at most."""
LOOK_EVERY = 0.05
"""Seconds between two looks at who waits in line in vain."""
START_SECONDS = 30.0
"""A worker's start only waits for its turn on the loop; behind a burst that can take seconds."""


class Dispatch:
    """Owned by the manager `me`. `settle` is told of an entry whose pins may have changed."""

    def __init__(self, me: ThreadActor, table: Table, ports: Ports, settle: Callable[[Entry], None]) -> None:
        self._me = me
        self._table = table
        self._ports = ports
        self._settle = settle
        self.flights = Flights(table.generation)
        self._looking = False
        self._free: list[Ref[Any]] = []

    def base(
        self,
        entry: Entry,
        identity: Identity,
        settings: Settings,
        index: int,
        trigger: str,
        again: bool = False,
        deadline: float = inf,
    ) -> bool:
        """Starts or joins the read of a person's part. True when one is under way for this entry now."""
        session = self._remote(entry, identity)
        established = self._established(entry, identity)
        summary = again or wants_summary(entry, settings, index, established)
        person = self._table.persons.get(entry.person)
        now = self._me.clock.now()
        flight = self.flights.of_person(entry.person)
        seconds = min(settings.request_timeout, MAX_JOB_SECONDS)
        workspace = identity.realm.workspace
        if flight is not None:
            Flights.join(flight, entry)
            if summary and (established or again) and not entry.summary_job:
                job: Job = SummaryJob(self.flights.number(), entry.key, workspace, session, identity.user_peer, seconds)
                if self._launch(job, entry, trigger):
                    entry.summary_mark = index
            entry.base_at = now
            return True
        job = BaseJob(
            self.flights.number(),
            entry.key,
            workspace,
            session,
            identity.user_peer,
            max_conclusions(settings.context_tokens),
            server_tokens(person, settings, summary),
            summary,
            seconds,
            cold=entry.block is None,
            due=None if deadline == inf else deadline,
        )
        if not self._launch(job, entry, trigger, deadline=deadline):
            if entry.block is None:
                entry.reason = Reason.CLOSED if self._table.closed else Reason.OVERLOADED
            return False
        entry.base_at = now
        if entry.block is None:
            entry.reason = Reason.LOADING
        if summary:
            entry.summary_mark = index
        return True

    def person(self, entry: Entry, settings: Settings) -> None:
        """Reads a person's part for a conversation of which nothing more is known than whose it is. Nobody waits for
        it: it makes room for those for whom somebody does."""
        if self.flights.of_person(entry.person) is not None:
            return
        job = BaseJob(
            self.flights.number(),
            entry.key,
            entry.key[1],
            "",
            entry.key[4],
            max_conclusions(settings.context_tokens),
            0,
            False,
            min(settings.request_timeout, MAX_JOB_SECONDS),
        )
        if self._launch(job, entry, "upload"):
            entry.base_at = self._me.clock.now()

    def dialectic(self, entry: Entry, question: Any) -> None:
        """Asks what bears on the conversation, as far as the hour's budget goes."""
        identity, settings, query, index, cold = question
        entry.question_due = None
        depth = self._ports.spend.reserve(settings.dialectic_depth, self._me.clock.now(), settings.dialectic_per_hour)
        if depth == 0:
            self._ports.meters.refresh.labels("dialectic", "budget").inc()
            return
        message = "" if cold else screened_message(query)
        job = DialecticJob(
            self.flights.number(),
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

    def _launch(self, job: Job, entry: Entry, trigger: str, reserved: int = 0, deadline: float = inf) -> bool:
        """Takes a job into the book, and has a worker started or lets it stand in line. False when there is no room."""
        flight = Flight(job, entry, self._me.clock.now(), trigger)
        if self.flights.full(flight.cold):
            return False
        flight.reserved = reserved
        self.flights.begin(flight)
        self._settle(entry)
        if flight.cold and self.flights.running >= self._most():
            self.flights.line.put(deadline, job.number, self._me.clock.now())
            if not self._looking:
                self._looking = True
                self._me.send_after(LOOK_EVERY, LOOK)
            return True
        if self._start(flight):
            return True
        self.flights.end(job.number)
        self._settle(entry)
        return False

    def advance(self) -> list[Flight]:
        """Starts whoever is next in line, as far as there is room. Gives the flights that were dropped unsent: everyone
        who waited for them is gone, or nobody can start them."""
        dropped = []
        while self.flights.running < self._most():
            flight = self.flights.next()
            if flight is None:
                break
            if not flight.wanted or not (self._hand_over(flight) or self._start(flight)):
                self.flights.end(flight.job.number)
                dropped.append(flight)
        while self._free:
            self._free.pop().cast(LEAVE)
        return dropped

    def free(self, worker: Ref[Any]) -> None:
        """A worker that stays has done its job. At the next `advance` it gets another one or leaves."""
        self._free.append(worker)

    def _hand_over(self, flight: Flight) -> bool:
        """Gives a flight to a worker that has just become free: starting one costs as much as the read itself."""
        while self._free and not self._table.closed:
            worker = self._free.pop()
            if worker.cast(Next(flight.job)):
                self._launched(flight)
                self.flights.runs(flight, worker)
                flight.monitor = self._me.monitor(worker)
                return True
        return False

    def hopeless(self) -> list[Flight]:
        """The flights in line whose turn can't come in time, taken out of the book. Looks again while there is a
        line."""
        slots = self._ports.cell.current.max_concurrent_requests
        found = self.flights.hopeless(self._me.clock.now(), slots)
        for flight in found:
            self.flights.end(flight.job.number)
        self._looking = len(self.flights.line) > 0
        if self._looking:
            self._me.send_after(LOOK_EVERY, LOOK)
        return found

    def _most(self) -> int:
        """Workers at once for whom somebody waits: enough to keep every slot of the client busy, and no more: whoever
        stands in line can still be told early."""
        slots = self._ports.cell.current.max_concurrent_requests
        return slots + min(slots, SPARE)

    def _start(self, flight: Flight) -> bool:
        """Has a worker started, without waiting for it. False when there is nobody to start it."""
        supervisor = self._me.runtime.registry.whereis(REFRESH_SUPERVISOR)
        if supervisor is None or self._table.closed:
            return False
        job = flight.job
        spec = ChildSpec(
            "worker",
            RefreshWorker,
            args=(job, self._me.actor_ref, self._ports.client, flight.cold and self.flights.running >= CROWD),
            restart=Restart.TEMPORARY,
            shutdown=BRUTAL_KILL,
            start_timeout=START_SECONDS,
        )
        try:
            reply: Reply[Any] = supervisor.start_child(spec, block=False)
        except NoProc:
            return False
        self._launched(flight)
        me, number = self._me.actor_ref, job.number
        reply.subscribe(lambda: me.cast(Started(number, reply)))
        return True

    def _launched(self, flight: Flight) -> None:
        self.flights.launch(flight, self._me.clock.now(), self._ports.cell.current.max_concurrent_requests)
        job = flight.job
        flight.timer = self._me.send_after(job.seconds + GRACE_SECONDS, Overdue(job.number))

    def started(self, message: Started) -> Flight | None:
        """A worker runs, or could not be started: then its flight is given, for the caller to end. One whose flight has
        ended meanwhile has no work any more."""
        flight = self.flights.get(message.number)
        try:
            worker: Ref[Any] | None = message.reply.get(timeout=0)
        except Exception:  # noqa: BLE001 boundary: a worker that does not start costs one refresh, not the manager
            worker = None
        if flight is None:
            if worker is not None and self.flights.of_worker(worker) is None:  # else it has its next job already
                self.end_worker(worker)
        elif worker is None:
            return flight
        else:
            self.flights.runs(flight, worker)
            flight.monitor = self._me.monitor(worker)
        return None

    def end_worker(self, worker: Ref[Any] | None) -> None:
        """Has a worker ended whose work nobody wants any more: its call is cancelled, its socket closed."""
        supervisor = self._me.runtime.registry.whereis(REFRESH_SUPERVISOR)
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
