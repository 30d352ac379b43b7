"""Every wrong call on a living or a dead tree has its named error, in the caller's thread, and the tree is unharmed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from supervision import (
    AlreadyPresent,
    AlreadyStarted,
    AutoShutdown,
    BadCombination,
    ByRefOnly,
    CallingSelf,
    ChildSpec,
    DynamicSupervisor,
    MaxChildren,
    NoProc,
    NotFound,
    Restart,
    Running,
    StartError,
    Strategy,
    Supervisor,
    SupervisorRef,
    Waiter,
    WouldBlockLoop,
    monitor,
)
from supervision.spec_errors import (
    BadAutoShutdown,
    BadChildren,
    BadClass,
    BadIntensity,
    BadMaxChildren,
    BadName,
    BadPeriod,
    BadStrategy,
    DuplicateId,
)
from tests.supervision.conformance.kit import RUNTIMES, Kit


class Stock(pykka.ThreadingActor):
    """An actor of Pykka itself: it is not one of ours."""


class Scene:
    """A tree, a pool and a stranger."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.tree = kit.sup([kit.spec("a"), kit.spec("down"), ChildSpec.dynamic("pool", max_children=1)])
        self.pool: SupervisorRef = kit.ref(self.tree, "pool")
        self.job = self.pool.start_child(kit.spec("job"))
        self.tree.terminate_child("down")
        self.stranger = kit.spawn("stranger")

    def picture(self) -> Any:
        return self.tree.which_children(), self.pool.which_children()


@pytest.fixture(params=RUNTIMES)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    kit = Kit(request.param)
    yield Scene(kit)
    kit.close()


def spec(scene: Scene, child_id: Any = "new", **fields: Any) -> ChildSpec:
    return scene.kit.spec(child_id, **fields)


ONE = Strategy.ONE_FOR_ONE

TABLE: dict[str, tuple[Callable[[Scene], Any], type[BaseException] | tuple[type[BaseException], ...]]] = {
    # flags
    "no strategy": (lambda s: Supervisor.start(s.kit.rt, []), TypeError),
    "wrong strategy": (lambda s: s.kit.sup([], "all_for_one"), BadStrategy),  # type: ignore[arg-type]
    "negative intensity": (lambda s: s.kit.sup([], ONE, intensity=-1), BadIntensity),
    "no period": (lambda s: s.kit.sup([], ONE, period=0), BadPeriod),
    "wrong auto_shutdown": (lambda s: s.kit.sup([], ONE, auto_shutdown="maybe"), BadAutoShutdown),
    "unknown flag": (lambda s: s.kit.sup([], ONE, hibernate=True), TypeError),
    "wrong name": (lambda s: s.kit.sup([], ONE, name=" "), BadName),
    "wrong max_children": (lambda s: s.kit.dyn(max_children=-1), BadMaxChildren),
    "no runtime": (lambda s: Supervisor.start(None, [], strategy=ONE), TypeError),  # type: ignore[arg-type]
    "a class without init": (lambda s: Supervisor.start(s.kit.rt, [], 1, strategy=ONE), TypeError),
    # specs
    "children that are none": (lambda s: s.kit.sup([7]), BadChildren),
    "a duplicate id": (lambda s: s.kit.sup([spec(s), spec(s)]), DuplicateId),
    "a significant child, never": (lambda s: _significant(s, AutoShutdown.NEVER, Restart.TRANSIENT), BadCombination),
    "a significant child, permanent": (
        lambda s: _significant(s, AutoShutdown.ANY_SIGNIFICANT, Restart.PERMANENT),
        BadCombination,
    ),
    "a dynamic tree with auto_shutdown": (
        lambda s: DynamicSupervisor.tree(auto_shutdown=AutoShutdown.ALL_SIGNIFICANT),
        BadCombination,
    ),
    "a stock actor as child": (lambda s: s.tree.start_child(ChildSpec("stock", Stock)), BadClass),
    "a stock actor spawned": (lambda s: s.kit.rt.spawn(Stock), TypeError),
    "an instance as child": (lambda s: s.tree.start_child(object()), TypeError),
    "a string as child": (lambda s: s.tree.start_child("a"), TypeError),
    # requests
    "an id that runs": (lambda s: s.tree.start_child(spec(s, "a")), AlreadyStarted),
    "an id that is down": (lambda s: s.tree.start_child(spec(s, "down")), AlreadyPresent),
    "restart of one that runs": (lambda s: s.tree.restart_child("a"), Running),
    "delete of one that runs": (lambda s: s.tree.delete_child("a"), Running),
    "terminate of nobody": (lambda s: s.tree.terminate_child("nobody"), NotFound),
    "restart of nobody": (lambda s: s.tree.restart_child("nobody"), NotFound),
    "delete of nobody": (lambda s: s.tree.delete_child("nobody"), NotFound),
    "which of nobody": (lambda s: s.tree.which_child("nobody"), NotFound),
    "spec of nobody": (lambda s: s.tree.get_childspec("nobody"), NotFound),
    "terminate of a foreign ref": (lambda s: s.tree.terminate_child(s.stranger), NotFound),
    "terminate of a child of another": (lambda s: s.tree.terminate_child(s.job), NotFound),
    "terminate of a foreign ref in a pool": (lambda s: s.pool.terminate_child(s.stranger), NotFound),
    "which of a foreign ref": (lambda s: s.pool.which_child(s.stranger), NotFound),
    "a pool by id": (lambda s: s.pool.terminate_child("job"), ByRefOnly),
    "restart in a pool": (lambda s: s.pool.restart_child("job"), ByRefOnly),
    "delete in a pool": (lambda s: s.pool.delete_child("job"), ByRefOnly),
    "a full pool": (lambda s: s.pool.start_child(spec(s)), MaxChildren),
    "a wrong limit": (lambda s: s.pool.set_max_children(0.5), BadMaxChildren),
    "a name that is taken": (lambda s: _named_twice(s), AlreadyStarted),
    # messages
    "a message to a supervisor": (lambda s: s.tree.tell("hello"), TypeError),
    "an ask of a supervisor": (lambda s: s.tree.ask("hello"), TypeError),
    "a monitor on no ref": (lambda s: monitor(s, print), (TypeError, AttributeError)),  # type: ignore[arg-type]
}


def _significant(scene: Scene, mode: AutoShutdown, restart: Restart) -> None:
    scene.kit.sup([spec(scene, restart=restart, significant=True)], ONE, auto_shutdown=mode)


def _named_twice(scene: Scene) -> None:
    scene.kit.rt.registry.register("the name", scene.stranger)
    try:
        scene.tree.start_child(spec(scene, name="the name"))
    finally:
        scene.kit.rt.registry.unregister("the name")


@pytest.mark.parametrize("name", TABLE)
def test_a_wrong_call_has_its_named_error_and_harms_nobody(scene: Scene, name: str) -> None:
    call, error = TABLE[name]
    before, lives = scene.picture(), set(scene.kit.rt.lives)
    with pytest.raises(error):
        call(scene)
    scene.kit.quiet()
    assert scene.picture() == before
    scene.kit.until(lambda: set(scene.kit.rt.lives) == lives)
    assert scene.kit.ask(scene.kit.ref(scene.tree, "a"), "ping") == "pong"


DEAD: dict[str, Callable[[Scene], Any]] = {
    "start_child": lambda s: s.tree.start_child(spec(s)),
    "terminate_child": lambda s: s.tree.terminate_child("a"),
    "restart_child": lambda s: s.tree.restart_child("a"),
    "delete_child": lambda s: s.tree.delete_child("a"),
    "set_max_children": lambda s: s.pool.set_max_children(3),
    "which_children": lambda s: s.tree.which_children(),
    "which_child": lambda s: s.tree.which_child("a"),
    "count_children": lambda s: s.pool.count_children(),
    "get_childspec": lambda s: s.tree.get_childspec("a"),
    "tell": lambda s: s.job.tell("hello"),
    "ask": lambda s: s.job.ask("hello"),
    "tell the tree": lambda s: s.tree.tell("hello"),
}


@pytest.mark.parametrize("name", DEAD)
def test_a_call_on_a_dead_tree_is_NoProc(scene: Scene, name: str) -> None:
    scene.tree.stop()
    with pytest.raises(NoProc):
        DEAD[name](scene)


@pytest.mark.parametrize("name", DEAD)
def test_a_call_after_the_runtime_was_closed_is_NoProc_too(scene: Scene, name: str) -> None:
    scene.kit.rt.close()
    with pytest.raises(NoProc):
        DEAD[name](scene)
    with pytest.raises((NoProc, StartError)):
        scene.kit.spawn("late")


def test_stopping_what_has_ended_is_no_error(scene: Scene) -> None:
    assert scene.tree.stop()
    assert scene.tree.stop() in (True, False)
    assert scene.job.stop() is False
    assert scene.job.kill() is False


FROM_INSIDE: dict[str, Callable[[Any], Any]] = {
    "ask": lambda probe: probe.actor_ref.ask("ping"),
    "stop": lambda probe: probe.actor_ref.stop(),
}


@pytest.mark.parametrize("name", FROM_INSIDE)
def test_an_actor_that_waits_for_itself_is_told_so(scene: Scene, name: str) -> None:
    def inside(probe: Any) -> Any:
        try:
            return FROM_INSIDE[name](probe)
        except (CallingSelf, WouldBlockLoop) as error:
            return error

    ref = scene.kit.ref(scene.tree, "a")
    got = scene.kit.ask(ref, ("do", inside))
    assert isinstance(got, WouldBlockLoop if scene.kit.name == "loop" else CallingSelf)
    assert scene.kit.ask(ref, "ping") == "pong"


def test_a_blocking_call_on_a_thread_that_runs_a_loop_raises_at_once_and_harms_nobody(scene: Scene) -> None:
    if scene.kit.sim:
        return  # its own loop is the only one: `test_simulator` has the same promise there
    calls: list[Callable[[], Any]] = [
        lambda: scene.job.ask("ping"),
        lambda: scene.job.stop(),
        lambda: scene.tree.stop(),
        lambda: scene.tree.start_child(spec(scene)),
        lambda: scene.tree.terminate_child("a"),
        lambda: scene.kit.spawn("late"),
        lambda: scene.kit.sup(),
        lambda: scene.kit.rt.close(),
        lambda: Waiter[int]().result(),
        lambda: hung.get(),
    ]

    async def main() -> None:
        for call in calls:
            with pytest.raises(WouldBlockLoop):
                call()

    busy = scene.kit.spawn("busy", hangs=True)
    hung = busy.ask("hang", block=False)
    scene.kit.until(lambda: ("hangs in turn", "busy") in scene.kit.log)
    before = scene.picture()
    asyncio.run(main())
    scene.kit.quiet()
    assert scene.picture() == before


def test_a_blocking_call_on_the_control_thread_is_refused(scene: Scene) -> None:
    seen: list[type[BaseException]] = []
    done = threading.Event()

    def call() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: scene.tree.terminate_child("a"),
            lambda: scene.tree.stop(),
            lambda: scene.kit.rt.close(),
        ]
        for request in calls:
            try:
                request()
            except (CallingSelf, WouldBlockLoop) as error:
                seen.append(type(error))
        done.set()

    scene.kit.rt.post(call)
    scene.kit.until(done.is_set)
    assert len(seen) == 3
    assert scene.kit.ask(scene.kit.ref(scene.tree, "a"), "ping") == "pong"
