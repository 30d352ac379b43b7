"""Where a child of the kill harness can be stopped: a client that says where it is, and stands still there when told
to.

The product's own client does the work; this only announces, on a pipe, what is about to be done and what was done, so
that the parent knows in which state it killed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.outcomes import Call, Ok
from honcho_actors.honcho.wire import OutMessage

BEFORE_BYTES = "sending_before_bytes"
AFTER_BYTES = "sending_after_bytes"
AFTER_COMMIT = "after_commit_before_ack"
BEFORE_LEDGER = "acked_before_ledger"
ESTABLISHING = "establishing"
ESTABLISHED = "established_before_ledger"
LOOKING = "looking"
LOOKED = "looked_before_ledger"
MOMENT = "at_any_moment"

DIRECTED = (BEFORE_BYTES, AFTER_BYTES, AFTER_COMMIT, BEFORE_LEDGER, LOOKING, LOOKED)
"""States that a life can be aimed at, again and again."""


class Announcer:
    """Lines on a pipe; each is one write, so that a kill leaves none half."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, *words: object) -> None:
        os.write(self._descriptor, (" ".join(str(word) for word in words) + "\n").encode())


class Stopped:
    """A client that stands still at `point`, for ever, after it has said so."""

    def __init__(self, client: HonchoClient, announcer: Announcer, point: str) -> None:
        self._client = client
        self._say = announcer.say
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def _at(self, point: str, *details: object) -> None:
        self._say("AT", point, *details)
        if point == self._point:
            await asyncio.sleep(3600.0)

    async def ensure_session(self, workspace: str, session: str, *args: Any, **more: Any) -> Any:
        await self._at(ESTABLISHING, session)
        outcome = await self._client.ensure_session(workspace, session, *args, **more)
        if isinstance(outcome, Ok):
            await self._at(ESTABLISHED, session)
        return outcome

    async def list_messages(self, workspace: str, session: str, **more: Any) -> Any:
        await self._at(LOOKING, session)
        outcome = await self._client.list_messages(workspace, session, **more)
        await self._at(LOOKED, session)
        return outcome

    async def add_messages(self, workspace: str, session: str, messages: Sequence[OutMessage], call: Call) -> Any:
        delivery = messages[0].metadata["delivery_id"]
        await self._at(BEFORE_BYTES, session, delivery)
        self._say("POST", session, delivery)
        outcome = await self._client.add_messages(workspace, session, messages, call)
        if isinstance(outcome, Ok):
            await self._at(BEFORE_LEDGER, session, delivery)
        self._say("DONE", session, delivery)
        return outcome
