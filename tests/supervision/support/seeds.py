"""One seed, one life: a random tree to which random things happen in the simulator, with every promise checked.

`run_seed` gives the digest of all that was done; the same seed must give the same digest.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import random
import sys
import time
from typing import Any

from supervision import (
    BRUTAL_KILL,
    ChildSpec,
    Down,
    NoProc,
    Overloaded,
    Restart,
    Shutdown,
    Simulator,
    StartError,
    Strategy,
    Supervisor,
    SupervisorRef,
    TaskActor,
    ThreadActor,
    Waiter,
    monitor,
)
from supervision.spec_errors import SupervisionError


class Bug(Exception):
    pass


class _Life:
    """Answers, forwards, sleeps, fails and stops as it is told."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name = scene, name

    def begin(self) -> None:
        self.scene.log.append(f"start {self.name}")
        if self.scene.chance.random() < self.scene.frailty:
            raise Bug

    def act(self, message: Any) -> Any:
        word, value = message
        self.scene.log.append(f"{word} {self.name}")
        if word == "crash":
            raise Bug
        if word == "stop":
            self.stop(Shutdown())  # type: ignore[attr-defined]
        if word == "later":
            self.send_after(value, ("ping", 0))  # type: ignore[attr-defined]
        if word == "resolve":
            value.resolve("done")
            return None
        return value


class Plain(_Life, ThreadActor):
    def on_start(self) -> None:
        self.begin()

    def on_receive(self, message: Any) -> Any:
        return self.act(message)

    def on_stop(self, reason: Any) -> None:
        self.scene.log.append(f"stop {self.name}")


class Slow(_Life, TaskActor):
    async def on_start(self) -> None:
        await asyncio.sleep(0.01)
        self.begin()

    async def on_receive(self, message: Any) -> Any:
        if message[0] == "sleep":
            await asyncio.sleep(message[1])
        return self.act(message)

    async def on_stop(self, reason: Any) -> None:
        self.scene.log.append(f"stop {self.name}")
        await asyncio.sleep(0.01)


class Scene:
    """The world of one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.frailty = self.chance.choice((0.0, 0.0, 0.05, 0.3))
        self.log: list[str] = []
        self.replies: list[Any] = []
        self.waiters: list[Waiter[str]] = []
        self.downs: dict[int, list[Down]] = {}
        self.sim = Simulator(seed=seed)

    def specs(self, depth: int, path: str) -> list[ChildSpec]:
        chance, specs = self.chance, []
        for number in range(chance.randint(1, 4)):
            name = f"{path}{number}"
            restart = chance.choice(list(Restart))
            if depth and chance.random() < 0.3:
                flags: dict[str, Any] = {"strategy": chance.choice(list(Strategy)), "intensity": chance.randint(0, 5)}
                specs.append(ChildSpec.supervisor(name, self.specs(depth - 1, name), restart=restart, **flags))
            elif depth and chance.random() < 0.2:
                specs.append(ChildSpec.dynamic(name, max_children=3, restart=restart))
            else:
                shutdown = chance.choice((BRUTAL_KILL, 0.5, 5.0))
                cls = chance.choice((Plain, Slow))
                specs.append(ChildSpec(name, cls, args=(self, name), restart=restart, shutdown=shutdown))
        return specs

    def refs(self, sup: SupervisorRef) -> list[Any]:
        found = []
        for info in sup.which_children():
            if isinstance(info.ref, SupervisorRef):
                found.append(info.ref)
                try:
                    found += self.refs(info.ref)
                except NoProc:
                    continue
            elif info.ref is not None:
                found.append(info.ref)
        return found

    def happen(self, root: SupervisorRef) -> None:
        """One random thing."""
        chance = self.chance
        refs = self.refs(root)
        if not refs:
            return
        ref = chance.choice(refs)
        if isinstance(ref, SupervisorRef):
            self.administer(ref)
            return
        what = chance.choice(("ask", "ask", "crash", "stop", "kill", "sleep", "later", "wait", "watch", "ask stop"))
        value = chance.random() * 3
        try:
            if what == "kill":
                ref.kill()
            elif what == "ask stop":
                self.replies.append(ref.stop(block=False))
            elif what == "wait":
                waiter: Waiter[str] = Waiter(
                    timers=self.sim.timers, deadline=self.sim.clock.now() + value, on_deadline="late"
                )
                self.waiters.append(waiter.bind(ref, lambda down: "died"))
                ref.tell(("resolve", waiter))
            elif what == "watch":
                heard: list[Down] = []
                self.downs[len(self.downs)] = heard
                monitor(ref, heard.append)
            else:
                self.replies.append(ref.ask((what, value), block=False))
        except (NoProc, Overloaded):
            pass

    def administer(self, sup: SupervisorRef) -> None:
        chance = self.chance
        try:
            ids = [info.id for info in sup.which_children()]
            what = chance.choice(("start", "terminate", "restart", "delete", "kill"))
            if what == "start":
                spec = ChildSpec(f"x{len(self.log)}", chance.choice((Plain, Slow)), args=(self, "x"))
                self.replies.append(sup.start_child(spec, block=False))
            elif what == "kill":
                if chance.random() < 0.3:
                    sup.kill()
            elif ids:
                child_id = chance.choice(ids)
                self.replies.append(getattr(sup, f"{what}_child")(child_id, block=False))
        except NoProc:
            pass


def run_seed(seed: int, things: int = 16) -> str:
    """Lives through one seed; raises AssertionError where a promise is broken."""
    scene = Scene(seed)
    sim, chance = scene.sim, scene.chance
    try:
        root = Supervisor.start(
            sim, scene.specs(2, "c"), strategy=chance.choice(list(Strategy)), intensity=chance.randint(1, 6), name="t"
        )
    except StartError:
        sim.run_until_idle()
        root = None
    for _ in range(things):
        if root is None or root.exit_reason is not None:
            break
        try:
            scene.happen(root)
        except NoProc:
            break
        if chance.random() < 0.4:
            sim.run_until_idle()
        if chance.random() < 0.2:
            sim.advance(chance.choice((0.02, 0.5, 6.0)))
    if root is not None and chance.random() < 0.7:
        scene.replies.append(root.stop(block=False))
    sim.advance(20.0)
    if root is not None:
        root.stop()
    assert sim.close(30.0), f"seed {seed}: the tree did not end by itself"
    assert not sim.lives, f"seed {seed}: {sim.lives}"
    for reply in scene.replies:
        assert reply.settled, f"seed {seed}: an asker has no answer"
    assert all(waiter.resolved for waiter in scene.waiters), f"seed {seed}: a waiter is pending"
    assert all(len(heard) == 1 for heard in scene.downs.values()), f"seed {seed}: not one Down a monitor"
    assert not len(sim.registry)
    values = [waiter.value for waiter in scene.waiters] + [_outcome(reply) for reply in scene.replies]
    text = "\n".join([*sim.trace, *scene.log, *map(str, values)])
    return hashlib.sha256(text.encode()).hexdigest()


def _outcome(reply: Any) -> str:
    try:
        value = reply.get()
    except (SupervisionError, Bug) as error:
        return type(error).__name__
    return value if isinstance(value, str) else type(value).__name__


def main() -> int:
    """Every seed twice; any difference, and any broken promise, is an error."""
    parser = argparse.ArgumentParser(description="random trees in the simulator, each replayed from its seed")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("supervision").setLevel(logging.CRITICAL + 1)
    begun = time.monotonic()
    digests = set()
    different = []
    for seed in range(options.first, options.first + options.seeds):
        digest = run_seed(seed)
        digests.add(digest)
        if run_seed(seed) != digest:
            different.append(seed)
    seconds = time.monotonic() - begun
    print(f"{options.seeds} seeds, {len(digests)} lives, {len(different)} not replayed, {seconds:.0f} s")
    if different:
        print(f"not replayed: {different[:20]}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
