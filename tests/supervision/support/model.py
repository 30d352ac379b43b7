"""OTP's supervision as a synchronous program: what a tree must look like after everything has settled.

Written from the manual's rules, not from the core: every operation runs to its end before the next begins, by plain
recursion, the way an Erlang supervisor is simply busy until it has finished. The property tests hold the core, and the
shell around it, against this.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from supervision.reasons import Reason, Shutdown
from supervision.spec import BRUTAL_KILL, AutoShutdown, ChildSpec, Restart, Strategy, TreeSpec

Path = tuple[str, ...]


@dataclass
class World:
    """What lies outside a supervisor: time, what children do when they are started or asked to stop, and a log."""

    now: float = 0.0
    failing: dict[Path, int] = field(default_factory=lambda: defaultdict(int))
    ignoring: set[Path] = field(default_factory=set)
    deaf: set[Path] = field(default_factory=set)
    log: list[tuple[str, Path]] = field(default_factory=list)


class CannotStart(Exception):
    pass


@dataclass
class Row:
    spec: ChildSpec
    state: str = "down"
    node: Model | None = None

    @property
    def temporary(self) -> bool:
        return self.spec.restart is Restart.TEMPORARY


class Model:
    """One supervisor and all below it."""

    def __init__(self, world: World, path: Path, tree: TreeSpec, parent: Model | None = None) -> None:
        self.world, self.path, self.flags, self.parent = world, path, tree.flags, parent
        self.rows = [Row(spec) for spec in tree.children]
        self.incidents: list[float] = []
        self.ended = False

    # --- one child ---

    def start(self, row: Row) -> bool:
        """Starts one child; False if it said ignore."""
        path = (*self.path, str(row.spec.id))
        if row.spec.tree is not None:
            node = Model(self.world, path, row.spec.tree, self)
            node.boot()
            row.node = node
        else:
            self.world.log.append(("start", path))
            if self.world.failing[path] > 0:
                self.world.failing[path] -= 1
                raise CannotStart(path)
            if path in self.world.ignoring:
                row.state = "down"
                return False
        row.state = "up"
        return True

    def halt(self, row: Row) -> None:
        """Stops one child by its budget."""
        if row.state != "up":
            row.state = "down"
            return
        path = (*self.path, str(row.spec.id))
        row.state = "down"
        if row.node is not None:
            node, row.node = row.node, None
            node.halt_all()
            node.ended = True
        elif row.spec.shutdown is BRUTAL_KILL:
            self.world.log.append(("kill", path))
        elif path in self.world.deaf:
            assert isinstance(row.spec.shutdown, float)
            self.world.now += row.spec.shutdown
            self.world.log.append(("kill", path))
        else:
            self.world.log.append(("stop", path))

    def halt_all(self) -> None:
        begin = end = self.world.now
        for row in list(reversed(self.rows)):
            if self.flags.dynamic:
                self.world.now = begin
            self.halt(row)
            end = max(end, self.world.now)
        self.world.now = end

    # --- the whole ---

    def boot(self) -> None:
        for row in list(self.rows):
            try:
                running = self.start(row)
            except CannotStart:
                row.state = "down"
                self.halt_all()
                self.ended = True
                raise
            if not running and row.temporary:
                self.rows.remove(row)

    def finish(self) -> None:
        """Ends by its own decision, and tells the parent."""
        self.halt_all()
        self.ended = True
        if self.parent is not None:
            row = next(row for row in self.parent.rows if row.node is self)
            row.node = None
            self.parent.child_ended(row, Shutdown())

    def child_ended(self, row: Row, reason: Reason) -> None:
        row.state = "down"
        again = row.spec.restart is Restart.PERMANENT or (row.spec.restart is Restart.TRANSIENT and not reason.quiet)
        if again:
            self.incident(row)
            return
        if row.temporary or self.flags.dynamic:
            self.rows.remove(row)
        if not row.spec.significant:
            return
        others = [one for one in self.rows if one.spec.significant and one.state != "down"]
        if self.flags.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT or (
            self.flags.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT and not others
        ):
            self.finish()

    def incident(self, row: Row) -> None:
        while True:
            now = self.world.now
            self.incidents = [at for at in self.incidents if now - at <= self.flags.period] + [now]
            if len(self.incidents) > self.flags.intensity:
                row.state = "down"
                self.finish()
                return
            try:
                self.restart(row)
                return
            except _Failed as failed:
                row = failed.row

    def restart(self, row: Row) -> None:
        if self.flags.strategy is Strategy.ONE_FOR_ONE:
            group = [row]
        elif self.flags.strategy is Strategy.ONE_FOR_ALL:
            group = list(self.rows)
        else:
            group = self.rows[self.rows.index(row) :]
        for one in reversed(group):
            if one is row:
                continue
            was_up = one.state == "up"
            self.halt(one)
            if was_up and one.temporary:
                self.rows.remove(one)
                group = [kept for kept in group if kept is not one]
        for one in group:
            try:
                running = self.start(one)
            except CannotStart:
                one.state = "restarting"
                raise _Failed(one) from None
            if not running and self.flags.dynamic:
                self.rows.remove(one)

    # --- requests: the word that answers each ---

    def row(self, child_id: str) -> Row | None:
        return next((row for row in self.rows if row.spec.id == child_id), None)

    def terminate(self, child_id: str) -> str:
        row = self.row(child_id)
        if row is None:
            return "NotFound"
        self.halt(row)
        if row.temporary or self.flags.dynamic:
            self.rows.remove(row)
        return "ok"

    def restart_child(self, child_id: str) -> str:
        row = self.row(child_id)
        if row is None:
            return "NotFound"
        if row.state == "up":
            return "Running"
        try:
            self.start(row)
        except CannotStart:
            row.state = "down"
            return "StartError"
        return "ok"

    def delete_child(self, child_id: str) -> str:
        row = self.row(child_id)
        if row is None:
            return "NotFound"
        if row.state == "up":
            return "Running"
        self.rows.remove(row)
        return "ok"

    def start_child(self, spec: ChildSpec) -> str:
        if self.flags.dynamic:
            if len(self.rows) >= self.flags.max_children:
                return "MaxChildren"
        elif (known := self.row(str(spec.id))) is not None:
            return "AlreadyStarted" if known.state == "up" else "AlreadyPresent"
        row = Row(spec)
        try:
            running = self.start(row)
        except CannotStart:
            return "StartError"
        if running or not (self.flags.dynamic or row.temporary):
            self.rows.append(row)
        return "ok"

    # --- looking ---

    def picture(self) -> Any:
        """Ids and states of the whole tree, oldest first."""
        return [(str(row.spec.id), row.state, row.node.picture() if row.node else None) for row in self.rows]

    def supervisors(self) -> list[Model]:
        below = [node for row in self.rows if row.node is not None for node in row.node.supervisors()]
        return [self, *below]

    def leaves(self) -> list[tuple[Model, Row]]:
        return [(sup, row) for sup in self.supervisors() for row in sup.rows if row.state == "up" and row.node is None]


class _Failed(Exception):
    def __init__(self, row: Row) -> None:
        self.row = row
