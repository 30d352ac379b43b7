"""The jobs that are under way: numbered, timed, watched, and ended exactly once by result, overrun or the worker's end.

Owned by the SessionManager. A base flight belongs to a *person*: whoever needs the same person while it runs joins it
and makes no request. What comes back for a number that is no longer in the book is late; the caller counts and drops
it.
"""

from __future__ import annotations

from math import inf
from typing import Any

from honcho_actors.sessions.jobs import BaseJob, DialecticJob, Job, SummaryJob
from honcho_actors.sessions.line import Line
from honcho_actors.sessions.table import Entry, PersonId
from supervision import Ref

MAX_FLIGHTS = 20_000
"""Refreshes at once, running or in line; one more is refused and its turn is told so."""
MAX_REFRESHES = 256
"""Refreshes at once above which a layer that is there already is not read anew: its turn stays due. What nobody waits
for must not pile up in front of those who wait."""


class Flight:
    """One job. `followers` are further conversations that a base flight will answer; `awaited`: a turn waits for it."""

    __slots__ = (
        "alone",
        "awaited",
        "began",
        "followers",
        "job",
        "launched",
        "leader",
        "monitor",
        "reserved",
        "started",
        "timer",
        "trigger",
        "worker",
    )

    def __init__(self, job: Job, leader: Entry, started: float, trigger: str) -> None:
        self.job = job
        self.leader = leader
        self.followers: list[Entry] = []
        self.started = started
        self.began = started
        """When its worker was started."""
        self.alone = False
        """It had a place of the client to itself: how long it takes is how long the server takes."""
        self.trigger = trigger
        self.worker: Ref[Any] | None = None
        self.monitor: Any = None
        self.timer: Any = None
        self.reserved = 0
        self.awaited = False
        self.launched = False

    @property
    def cold(self) -> bool:
        """It is a first read."""
        return isinstance(self.job, BaseJob) and self.job.cold

    @property
    def wanted(self) -> bool:
        """Worth starting: nobody ever waited for it, or somebody still does."""
        if not self.awaited:
            return True
        return any(not waiter.resolved for entry in self.entries for waiter in entry.waiters or ())

    @property
    def patience(self) -> float:
        """When the last of those who wait for it gives up; infinite when nobody ever waited."""
        if not self.awaited:
            return inf
        waiting = [waiter.deadline for entry in self.entries for waiter in entry.waiters or () if not waiter.resolved]
        return max((inf if deadline is None else deadline for deadline in waiting), default=0.0)

    @property
    def entries(self) -> list[Entry]:
        """Every conversation that this flight answers."""
        return [self.leader, *self.followers]


class Flights:
    """The book. Numbers carry the manager's generation and are never used twice."""

    def __init__(self, generation: int) -> None:
        self._next = generation << 32
        self._flights: dict[int, Flight] = {}
        self._of_person: dict[PersonId, Flight] = {}
        self._of_worker: dict[int, int] = {}
        self.line = Line()
        self.running = 0
        """How many first reads, for which turns may wait, have a worker. Nothing else counts: a slow question must not
        stand in front of them."""

    def __len__(self) -> int:
        return len(self._flights)

    def full(self, cold: bool) -> bool:
        """No room for one more; while first reads stand in line there is none for anything else."""
        return len(self._flights) >= (MAX_FLIGHTS if cold else MAX_REFRESHES) or (not cold and len(self.line) > 0)

    def number(self) -> int:
        """A fresh number."""
        self._next += 1
        return self._next

    def of_person(self, person: PersonId) -> Flight | None:
        """The base flight that is under way for this person."""
        return self._of_person.get(person)

    def get(self, number: int) -> Flight | None:
        return self._flights.get(number)

    def of_worker(self, worker: Any) -> Flight | None:
        """The flight of a worker that has ended; None when it had reported before."""
        number = self._of_worker.get(id(worker))
        return None if number is None else self._flights.get(number)

    def begin(self, flight: Flight) -> None:
        """Takes a flight into the book and pins its entry."""
        number = flight.job.number
        self._flights[number] = flight
        if isinstance(flight.job, BaseJob):
            self._of_person[flight.leader.person] = flight
            flight.leader.base_job = number
        elif isinstance(flight.job, SummaryJob):
            flight.leader.summary_job = number
        else:
            flight.leader.dialectic_job = number

    def launch(self, flight: Flight, now: float, places: int) -> None:
        """A worker is being started for it; the client has so many `places`."""
        flight.launched = True
        flight.began = now
        flight.alone = self.running < places
        self.running += flight.cold

    def next(self) -> Flight | None:
        """The next in line, taken out of it."""
        while (number := self.line.pop()) is not None:
            flight = self._flights.get(number)
            if flight is not None and not flight.launched:
                return flight
        return None

    def hopeless(self, now: float, places: int) -> list[Flight]:
        """Those in line whose turn can't come before everyone who waits for them has given up, taken out of it."""
        numbers = self.line.hopeless(now, max(0, self.running - places), places, self._patience)
        return [self._flights[number] for number in numbers]

    def _patience(self, number: int) -> float | None:
        flight = self._flights.get(number)
        if flight is None or flight.launched:
            return None
        return flight.patience

    def runs(self, flight: Flight, worker: Ref[Any]) -> None:
        """Its worker has started."""
        flight.worker = worker
        self._of_worker[id(worker)] = flight.job.number

    @staticmethod
    def join(flight: Flight, entry: Entry) -> None:
        """One more conversation of the same person, answered by the same request."""
        if entry is not flight.leader and entry not in flight.followers:
            flight.followers.append(entry)
        entry.base_job = flight.job.number

    def end(self, number: int) -> Flight | None:
        """Takes a flight out of the book and unpins its entries; None when it is not there: whatever came is late."""
        flight = self._flights.pop(number, None)
        if flight is None:
            return None
        if flight.cold and flight.launched:
            self.running -= 1
            self.line.served()
        if flight.worker is not None:
            self._of_worker.pop(id(flight.worker), None)
        if flight.monitor is not None:
            flight.monitor.cancel()
        if flight.timer is not None:
            flight.timer.cancel()
        if isinstance(flight.job, BaseJob):
            if self._of_person.get(flight.leader.person) is flight:
                del self._of_person[flight.leader.person]
            for entry in flight.entries:
                if entry.base_job == number:
                    entry.base_job = 0
        elif isinstance(flight.job, SummaryJob):
            flight.leader.summary_job = 0
        elif isinstance(flight.job, DialecticJob):
            flight.leader.dialectic_job = 0
        return flight

    def all(self) -> list[Flight]:
        return list(self._flights.values())
