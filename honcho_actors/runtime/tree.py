"""The supervised tree: what runs under what, and how a side that gave up comes back.

    Root (rest_for_one)
      io            the event loop: task actors, the HTTP client
      read_side     (one_for_all)  refresh (dynamic), session_manager
      warden        settings, gauges, once a second
      endpoint      scrape port and admin endpoint (from `ops`, when it is there)
      write_side    (one_for_all, transient)  outbox_writer, delivery (dynamic), sweeper

The write side stands last, so that its faults restart nobody else, and is started apart, so that a disk that cannot be
written takes away capturing and nothing more. A side that gave up is tried again every half minute; what was published
goes on being served meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any, Final

from honcho_actors.capture import Capture, CapturePorts
from honcho_actors.metrics import Meters
from honcho_actors.model import SessionKey, TurnRequest
from honcho_actors.privacy import egress, identity, screeners
from honcho_actors.runtime.asking import Asking
from honcho_actors.runtime.io import Clients, IoLoop
from honcho_actors.runtime.telling import Telling
from honcho_actors.runtime.watching import READ_SIDE, WRITE_SIDE, Complaints, Counting, Looking, Warden, rows
from honcho_actors.satellite.locating import Locating
from honcho_actors.sessions import Sessions
from honcho_actors.sessions.budget import Counter, utf8_thirds
from honcho_actors.settings import SettingsCell
from supervision import (
    CallingSelf,
    ChildSpec,
    ChildState,
    Clock,
    NoProc,
    NotFound,
    Restart,
    Strategy,
    SupervisionError,
    Supervisor,
    SupervisorRef,
    ThreadRuntime,
)

TRY_AGAIN_AFTER: Final = 30.0
"""Seconds until a side that gave up is started again."""
LOOK_EVERY: Final = 5.0
START_SECONDS: Final = 5.0

_log = logging.getLogger("honcho_actors.runtime")


class Tree:
    """One runtime's actors and the faces that outlive them."""

    def __init__(
        self,
        cell: SettingsCell,
        meters: Meters,
        clock: Clock,
        status: Callable[[], Mapping[str, Any]],
        counter: Counter | None = None,
    ) -> None:
        self._cell = cell
        self._meters = meters
        counting = Counting(meters)
        self.runtime = ThreadRuntime(counting, clock, "honcho")
        self.clients = Clients(cell, meters)
        self.locating = Locating()
        self.sessions = Sessions(
            cell,
            meters,
            self.clients.for_server,
            clock=clock,
            is_established=self._on_server,
            counter=counter or utf8_thirds,
        )
        self.capture = Capture(
            CapturePorts(cell, self.clients.for_server, meters, clock, self.sessions.note_upload),
            cell.current.state_dir,
        )
        self._unguard = egress.guard(lambda: (cell.current.api_key,), _screener(cell), partial(_count_withheld, meters))
        self._root: SupervisorRef | None = None
        self._lost: dict[str, float] = {}
        self._why: dict[str, str] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._looking = Looking(cell, self.sessions.table, self.capture, self.clients, self.lost, counting)
        self.telling = Telling(self._looking, self.sessions.degraded, meters, clock.now)
        self._asking = Asking(
            cell, self.sessions.table, self.clients, lambda coroutine: self.runtime.loop.submit(coroutine), clock.now
        )
        self._board: Any = None
        self._endpoint = self._load_endpoint(status)
        complaints = Complaints(meters)
        complaints(cell.current)
        cell.subscribe(complaints)

    # -- life ----------------------------------------------------------------------------------------------------------

    def _on_server(self, session: SessionKey) -> bool:
        """The port through which sessions ask capture's ledger."""
        return self.capture.is_on_server(session)

    def start(self) -> None:
        """Starts everything. What does not start is noted and tried again; nothing is raised."""
        if _on_loop():  # supervision refuses to hold a loop up; a constructor may, for the few milliseconds it takes
            starter = threading.Thread(target=self._start, name="honcho-start", daemon=True)
            starter.start()
            starter.join(START_SECONDS)
        else:
            self._start()
        self.runtime.timers.call_after(LOOK_EVERY, self._look)

    def close(self, timeout: float) -> bool:
        """Ends everything within `timeout` seconds. True when all of it ended by itself."""
        self._closing = True  # whoever starts something meanwhile finds the runtime closed; it is not waited for
        self.sessions.close()
        self.capture.close()
        self.telling.close()
        try:
            return self.runtime.close(timeout)
        finally:
            self._unguard()

    def here(self) -> bool:
        """True on the control thread, which everything that ends waits for."""
        try:
            self.runtime.not_here()
        except CallingSelf:
            return True
        return False

    def left_behind(self) -> None:
        """In a forked child: nothing of this tree runs here, and its faces say so. Takes no lock."""
        self._closing = True
        self._lock = threading.Lock()
        self.sessions.close()
        self.capture.close()
        self.telling.left_behind()

    def _start(self) -> None:
        with self._lock:
            if self._closing:
                return
            root = self._root
            if root is None or not root.is_alive():
                root = self._root = self._try(READ_SIDE, self._start_root)
            if root is not None and _state(root, WRITE_SIDE) is not ChildState.RUNNING:
                self._try(WRITE_SIDE, lambda: self._start_write_side(root))
            self.capture.give_up(WRITE_SIDE in self._lost)

    def _try(self, side: str, start: Callable[[], Any]) -> Any:
        try:
            started = start()
        except (SupervisionError, NoProc) as error:
            why = _words(error)
            if self._closing:
                return None
            if self._why.get(side) != why:  # tried again every half minute: said once
                extra = {"event": "not_started", "side": side, "reason": why}
                _log.error("%s could not be started (%s); it is tried again", side, why, extra=extra)
            self._lost[side] = time.monotonic()
            self._why[side] = why
            return None
        self._lost.pop(side, None)
        self._why.pop(side, None)
        return started

    def _start_root(self) -> SupervisorRef:
        children = [
            ChildSpec("io", IoLoop, args=(self.clients,), shutdown=1.0),
            *self.sessions.child_specs(),
            ChildSpec(
                "warden",
                Warden,
                args=(self._cell, self._meters, self.rows, self._looking, self.telling, self._asking),
                shutdown=1.0,
            ),
        ]
        if self._endpoint is not None:
            children.append(ChildSpec("endpoint", self._endpoint, args=(self._board,), shutdown=1.0))
        return Supervisor.start(self.runtime, children, strategy=Strategy.REST_FOR_ONE, name="honcho")

    def _start_write_side(self, root: SupervisorRef) -> None:
        state = _state(root, WRITE_SIDE)
        if state is ChildState.DOWN:
            root.restart_child(WRITE_SIDE, timeout=START_SECONDS)
        elif state is None:
            spec = ChildSpec.supervisor(
                WRITE_SIDE,
                self.capture.child_specs(),
                strategy=Strategy.ONE_FOR_ALL,
                restart=Restart.TRANSIENT,
            )
            root.start_child(spec, timeout=START_SECONDS)

    def _look(self) -> None:
        """On the control thread, every few seconds: is a side lost, and is it time to try again?"""
        if self._closing:
            return
        self.runtime.timers.call_after(LOOK_EVERY, self._look)  # first: whatever goes wrong here, it is looked again
        now, root = time.monotonic(), self._root
        alive = root is not None and root.is_alive()
        if not alive:
            self._lost.setdefault(READ_SIDE, now)
        down = root is None or not alive or _state(root, WRITE_SIDE) in (None, ChildState.DOWN)
        if down and WRITE_SIDE not in self._lost:
            self._lost[WRITE_SIDE] = now
            self.capture.give_up(True)
        if not alive:  # nobody else looks, and this thread may not
            threading.Thread(target=self.telling.look, name="honcho-look", daemon=True).start()
        if any(now - since >= TRY_AGAIN_AFTER for since in self._lost.copy().values()):
            threading.Thread(target=self._start, name="honcho-restart", daemon=True).start()

    # -- what is seen from outside -------------------------------------------------------------------------------------

    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """The tree as it is published."""
        root = self._root
        return () if root is None else rows(root)

    def lost(self) -> tuple[str, ...]:
        """The sides that gave up and have not come back."""
        names = {READ_SIDE: "the read side", WRITE_SIDE: "the write side"}
        return tuple(names[side] for side in (READ_SIDE, WRITE_SIDE) if side in self._lost)

    def problems(self) -> list[str]:
        """What is wrong with the tree and its ports, one clause each."""
        found = [f"{side}: {why}" for side, why in self._why.items()]
        if self._board is not None:
            found += self._board.problems
        if self.capture.core.trouble.text:
            found.append(self.capture.core.trouble.text)
        return found

    def endpoints(self) -> Mapping[str, Any]:
        """Where the process listens."""
        board = self._board
        return {"metrics": board.metrics_url, "admin": board.admin_url} if board else {"metrics": None, "admin": None}

    def _load_endpoint(self, status: Callable[[], Mapping[str, Any]]) -> Any:
        """`ops` stands above this room and is taken by name, as a plug-in that may be absent: nothing here needs it."""
        settings = self._cell.current
        if settings.metrics_port is None and settings.admin_port is None:
            return None
        try:
            plug_in = import_module("honcho_actors.ops.endpoint")
        except ModuleNotFoundError:
            return None
        self._board = plug_in.Board(self._cell, self._meters, status, self._pages())
        return plug_in.AdminEndpoint

    def _pages(self) -> Mapping[str, Callable[[Mapping[str, str]], Any]]:
        return {
            "/sessions": lambda query: [asdict(row) for row in self.sessions.rows(_limit(query))],
            "/recent": lambda query: [asdict(row) for row in self.sessions.rows(_limit(query), latest=True)],
            "/context": self._context,
            "/outbox": lambda query: self.capture.status(),
            "/tree": lambda query: list(self.rows()),
            "/settings": lambda query: {
                "values": self._cell.current.shown(),
                "sources": dict(self._cell.current.sources),
                "shadowed": dict(self._cell.current.shadowed),
                "problems": [str(problem) for problem in self._cell.current.problems],
                "epoch": self._cell.current.epoch,
            },
        }

    def _context(self, query: Mapping[str, str]) -> Mapping[str, Any]:
        """Whether a conversation is held and how it is; nothing is read, made or served for it, and no text is shown.
        Without a `key`, the conversation that was read last."""
        key, peer = query.get("key") or None, None
        if query.get("user"):
            who = identity.resolve(TurnRequest(session_key=key or "any", user=query["user"]), self._cell.current)
            peer = who.user_peer if isinstance(who, identity.Identity) else query["user"]
        row = self.sessions.row(key, peer)
        return {
            "manager": self.sessions.status()["manager"],
            "tracked": row is not None,
            "chosen_by": None if row is None else "most_recent" if key is None else "key",
            "row": None if row is None else asdict(row),
        }


def _screener(cell: SettingsCell) -> egress.Screener | None:
    """The configured further screener; a change of this one setting takes effect at the next start."""
    name = cell.current.screener
    return None if name == "none" else screeners.load(name)


_COUNTED: Final = {egress.Field.QUERY: "query", egress.Field.SEARCH: "search"}
"""What is counted here; messages, cards and conclusions are counted by the rooms that refuse them."""


def _count_withheld(meters: Meters, field: egress.Field, outcome: egress.Outcome, rule: str) -> None:
    if outcome == "withheld" and field in _COUNTED:
        meters.egress_withheld.labels(_COUNTED[field]).inc()


def _state(root: SupervisorRef, side: str) -> ChildState | None:
    try:
        return root.which_child(side).state
    except (NotFound, NoProc):
        return None


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "")
    return min(10_000, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1000


def _words(error: BaseException) -> str:
    """An error of supervision as a clause: what kind, and what kind was behind it; never what a child's error said."""
    cause = error.__cause__
    return type(error).__name__ + (f", {type(cause).__name__}" if cause is not None else "")


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
