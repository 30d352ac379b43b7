"""What the actors of this room share: the ports, the intake, the receipts in flight, what is published of the state.

One `Core` for each runtime. It survives its actors: a restarted writer finds here what its predecessor had in hand, and
a restarted sweeper reads from the outbox what there is to do. Fields are published whole and read without a lock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from honcho_actors.capture import accepting
from honcho_actors.capture.clocks import AgeClock, ReadClock, Reading, read_clock
from honcho_actors.capture.delivering import Ended
from honcho_actors.capture.intake import Entry, Failed, Intake
from honcho_actors.capture.lease import Owner
from honcho_actors.capture.receipt import Receipt
from honcho_actors.capture.retaining import Counts
from honcho_actors.capture.retry import RetryPolicy
from honcho_actors.capture.schema import DELIVERED, EXPIRED, SET_ASIDE
from honcho_actors.metrics import Meters
from honcho_actors.model import Audience, Realm, ReceiptState, SessionKey, SkipReason
from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Gate
from supervision import Clock, Waiter

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient
    from honcho_actors.settings import Settings

T = TypeVar("T")
U = TypeVar("U")

log = logging.getLogger("honcho_actors.capture")

KNOWN_ON_SERVER = 20_000
"""Conversations that are remembered as known to the server; about older ones a question goes without the session."""
SWEEP_EVERY = 900.0
"""Seconds between two sweeps."""


class SettingsSource(Protocol):
    """Where the settings in force are read: one plain attribute."""

    @property
    def current(self) -> Settings: ...


class ActorHandle(Protocol):
    """As much of an actor's ref as this room needs."""

    def cast(self, message: Any) -> bool: ...


def _nobody(key: SessionKey) -> None:
    return None


@dataclass(frozen=True, slots=True)
class CapturePorts:
    """What `runtime` wires. `client` is called on the event loop with a server id; None: nothing can be sent there now.

    `on_uploaded` is called, on the writer's thread, for each conversation that something was delivered to; it must not
    block. `gate` is the egress gate of this runtime.
    """

    settings: SettingsSource
    client: Callable[[str], HonchoClient | None]
    meters: Meters
    clock: Clock = field(default_factory=Clock)
    on_uploaded: Callable[[SessionKey], None] = _nobody
    gate: Gate = egress.DEFAULT
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    read_clock: ReadClock = read_clock
    random: Callable[[], float] = random.random
    sweep_every: float = SWEEP_EVERY


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the outbox can't be used now, in words for people, and how many turns that has cost."""

    reason: str = ""
    text: str = ""


class Core:
    """Shared by the facade, the writer, the sweeper and the delivery workers."""

    def __init__(self, ports: CapturePorts, directory: Path, intake: Intake | None = None) -> None:
        self.ports = ports
        self.directory = directory
        self.path = directory / "outbox.db"
        self.intake = Intake() if intake is None else intake
        self.owner = Owner(directory)
        self.receipts: weakref.WeakValueDictionary[bytes, Receipt] = weakref.WeakValueDictionary()
        self.opted_out: set[tuple[str, str]] = set()
        self.ledger_read = False
        """Whether `on_server` holds what the outbox's ledger says; before that it is only what this process did."""
        self.forgets = 0
        """How often somebody was forgotten: a text that was taken before may not leave any more."""
        self.moves = 0
        """How often conversations were removed or merged: a row number that was remembered before may be another's."""
        self.on_server: dict[SessionKey, None] = {}
        """Conversations that the server is known to have, in the order in which something was delivered to them: read
        from the ledger at start, added to by the writer, read by anybody."""
        self.flushes: list[tuple[int, Waiter[Any]]] = []
        """Who waits until nothing up to a sequence number is owed; a restarted writer answers them."""
        self.counts: Counts | None = None
        self.trouble = Trouble()
        self.set_aside_files: tuple[str, ...] = ()
        self.limits: set[asyncio.Timeout] = set()
        """How long the deliveries that run may go on: for ever, until a stop. On their loop alone."""
        self.waiting: dict[int, str] = {}
        """Conversations that are not delivered now, and why, as the sweeper last heard."""
        self.writer: ActorHandle | None = None
        self.sweeper: ActorHandle | None = None
        self.age_clock = AgeClock()
        self.skips: Counter[str] = Counter()
        self.taken = 0
        """Turns that were written down, here, since the start; a second capture of one counts too."""
        self._lock = threading.Lock()
        self.wipe = False
        """Something was removed for good: what the write-ahead log still holds of it goes with the next look."""
        self.closed = False
        self.shut = False
        """The last writer of this runtime has written what it will write."""
        self.given_up = False
        self.generation = 0

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.ports.settings.current

    def age(self, now: Reading) -> float:
        """The outbox's own time, in seconds."""
        return self.age_clock.at(now).age

    def skipped(self, reason: SkipReason) -> None:
        """Counts a turn that was not captured."""
        with self._lock:
            self.skips[reason.value] += 1
        self.ports.meters.captures.labels(reason.value).inc()

    def lease_time(self) -> float:
        """Seconds that a lease lasts between two entries of its holder: longer than any request may take."""
        return self.settings.delivery_timeout + 60.0

    def wake(self) -> None:
        """Has the writer look at the intake. Any thread; never blocks."""
        intake = self.intake
        if not intake.awake:
            intake.awake = True
            writer = self.writer
            if writer is None or not writer.cast(WAKE):
                intake.awake = False

    def submit(
        self,
        act: Callable[[sqlite3.Connection], T],
        *,
        after: Callable[[T], Any] | None = None,
        in_order: bool = False,
        fence: bool = True,
        waiter: Waiter[Any] | None = None,
    ) -> Waiter[Any]:
        """Hands an entry to the writer; the waiter gets its value, or `Failed`. `in_order`: after the turns that were
        handed over before it; `fence`: and before those that come after it.
        """
        found: Waiter[Any] = Waiter(clock=self.ports.clock) if waiter is None else waiter
        self.intake.add_entry(Entry(act, found, after, fence), in_order=in_order)
        self.wake()
        return found

    @overload
    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T: ...
    @overload
    async def run(self, act: Callable[[sqlite3.Connection], T], *, after: Callable[[T], U]) -> U: ...
    async def run(self, act: Callable[[sqlite3.Connection], Any], *, after: Callable[[Any], Any] | None = None) -> Any:
        """Carries an entry out on the outbox and waits for its commit; `after` makes of its value, on the writer's
        thread, what is returned. Raises what either raised.
        """
        value = await self.submit(act, after=after)
        if isinstance(value, Failed):
            raise value.error
        return value

    def tell_sweeper(self, message: object) -> None:
        """Tells the sweeper; a message that it misses is made good by its next reading of the outbox."""
        sweeper = self.sweeper
        if sweeper is not None:
            sweeper.cast(message)

    def ended(self, batches: Iterable[Ended]) -> None:
        """Moves receipts, counts, and says which conversations were uploaded to. On the writer's thread, after a
        commit.
        """
        uploaded: set[SessionKey] = set()
        deliveries = self.ports.meters.deliveries
        for batch in batches:
            state = _FINAL[batch.state]
            deliveries.labels(state.value).inc()
            receipt = self.receipts.get(batch.batch_id)
            if receipt is not None:
                receipt.advance(state, batch.reason)
            if batch.state == DELIVERED:
                audience: Audience = "shared" if batch.audience == "shared" else "private"
                realm = Realm(batch.server, batch.workspace, batch.partition)
                uploaded.add(SessionKey(realm, batch.key, batch.user, audience))
        self.know(uploaded)
        for key in uploaded:
            self.ports.on_uploaded(key)

    def know(self, sessions: Iterable[SessionKey]) -> None:
        """The server has these. On the writer's thread."""
        known = self.on_server
        for session in sessions:
            known.pop(session, None)
            known[session] = None
        while len(known) > KNOWN_ON_SERVER:
            del known[next(iter(known))]

    def admit(self, batch_id: bytes, receipt: Receipt) -> Receipt:
        """The receipt under which this turn is on its way: this one, or that of whoever hands it over just now too."""
        with self._lock:
            known = self.receipts.get(batch_id)
            if known is not None and known.state is not ReceiptState.SKIPPED:
                return known
            self.receipts[batch_id] = receipt
            return receipt

    def awaited(self) -> list[Receipt]:
        """The receipts on which somebody waits. Any thread, while others hand turns over."""
        held = [reference() for reference in self.receipts.valuerefs()]
        return [receipt for receipt in held if receipt is not None and receipt.awaited]

    def adopt(self, connection: sqlite3.Connection) -> int:
        """Gives what was accepted before any server was configured to the one that is set now. An entry; returns the
        number of conversations."""
        adopted = accepting.adopt(connection, self.settings.server_id)
        self.moves += 1 if adopted else 0
        return adopted

    def unknow(self, peer: str) -> None:
        """A person is forgotten, and with them what the server has of theirs; a group that is in a worker's hand and
        not yet on its way is taken anew. On the writer's thread."""
        self.forgets += 1
        self.moves += 1
        for session in [held for held in self.on_server if held.user == peer]:
            del self.on_server[session]


_FINAL = {
    DELIVERED: ReceiptState.DELIVERED,
    SET_ASIDE: ReceiptState.SET_ASIDE,
    EXPIRED: ReceiptState.EXPIRED,
}


def final_state(number: int) -> ReceiptState:
    """The receipt's word for a batch's state."""
    return _FINAL.get(number, ReceiptState.ACCEPTED)


class _Wake:
    def __repr__(self) -> str:
        return "WAKE"


WAKE = _Wake()
"""The writer is to look at the intake."""
