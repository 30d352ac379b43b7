"""What a delivery commits: its entries of the ledger, each one transaction of the writer's.

Every one names the lease under which it acts, and raises `LeaseLost` when that was taken over; StoreFailed when the
disk can't be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from honcho_actors.capture import delivering, retaining
from honcho_actors.capture.core import Core, log
from honcho_actors.capture.delivering import Claimed, Ended, Group, Row
from honcho_actors.capture.reports import CountCopies


class Entries:
    """The entries of one worker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.delivered = False
        """Whether anything is on the server by now that this worker has taken in hand."""

    async def finish(
        self,
        claimed: Claimed,
        rows: Sequence[Row],
        ids: Sequence[str],
        size: int,
        *,
        resent: bool,
        group: Group,
        sent: bool = True,
    ) -> None:
        """These messages of a group are on the server. `sent`: it is whole; `resent`: its copies are to be counted."""
        core, read = self._core, self._core.ports.read_clock

        def act(connection: Any) -> list[Ended]:
            now = read()
            ended = delivering.finish(
                connection, claimed.lease, rows, ids, size=size, now=now, lease_time=core.lease_time()
            )
            if not sent:
                delivering.still_unknown(connection, claimed.lease, claimed.gone)
            if resent:
                retaining.later_look(
                    connection,
                    delivery=group.delivery,
                    conversation=claimed.lease.conversation,
                    first=group.first,
                    last=group.last,
                    after=0.0,
                    now=now,
                )
            return ended

        await core.run(act, after=core.ended)
        self.delivered = True
        if resent:
            core.tell_sweeper(CountCopies())

    async def unsend(self, claimed: Claimed, group: Group, size: int) -> None:
        """The group is certainly not on the server: accepted again, under the same lease."""
        await self._core.run(lambda connection: delivering.unsend(connection, claimed.lease, group.delivery, size=size))

    async def put_aside(self, claimed: Claimed, rows: Sequence[Row], reason: str, size: int) -> None:
        """These messages are kept with the reason, and no longer owed. A warning for each."""
        core, read = self._core, self._core.ports.read_clock
        for row in rows:
            batch = row.batch_id.hex()[:8]
            extra = {"event": "set_aside", "batch": batch, "reason": reason}
            log.warning("message %d of batch %s was set aside: %s", row.position, batch, reason, extra=extra)
        await core.run(
            lambda connection: delivering.put_aside(
                connection, claimed.lease, rows, reason=reason, size=size, now=read()
            ),
            after=core.ended,
        )

    async def give_back(
        self, claimed: Claimed, delivery: bytes | None, again: float, why: str, attempts: int, size: int
    ) -> None:
        """Ends the lease: what was *sending* under this id is accepted again, and due in `again` seconds."""
        read = self._core.ports.read_clock
        await self._core.run(
            lambda connection: delivering.release(
                connection,
                claimed.lease,
                delivery,
                again=again,
                attempts=attempts,
                failure=why,
                size=size,
                now=read(),
            )
        )
