"""A hypothesis state machine: the same things happen to a tree and to the model; after each, both look the same.

What the tree is, is open: pure cores (`puretree.Forest`), or a runtime (`shellmachine.ShellForest`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from supervision.events import ChildStarted
from supervision.reasons import Crashed, Killed, Normal, Reason, Shutdown
from supervision.spec import (
    BRUTAL_KILL,
    IGNORE,
    AutoShutdown,
    ChildSpec,
    Restart,
    Strategy,
    TreeSpec,
    dynamic_tree,
    tree,
)
from tests.supervision.support.model import CannotStart, Model, Row, World
from tests.supervision.support.puretree import Forest, leaf

REASONS: list[Reason] = [Crashed(ValueError("bug")), Killed(), Normal(), Shutdown(), Shutdown("why")]


@st.composite
def trees(draw: st.DrawFn, depth: int = 2) -> TreeSpec:
    flags: dict[str, Any] = {
        "strategy": draw(st.sampled_from(list(Strategy))),
        "intensity": draw(st.integers(0, 4)),
        "period": draw(st.sampled_from([1.0, 5.0])),
        "auto_shutdown": draw(st.sampled_from(list(AutoShutdown))),
    }
    children: list[ChildSpec] = []
    for number in range(draw(st.integers(0 if depth < 2 else 1, 4))):
        restart = draw(st.sampled_from(list(Restart)))
        may = restart is not Restart.PERMANENT and flags["auto_shutdown"] is not AutoShutdown.NEVER
        fields: dict[str, Any] = {"restart": restart, "significant": may and draw(st.booleans())}
        kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "tree", "dynamic"])) if depth else "leaf"
        name = f"{kind[0]}{number}"
        if kind == "tree":
            children.append(ChildSpec(name, TreeSpec, tree=draw(trees(depth - 1)), **fields))
        elif kind == "dynamic":
            limits: dict[str, Any] = {"max_children": draw(st.integers(0, 3)), "intensity": draw(st.integers(0, 3))}
            children.append(ChildSpec(name, TreeSpec, tree=dynamic_tree(**limits), **fields))
        else:
            children.append(leaf(name, shutdown=draw(st.sampled_from([5.0, 2.0, BRUTAL_KILL])), **fields))
    return tree(children, **flags)


def _any_dynamic(spec: TreeSpec) -> bool:
    return spec.flags.dynamic or any(child.tree is not None and _any_dynamic(child.tree) for child in spec.children)


class TreeMachine(RuleBasedStateMachine):
    """Pure cores against the model; `make` says what else to hold against it."""

    deafness = True
    """Whether children may be deaf to a stop: time then moves by their budgets."""

    def make(self, spec: TreeSpec, world: World) -> Any:
        """The tree, started."""
        return Forest(spec, world)

    @initialize(spec=trees(), fail=st.integers(0, 12))
    def plant(self, spec: TreeSpec, fail: int) -> None:
        self.model_world, self.world = World(), World()
        self.fresh = 0
        self.static = not _any_dynamic(spec)
        self.model = Model(self.model_world, (), spec)
        leaves = [(str(child.id),) for child in spec.children if child.tree is None]
        for world in (self.model_world, self.world):
            if leaves and fail < len(leaves):
                world.failing[leaves[fail]] = 1
        try:
            self.model.boot()
        except CannotStart:
            self.model.ended = True
        self.forest = self.make(spec, self.world)

    def pick_leaf(self, number: int) -> tuple[Model, Row] | None:
        leaves = [] if self.model.ended else self.model.leaves()
        return leaves[number % len(leaves)] if leaves else None

    def pick_supervisor(self, number: int) -> tuple[Model, Any]:
        supervisors = self.model.supervisors()
        chosen = supervisors[number % len(supervisors)]
        return chosen, self.forest.at(chosen.path)

    @rule(number=st.integers(0, 99), reason=st.sampled_from(REASONS))
    @precondition(lambda self: not self.model.ended)
    def a_child_ends(self, number: int, reason: Reason) -> None:
        picked = self.pick_leaf(number)
        if picked is None:
            return
        sup, row = picked
        real = self.forest.leaf((*sup.path, str(row.spec.id)))
        sup.child_ended(row, reason)
        real.end(reason)
        self.forest.run()

    @rule(number=st.integers(0, 99), times=st.integers(1, 4))
    @precondition(lambda self: not self.model.ended)
    def a_child_will_fail_to_start(self, number: int, times: int) -> None:
        picked = self.pick_leaf(number)
        if picked is not None:
            path = (*picked[0].path, str(picked[1].spec.id))
            self.model_world.failing[path] = self.world.failing[path] = times

    @rule(number=st.integers(0, 99), what=st.sampled_from(["ignoring", "deaf"]))
    @precondition(lambda self: not self.model.ended)
    def a_child_becomes(self, number: int, what: str) -> None:
        picked = self.pick_leaf(number) if what != "deaf" or self.deafness else None
        if picked is not None:
            path = (*picked[0].path, str(picked[1].spec.id))
            for world in (self.model_world, self.world):
                getattr(world, what).symmetric_difference_update({path})

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        self.model_world.now += seconds
        self.forest.pass_time(seconds)

    @rule(number=st.integers(0, 99), child=st.integers(0, 9), what=st.sampled_from(["terminate", "restart", "delete"]))
    @precondition(lambda self: not self.model.ended)
    def someone_asks(self, number: int, child: int, what: str) -> None:
        sup, node = self.pick_supervisor(number)
        ids = [str(row.spec.id) for row in sup.rows] or ["nobody"]
        child_id = ids[child % len(ids)]
        if sup.flags.dynamic:
            if what != "terminate" or child_id == "nobody":
                assert type(self.forest.ask(node, what, child_id)).__name__ == "ByRefOnly"
                return
            sup.terminate(child_id)
            assert self.forest.ask(node, what, self.forest.leaf((*sup.path, child_id))) is None
            return
        named = {"restart": sup.restart_child, "delete": sup.delete_child, "terminate": sup.terminate}
        self.same_answer(named[what](child_id), self.forest.ask(node, what, child_id))

    @rule(number=st.integers(0, 99), old=st.booleans(), restart=st.sampled_from(list(Restart)), fails=st.booleans())
    @precondition(lambda self: not self.model.ended)
    def someone_starts_a_child(self, number: int, old: bool, restart: Restart, fails: bool) -> None:
        sup, node = self.pick_supervisor(number)
        self.fresh += 1
        ids = [str(row.spec.id) for row in sup.rows]
        child_id = ids[0] if old and ids and not sup.flags.dynamic else f"n{self.fresh}"
        if fails:
            path = (*sup.path, child_id)
            self.model_world.failing[path] = self.world.failing[path] = 1
        spec = leaf(child_id, restart=restart)
        self.same_answer(sup.start_child(spec), self.forest.ask(node, "start", self.forest.own(spec, sup.path)))

    @rule()
    @precondition(lambda self: not self.model.ended and self.fresh > 6)
    def the_root_is_stopped(self) -> None:
        self.model.halt_all()
        self.model.ended = True
        self.forest.stop()

    def same_answer(self, wanted: str, got: object) -> None:
        if isinstance(got, BaseException):
            assert type(got).__name__ == wanted
        else:
            assert wanted == "ok"
            assert got is None or got is IGNORE or isinstance(got, ChildStarted)

    @invariant()
    def they_look_the_same(self) -> None:
        if not hasattr(self, "forest"):
            return
        self.forest.settle(self.model, self.model_world.log)
        assert self.forest.ended == self.model.ended
        if not self.model.ended:
            assert self.forest.picture() == self.model.picture()
        wanted = [entry for entry in self.model_world.log if entry[0] in self.forest.logged]
        assert Counter(self.world.log) == Counter(wanted)
        if self.static:
            assert self.world.log == wanted, "static trees start and stop in exactly OTP's order"
        assert self.forest.now() == self.model_world.now
        self.world.log.clear()
        self.model_world.log.clear()
