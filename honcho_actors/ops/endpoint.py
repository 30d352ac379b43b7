"""The admin endpoint and the scrape port of a running process, as one supervised task actor on its loop.

Promises: both listen on loopback; the admin endpoint answers only who shows the token that lies in a private file of
the state directory, and changes nothing; a port that is taken is one line of `status`, never a reason not to run;
both are gone when the runtime is. What is shown is what `status()` says: nothing here waits for an actor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from honcho_actors.metrics import Meters
from honcho_actors.ops import exposition
from honcho_actors.ops.announcement import announce, withdraw
from honcho_actors.ops.wire import Answer, Asked, Door, Refuse
from honcho_actors.settings import SettingsCell
from supervision import TaskActor

PASSES = 6
"""Passes of the loop in which connections that were just accepted come up, are refused and are closed."""

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


class AdminEndpoint(TaskActor):
    """Listens while it lives. A new settings epoch with other ports is taken by a restart of the runtime."""

    expected_errors = (OSError,)

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board
        self._doors: list[Door] = []
        self._file: Path | None = None
        self._token = ""

    async def on_start(self) -> None:
        board, settings = self._board, self._board.cell.current
        await board.close_doors()
        board.holder = holder = asyncio.get_running_loop().create_task(_closed_with_loop(self._doors))
        _held.add(holder)
        holder.add_done_callback(_held.discard)
        board.problems = ()
        board.metrics_url = board.admin_url = None
        if settings.metrics_port is not None:
            port = await self._open(Door(self._scrape), settings.metrics_port, "metrics_port")
            board.metrics_url = f"http://127.0.0.1:{port}/metrics" if port else None
        if settings.admin_port is not None:
            self._token = secrets.token_urlsafe(24)
            port = await self._open(Door(self._admin, token=self._token), settings.admin_port, "admin_port")
            if port and self._announced(settings.state_dir, f"http://127.0.0.1:{port}"):
                board.admin_url = f"http://127.0.0.1:{port}"

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
        _log.warning("%s", text)

    def _announced(self, folder: Path, url: str) -> bool:
        """Tells a command where to attach; only the owner of the state directory can read it."""
        try:
            self._file = announce(folder, url, self._token)
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            self._problem(f"the admin endpoint cannot be announced in the state directory: {why}")
            return False
        return True

    def _scrape(self, asked: Asked) -> Answer:
        if asked.path not in ("/metrics", "/"):
            raise Refuse(404)
        meters = self._board.meters
        return Answer(exposition.text(meters.collectors, meters.scrape_failures), content_type=exposition.CONTENT_TYPE)

    def _admin(self, asked: Asked) -> Answer:
        board = self._board
        if asked.path == "/metrics":
            return self._scrape(asked)
        if asked.path == "/status":
            return _json(board.status())
        if asked.path == "/healthz":
            return _json({"alive": True})
        if asked.path == "/readyz":
            status = board.status()
            return _json({"ready": status["state"] == "ready", "health": status["health"]})
        part = board.parts.get(asked.path)
        if part is None:
            raise Refuse(404)
        return _json(part(asked.query))


_held: set[asyncio.Task[None]] = set()
"""A loop refers to its tasks weakly: without this, the doors on a loop that was given up would never be closed."""


async def _closed_with_loop(doors: list[Door]) -> None:
    """Closes the doors when it is cancelled: by the endpoint's end, by its successor's start, by its loop's end."""
    try:
        await asyncio.Event().wait()
    finally:
        for door in doors:
            door.close()


def _json(value: Any) -> Answer:
    return Answer(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
