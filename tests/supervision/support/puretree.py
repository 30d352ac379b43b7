"""A tree of pure cores without any runtime: a queue of events, scripted leaves, and time that only timers move."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from supervision import core
from supervision.events import (
    Abandon,
    Arm,
    AskStop,
    Boot,
    ChildState,
    DeleteChild,
    Disarm,
    Effect,
    Event,
    Exit,
    Exited,
    Expired,
    Ignored,
    Kill,
    Ready,
    Refuse,
    Reply,
    Report,
    RestartChild,
    Retry,
    Spawn,
    StartChild,
    Started,
    StartFailed,
    Stop,
    TerminateChild,
    Token,
    TryAgain,
)
from supervision.reasons import Killed, Reason, Shutdown
from supervision.spec import ChildSpec, TreeSpec
from tests.supervision.support.model import Path, World


class Leaf:
    """A scripted child: it lives, it can end by itself, it can be deaf to a stop."""

    def __init__(self, path: Path, owner: Node, seq: int, generation: int) -> None:
        self.path, self.owner, self.seq, self.generation = path, owner, seq, generation
        self.alive = True

    def end(self, reason: Reason) -> None:
        if self.alive:
            self.alive = False
            forest = self.owner.forest
            forest.send(self.owner, Exited(self.seq, self.generation, reason, forest.world.now))


class Node:
    """A supervisor: a core state, and handles of its living children."""

    def __init__(self, forest: Forest, path: Path, tree: TreeSpec, parent: tuple[Node, int, int] | None = None) -> None:
        self.forest, self.path, self.parent = forest, path, parent
        self.state = core.new(tree)
        self.handles: dict[tuple[int, int], Leaf | Node] = {}
        self.ready = self.ended = False

    @property
    def alive(self) -> bool:
        return not self.ended

    def take(self, event: Event) -> None:
        before = self.state
        self.state, effects = core.step(before, event)
        again, _ = core.step(before, event)
        assert core.which_children(again) == core.which_children(self.state), "a step is a function"
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        forest, world = self.forest, self.forest.world
        match effect:
            case Spawn(seq, generation, spec):
                path = (*self.path, str(spec.id))
                if spec.tree is not None:
                    node = Node(forest, path, spec.tree, (self, seq, generation))
                    self.handles[seq, generation] = node
                    forest.send(node, Boot())
                    return
                world.log.append(("start", path))
                if world.failing[path] > 0:
                    world.failing[path] -= 1
                    forest.send(self, StartFailed(seq, generation, RuntimeError("told to fail")))
                elif path in world.ignoring:
                    forest.send(self, Ignored(seq, generation))
                else:
                    leaf = Leaf(path, self, seq, generation)
                    self.handles[seq, generation] = leaf
                    forest.send(self, Started(seq, generation, leaf))
            case AskStop(seq, generation) | Abandon(seq, generation):
                child = self.handles[seq, generation]
                kill = isinstance(effect, Abandon)
                if isinstance(child, Node):
                    forest.send(child, Kill() if kill else Stop())
                elif child.alive and (kill or child.path not in world.deaf):
                    world.log.append(("kill" if kill else "stop", child.path))
                    child.end(Killed() if kill else Shutdown())
            case Arm(token, seconds):
                forest.arm(self, token, seconds)
            case Disarm(token):
                forest.armed.discard((self, token))
            case TryAgain(seq, generation):
                forest.send(self, Retry(seq, generation, world.now))
            case Reply(to, value):
                assert to not in forest.answers, "one answer a request"
                forest.answers[to] = value
            case Refuse(to, error):
                assert to not in forest.answers, "one answer a request"
                forest.answers[to] = error
            case Ready():
                self.ready = True
                if self.parent is not None:
                    up, seq, generation = self.parent
                    forest.send(up, Started(seq, generation, self))
            case Exit(reason, error):
                assert not any(child.alive for child in self.handles.values()), "nobody outlives the supervisor"
                self.ended = True
                if self.parent is not None:
                    up, seq, generation = self.parent
                    if self.ready:
                        forest.send(up, Exited(seq, generation, reason, world.now))
                    else:
                        forest.send(up, StartFailed(seq, generation, error or RuntimeError("killed")))
            case Report():
                forest.reports.append(effect)

    def picture(self) -> Any:
        words = {ChildState.RUNNING: "up", ChildState.DOWN: "down", ChildState.RESTARTING: "restarting"}
        rows = []
        for info in reversed(core.which_children(self.state)):
            below = info.ref.picture() if isinstance(info.ref, Node) else None
            rows.append((str(info.id), words.get(info.state, str(info.state)), below))
        return rows


class Forest:
    """The world of one root supervisor."""

    def __init__(self, tree: TreeSpec, world: World | None = None) -> None:
        self.world = world or World()
        self.queue: deque[tuple[Node, Event]] = deque()
        self.timers: list[tuple[float, int, Node, Token]] = []
        self.armed: set[tuple[Node, Token]] = set()
        self.answers: dict[Any, Any] = {}
        self.reports: list[Report] = []
        self._ticket = 0
        self.root = Node(self, (), tree)
        self.send(self.root, Boot())
        self.run()

    logged = ("start", "stop", "kill")

    @property
    def ended(self) -> bool:
        return self.root.ended

    def picture(self) -> Any:
        return self.root.picture()

    def now(self) -> float:
        return self.world.now

    def pass_time(self, seconds: float) -> None:
        self.world.now += seconds

    def own(self, spec: ChildSpec, path: Path) -> ChildSpec:
        """The spec of a leaf as this tree starts it."""
        return spec

    def stop(self) -> None:
        self.send(self.root, Stop())
        self.run()

    def settle(self, model: Any, log: Any) -> None:
        """Everything has run already; nothing may be left over."""
        assert self.root.state.job is None or self.root.ended
        assert not self.root.state.deferred

    def send(self, node: Node, event: Event) -> None:
        self.queue.append((node, event))

    def arm(self, node: Node, token: Token, seconds: float) -> None:
        self._ticket += 1
        self.armed.add((node, token))
        heapq.heappush(self.timers, (self.world.now + seconds, self._ticket, node, token))

    def run(self) -> None:
        """Until nothing is left to do: the queue first, then the next timer."""
        steps = 0
        while True:
            while self.queue:
                node, event = self.queue.popleft()
                node.take(event)
                steps += 1
                assert steps < 100_000, "the tree comes to rest"
            while self.timers and (self.timers[0][2], self.timers[0][3]) not in self.armed:
                heapq.heappop(self.timers)
            if not self.timers:
                return
            at, _, node, token = heapq.heappop(self.timers)
            self.armed.discard((node, token))
            self.world.now = max(self.world.now, at)
            self.send(node, Expired(token))

    def ask(self, node: Node, kind: str, what: Any) -> Any:
        """A request to one supervisor, and its answer once all has settled."""
        self._ticket += 1
        ticket = self._ticket
        event: Event
        if kind == "start":
            event = StartChild(ticket, what)
        elif kind == "restart":
            event = RestartChild(ticket, what)
        elif kind == "delete":
            event = DeleteChild(ticket, what)
        else:
            by_ref = isinstance(what, Leaf | Node)
            event = TerminateChild(ticket, what, by_ref, what.alive if by_ref else True)
        self.send(node, event)
        self.run()
        return self.answers[ticket]

    def supervisors(self, node: Node | None = None) -> list[Node]:
        node = node or self.root
        found = [node]
        for info in reversed(core.which_children(node.state)):
            if isinstance(info.ref, Node):
                found += self.supervisors(info.ref)
        return found

    def at(self, path: Path) -> Node:
        node = self.root
        for part in path:
            ref = next(info.ref for info in core.which_children(node.state) if info.id == part and info.ref)
            assert isinstance(ref, Node)
            node = ref
        return node

    def leaf(self, path: Path) -> Leaf:
        node = self.at(path[:-1])
        ref = next(info.ref for info in core.which_children(node.state) if info.id == path[-1] and info.ref)
        assert isinstance(ref, Leaf)
        return ref


class Idle:
    """The class of a scripted leaf; it is never constructed."""

    life_kind = "pure"


def leaf(child_id: str, **fields: Any) -> ChildSpec:
    return ChildSpec(child_id, Idle, **fields)
