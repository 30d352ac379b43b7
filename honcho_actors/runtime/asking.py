"""Asking again for a process at rest: that the server is back is known before the next turn finds it out.

When reads have failed and nobody reads any more, one small read is made now and then: of the configured person, its
reply thrown away, behind everything else, through the client's own limiter and breaker. It costs nothing on the server.
What is billed (chat, search) or writes is never asked merely to know; there the next question or delivery tells.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from honcho_actors.honcho.breaker import Area, BreakerState
from honcho_actors.honcho.outcomes import Call, FailureKind, Ok, Priority
from honcho_actors.privacy import names
from honcho_actors.runtime.io import Clients
from honcho_actors.sessions.messages import Readable
from honcho_actors.sessions.table import Table
from honcho_actors.settings import Settings, SettingsCell
from supervision import Reply, SupervisionError

FIRST: Final = 30.0
"""Seconds without a read after which it is asked, more or less a quarter; doubled each time that it fails,"""
MOST: Final = 300.0
"""up to this."""


class Asking:
    """One for each runtime. `look` is called about once a second, by one thread."""

    def __init__(
        self,
        cell: SettingsCell,
        table: Table,
        clients: Clients,
        submit: Callable[[Any], Reply[Any]],
        now: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`submit(coroutine)` runs it on the event loop."""
        self._cell = cell
        self._table = table
        self._clients = clients
        self._submit = submit
        self._now = now
        self._jitter = jitter
        self._seen: tuple[int, int] | None = None
        """Failed reads and epoch of the settings when that was last new."""
        self._pause = FIRST
        self._due = 0.0
        self._asked: Reply[Any] | None = None

    def look(self) -> None:
        """Asks if it is time to. Waits for nothing and raises nothing."""
        settings, failed, now = self._cell.current, self._table.failed_reads, self._now()
        shut = self._clients.breakers().get(Area.READ) == BreakerState.HALF_OPEN
        if not settings.configured or not (failed or shut):
            self._seen = None
            return
        if self._seen != (failed, settings.epoch):
            changed = self._seen is not None and self._seen[1] != settings.epoch  # somebody mends it: asked at once
            self._seen, self._pause = (failed, settings.epoch), FIRST
            self._due = now if changed else now + FIRST * (0.75 + 0.5 * self._jitter())
        if now < self._due or (self._asked is not None and not self._asked.settled):
            return
        self._pause = min(2.0 * self._pause, MOST)
        self._due = now + self._pause * (0.75 + 0.5 * self._jitter())
        question = self._ask(settings, failed)
        try:
            self._asked = self._submit(question)
        except SupervisionError:  # it is closing
            question.close()

    async def _ask(self, settings: Settings, failed: int) -> None:
        client = self._clients.for_server(settings.server_id)
        if client is None:
            return
        found = await client.peer_context(
            names.workspace_id(settings.workspace),
            names.peer_id(settings.user_peer),
            max_conclusions=1,
            call=Call(asyncio.get_running_loop().time() + settings.request_timeout, Priority.BACKGROUND),
        )
        manager = self._table.manager
        if (isinstance(found, Ok) or found.kind is FailureKind.NOTHING_KNOWN) and manager is not None:
            manager.cast(Readable(failed))
