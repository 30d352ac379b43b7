"""Delivering one conversation: the shell around `decide`, one entry of the ledger and one request at a time.

Order of every step: what is about to be done is committed, then done, then its outcome is committed. A worker may be
killed, and its process too, between any two of these; the next one finds in the ledger all that it needs. It keeps no
state that matters.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from honcho_actors.capture import decide, delivering, forking
from honcho_actors.capture.clocks import Reading, elapsed, from_us
from honcho_actors.capture.copying import copy_parent
from honcho_actors.capture.core import Core
from honcho_actors.capture.decide import Act, Found, Verdict
from honcho_actors.capture.delivering import Claimed, Ended, Group, LeaseLost, Missing, NotNow, Row
from honcho_actors.capture.entries import Entries
from honcho_actors.capture.establish import Flags, establish, preset
from honcho_actors.capture.looking import look, places
from honcho_actors.capture.reports import Report, Wanted
from honcho_actors.capture.schema import NO_SERVER
from honcho_actors.capture.writer import ReadOutbox
from honcho_actors.honcho.outcomes import Call, Failure, Priority
from honcho_actors.honcho.wire import OutMessage
from honcho_actors.privacy.egress import Field, Screened
from honcho_actors.store import StoreFailed
from honcho_actors.tracing import span
from supervision import TaskActor

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient

GROUPS_IN_A_ROW = 16
"""Groups that a worker sends before it gives its place to a conversation that waits."""

PAUSED = 30.0
"""Seconds until a conversation is tried again that waits for a key, an address or its own server."""

STALE = 20.0
"""Seconds between committing *sending* and the first byte beyond which a worker does not trust its lease (a suspended
machine).
"""


class Go:
    """The worker's own start."""


class DeliveryWorker(TaskActor):
    """One conversation, until nothing is left or something has to be waited for."""

    def __init__(self, core: Core, conversation: int, ignore_schedule: bool = False) -> None:
        self._delivery = Delivery(core, conversation, ignore_schedule)

    def on_start(self) -> None:
        self.actor_ref.cast(Go())

    async def on_receive(self, message: object) -> None:
        if isinstance(message, Go):
            limit, limits = asyncio.timeout(None), self._delivery.core.limits
            try:
                async with limit:
                    limits.add(limit)
                    self._delivery.core.tell_sweeper(await self._delivery.run())
            except TimeoutError:
                pass  # a stop does not wait for a server: what is *sending* is found out at the next start
            finally:
                limits.discard(limit)
            self.stop()


@dataclass(frozen=True, slots=True)
class _Taken:
    """A group that is marked as *sending*: its texts as they passed the gate just now, and when that was."""

    group: Group
    texts: tuple[Screened | None, ...]
    at: Reading
    forgets: int
    """How often somebody had been forgotten by then."""


@dataclass(frozen=True, slots=True)
class _Done:
    """A group that the server has acknowledged, to be finished with the next commit."""

    group: Group
    ids: tuple[str, ...]
    size: int


class _Stop(Exception):
    """Ends the run with this report."""

    def __init__(self, report: Report) -> None:
        self.report = report


class Delivery:
    """The run of one worker."""

    def __init__(self, core: Core, conversation: int, ignore_schedule: bool = False) -> None:
        self.core = core
        self._conversation = conversation
        self._ignore_schedule = ignore_schedule
        self._entries = Entries(core)

    async def run(self) -> Report:
        """Delivers what there is. Never raises but for cancellation."""
        try:
            return await self._run()
        except _Stop as stop:
            return replace(stop.report, succeeded=self._entries.delivered)
        except LeaseLost:
            self.core.ports.meters.late_results.labels("delivery").inc()
            return self._report(delivering.HELD_POLL, "held")
        except StoreFailed as failed:
            return self._report(5.0, failed.reason.value)

    # -- the way -------------------------------------------------------------------------------------------------------

    async def _run(self) -> Report:
        core, read = self.core, self.core.ports.read_clock
        if core.settings.read_only or not core.settings.enabled:
            core.ports.meters.deliveries.labels("fenced").inc()
            return self._report(PAUSED, "read_only")
        here = core.settings.server_id
        reachable = core.ports.client(here) is not None

        def act(connection: Any) -> tuple[Claimed | NotNow, Group | Missing | None]:
            """Claims, and when nothing stands in the way marks the first group in the same commit."""
            now, lease_time = read(), core.lease_time()
            claimed = delivering.claim(
                connection,
                self._conversation,
                owner=core.owner.name,
                alive=core.owner.alive,
                now=now,
                lease_time=lease_time,
                ignore_schedule=self._ignore_schedule,
            )
            if isinstance(claimed, NotNow) or claimed.group is not None or claimed.fork:
                return claimed, None
            if not reachable or claimed.server != here or core.settings.read_only:
                return claimed, None
            taken = delivering.take(
                connection, claimed.lease, claimed.members, size=claimed.size, now=now, lease_time=lease_time
            )
            return claimed, taken

        claimed, first = await core.run(act, after=lambda value: (value[0], self._ready(value[1])))
        if isinstance(claimed, NotNow):
            return self._report(claimed.again, claimed.why)
        client = core.ports.client(claimed.server)
        if client is None:
            if claimed.server == NO_SERVER and core.settings.configured:
                return await self._adopt(claimed)
            why = "not_configured" if not core.settings.configured else "other_server"
            delivery = first.group.delivery if isinstance(first, _Taken) else None
            await self._entries.give_back(claimed, delivery, 0.0, why, claimed.attempts, claimed.size)
            return self._report(PAUSED, why)
        return await self._deliver(claimed, client, first)

    async def _adopt(self, claimed: Claimed) -> Report:
        """Accepted before a server was configured, and written after: it goes to the one that is there now."""
        await self._entries.give_back(claimed, None, 0.0, "", claimed.attempts, claimed.size)
        if not await self.core.run(self.core.adopt):
            return self._report(1.0)
        self.core.tell_sweeper(ReadOutbox())
        return self._report(None)

    async def _deliver(self, claimed: Claimed, client: HonchoClient, first: _Taken | Missing | None) -> Report:
        if claimed.group is not None:
            claimed = await self._resolve(claimed, client, claimed.group)
        if claimed.fork:
            await self._fork(claimed, client)
        established_again = False
        done: _Done | None = None
        for _ in range(GROUPS_IN_A_ROW):
            taken = first if first is not None else await self._next(claimed, done)
            first = done = None
            while isinstance(taken, Missing):
                claimed, taken = await self._establish(claimed, client, taken)
            if taken is None:
                return self._report(None)
            group = taken.group
            verdict, ids = await self._post(claimed, client, taken, established_again)
            if verdict.act is Act.ESTABLISH:
                established_again = True
                claimed = await self._forget_members(claimed, group)
                continue
            established_again = False
            if verdict.act is Act.DELIVERED:
                claimed = replace(claimed, size=decide.next_size(claimed.size, verdict), attempts=0, resends=0)
                done = _Done(group, ids, claimed.size)
            else:
                claimed = await self._settle(claimed, client, group, verdict, ids)
        if done is not None:
            await self._entries.finish(claimed, done.group.rows, done.ids, done.size, resent=False, group=done.group)
        await self._entries.give_back(claimed, None, 0.0, "", 0, claimed.size)
        return self._report(0.0)

    async def _next(self, claimed: Claimed, done: _Done | None) -> _Taken | Missing | None:
        """In one commit: what was just delivered is finished, and the next group is marked as *sending*."""
        core, read = self.core, self.core.ports.read_clock
        if core.settings.read_only:
            if done is not None:
                await self._entries.finish(
                    claimed, done.group.rows, done.ids, done.size, resent=False, group=done.group
                )
            await self._entries.give_back(claimed, None, 0.0, "read_only", claimed.attempts, claimed.size)
            raise _Stop(self._report(PAUSED, "read_only"))

        def act(connection: Any) -> tuple[list[Ended], Group | Missing | None]:
            now, lease_time = read(), core.lease_time()
            ended: list[Ended] = []
            if done is not None:
                ended = delivering.finish(
                    connection, claimed.lease, done.group.rows, done.ids, size=done.size, now=now, lease_time=lease_time
                )
            group = delivering.take(
                connection, claimed.lease, claimed.members, size=claimed.size, now=now, lease_time=lease_time
            )
            return ended, group

        def after(value: tuple[list[Ended], Group | Missing | None]) -> _Taken | Missing | None:
            core.ended(value[0])
            return self._ready(value[1])

        taken = await core.run(act, after=after)
        self._entries.delivered |= done is not None
        return taken

    def _ready(self, group: Group | Missing | None) -> _Taken | Missing | None:
        return self._looked_at(group) if isinstance(group, Group) else group

    def _looked_at(self, group: Group) -> _Taken:
        """On the writer's thread: each text of the group once more through the gate, as it is about to leave."""
        gate, now = self.core.ports.gate, self.core.ports.read_clock()
        return _Taken(
            group, tuple(gate.again(row.text, field=Field.MESSAGE) for row in group.rows), now, self.core.forgets
        )

    # -- establishing --------------------------------------------------------------------------------------------------

    async def _establish(
        self, claimed: Claimed, client: HonchoClient, missing: Missing
    ) -> tuple[Claimed, _Taken | Missing | None]:
        """Has the conversation made with its members; in one commit that is recorded, and the next group marked."""
        core, read = self.core, self.core.ports.read_clock
        joining = preset(missing.peers, claimed.members, core.settings)
        failure = await establish(
            client,
            claimed.workspace,
            claimed.session,
            joining,
            core.settings,
            self._call(core.settings.request_timeout),
        )
        verdict = decide.after_establish(failure)
        if verdict.act is not Act.DELIVERED:
            await self._retry(claimed, None, verdict)
        members: dict[str, Flags] = {**claimed.members, **joining}
        fenced = core.settings.read_only

        def act(connection: Any) -> Group | Missing | None:
            now, lease_time = read(), core.lease_time()
            delivering.established(connection, claimed.lease, members, now, lease_time)
            if fenced:
                return None
            return delivering.take(
                connection, claimed.lease, members, size=claimed.size, now=now, lease_time=lease_time
            )

        taken = await core.run(act, after=self._ready)
        claimed = replace(claimed, members=members)
        return claimed, await self._next(claimed, None) if fenced else taken

    async def _forget_members(self, claimed: Claimed, group: Group) -> Claimed:
        """The server does not have the conversation: what was *sending* is accepted again, and it is established
        anew."""
        core, read = self.core, self.core.ports.read_clock

        def act(connection: Any) -> None:
            delivering.established(connection, claimed.lease, {}, read(), core.lease_time())
            delivering.unsend(connection, claimed.lease, group.delivery)

        await core.run(act)
        return replace(claimed, members={})

    # -- sending -------------------------------------------------------------------------------------------------------

    async def _post(
        self, claimed: Claimed, client: HonchoClient, taken: _Taken, established_again: bool
    ) -> tuple[Verdict, tuple[str, ...]]:
        core, group = self.core, taken.group
        messages = await self._messages(claimed, taken)
        await self._stop_unless_wanted(claimed, taken)
        now = core.ports.read_clock()
        if now.boot != taken.at.boot or now.seconds - taken.at.seconds > STALE:
            raise LeaseLost
        call = self._call(core.settings.delivery_timeout, taken.forgets)
        with span("delivery", messages=len(messages), resent=claimed.resends > 0) as traced:
            outcome = await client.add_messages(claimed.workspace, claimed.session, messages, call)
            failure = outcome if isinstance(outcome, Failure) else None
            traced.ended("delivered" if failure is None else failure.kind.value, failed=failure is not None)
        if failure is not None and not failure.bytes_sent:
            await self._stop_unless_wanted(claimed, taken)
        verdict = decide.after_post(failure, size=len(group.rows), established_again=established_again)
        return verdict, () if isinstance(outcome, Failure) else outcome.value

    async def _stop_unless_wanted(self, claimed: Claimed, taken: _Taken) -> None:
        """Nothing of this group is on its way now. Ends the run when nothing may be written any more, or when somebody
        was forgotten whose text may be in this hand."""
        fenced = self.core.settings.read_only
        if fenced or taken.forgets != self.core.forgets:
            why = "read_only" if fenced else ""
            await self._entries.give_back(claimed, taken.group.delivery, 0.0, why, claimed.attempts, claimed.size)
            raise _Stop(self._report(PAUSED if fenced else 0.0, why))

    async def _messages(self, claimed: Claimed, taken: _Taken) -> list[OutMessage]:
        """The group as it is sent. What is withheld now is set aside, not sent; the others go in the next group."""
        group = taken.group
        withheld = [row for row, text in zip(group.rows, taken.texts, strict=True) if text is None]
        if withheld:
            await self._entries.put_aside(claimed, withheld, "withheld", claimed.size)
            await self._entries.give_back(claimed, group.delivery, 0.0, "", claimed.attempts, claimed.size)
            raise _Stop(self._report(0.0))
        return [
            _message(row, text, group.delivery)
            for row, text in zip(group.rows, taken.texts, strict=True)
            if text is not None
        ]

    # -- what came of it -----------------------------------------------------------------------------------------------

    async def _settle(
        self, claimed: Claimed, client: HonchoClient, group: Group, verdict: Verdict, ids: tuple[str, ...]
    ) -> Claimed:
        """Commits what one POST came to, and goes on; or ends the run when something has to be waited for."""
        core, read, meters = self.core, self.core.ports.read_clock, self.core.ports.meters
        tried = min(claimed.size, len(group.rows)) if verdict.act is Act.SPLIT else claimed.size
        size = decide.next_size(tried, verdict)
        match verdict.act:
            case Act.DELIVERED:
                await self._entries.finish(claimed, group.rows, ids, size, resent=claimed.resends > 0, group=group)
                return replace(claimed, size=size, attempts=0, resends=0)
            case Act.SPLIT:
                await self._entries.unsend(claimed, group, size)
                return replace(claimed, size=size)
            case Act.SET_ASIDE:
                await self._entries.put_aside(claimed, group.rows, verdict.reason, size)
                return replace(claimed, size=size, attempts=0)
            case Act.LOOK:
                meters.deliveries.labels("unknown").inc()
                gone = await core.run(
                    lambda connection: delivering.unknown(
                        connection, claimed.lease, strike=verdict.strike, now=read(), lease_time=core.lease_time()
                    )
                )
                unsure = replace(claimed, gone=gone, strike=verdict.strike, group=group)
                return await self._resolve(unsure, client, group)
            case _:
                await self._retry(claimed, group.delivery, verdict)
        return claimed

    async def _resolve(self, claimed: Claimed, client: HonchoClient, group: Group) -> Claimed:
        """The outcome of a group is unknown: look, settle, look, and only then send what is absent."""
        core, read = self.core, self.core.ports.read_clock
        reconciled = core.ports.meters.reconciliations
        began = read()
        since = None if claimed.gone is None else elapsed(claimed.gone, began)
        settings = core.settings
        seen = await look(
            client,
            claimed.workspace,
            claimed.session,
            group.delivery,
            group.first,
            group.last,
            self._call(settings.request_timeout),
        )
        if isinstance(seen, Failure):
            reconciled.labels(Found.FAILED.value).inc()
            await self._retry(claimed, None, decide.after_establish(seen))
            raise AssertionError("a failed look ends the run")
        found, ids = places(group.rows, seen)
        settled = decide.after_look(len(group.rows), found, elapsed=since, settle=settings.settle_time)
        whole = len(settled.present) == len(group.rows)
        reconciled.labels(Found.FOUND if whole else Found.PARTIAL if settled.present else Found.ABSENT).inc()
        if settled.present:
            present = [row for place, row in enumerate(group.rows) if place in settled.present]
            remote = [ids[place] for place in sorted(settled.present)]
            resent = claimed.resends > 0 or settled.doubled > 0
            await self._entries.finish(claimed, present, remote, claimed.size, resent=resent, group=group, sent=whole)
        if whole:
            return replace(claimed, group=None, gone=None, resends=0)
        absent = Group(
            group.delivery, tuple(row for place, row in enumerate(group.rows) if place not in settled.present)
        )
        if not settled.resend:
            await self._entries.give_back(claimed, None, settled.wait, "settling", claimed.attempts, claimed.size)
            raise _Stop(self._report(settled.wait, "settling"))
        if claimed.strike:
            return await self._struck(claimed, absent)
        again = await core.run(
            lambda connection: delivering.resend(
                connection, claimed.lease, absent, now=read(), lease_time=core.lease_time()
            ),
            after=self._looked_at,
        )
        resending = replace(claimed, group=None, gone=None, resends=claimed.resends + 1)
        if not again.group.rows:
            return resending
        verdict, posted = await self._post(resending, client, again, True)
        return await self._settle(resending, client, again.group, verdict, posted)

    async def _struck(self, claimed: Claimed, group: Group) -> Claimed:
        """The server answered 500, and does not have the group: halve it, or set a lone message aside at its second."""
        strikes = await self.core.run(lambda connection: delivering.strike(connection, claimed.lease, group))
        verdict = decide.after_strike(size=len(group.rows), strikes=strikes)
        size = decide.next_size(min(claimed.size, len(group.rows)), verdict)
        if verdict.act is Act.SET_ASIDE:
            await self._entries.put_aside(claimed, group.rows, verdict.reason, size)
        elif verdict.act is Act.SPLIT:
            await self._entries.unsend(claimed, group, size)
        else:
            await self._retry(claimed, group.delivery, verdict)
        return replace(claimed, size=size, group=None, gone=None, strike=False)

    async def _retry(self, claimed: Claimed, delivery: bytes | None, verdict: Verdict) -> None:
        """Gives the conversation back with its schedule, and ends the run."""
        core = self.core
        core.ports.meters.deliveries.labels("retried").inc()
        paused = verdict.act is Act.PAUSE and verdict.reason != "breaker_open"
        attempts = claimed.attempts if verdict.act is Act.PAUSE else claimed.attempts + 1
        if paused:
            again = max(PAUSED, verdict.retry_after or 0.0)
        else:
            again = core.ports.retry.delay(max(1, attempts), core.ports.random(), verdict.retry_after)
        # What waits for a key or an address is not scheduled in the row: with other settings it is due at once.
        await self._entries.give_back(
            claimed, delivery, 0.0 if paused else again, verdict.reason, attempts, claimed.size
        )
        raise _Stop(self._report(again, verdict.reason, waits=True))

    # -- forks ---------------------------------------------------------------------------------------------------------

    async def _fork(self, claimed: Claimed, client: HonchoClient) -> None:
        """Brings the parent's messages up to the anchor into the child, before anything that was said in the child."""
        step = await copy_parent(self.core, client, claimed, lambda: self._call(self.core.settings.request_timeout))
        if isinstance(step, Failure):
            await self._retry(claimed, None, decide.after_establish(step))
        if isinstance(step, forking.WaitForParent):
            self.core.tell_sweeper(Wanted(step.parent))
            await self._entries.give_back(claimed, None, 1.0, "parent", claimed.attempts, claimed.size)
            raise _Stop(self._report(1.0, "parent"))

    # -- small things --------------------------------------------------------------------------------------------------

    def _call(self, seconds: float, forgets: int | None = None) -> Call:
        """A call that is not made any more when its turn comes after read-only began, or after somebody was forgotten
        since `forgets` was read."""
        core = self.core

        def wanted() -> bool:
            return not core.settings.read_only and forgets in (None, core.forgets)

        return Call(asyncio.get_running_loop().time() + seconds, Priority.DELIVERY, wanted=wanted)

    def _report(self, again: float | None, why: str = "", *, waits: bool = False) -> Report:
        return Report(self._conversation, again, why, waits, self._entries.delivered)


def _message(row: Row, text: Screened, delivery: bytes) -> OutMessage:
    metadata = json.loads(row.metadata)
    metadata["batch_id"] = row.batch_id.hex()
    metadata["position"] = row.position
    metadata["delivery_id"] = delivery.hex()
    return OutMessage(row.peer, text, metadata, from_us(row.said), reasoning=bool(row.reasoning))
