"""`Supervisor` and `DynamicSupervisor`: how a tree is started, and what one does with a supervisor that runs.

Requests are checked in the caller's thread and answered by the control thread. None waits for a child's code except
those that say so: `start_child` and `restart_child` return when the child has started, `terminate_child` and `stop`
when it has ended. Each has a form for coroutines (`astart_child`, ...) and one that returns the reply to wait for
later (`block=False`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from typing import Any, ClassVar, cast

from supervision import core
from supervision import events as ev
from supervision._asyncio import running_loop
from supervision._process import Ref, Reply
from supervision.birth import Birth, Handshake
from supervision.errors import CallTimeout, NoProc, WouldBlockLoop
from supervision.host import Host
from supervision.reasons import Reason, Shutdown
from supervision.spec import (
    DEFAULT_INTENSITY,
    DEFAULT_PERIOD,
    IGNORE,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Strategy,
    TreeSpec,
    check_child,
    check_max_children,
    child_spec,
    dynamic_tree,
    tree,
)
from supervision.spec_errors import StartError
from supervision.supervisor import SupervisorLife, launch_supervisor

__all__ = ["DynamicSupervisor", "Supervisor", "SupervisorRef"]


class _ChildReply(Reply[Any]):
    """A reply that carries the caller's context to the child, and gives the child's ref."""

    context: Any = None

    def succeed(self, value: Any) -> bool:
        return super().succeed(value.ref if isinstance(value, ev.ChildStarted) else value)


class SupervisorRef(Ref[Any]):
    """A supervisor that runs. Every call on one that has ended raises `NoProc`."""

    life: SupervisorLife

    def start_child(self, spec: Any, *extra: Any, block: bool = True, timeout: float | None = None) -> Any:
        """Start one more child and return its ref, or IGNORE when it said so.

        `spec` is a `ChildSpec`, a class, or `(class, args)`; `extra` arguments come after its own. Raises what keeps
        it from starting: `StartError`, `AlreadyStarted`, `AlreadyPresent`, `MaxChildren`.
        """
        spec = spec if isinstance(spec, ChildSpec) else child_spec(spec)
        check_child(self._state.flags, spec)
        if extra:
            spec = replace(spec, args=(*spec.args, *extra))
        reply = _ChildReply()
        reply.context = copy_context()
        return self._ask(reply, lambda to: ev.StartChild(to, spec), block, timeout)

    async def astart_child(self, spec: Any, *extra: Any) -> Any:
        """`start_child` for coroutines."""
        return await self.start_child(spec, *extra, block=False)

    def terminate_child(self, target: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Stop a child, by id or by ref, and return when it is gone. Its spec stays, unless it is temporary or dynamic.

        A ref that is dead already is fine; an id or a living ref that is not its child is `NotFound`.
        """
        by_ref = isinstance(target, Ref)
        alive = by_ref and target.is_alive()
        return self._ask(Reply(), lambda to: ev.TerminateChild(to, target, by_ref, alive), block, timeout)

    async def aterminate_child(self, target: Any) -> None:
        """`terminate_child` for coroutines."""
        await self.terminate_child(target, block=False)

    def restart_child(self, child_id: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Start a child that is down, and return its new ref. `Running`, `Restarting` or `NotFound` when it is not
        down.
        """
        return self._ask(_ChildReply(), lambda to: ev.RestartChild(to, child_id), block, timeout)

    async def arestart_child(self, child_id: Any) -> Any:
        """`restart_child` for coroutines."""
        return await self.restart_child(child_id, block=False)

    def delete_child(self, child_id: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Forget the spec of a child that is down."""
        return self._ask(Reply(), lambda to: ev.DeleteChild(to, child_id), block, timeout)

    def set_max_children(self, max_children: float, *, block: bool = True, timeout: float | None = None) -> Any:
        """Change the limit of a dynamic supervisor. Children that run are kept, however many."""
        check_max_children(max_children)
        return self._ask(Reply(), lambda to: ev.SetMaxChildren(to, max_children), block, timeout)

    def which_children(self) -> tuple[ev.ChildInfo, ...]:
        """Every child, newest first. Read without asking the supervisor."""
        return core.which_children(self._state)

    def which_child(self, target: Any) -> ev.ChildInfo:
        """One child, by id or by ref; `NotFound`."""
        return core.which_child(self._state, target, by_ref=isinstance(target, Ref))

    def get_childspec(self, target: Any) -> ChildSpec:
        """The spec of a child, by id or by ref; `NotFound`."""
        return core.get_childspec(self._state, target, by_ref=isinstance(target, Ref))

    def count_children(self) -> ev.Counts:
        """How many children: specs, active, supervisors, workers."""
        return core.count_children(self._state)

    def stop(  # type: ignore[override]
        self,
        timeout: float | None = None,
        reason: Reason | None = None,
        *,
        block: bool = True,
        drain: bool = False,
    ) -> Any:
        """Stop the children in reverse order, then the supervisor. True when it has ended, False when `timeout` came
        first.
        """
        if block and self.life.reason is None:
            if running_loop() is not None:
                raise WouldBlockLoop("a blocking stop on a thread that runs an event loop; use `await ref.astop()`")
            self.life.host.not_here()
        done = super().stop(Shutdown() if reason is None else reason, block=False)
        if not block:
            return done
        try:
            done.get(timeout=timeout)
        except CallTimeout:
            self.life.unwatch(done)
            return False
        return True

    @property
    def _state(self) -> core.State:
        state = self.life.state
        if state is None or self.life.reason is not None:
            raise NoProc(f"{self.life.label} has ended" if state is not None else f"{self.life.label} has not started")
        return state

    def _ask(self, reply: Reply[Any], make: Callable[[Any], ev.Event], block: bool, timeout: float | None) -> Any:
        host = self.life.host
        reply.clock = host.clock
        if block:
            if running_loop() is not None:
                raise WouldBlockLoop("a blocking request on a thread that runs an event loop; use its awaitable form")
            host.not_here()
        self.life.request(make, reply)
        return reply.get(timeout=timeout) if block else reply


class Supervisor:
    """Starts trees. Subclass it and give it an `init` where the children depend on arguments."""

    child_kind: ClassVar[str] = "supervisor"

    @classmethod
    def init(cls, *args: Any, **kwargs: Any) -> Any:
        """For subclasses: return `Supervisor.tree(...)`, `DynamicSupervisor.tree(...)` or IGNORE. Runs at every
        (re)start.
        """
        raise TypeError(f"{cls.__name__} has no init(); use Supervisor.start(runtime, children, strategy=...)")

    tree = staticmethod(tree)

    @classmethod
    def child_spec(cls, **overrides: Any) -> ChildSpec:
        """A child spec for this supervisor class."""
        return child_spec(cls, **overrides)

    @classmethod
    def start(
        cls,
        runtime: Host,
        children: Any = (),
        *args: Any,
        strategy: Strategy | None = None,
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
        name: str | None = None,
        **kwargs: Any,
    ) -> SupervisorRef:
        """Start a tree and return when its initial children have started, in order. All of it or nothing: `StartError`.

        A subclass with an `init` gets all positional and unknown keyword arguments: `MyTree.start(runtime, *args)`.
        """
        return cast(
            SupervisorRef,
            _wait(
                runtime,
                lambda: cls._begin(runtime, children, args, strategy, intensity, period, auto_shutdown, name, kwargs),
            ),
        )

    @classmethod
    async def astart(
        cls,
        runtime: Host,
        children: Any = (),
        *args: Any,
        strategy: Strategy | None = None,
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
        name: str | None = None,
        **kwargs: Any,
    ) -> SupervisorRef:
        """`start` for coroutines."""
        handshake = cls._begin(runtime, children, args, strategy, intensity, period, auto_shutdown, name, kwargs)
        return cast(SupervisorRef, await _await(runtime, handshake))

    @classmethod
    def _begin(
        cls,
        runtime: Host,
        children: Any,
        args: tuple[Any, ...],
        strategy: Strategy | None,
        intensity: int,
        period: float,
        auto_shutdown: AutoShutdown,
        name: str | None,
        kwargs: dict[str, Any],
    ) -> Handshake:
        if cls.init.__func__ is not Supervisor.init.__func__:  # type: ignore[attr-defined]
            given = (*((children,) if children != () else ()), *args)
            return _launch(runtime, cls, name, None, given, kwargs)
        if args or kwargs:
            raise TypeError(f"unexpected arguments: {[type(arg).__name__ for arg in args] + list(kwargs)}")
        if strategy is None:
            raise TypeError("Supervisor.start() needs strategy=")
        spec = tree(children, strategy=strategy, intensity=intensity, period=period, auto_shutdown=auto_shutdown)
        return _launch(runtime, cls, name, spec, (), {})


class DynamicSupervisor(Supervisor):
    """A supervisor whose children come and go: full spec each, addressed by ref, stopped all at once."""

    tree = staticmethod(dynamic_tree)  # type: ignore[assignment]

    @classmethod
    def start(  # type: ignore[override]
        cls,
        runtime: Host,
        *,
        max_children: float = INFINITY,
        extra_args: tuple[Any, ...] = (),
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        name: str | None = None,
    ) -> SupervisorRef:
        """Start an empty dynamic supervisor. `extra_args` stand before every child's own arguments."""
        spec = dynamic_tree(max_children=max_children, extra_args=extra_args, intensity=intensity, period=period)
        return cast(SupervisorRef, _wait(runtime, lambda: _launch(runtime, cls, name, spec, (), {})))

    @classmethod
    async def astart(  # type: ignore[override]
        cls,
        runtime: Host,
        *,
        max_children: float = INFINITY,
        extra_args: tuple[Any, ...] = (),
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        name: str | None = None,
    ) -> SupervisorRef:
        """`start` for coroutines."""
        spec = dynamic_tree(max_children=max_children, extra_args=extra_args, intensity=intensity, period=period)
        return cast(SupervisorRef, await _await(runtime, _launch(runtime, cls, name, spec, (), {})))


def _launch(
    runtime: Host,
    cls: type[Supervisor],
    name: str | None,
    spec: TreeSpec | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Handshake:
    if not isinstance(runtime, Host):
        raise TypeError(f"wanted a runtime, not a {type(runtime).__name__}")
    path = name or cls.__name__
    number = sum(1 for _ in runtime.roots) + 1
    birth = Birth(cls, args, kwargs, label=path if name else f"{path}#{number}", name=name)
    return launch_supervisor(runtime, birth, path, spec)


def _wait(runtime: Host, begin: Callable[[], Handshake]) -> Any:
    if running_loop() is not None:
        raise WouldBlockLoop("a blocking start on a thread that runs an event loop; use `await Supervisor.astart(...)`")
    if isinstance(runtime, Host):
        runtime.not_here()
    handshake = begin()
    runtime.clock.block(handshake, None)
    return _result(runtime, handshake)


async def _await(runtime: Host, handshake: Handshake) -> Any:
    try:
        await _Settled(handshake)
    except BaseException:  # cancelled: even if it has started meanwhile, nobody has its ref
        handshake.life.ask_stop(Shutdown())
        raise
    return _result(runtime, handshake)


def _result(runtime: Host, handshake: Handshake) -> Any:
    kind, value = handshake.outcome
    if kind == "ignored":
        return IGNORE
    if kind == "failed":
        raise StartError.wrap(handshake.life.label, value)
    root = handshake.life.ref
    runtime.roots.append(root)
    if not handshake.life.watch(root, lambda reason: runtime.roots.remove(root)):
        runtime.roots.remove(root)
    return root


class _Settled:
    def __init__(self, outcome: Handshake) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        return self._outcome.wait_on_loop()
