"""Who starts the deliveries: the shell around `dispatch`, and everything that is done from time to time.

It hears of work from the writer, starts one worker a conversation under the delivery supervisor, and is told how each
ended. At start and every quarter of an hour it reads from the outbox what there is to do (parents before children),
drops what is too old or too much, and compacts. It notices a change of settings within a second: read-only stops every
start at once.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import Any

from honcho_actors.capture import dispatch, retaining
from honcho_actors.capture.core import Core, log
from honcho_actors.capture.looking import extra_copies, look
from honcho_actors.capture.reports import CountCopies, Report, Wanted
from honcho_actors.capture.retaining import RECHECKS, Due, Recheck
from honcho_actors.capture.schema import NO_SERVER
from honcho_actors.capture.worker import DeliveryWorker
from honcho_actors.capture.writer import ReadOutbox, Works
from honcho_actors.honcho.outcomes import Call, Failure, Priority
from honcho_actors.store import StoreFailed
from supervision import ChildSpec, Down, MaxChildren, NoProc, Reason, Restart, StartError, TaskActor
from supervision.logged import unsaid

WATCH_EVERY = 1.0
READ_EVERY = 0.2
"""Seconds between two readings of an outbox whose work does not fit into memory."""
PAGE = 1_000
"""Conversations read from the outbox at once."""
EXPIRE_AT_ONCE = 200
AFTER_CRASH = 2.0
"""Seconds until a conversation is tried again whose worker died."""

LEAVES_IN = 0.25
"""Seconds that a worker has to end when everything does: one whose server hangs is cut off, as by a kill, and its
outcome is found out by the next; the writer, the snapshots and the endpoint behind it end in order."""

FIRST_AT_ONCE = 4
"""Deliveries at once in the first second, or until one has succeeded: on a long backlog the first is through early,
and a server is not met by all of them together.
"""
DELIVERY_FOR = 0.1
"""Seconds that a stop gives to deliveries that run: whoever had more time has drained before it."""
STOPPED_WITHIN = 3.0
"""Seconds after which a delivery that has not ended by itself is given up."""
FAILING = 3
FAILING_FOR = 2.0
"""So many deliveries in a row, over so many seconds, that end in a failure are one condition, and one warning."""


class Watch:
    """Look at the settings and at what is due."""


class Sweep:
    """The periodic sweep, or one that was asked for."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Try everything that waits, now. `ignore_schedule`: although its time has not come."""

    ignore_schedule: bool = True


@dataclass(frozen=True, slots=True)
class _DueNow:
    conversation: int


@dataclass(frozen=True, slots=True)
class _Started:
    """What became of the start of this number; None: there is no worker."""

    conversation: int
    number: int
    ref: Any


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the outbox has to do, as an answer to the sweeper's own question."""

    found: list[Due]
    children: set[int]
    ignore_schedule: bool


class Sweeper(TaskActor):
    """Starts deliveries, one for each conversation with work, and keeps the outbox in bounds."""

    mailbox_limit = 100_000

    def __init__(self, core: Core, supervisor_name: str) -> None:
        self._core = core
        self._supervisor_name = supervisor_name
        self._state = dispatch.State(limit=min(FIRST_AT_ONCE, _limit(core)))
        self._tokens: dict[int, Any] = {}
        self._monitors: dict[int, Any] = {}
        self._starts = 0
        self._starting: dict[int, int] = {}
        """Conversations whose worker is being started, and the number of that start."""
        self._urgent: set[int] = set()
        self._settings: object = None
        self._failing = 0
        """Deliveries in a row that waited for the server without having delivered anything."""
        self._failing_since = 0.0
        self._said_failing = False
        self._counting = False
        self._sweeping = False
        self._reading_soon = False
        self._read_up_to = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def on_start(self) -> None:
        self._core.sweeper = self.actor_ref
        self._core.waiting = {}
        self._core.limits = set()
        self._settings = self._core.settings
        self._state.fenced = self._core.settings.read_only
        self.actor_ref.tell(Sweep())
        self.send_after(WATCH_EVERY, Watch())

    async def on_receive(self, message: object) -> None:
        match message:
            case Works(conversations):
                for conversation in conversations:
                    await self._step(dispatch.Work(conversation))
            case Report():
                await self._ended(message)
            case Down():
                await self._died(message)
            case _DueNow(conversation):
                self._tokens.pop(conversation, None)
                await self._step(dispatch.Due(conversation))
            case Wanted(conversation):
                await self._step(dispatch.Work(conversation))
            case WakeUp(ignore_schedule):
                if ignore_schedule:
                    self._urgent.update(self._state.timed)
                await self._step(dispatch.WakeAll())
                self._read(ignore_schedule=ignore_schedule)
            case Watch():
                await self._watch()
                self.send_after(WATCH_EVERY, Watch())
            case ReadOutbox():
                self._reading_soon = False
                self._read()
            case Sweep():
                self._read()
                self._count_copies()  # what a predecessor left to be counted
                self._later(self._sweep())
                self.send_after(self._core.ports.sweep_every, Sweep())
            case CountCopies():
                self._count_copies()
            case _Started():
                await self._started(message)
            case _Listed():
                await self._listed(message)

    async def on_stop(self, reason: Reason) -> None:
        # The deliveries are stopped after this actor, and before they would have to be given up.
        end = asyncio.get_running_loop().time() + DELIVERY_FOR
        for limit in self._core.limits:
            if not limit.expired():
                limit.reschedule(end)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- starting and ending -------------------------------------------------------------------------------------------

    async def _step(self, event: dispatch.Event) -> None:
        for effect in dispatch.step(self._state, event):
            match effect:
                case dispatch.Start(conversation):
                    self._start(conversation)
                case dispatch.WakeAfter(conversation, seconds):
                    self._tokens[conversation] = self.send_after(seconds, _DueNow(conversation))
                case dispatch.CancelWake(conversation):
                    self._forget_timer(conversation)
                case dispatch.ReadMore():
                    if not self._reading_soon:
                        self._reading_soon = True
                        self.send_after(READ_EVERY, ReadOutbox())

    def _forget_timer(self, conversation: int) -> None:
        token = self._tokens.pop(conversation, None)
        if token is not None:
            token.cancel()

    def _start(self, conversation: int) -> None:
        """Has a worker started. Beside the mailbox: a start is a trip to the supervisor and back, which other starts
        and reports need not wait for.
        """
        urgent = conversation in self._urgent
        self._urgent.discard(conversation)
        self._core.waiting.pop(conversation, None)
        self._starts += 1
        self._starting[conversation] = self._starts
        spec = ChildSpec(
            f"conversation-{conversation}",
            DeliveryWorker,
            args=(self._core, conversation, urgent),
            restart=Restart.TEMPORARY,
            shutdown=STOPPED_WITHIN,
        )
        self._later(self._bring_up(conversation, self._starts, spec))

    async def _bring_up(self, conversation: int, number: int, spec: ChildSpec) -> None:
        ref = None
        try:
            supervisor = self.runtime.registry.whereis(self._supervisor_name)
            if supervisor is None:
                raise NoProc(self._supervisor_name)
            ref = await supervisor.astart_child(spec)
        except (NoProc, MaxChildren, StartError) as refused:
            log.debug("no worker for a conversation now: %s", type(refused).__name__)
        self.actor_ref.cast(_Started(conversation, number, ref))

    async def _started(self, started: _Started) -> None:
        conversation = started.conversation
        if self._starting.get(conversation) != started.number:
            return  # it has reported its end already
        del self._starting[conversation]
        if started.ref is None:
            await self._step(dispatch.Ended(conversation, again=AFTER_CRASH))
        else:
            self._monitors[conversation] = (started.ref, self.monitor(started.ref))

    async def _ended(self, report: Report) -> None:
        self._starting.pop(report.conversation, None)
        watched = self._monitors.pop(report.conversation, None)
        if watched is not None:
            self.demonitor(watched[1])
        self._condition(report)
        self._core.ports.meters.runs.ended("delivery", report.why if report.waits_for_server else "")
        if report.again is not None and report.why and len(self._core.waiting) < dispatch.REMEMBERED:
            self._core.waiting[report.conversation] = report.why
        await self._step(
            dispatch.Ended(
                report.conversation,
                again=report.again,
                waits_for_server=report.waits_for_server,
                succeeded=report.succeeded,
            )
        )

    def _condition(self, report: Report) -> None:
        """One line when deliveries begin to fail, and one when they go again, however many conversations wait."""
        if report.succeeded:
            if self._said_failing:
                log.warning("deliveries go again", extra={"event": "deliveries_go_again"})
            self._failing, self._said_failing = 0, False
        elif report.waits_for_server:
            now = self.clock.now()
            self._failing += 1
            self._failing_since = now if self._failing == 1 else self._failing_since
            if not self._said_failing and self._failing >= FAILING and now - self._failing_since >= FAILING_FOR:
                self._said_failing = True
                text = "deliveries fail: %s; what was captured is kept, and tried again by itself"
                log.warning(text, report.why, extra={"event": "deliveries_fail", "reason": report.why})

    async def _died(self, down: Down) -> None:
        for conversation, (ref, _) in list(self._monitors.items()):
            if ref is down.ref:
                del self._monitors[conversation]
                await self._step(dispatch.Ended(conversation, again=AFTER_CRASH))

    # -- what the outbox has -------------------------------------------------------------------------------------------

    def _read(self, *, ignore_schedule: bool = False) -> None:
        """Asks the outbox for work; the answer comes as a message, so that nothing waits for a disk here."""
        self._later(self._list(ignore_schedule))

    async def _list(self, ignore_schedule: bool) -> None:
        core, read = self._core, self._core.ports.read_clock
        settings = core.settings
        if settings.configured and settings.server_id != NO_SERVER:
            await core.run(core.adopt)
        after = self._read_up_to  # where the last reading had to stop, so that every conversation has its turn
        while True:
            found, children = await core.run(
                lambda connection, after=after: (  # type: ignore[misc]
                    retaining.due(connection, read(), after=after, limit=PAGE),
                    retaining.forking(connection),
                )
            )
            self.actor_ref.cast(_Listed(found, children, ignore_schedule))
            full = max(len(self._state.waiting), len(self._state.timed)) >= dispatch.REMEMBERED
            after = found[-1].conversation if len(found) == PAGE else 0
            if not after or full:
                self._read_up_to = after
                self._state.overflowed = self._state.overflowed or after > 0
                return

    async def _listed(self, listed: _Listed) -> None:
        for due in sorted(listed.found, key=lambda due: due.conversation in listed.children):
            conversation = due.conversation
            if listed.ignore_schedule:
                self._urgent.add(conversation)
                if conversation in self._state.timed:
                    self._forget_timer(conversation)
                    await self._step(dispatch.Due(conversation))
                    continue
            elif due.wait > 0:
                if len(self._state.timed) >= dispatch.REMEMBERED:
                    self._state.overflowed = True
                elif conversation not in self._state.timed and conversation not in self._state.running:
                    self._state.timed[conversation] = True
                    self._core.waiting[conversation] = due.failure
                    self._tokens[conversation] = self.send_after(due.wait, _DueNow(conversation))
                continue
            await self._step(dispatch.Work(conversation))

    async def _watch(self) -> None:
        settings = self._core.settings
        await self._step(dispatch.Room(_limit(self._core)))
        if settings is not self._settings:
            self._settings = settings
            self._urgent.update(self._state.timed)
            await self._step(dispatch.Fence(settings.read_only))
            await self._step(dispatch.WakeAll())
            self._read(ignore_schedule=True)
        counts = self._core.counts
        if counts is not None and counts.messages and self._state.is_idle() and not self._state.timed:
            self._read()  # owed, and in nobody's hands: another process, or a person, has put it there
        if counts is not None and counts.file_bytes > settings.outbox_max_bytes:
            self._later(self._sweep())

    # -- from time to time ---------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Retention by age and by size, then compaction. Runs beside deliveries; each step is one short transaction."""
        if self._sweeping:
            return
        self._sweeping = True
        try:
            await self._retain()
            await self._compact()
            self._core.ports.meters.runs.ended("sweep")
        except StoreFailed as failed:  # said by the writer already; the next sweep tries again
            self._core.ports.meters.runs.ended("sweep", failed.reason.value)
        finally:
            self._sweeping = False

    async def _retain(self) -> None:
        core, read = self._core, self._core.ports.read_clock
        settings = core.settings
        dropped = 0
        by_age = functools.partial(_expire_by_age, core, settings.outbox_retention)
        by_size = functools.partial(_expire_by_size, settings.outbox_max_bytes)
        for expire in (by_age, by_size):
            more = True
            while more:
                ended, more = await core.run(
                    lambda connection, expire=expire: expire(connection, read()),  # type: ignore[misc]
                    after=_heard(core),
                )
                dropped += len(ended)
                for batch in ended:
                    name = batch.batch_id.hex()[:8]
                    extra = {"event": "dropped", "batch": name, "reason": batch.reason}
                    log.warning("undelivered turn %s was dropped: %s", name, batch.reason, extra=extra)
        if dropped:
            extra = {"event": "retention", "turns": dropped}
            log.warning("%d undelivered turns were dropped from the outbox by retention", dropped, extra=extra)

    async def _compact(self) -> None:
        core = self._core
        window = max(core.settings.delivered_window, core.settings.anchor_window)
        after: int | None = 0
        while after is not None:
            after = await core.run(
                lambda connection, after=after: retaining.compact(connection, window=window, after=after)  # type: ignore[misc]
            )
        await core.run(lambda connection: connection.execute("PRAGMA incremental_vacuum(2000)").fetchall())

    # -- copies --------------------------------------------------------------------------------------------------------

    def _count_copies(self) -> None:
        if not self._counting:
            self._counting = True
            self._later(self._count())

    async def _count(self) -> None:
        """Looks for doubles of what was sent twice; comes back until the last look of each is done."""
        core, read = self._core, self._core.ports.read_clock
        soonest: float | None = None
        try:
            ready, soonest = await core.run(lambda connection: retaining.rechecks(connection, read()))
            for check in ready:
                soonest = await self._count_one(check, soonest)
        except StoreFailed:
            soonest = 5.0
        finally:
            self._counting = False
        if soonest is not None:
            self.send_after(soonest, CountCopies())

    async def _count_one(self, check: Recheck, soonest: float | None) -> float | None:
        core, read = self._core, self._core.ports.read_clock
        client = None if core.settings.read_only else core.ports.client(check.server)
        if client is None:
            return 30.0
        call = Call(asyncio.get_running_loop().time() + core.settings.request_timeout, Priority.BACKGROUND)
        seen = await look(client, check.workspace, check.session, check.delivery, check.first, check.last, call)
        if isinstance(seen, Failure):
            return 5.0
        extra = extra_copies(seen)
        settle = core.settings.settle_time
        again = RECHECKS[check.round] * settle if check.round < len(RECHECKS) else None
        new = await core.run(lambda connection: retaining.counted(connection, check, extra, now=read(), again=again))
        if new:
            told = {"event": "doubled", "messages": extra, "delivery": check.delivery.hex()[:8]}
            log.warning("the server holds %d messages of delivery %s twice", extra, told["delivery"], extra=told)
        return again if soonest is None else soonest if again is None else min(soonest, again)

    def _later(self, work: Any) -> None:
        """Runs beside the mailbox, so that nothing that waits for a disk or a server keeps a delivery from starting."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if isinstance(error, StoreFailed):
                self.send_after(5.0, ReadOutbox())
            else:
                kind = type(error).__name__
                log.error("a sweep failed: %s", kind, exc_info=unsaid(error), extra={"event": "sweep_failed"})


def _limit(core: Core) -> int:
    return max(1, core.settings.max_concurrent_requests)


def _expire_by_age(core: Core, retention: float, connection: Any, now: Any) -> Any:
    ended = retaining.expire_old(connection, born_before=core.age(now) - retention, limit=EXPIRE_AT_ONCE)
    return ended, len(ended) == EXPIRE_AT_ONCE


def _expire_by_size(most: int, connection: Any, now: Any) -> Any:
    if retaining.used_bytes(connection) <= most:
        return [], False
    return retaining.make_room(connection, limit=EXPIRE_AT_ONCE)


def _heard(core: Core) -> Any:
    def heard(found: Any) -> Any:
        core.ended(found[0])
        return found

    return heard
