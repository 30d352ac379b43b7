"""The read side's face for the runtime: it makes the table, gives the children of the tree, and stands beside turns.

What a turn meets is in `serving`. Everything here may be called from any thread, waits for nothing (but `forget`, which
says so), and answers with what it knows while the tree is away.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any, Literal

from honcho_actors.metrics import Meters
from honcho_actors.model import Cause, Realm, Reason, SessionKey, TurnRequest
from honcho_actors.privacy.identity import Identity, resolve
from honcho_actors.sessions.budget import Counter, utf8_thirds
from honcho_actors.sessions.cadence import SpendBudget
from honcho_actors.sessions.dispatch import REFRESH_SUPERVISOR
from honcho_actors.sessions.flights import MAX_FLIGHTS
from honcho_actors.sessions.keeper import SnapshotKeeper
from honcho_actors.sessions.manager import SessionManager
from honcho_actors.sessions.messages import Forget, ForgetSaved, Load, Moved, Uploaded
from honcho_actors.sessions.ports import Ports
from honcho_actors.sessions.serving import Gate, Serving
from honcho_actors.sessions.table import FLAGS, MADE_AT, RESTORED, STABLE, VOLATILE, Entry, Key, Table, flat
from honcho_actors.sessions.worker import ClientFactory
from honcho_actors.settings import Settings, SettingsCell
from supervision import ChildSpec, Clock, Ref, Strategy, SupervisionError

MANAGER = "honcho.sessions"
READ_SIDE = "honcho.read_side"
KEEPER = "honcho.snapshots"
RECENT = 1000
"""Conversations among which the one that was read last is looked for."""
HUNG_AFTER = 30.0
"""Seconds that the manager may take over one message before it is given up and replaced."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One conversation as `status` shows it. `age` of its base layer in seconds, None before there is one; `idle` since
    its last turn. `state`: ready, restored (from a snapshot, not read here yet), empty (read, and nothing is known),
    loading, or absent for the `reason`."""

    key: str
    user: str
    remote: str
    turns: int
    age: float | None
    reason: Reason
    state: Literal["ready", "restored", "empty", "loading", "absent"]
    idle: float


class Sessions(Serving):
    """The read side's face. Made before the tree, serves before, while and after the tree runs."""

    def __init__(
        self,
        cell: SettingsCell,
        meters: Meters,
        client: ClientFactory,
        *,
        clock: Clock | None = None,
        is_established: Callable[[SessionKey], bool] = lambda session: False,
        counter: Counter = utf8_thirds,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`client(server_id)` is called by workers, on their event loop, and gives that loop's client for that server,
        or None when another is set now. `is_established` answers from memory whether the server has a conversation; it
        is called on the manager's thread. `clock` is the runtime's.
        """
        self.table = Table()
        super().__init__(self.table, cell, clock or Clock(), counter)
        self._ports = Ports(cell, meters, client, is_established=is_established, counter=counter, jitter=jitter)
        cell.subscribe(self._changed)

    def child_specs(self) -> tuple[ChildSpec, ...]:
        """The read side of the tree, in start order: a supervisor over the manager and its workers, which fall and rise
        together, and the keeper of snapshots, whose faults are its own."""
        children = (
            ChildSpec.dynamic("refresh", max_children=MAX_FLIGHTS, name=REFRESH_SUPERVISOR),
            ChildSpec(
                "session_manager", SessionManager, args=(self._table, self._ports), name=MANAGER, watchdog=HUNG_AFTER
            ),
        )
        return (
            ChildSpec.supervisor("read_side", children, strategy=Strategy.ONE_FOR_ALL, name=READ_SIDE),
            ChildSpec("snapshots", SnapshotKeeper, args=(self._table, self._cell), name=KEEPER, shutdown=2.0),
        )

    @property
    def spend(self) -> SpendBudget:
        """The budget of billed questions, which tools share."""
        return self._ports.spend

    def prewarm(self, request: TurnRequest) -> None:
        """Starts the load of a conversation that has none. Waits for nothing and counts no turn."""
        self._load(request, False)

    def refresh(self, request: TurnRequest) -> None:
        """Reads a conversation again now: it went idle, was archived, or something was written about the person."""
        self._load(request, True)

    def degraded(self, causes: tuple[Cause, ...]) -> None:
        """From the next block on, every context says so; `()`: all is well again."""
        self._table.degraded = causes

    def note_upload(self, session: SessionKey) -> None:
        """Capture has delivered something of this conversation."""
        manager = self._table.manager
        if manager is not None:
            manager.cast(Uploaded(session))

    def forget(self, peer: str, timeout: float = 5.0) -> bool:
        """Drops everything that is held about a remote peer, in memory and in the snapshots. Waits for it, but not on a
        loop's thread. True when nothing is left of it."""
        end = self._now() + timeout
        done = True
        table = self._table
        # The manager once more at the end: while snapshots are loaded the keeper may have handed over what it had read.
        asked = ((table.manager, Forget(peer)), (table.keeper, ForgetSaved(peer)), (table.manager, Forget(peer)))
        for actor, message in asked:
            try:
                reply = None if actor is None else actor.ask(message, block=False)
                if reply is None or reply.get(timeout=max(0.0, end - self._now())) is False:
                    done = False
            except SupervisionError:
                done = False
        self._table.summaries.forget(peer)
        return done

    def close(self) -> None:
        """From now on whoever finds no manager is told that memory is closed, not that it is away."""
        self._table.closed = True

    def rows(self, limit: int = 1000, *, latest: bool = False) -> tuple[SessionRow, ...]:
        """The conversations that are held now, least recently used first, or those with the `latest` turns first. From
        any thread; costs by how many it shows, whatever is held; not for the turn path."""
        now = self._now()
        chosen = self._latest(limit) if latest else self._look(islice(self._entries, limit))
        return tuple(_row(entry, now) for entry in chosen)

    def row(self, key: str | None = None, user: str | None = None) -> SessionRow | None:
        """The one conversation of this key (and remote peer); without a key, the one that was read last, of those with
        the latest turns. From any thread; not for the turn path."""
        if key is None:
            found = max((one for one in self._latest(RECENT) if one.block is not None), key=_read_at, default=None)
        else:
            keys = (held for held in self._entries if held[3] == key and user in (None, held[4]))
            found = next(iter(self._look(islice(keys, 1))), None)
        return None if found is None else _row(found, self._now())

    def _changed(self, settings: Settings) -> None:
        """Other settings are in force, on whatever thread that came about."""
        keeper = self._table.keeper
        if keeper is not None:
            keeper.cast(Moved())

    def _latest(self, limit: int) -> list[Entry]:
        entries = self._entries
        rest = list(entries.resting.copy())[-limit:]  # in order of use
        return heapq.nlargest(limit, self._look((*rest, *entries.lively.copy())), key=attrgetter("touched"))

    def _look(self, keys: Iterable[Key]) -> list[Entry]:
        return [entry for key in keys if (entry := self._entries.look(key)) is not None]

    def knows(self, realm: Realm, key: str, user: str | None = None) -> bool:
        """Whether a private conversation of this key is held here, of that remote peer or of anybody. From any thread;
        looks through the whole table, so not for the turn path."""
        return any(
            held[3] == key and held[:3] == realm and held[5] == "private" and user in (None, held[4])
            for held in list(self._entries)
        )

    def known(self, request: TurnRequest) -> Identity | None:
        """Who and which remote session this is, when it is a conversation that is held here; nobody is guessed."""
        identity = resolve(request, self._cell.current)
        if not isinstance(identity, Identity) or flat(identity.session) not in self._entries:
            return None
        return identity

    def status(self) -> dict[str, Any]:
        """Counts, JSON-able. No network, no wait."""
        table = self._table
        manager = table.manager
        return {
            "sessions": len(table.entries),
            "persons": len(table.persons),
            "bytes": table.bytes,
            "restored": table.restored,
            "generation": table.generation,
            "uncounted_turns": len(table.feed),
            "lost_turns": table.lost,
            "served_turns": table.served,
            "failed_reads": table.failed_reads,
            "failed_why": table.failed_why,
            "snapshots": table.snapshots,
            "manager": "running" if manager is not None and manager.is_alive() else "away",
        }

    def _load(self, request: TurnRequest, again: bool) -> None:
        settings = self._cell.current
        manager: Ref[Any] | None = self._table.manager
        if not isinstance(request, TurnRequest):
            return  # type: ignore[unreachable]
        if Gate(settings).reason is not None or manager is None or request.audience != "private":
            return
        if request.scope != "main" and not settings.inject_in_subagents:
            return
        identity = resolve(request, settings)
        if isinstance(identity, Identity):
            manager.cast(Load(flat(identity.session), identity, settings, again))


def _read_at(entry: Entry) -> float:
    return entry.block[MADE_AT] if entry.block is not None else -1e18


def _row(entry: Entry, now: float) -> SessionRow:
    block = entry.block
    state: Literal["ready", "restored", "empty", "loading", "absent"]
    if block is None:
        state = "loading" if entry.base_job else "absent"
    elif block[FLAGS] & RESTORED:
        state = "restored"
    else:
        state = "ready" if block[STABLE] or block[VOLATILE] else "empty"
    age = None if block is None else max(0.0, now - block[MADE_AT])
    idle = max(0.0, now - entry.touched)
    return SessionRow(entry.key[3], entry.key[4], entry.remote, entry.turns, age, entry.reason, state, idle)
