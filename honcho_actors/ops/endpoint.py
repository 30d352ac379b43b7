"""The admin endpoint and the scrape port of a running process, as one supervised task actor on its loop.

Promises: the admin endpoint listens on loopback, answers only who shows the token that lies in a private file of the
state directory (or a browser that was let in by whoever can read it, see `access`), and changes nothing; the scrape
port holds figures without names and listens where `metrics_host` says, loopback unless it is set; a port that is taken
is one line of `status`, never a reason not to run; both are gone when the runtime is. What is shown is what `status()`
says: nothing here waits for an actor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from honcho_actors.metrics import Meters
from honcho_actors.ops import access, exposition
from honcho_actors.ops.access import Access
from honcho_actors.ops.announcement import announce, stands, withdraw
from honcho_actors.ops.overview import SESSIONS_SHOWN, Watch
from honcho_actors.ops.page import page
from honcho_actors.ops.wire import Answer, Asked, Door, Refuse
from honcho_actors.settings import SettingsCell
from supervision import TaskActor

PASSES = 6
"""Passes of the loop in which connections that were just accepted come up, are refused and are closed."""

LOOK_EVERY: Final = 5.0
"""Seconds between two looks: at the counters, for the last hour that the page shows, and at the announcement, which a
second process on the same state directory takes over and away with it."""

_log = logging.getLogger("honcho_actors.ops")


@dataclass
class Board:
    """What the endpoint needs of the runtime, and what it tells it: where it listens, and what it could not do."""

    cell: SettingsCell
    meters: Meters
    status: Callable[[], Mapping[str, Any]]
    parts: Mapping[str, Callable[[Mapping[str, str]], Any]] = field(default_factory=dict)
    """Further pages by path, such as `/sessions`; each is given the query and answers with something JSON-able."""
    metrics_url: str | None = None
    admin_url: str | None = None
    problems: tuple[str, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    """Ports that were picked, so that a restart of the endpoint does not move it."""
    watch: Watch | None = None
    """The last hour; it outlives a restart of the endpoint."""
    told: set[str] = field(default_factory=set)
    """Problems that were warned of."""
    holder: asyncio.Task[None] | None = None
    """Keeps what listens, and closes it: a killed endpoint cannot do that itself."""

    async def close_doors(self) -> None:
        """On a loop: closes what listens on it. What listens on another loop ends with that one."""
        holder = self.holder
        if holder is not None and holder.get_loop() is asyncio.get_running_loop():
            self.holder = None
            holder.cancel()
            await asyncio.wait([holder])
            for _ in range(PASSES):
                await asyncio.sleep(0)


class Look:
    """Told by the endpoint to itself."""


class AdminEndpoint(TaskActor):
    """Listens while it lives. A new settings epoch with other ports is taken by a restart of the runtime."""

    expected_errors = (OSError,)

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board
        self._doors: list[Door] = []
        self._file: Path | None = None
        self._token = ""
        self._access = Access("", time.time)
        self._watch = board.watch = board.watch or Watch(board.meters)
        self._scraped = exposition.Page(board.meters.collectors, board.meters.scrape_failures)

    async def on_start(self) -> None:
        board, settings = self._board, self._board.cell.current
        await board.close_doors()
        board.holder = holder = asyncio.get_running_loop().create_task(_closed_with_loop(self._doors))
        _held.add(holder)
        holder.add_done_callback(_held.discard)
        board.problems = ()
        board.metrics_url = board.admin_url = None
        if settings.metrics_port is not None:
            host = settings.metrics_host
            port = await self._open(Door(self._open_pages, host=host), settings.metrics_port, "metrics_port")
            board.metrics_url = f"http://{_NEAR.get(host, host)}:{port}/metrics" if port else None
        if settings.admin_port is not None:
            self._token = secrets.token_urlsafe(24)
            self._access = Access(self._token, time.time)
            port = await self._open(Door(self._admin, guard=self._allows), settings.admin_port, "admin_port")
            if port and self._announced(settings.state_dir, f"http://127.0.0.1:{port}"):
                board.admin_url = f"http://127.0.0.1:{port}"
            self.send_after(LOOK_EVERY, Look())

    def on_receive(self, message: object) -> None:
        if isinstance(message, Look):
            self._watch.look()
            url, file = self._board.admin_url, self._file
            if url is not None and file is not None and not stands(file.parent):
                self._announced(file.parent, url)
            self.send_after(LOOK_EVERY, message)

    async def on_stop(self, reason: object) -> None:
        await self._board.close_doors()
        self._board.metrics_url = self._board.admin_url = None
        if self._file is not None:
            withdraw(self._file, self._token)

    async def _open(self, door: Door, port: int, name: str) -> int:
        for wanted in (self._board.ports.get(name, port), port):
            try:
                found = await door.start(wanted)
            except OSError as error:
                failed = error
                continue
            self._doors.append(door)
            if port == 0:
                self._board.ports[name] = found
            return found
        self._problem(f"{name} {port} cannot be used: {os.strerror(failed.errno or 0).lower()}")
        return 0

    def _problem(self, text: str) -> None:
        self._board.problems = (*self._board.problems, text)
        if text not in self._board.told:  # the endpoint is started again with whatever stands before it
            self._board.told.add(text)
            _log.warning("%s", text, extra={"event": "endpoint"})

    def _announced(self, folder: Path, url: str) -> bool:
        """Tells a command where to attach; only the owner of the state directory can read it."""
        try:
            self._file = announce(folder, url, self._token)
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            self._problem(f"the admin endpoint cannot be announced in the state directory: {why}")
            return False
        return True

    def _allows(self, asked: Asked) -> bool:
        return self._access.allows(asked.path, asked.authorization)

    def _open_pages(self, asked: Asked) -> Answer:
        """The scrape port: what anybody who reaches it may see."""
        if asked.path in ("/metrics", "/"):
            return self._scrape(asked)
        return self._probe(asked)

    def _scrape(self, asked: Asked) -> Answer:
        openmetrics = exposition.wants_openmetrics(asked.accept)
        kind = exposition.OPENMETRICS if openmetrics else exposition.CONTENT_TYPE
        return Answer(self._scraped.text(openmetrics=openmetrics), content_type=kind)

    def _probe(self, asked: Asked) -> Answer:
        """`/healthz`: the process and its loop live. `/readyz`: it takes turns. A degraded memory costs turns their
        blocks and nothing else, so it is no reason to send turns elsewhere; a runtime that is off or closed is."""
        if asked.path == "/healthz":
            return _json({"alive": True})
        if asked.path == "/readyz":
            state = self._board.status()["state"]
            ready = state in ("ready", "degraded")
            return _json({"ready": ready, "state": state}, 200 if ready else 503)
        raise Refuse(404)

    def _admin(self, asked: Asked) -> Answer:
        board = self._board
        if asked.path == access.PAGE:
            return page()
        if asked.path == access.KEY:
            key = self._access.key_for(asked.authorization)
            if key is None:
                raise Refuse(401)
            return _json({"key": key})
        if asked.path == access.FIGURES:
            return _json(self._overview())
        if asked.path == "/metrics":
            return self._scrape(asked)
        if asked.path == "/status":
            return _json(board.status())
        part = board.parts.get(asked.path)
        return self._probe(asked) if part is None else _json(part(asked.query))

    def _overview(self) -> Mapping[str, Any]:
        board = self._board
        recent = board.parts.get("/recent")
        rows = recent({"limit": str(SESSIONS_SHOWN)}) if recent is not None else []
        settings = {name: getattr(board.cell.current, name) for name in _SHOWN}
        return self._watch.overview(board.status(), rows, settings)


_SHOWN: Final = ("max_sessions", "max_cache_bytes", "outbox_max_bytes", "dialectic_per_hour", "first_turn_wait")
"""Limits that stand beside what is counted against them."""

_NEAR: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}
"""Where this machine itself finds what listens there."""


_held: set[asyncio.Task[None]] = set()
"""A loop refers to its tasks weakly: without this, the doors on a loop that was given up would never be closed."""


async def _closed_with_loop(doors: list[Door]) -> None:
    """Closes the doors when it is cancelled: by the endpoint's end, by its successor's start, by its loop's end."""
    try:
        await asyncio.Event().wait()
    finally:
        for door in doors:
            door.close()


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"), status)
