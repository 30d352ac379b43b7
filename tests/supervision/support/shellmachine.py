"""The state machine of `treemachine` over real supervisors and actors, on any runtime."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any

from supervision import (
    IGNORE,
    ChildSpec,
    Crashed,
    Killed,
    ManualClock,
    NoProc,
    NotFound,
    Reason,
    Simulator,
    StartError,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
)
from supervision.face import Supervisor, SupervisorRef
from supervision.spec import TreeSpec
from supervision.spec_errors import SupervisionError
from tests.supervision.support.model import Model, Path, World
from tests.supervision.support.treemachine import TreeMachine

PATIENCE = 30.0


class _Told(Exception):
    """A child was told to fail."""


class _Scripted:
    def __init__(self, world: Any, path: Path) -> None:
        self.world, self.path = world, path

    def begin(self) -> Any:
        self.world.log.append(("start", self.path))
        if self.world.failing[self.path] > 0:
            self.world.failing[self.path] -= 1
            raise _Told
        return IGNORE if self.path in self.world.ignoring else None

    def act(self, message: Any) -> None:
        self.world.own_ends.add(self.path)
        if isinstance(message, Crashed):
            raise _Told
        self.stop(message)  # type: ignore[attr-defined]

    def finish(self) -> bool:
        """Whether to be deaf."""
        if self.path in self.world.own_ends:
            self.world.own_ends.discard(self.path)
            return False
        if self.path in self.world.deaf:
            return True
        self.world.log.append(("stop", self.path))
        return False


class ThreadScripted(_Scripted, ThreadActor):
    def on_start(self) -> Any:
        return self.begin()

    def on_receive(self, message: Any) -> None:
        self.act(message)

    def on_stop(self, reason: Reason) -> None:
        self.finish()


class TaskScripted(_Scripted, TaskActor):
    async def on_start(self) -> Any:
        return self.begin()

    async def on_receive(self, message: Any) -> None:
        self.act(message)

    async def on_stop(self, reason: Reason) -> None:
        if self.finish():
            await asyncio.get_running_loop().create_future()


class ShellLeaf:
    """A living leaf, with the interface of a pure one."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def end(self, reason: Reason) -> None:
        if isinstance(reason, Killed):
            self.ref.kill()
        else:
            self.ref.tell(reason)


class ShellForest:
    """A tree on a runtime, with the interface of a pure one."""

    logged = ("start", "stop")

    def __init__(self, name: str, spec: TreeSpec, world: World, seed: int) -> None:
        self.name, self.world, self.seed = name, world, seed
        self.sim = name == "sim"
        world.own_ends = set()  # type: ignore[attr-defined]
        self.clock = ManualClock()
        self.rt: Any = Simulator(seed=seed, record=False) if self.sim else ThreadRuntime(clock=self.clock, name="model")
        flags = spec.flags
        children = [self.own(child, ()) for child in spec.children]
        self.root: SupervisorRef | None = None
        try:
            self.root = Supervisor.start(
                self.rt,
                children,
                strategy=flags.strategy,
                intensity=flags.intensity,
                period=flags.period,
                auto_shutdown=flags.auto_shutdown,
            )
        except StartError:
            pass

    def own(self, spec: ChildSpec, path: Path) -> ChildSpec:
        """The same spec with actors that can live on this runtime."""
        here = (*path, str(spec.id))
        if spec.tree is not None:
            children = tuple(self.own(child, here) for child in spec.tree.children)
            return ChildSpec(
                spec.id,
                TreeSpec,
                tree=TreeSpec(spec.tree.flags, children),
                restart=spec.restart,
                significant=spec.significant,
            )
        # In the simulator whoever may be deaf is a task: a plain on_stop cannot wait for ever.
        cls = ThreadScripted if self.name == "threads" else TaskScripted
        return ChildSpec(
            spec.id,
            cls,
            args=(self.world, here),
            restart=spec.restart,
            shutdown=spec.shutdown,
            significant=spec.significant,
        )

    @property
    def ended(self) -> bool:
        return self.root is None or self.root.exit_reason is not None

    def now(self) -> float:
        return float(self.rt.clock.now())

    def pass_time(self, seconds: float) -> None:
        if self.sim:
            self.rt.advance(seconds)
        else:
            self.clock.advance(seconds)

    def run(self) -> None:
        """Until nothing happens any more: in the simulator all work, then the next timer."""
        while self.sim:
            self.rt.run_until_idle()
            due = self.rt.timers.next_due()
            if due is None:
                return
            self.rt.advance(max(0.0, due - self.rt.clock.now()))

    def stop(self) -> None:
        if self.root is not None:
            self.root.stop()

    def ask(self, node: Any, kind: str, what: Any) -> Any:
        calls = {
            "start": node.start_child,
            "restart": node.restart_child,
            "delete": node.delete_child,
            "terminate": node.terminate_child,
        }
        try:
            result = calls[kind](what.ref if isinstance(what, ShellLeaf) else what)
        except SupervisionError as error:
            return error
        self.run()
        return None if result is not IGNORE else IGNORE

    def at(self, path: Path) -> Any:
        node: Any = self.root
        for part in path:
            node = next(info.ref for info in node.which_children() if info.id == part)
        return node

    def leaf(self, path: Path) -> ShellLeaf:
        return ShellLeaf(self.at(path))

    def picture(self) -> Any:
        return _picture(self.root)

    def settle(self, model: Model, log: list[tuple[str, Path]]) -> None:
        """On threads: until both look the same, or for so long that they never will."""
        self.run()
        if self.sim:
            return
        wanted = Counter(entry for entry in log if entry[0] in self.logged)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                same = self.ended == model.ended and (model.ended or self.picture() == model.picture())
            except (NoProc, NotFound):
                same = False
            if same and Counter(self.world.log) == wanted:
                return
            time.sleep(0.0005)

    def close(self) -> None:
        self.rt.close(2.0)
        assert not self.rt.lives
        assert not self.rt.abandoned_count


def _picture(node: Any) -> Any:
    words = {"running": "up"}
    rows = []
    for info in reversed(node.which_children()):
        below = _picture(info.ref) if isinstance(info.ref, SupervisorRef) else None
        rows.append((str(info.id), words.get(info.state, str(info.state)), below))
    return rows


def machine_for(name: str, seed: int = 0) -> type[TreeMachine]:
    """The state machine over the runtime of that name."""

    class ShellMachine(TreeMachine):
        deafness = name == "sim"

        def make(self, spec: TreeSpec, world: World) -> Any:
            logging.getLogger("supervision").setLevel(logging.CRITICAL + 1)  # thousands of crashes, all on purpose
            return ShellForest(name, spec, world, seed)

        def teardown(self) -> None:
            if hasattr(self, "forest"):
                self.forest.close()
            logging.getLogger("supervision").setLevel(logging.NOTSET)

    return ShellMachine
