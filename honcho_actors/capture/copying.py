"""Bringing a parent's messages into a fork, page by page, before anything that was said in the child.

The shell around `forking`: each page is read from the server, screened once more, and committed before the next one is
asked for, so that a worker that is killed goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from honcho_actors.capture import content, forking
from honcho_actors.capture.clocks import to_us
from honcho_actors.capture.core import Core
from honcho_actors.capture.delivering import Claimed, Lease
from honcho_actors.honcho.outcomes import Call, Failure
from honcho_actors.privacy.egress import Field, Gate

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient

_PAGE = 100


async def copy_parent(
    core: Core, client: HonchoClient, claimed: Claimed, call: Callable[[], Call]
) -> forking.Resolved | forking.WaitForParent | Failure:
    """Brings the parent's messages up to the anchor into the child; a fork that can't be made is resolved as fresh.
    Failure: the server could not be asked now.
    """
    lease: Lease = claimed.lease
    step = await core.run(lambda connection: forking.consult(connection, lease))
    while isinstance(step, forking.Pending):
        fork = step
        outcome = await client.list_messages(claimed.workspace, fork.session, page=fork.page, size=_PAGE, call=call())
        if isinstance(outcome, Failure) and not outcome.absent:
            return outcome
        items = () if isinstance(outcome, Failure) else outcome.value.items
        copies, complete = await _copies(core.ports.gate, items, fork.anchor)
        if not items and not complete:
            why = forking.FreshReason.NO_ANCHOR if fork.copied or fork.page > 1 else forking.FreshReason.PARENT_EMPTY
            return await core.run(lambda connection, why=why: forking.resolve(connection, lease, why))  # type: ignore[misc]
        step = await core.run(
            lambda connection, fork=fork, copies=copies, complete=complete: forking.copy_page(  # type: ignore[misc]
                connection, lease, fork, copies, complete=complete, wall_us=core.ports.read_clock().wall_us
            )
        )
    return step


async def _copies(gate: Gate, items: Any, anchor: str) -> tuple[list[forking.Copy], bool]:
    copies: list[forking.Copy] = []
    for message in items:
        await asyncio.sleep(0)  # a page of long messages is a second of screening, and the loop is everybody's
        text = gate.again(message.text, field=Field.MESSAGE) if message.text else None
        if text is not None:
            metadata = content.copied_metadata(message.metadata, gate)
            said = to_us(message.created_at) if message.created_at is not None else 0
            copies.append(forking.Copy(message.id, message.peer, text.text, said, json.dumps(metadata)))
        if message.id == anchor:
            return copies, True
    return copies, False
