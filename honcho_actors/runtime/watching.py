"""Looking after a runtime that is left alone for months: settings, gauges, and a side of the tree that has given up.

The Warden is a thread actor that looks once a second: it may touch files, so it stands on a thread of its own. `Signs`
of the health are read from what others publish. What
brings a lost tree back cannot live in that tree: it is a timer of the control thread, which never blocks.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from honcho_actors.capture import Capture
from honcho_actors.metrics import Meters
from honcho_actors.runtime.asking import Asking
from honcho_actors.runtime.health import Signs
from honcho_actors.runtime.io import Clients, preload
from honcho_actors.runtime.telling import Telling
from honcho_actors.sessions.table import Table
from honcho_actors.settings import Settings, SettingsCell
from supervision import (
    AbandonedEnded,
    ActorAbandoned,
    LateResult,
    NoProc,
    Observer,
    SupervisorRef,
    SupervisorReport,
    ThreadActor,
)

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the settings' sources."""

MEASURE_EVERY: Final = 30.0
"""Seconds between two looks at how much room the disk has."""

READ_SIDE: Final = "read_side"
WRITE_SIDE: Final = "write_side"
_SHOWN: Final[Mapping[str, str]] = {
    "running": "running", "starting": "starting", "awaiting": "starting", "stopping": "stopping",
    "restarting": "restarting", "down": "given_up",
}  # fmt: skip

_log = logging.getLogger("honcho_actors.runtime")


class Look:
    """Told by the Warden to itself."""


class Counting(Observer):
    """Counts what supervision reports, by the supervisor's place in the tree."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self.restarts = 0

    def observe(self, event: Any) -> None:
        """Any thread; records and returns."""
        if isinstance(event, SupervisorReport):
            if event.report.what == "restarted":
                self.restarts += 1
                self._meters.supervisor_restarts.labels(place(event.actor)).inc()
        elif isinstance(event, (ActorAbandoned, AbandonedEnded)):
            self._meters.actors_abandoned.set(event.abandoned)
        elif isinstance(event, LateResult):
            self._meters.late_results.labels("reply").inc()


def place(label: str) -> str:
    """`honcho/read_side/refresh#3` is `refresh`; the root is `root`."""
    path = label.split("#")[0].split("/")
    return path[-1] if len(path) > 1 else "root"


class Warden(ThreadActor):
    """Polls the settings' sources, looks at the health, and keeps the gauges that nobody else keeps."""

    def __init__(
        self,
        cell: SettingsCell,
        meters: Meters,
        tree: Callable[[], tuple[Mapping[str, Any], ...]],
        looking: Looking,
        telling: Telling,
        asking: Asking,
    ) -> None:
        super().__init__()
        self._asking = asking
        self._looking = looking
        self._telling = telling
        self._cell = cell
        self._meters = meters
        self._tree = tree
        self._ready = False

    def on_start(self) -> None:
        self.actor_ref.tell(Look())

    def on_receive(self, message: object) -> None:
        if isinstance(message, Look):
            if not self._ready:  # the HTTP library is not loaded with the package, and not on the loop at a first turn
                preload()
                self._ready = True
            self._cell.poll()
            self._gauges()
            free = self._looking.measure()
            self._meters.state_free_bytes.set(float("inf") if free is None else free)  # not known is not full
            self._asking.look()
            self._telling.look()
            self.send_after(LOOK_EVERY, message)

    def _gauges(self) -> None:
        counts: dict[tuple[str, str], int] = {}
        for row in self._tree():
            key = (str(row["supervisor"]), _SHOWN.get(str(row["state"]), "running"))
            counts[key] = counts.get(key, 0) + int(row["count"])
        for supervisor, state in self._meters.supervisor_children:
            self._meters.supervisor_children.labels(supervisor, state).set(counts.get((supervisor, state), 0))


class Looking:
    """Reads the signs of the health from what is published; asks no actor. Any thread."""

    def __init__(
        self,
        cell: SettingsCell,
        table: Table,
        capture: Capture,
        clients: Clients,
        lost: Callable[[], tuple[str, ...]],
        counting: Counting,
    ) -> None:
        self._cell = cell
        self._table = table
        self._capture = capture
        self._clients = clients
        self._lost = lost
        self._counting = counting
        self._free: int | None = None
        self._measured = -MEASURE_EVERY

    def __call__(self) -> Signs:
        settings, table, core = self._cell.current, self._table, self._capture.core
        counts = core.counts
        return Signs(
            off=not settings.configured or bool(self._clients.problem()),
            read_only=settings.read_only,
            breakers=self._clients.breakers(),
            failed_reads=table.failed_reads,
            failed_why=table.failed_why,
            waiting=Counter(list(core.waiting.values())),
            lost=self._lost(),
            store=core.trouble.text,
            oldest=None if counts is None else counts.oldest,
            restarts=self._counting.restarts,
            served=table.served,
            taken=core.taken,
            skipped=core.skips.copy(),
            free_bytes=self._free,
        )

    def measure(self) -> int | None:
        """Bytes that are left for the state directory, looked at now and then; None where that cannot be told. Touches
        the disk."""
        now = time.monotonic()
        if now - self._measured >= MEASURE_EVERY:
            self._measured = now
            self._free = room(self._cell.current.state_dir)
        return self._free


def room(folder: Path) -> int | None:
    """Bytes that are left for a directory, which need not exist yet; None where that cannot be told."""
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


class Complaints:
    """Tells each problem of the settings once, and keeps their gauge."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, settings: Settings) -> None:
        self._meters.config_problems.set(len(settings.problems))
        with self._lock:
            new = [str(problem) for problem in settings.problems if str(problem) not in self._told]
            self._told.update(new)
        for text in new:
            _log.warning("a setting was not taken: %s", text, extra={"event": "setting"})


def rows(root: SupervisorRef) -> tuple[Mapping[str, Any], ...]:
    """The tree as it is published: one row a child; a dynamic supervisor's children as one row a state."""
    found: list[Mapping[str, Any]] = []
    _walk(root, "root", found)
    return tuple(found)


def _walk(supervisor: SupervisorRef, name: str, found: list[Mapping[str, Any]]) -> None:
    try:
        children = supervisor.which_children()
    except NoProc:
        return
    temporary: dict[str, int] = {}
    for child in reversed(children):
        if child.kind != "supervisor" and name in ("refresh", "delivery"):
            temporary[child.state] = temporary.get(child.state, 0) + 1
            continue
        found.append(
            {
                "supervisor": name,
                "child": str(child.id),
                "kind": str(child.kind),
                "state": str(child.state),
                "generation": child.generation,
                "count": 1,
            }
        )
        if child.kind == "supervisor" and isinstance(child.ref, SupervisorRef):
            _walk(child.ref, str(child.id), found)
    for state, count in temporary.items():
        found.append(
            {"supervisor": name, "child": "*", "kind": "worker", "state": state, "generation": 0, "count": count}
        )
