"""What a turn meets: one look into the published table, and for a cold turn a reply that always comes.

Promises of `serve`: it never raises, never outlives its budget, and on a warm turn does no more than a look-up, a
ready-made answer and one message to the manager, with no lock that a writer holds and no call that gives the
interpreter away. Settings, table and clock are read once; everything that follows uses those. Any thread, any number
of event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.privacy import names
from honcho_actors.privacy.identity import Identity, resolve
from honcho_actors.sessions import publishing
from honcho_actors.sessions.block import Limits
from honcho_actors.sessions.budget import Counter
from honcho_actors.sessions.line import MANY
from honcho_actors.sessions.messages import DRAIN, Open, TurnRecord
from honcho_actors.sessions.table import (
    EPOCH,
    FEED_LENGTH,
    P_BLOCK,
    READY_FOR,
    Block,
    Entry,
    Key,
    Table,
    context_of,
    flat,
    person_of,
    representation_of,
)
from honcho_actors.sessions.trivial import is_trivial
from honcho_actors.settings import Settings, SettingsCell
from supervision import Clock, Waiter

CROWD_SECONDS = 0.00005
CROWD_SECONDS_MAX = 0.1
"""What each of those who wait takes off the grant of who comes after them, and what all of them take at most: so long
it takes to tell them."""
LEAST_READ = 0.001
"""Seconds that a read is taken to take at least."""
REMEMBERED = 1024
"""Conversations, beyond twice those held, that are remembered by their requests. One that was dropped has no block."""

OFF: dict[Reason, Context] = {reason: Context((), State.OFF, reason) for reason in Reason}


class Gate:
    """One settings object as turns see it: what keeps all of them without memory, and whom it found so far."""

    __slots__ = ("known", "reason", "settings")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: dict[tuple[Any, ...], Key] = {}
        self.reason: Reason | None = None
        if not settings.enabled:
            self.reason = Reason.DISABLED
        elif not settings.configured:
            self.reason = Reason.NOT_CONFIGURED
        elif settings.recall_mode == "tools":
            self.reason = Reason.TOOLS_MODE
        elif settings.context_tokens <= 0:
            self.reason = Reason.BUDGET

    def reads(self, key: Key) -> bool:
        """Whether memory of this conversation is read under these settings at all."""
        settings = self.settings
        place = (settings.server_id, names.workspace_id(settings.workspace))
        return self.reason is None and key[:2] == place and key[5] == "private"


class Serving:
    """Serves turns from a table. Needs no tree: it serves before, while and after one runs."""

    def __init__(self, table: Table, cell: SettingsCell, clock: Clock, counter: Counter) -> None:
        self._table = table
        self._entries = table.entries
        self._lively = table.entries.lively
        self._cell = cell
        self._clock = clock
        self._now: Callable[[], float] = clock.now
        self._counter = counter
        self._gate = Gate(cell.current)
        self._begun = table.begun

    # -- a turn --------------------------------------------------------------------------------------------------------

    def serve(self, request: TurnRequest, budget: float | None = None) -> Context:
        """This turn's context. A cold turn waits at most `budget` seconds (`first_turn_wait`) minus headroom."""
        turn = self.look(request)
        if turn.context is not None:
            self.count(turn)
            return turn.context
        start = turn.at
        wait = self._wait(budget, turn.settings)
        if wait <= 0.0:
            return self.unserved(turn)
        if _on_loop():
            return self.unserved(turn, Reason.EVENT_LOOP)
        waiter = self.begin(turn, start + wait)
        try:
            context = waiter.result()
        except BaseException:
            self._left(turn, waiter)
            raise
        return self._finish(turn, waiter, context)

    async def aserve(self, request: TurnRequest, budget: float | None = None) -> Context:
        """As `serve`, suspending the task instead of the thread. A cancelled caller takes nothing from the others."""
        turn = self.look(request)
        if turn.context is not None:
            self.count(turn)
            return turn.context
        wait = self._wait(budget, turn.settings)
        if wait <= 0.0:
            return self.unserved(turn)
        waiter = self.begin(turn, turn.at + wait)
        try:
            context = await waiter
        except BaseException:
            self._left(turn, waiter)
            raise
        return self._finish(turn, waiter, context)

    def look(self, request: TurnRequest) -> TurnRecord:
        """Reads settings, table and clock once. The record's context is None when the turn is cold and may wait."""
        settings = self._cell.current
        now = self._now()
        gate = self._gate
        if gate.settings is not settings:
            gate = self._gate = Gate(settings)
        reason = gate.reason
        if not isinstance(request, TurnRequest):
            reason = Reason.NO_IDENTITY  # type: ignore[unreachable]
        if reason is not None:
            return TurnRecord(None, request, settings, now, OFF[reason])
        if request.scope != "main" and not settings.inject_in_subagents:
            return TurnRecord(None, request, settings, now, OFF[Reason.SUBAGENT])
        if request.audience != "private":
            return TurnRecord(None, request, settings, now, OFF[Reason.SHARED_AUDIENCE])
        try:
            key = gate.known.get(
                (
                    request.session_key,
                    request.session_id,
                    request.cwd,
                    request.user,
                    request.audience,
                    request.partition,
                )
            )
        except TypeError:
            key = None
        entry = None if key is None else self._lively.get(key)
        block = None if entry is None else entry.block
        if entry is None or block is None:
            return self._sought(request, gate, now)
        ready = entry.ready
        if ready is not None and ready[0] is block and now - ready[1] < READY_FOR and block[EPOCH] == settings.epoch:
            return TurnRecord(key, request, settings, now, ready[2])
        return TurnRecord(key, request, settings, now, self._renewed(entry, block, settings, now))

    def _sought(self, request: TurnRequest, gate: Gate, now: float) -> TurnRecord:
        """A turn of a conversation that these settings have not met, that is at rest, was dropped, or has no block
        yet."""
        settings = gate.settings
        identity = resolve(request, settings)
        if not isinstance(identity, Identity):
            return TurnRecord(None, request, settings, now, OFF[Reason.NO_IDENTITY])
        key = flat(identity.session)
        entry = self._entries.look(key)
        block = None if entry is None else entry.block
        if entry is None or block is None:
            return TurnRecord(key, request, settings, now, self._without(entry, key, request, settings, now))
        known = gate.known
        if len(known) >= REMEMBERED + 2 * len(self._entries):
            known.clear()
        known[
            (
                request.session_key,
                request.session_id,
                request.cwd,
                request.user,
                request.audience,
                request.partition,
            )
        ] = entry.key
        return TurnRecord(entry.key, request, settings, now, self._renewed(entry, block, settings, now))

    def now(self) -> float:
        """The runtime's clock."""
        return self._now()

    def counted(self, turn: TurnRecord) -> Context:
        """The answer of a turn that need not wait, counted."""
        assert turn.context is not None
        self.count(turn)
        return turn.context

    def count(self, turn: TurnRecord) -> None:
        """Tells the manager that this turn was served: it counts it, records its meters and starts what is due."""
        table = self._table
        feed = table.feed
        if len(feed) == FEED_LENGTH:
            table.lost += 1
        feed.append(turn)
        if not table.woken:
            table.woken = True
            manager = table.manager
            if manager is None or not manager.cast(DRAIN):
                table.woken = False

    def begin(self, turn: TurnRecord, deadline: float) -> Waiter[Context]:
        """Starts a cold turn's load and gives the reply that will come, at the latest at `deadline`. Never blocks. In a
        crowd it comes a little earlier: all of them have to be told."""
        early = min(CROWD_SECONDS * len(self._begun), CROWD_SECONDS_MAX)
        waiter: Waiter[Context] = Waiter(
            clock=self._clock, deadline=deadline - early, on_deadline=Context((), State.COLD, Reason.DEADLINE)
        )
        manager = self._table.manager
        if self._crowded(turn, deadline):
            waiter.resolve(Context((), State.COLD, Reason.OVERLOADED), "overloaded")
            return waiter
        if manager is None:
            waiter.resolve(Context((), State.COLD, self._away()), "shutdown" if self._table.closed else "manager_down")
            return waiter
        self._begun.add(waiter)
        waiter.add_done_callback(self._begun.discard)
        waiter.bind(manager, self._manager_gone)
        if not manager.cast(Open(turn, deadline, waiter)):
            away = manager.is_alive()
            waiter.resolve(
                Context((), State.COLD, Reason.OVERLOADED if away else self._away()),
                "overloaded" if away else "manager_down",
            )
        return waiter

    def _crowded(self, turn: TurnRecord, deadline: float) -> bool:
        """Whether more wait already than could be served in time, and as many again: whoever comes now is told now."""
        waiting = len(self._begun)
        if waiting < MANY or (seconds := self._table.read_seconds) is None:
            return False
        places = turn.settings.max_concurrent_requests
        return waiting >= MANY + 2.0 * places * (deadline - turn.at) / max(seconds, LEAST_READ)

    def unserved(self, turn: TurnRecord, reason: Reason = Reason.LOADING) -> Context:
        """A cold turn that does not wait: answered at once, and counted, so that the next one finds something."""
        if self._table.manager is None:
            reason = self._away()
        entry = self._entries.look(turn.key) if turn.key is not None else None
        if entry is not None and entry.block is None and not entry.base_job and reason is Reason.LOADING:
            reason = entry.reason
        context = self._beside(Context((), State.COLD, reason))
        self.count(turn._replace(context=context))
        return context

    def ended(self, turn: TurnRecord, waiter: Waiter[Context]) -> Context:
        """The reply of `begin`, once it is there: measured, counted, and its place freed."""
        return self._finish(turn, waiter, waiter.value)

    def cold(self, request: TurnRequest) -> bool:
        """Whether a turn would have to wait for a load now. One look; False when there is nobody to load."""
        return self.look(request).context is None and self._table.manager is not None

    # -- private -------------------------------------------------------------------------------------------------------

    def _renewed(self, entry: Entry, block: Block, settings: Settings, now: float) -> Context:
        """A fresh answer out of a published block; under changed settings out of what it was made of."""
        made = block
        if block[EPOCH] != settings.epoch:
            known = self._table.persons.get(entry.person)
            if known is not None:
                made = publishing.block(
                    entry, known, made_turn=block[3], limits=self._limits(settings), epoch=settings.epoch
                )
        context = context_of(made, now, settings.volatile_max_age)
        if causes := self._table.degraded:
            context = context.beside(causes)
        if made is block and now - entry.served_at < READY_FOR:
            entry.ready = (block, now, context)
        entry.served_at = now
        return context

    def _without(
        self, entry: Entry | None, key: Key, request: TurnRequest, settings: Settings, now: float
    ) -> Context | None:
        """A conversation without a block of its own: what is known of the person, or None (it may wait), or why not."""
        person = self._table.persons.get(person_of(key))
        if person is not None:
            block = person[P_BLOCK]
            if block[EPOCH] != settings.epoch:
                person = publishing.person(
                    representation_of(person),
                    person[1],
                    made_at=person[2],
                    flags=person[3],
                    before=None,
                    limits=self._limits(settings),
                    epoch=settings.epoch,
                )
                block = person[P_BLOCK]
            if settings.session_summary and (summary := self._table.summaries.get(key)):
                back = Entry(key, now)
                back.summary = summary
                block = publishing.block(back, person, made_turn=0, limits=self._limits(settings), epoch=settings.epoch)
            return self._beside(context_of(block, now, settings.volatile_max_age))
        if entry is None or (not entry.opened and not (entry.base_job and is_trivial(request.query))):
            return None
        return self._beside(Context((), State.COLD, entry.reason))

    def _beside(self, context: Context) -> Context:
        """The answer with why memory is degraded now, if it is."""
        causes = self._table.degraded
        return context.beside(causes) if causes else context

    def _limits(self, settings: Settings) -> Limits:
        return Limits(settings.context_tokens, settings.dialectic_max_chars, self._counter)

    @staticmethod
    def _wait(budget: float | None, settings: Settings) -> float:
        """Seconds that may be waited: the grant minus headroom. What makes no sense counts as the setting."""
        if budget is None or isinstance(budget, bool) or not isinstance(budget, (int, float)) or budget != budget:
            budget = settings.first_turn_wait
        return float(max(-1.0, min(budget, 1e6))) - settings.headroom

    def _finish(self, turn: TurnRecord, waiter: Waiter[Context], context: Context) -> Context:
        context = self._beside(replace(context, waited=max(0.0, self._now() - turn.at)))
        cause = waiter.cause
        self.count(turn._replace(context=context, cause="manager_down" if cause == "down" else cause or "result"))
        return context

    def _left(self, turn: TurnRecord, waiter: Waiter[Context]) -> None:
        """The caller went away: its place is freed, and whoever asks next may wait in its stead."""
        waiter.resolve(OFF[Reason.CLOSED], "cancelled")
        self._finish(turn, waiter, OFF[Reason.CLOSED])

    def _away(self) -> Reason:
        return Reason.CLOSED if self._table.closed else Reason.GIVEN_UP

    def _manager_gone(self, _: Any) -> Context:
        return Context((), State.COLD, Reason.CLOSED if self._table.closed else Reason.WORKER_DIED)


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
