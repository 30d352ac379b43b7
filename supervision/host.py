"""What every runtime offers to the actors in it, whether it has threads or only pretends to.

A `Host` starts actors, counts the abandoned, and carries the clock, the timers and the names. `ThreadRuntime` and
`Simulator` are hosts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from supervision._asyncio import running_loop
from supervision._process import Process, Ref
from supervision.birth import Birth, Handshake, finite
from supervision.clock import Clock
from supervision.errors import NoProc, WouldBlockLoop
from supervision.life import Life, TaskLife, ThreadLife
from supervision.observer import AbandonedEnded, ActorAbandoned, Observer, Reporter
from supervision.reasons import Crashed, Killed, Shutdown
from supervision.registry import Registry
from supervision.spec_errors import AlreadyStarted, StartError, StartTimeout, TooManyAbandoned

if TYPE_CHECKING:
    from supervision._asyncio import Gate
    from supervision.loop import LoopRuntime
    from supervision.timers import Timers

__all__ = ["Host", "Place"]

A = TypeVar("A", bound=Process)

MAX_ABANDONED = 32
"""Hung threads and coroutines that a runtime carries; one more, and supervisors give up instead of leaking."""
KILL_GRACE = 0.5
"""Seconds that a cancelled coroutine gets to close what it holds before it is fenced off."""


class Place(Protocol):
    """Where a task lives."""

    def fire(self, gate: Gate) -> None:
        """Let the task at `gate` go on."""

    def cancel(self, life: TaskLife) -> bool:
        """Cancel the task of `life`; False when its loop is gone."""

    def left(self, life: TaskLife) -> None:
        """A life that was here is over."""


class Host:
    """Base of all runtimes."""

    name: str
    clock: Clock
    timers: Timers
    loop: LoopRuntime
    burst = 64
    thread_life: type[ThreadLife] = ThreadLife

    def __init__(self, observer: Observer | None, max_abandoned: int, kill_grace: float) -> None:
        self.registry = Registry()
        self.report = Reporter(observer)
        self.max_abandoned = max_abandoned
        self.kill_grace = kill_grace
        self.lives: dict[Life, None] = {}
        self.roots: list[Any] = []
        self.closing = False
        self._generations = itertools.count(1)
        self.given_up: set[Any] = set()
        """Lives and loops that were abandoned and have not ended."""

    # --- for everybody

    def spawn(self, actor_class: type[A], *args: Any, **kwargs: Any) -> Ref[A]:
        """Start an actor outside any tree; returns when its `on_start` is through, at most after its `start_timeout`.

        Returns IGNORE when the actor said so; raises `StartError`, with what `on_start` raised as its cause.
        """
        if running_loop() is not None:
            raise WouldBlockLoop(
                "a blocking spawn on a thread that runs an event loop; use `await runtime.aspawn(...)`"
            )
        self.not_here()
        handshake = self._begin(actor_class, args, kwargs)
        limit = finite(actor_class.start_timeout)
        if not self.clock.block(handshake, None if limit is None else self.clock.now() + limit):
            self._too_late(handshake, limit)
        return self._result(handshake)  # type: ignore[no-any-return]

    async def aspawn(self, actor_class: type[A], *args: Any, **kwargs: Any) -> Ref[A]:
        """`spawn` for coroutines."""
        handshake = self._begin(actor_class, args, kwargs)
        limit = finite(actor_class.start_timeout)
        undo: Callable[[], object] | None = None
        if limit is not None and not handshake.settled:
            undo = self.clock.alarm(self.clock.now() + limit, lambda: self._too_late(handshake, limit))
        try:
            await _Settled(handshake)
        except BaseException:  # cancelled: even if it has started meanwhile, nobody has its ref
            handshake.life.kill()
            raise
        finally:
            if undo is not None:
                undo()
        return self._result(handshake)  # type: ignore[no-any-return]

    @property
    def abandoned_count(self) -> int:
        """Hung threads and coroutines that were given up and have not ended."""
        return len(self.given_up)

    # --- for supervisors and lives

    def post(self, call: Callable[..., object], *args: Any) -> bool:
        """Run on the control thread; False when there is none any more."""
        raise TypeError("a Host is either a ThreadRuntime or a Simulator")

    def not_here(self) -> None:
        """Raises where waiting would hold up the control thread."""

    def launch(self, birth: Birth) -> Handshake:
        """Begin a start. Never blocks on the actor's code; the handshake tells how it went."""
        cls = birth.actor_class
        generation = next(self._generations)
        label = birth.label or f"{cls.__name__}#{generation}"
        kind: type[Life] = TaskLife if cls.life_kind == "task" else self.thread_life
        life = kind(self, cls, cls.mailbox_limit, label, generation)
        life.ref = Ref(life)
        handshake = Handshake(life)
        try:
            self.lives[life] = None  # before anybody can find it by its name, and end it
            if self.closing:  # looked at last: who closes says so first, and then ends whoever is there
                raise NoProc(f"the runtime {self.name!r} is closed")
            if len(self.given_up) >= self.max_abandoned:
                raise TooManyAbandoned(f"{len(self.given_up)} abandoned actors have not ended; nothing more is started")
            if birth.name is not None:
                self.registry.register(birth.name, life.ref)
            if birth.watchdog is not None:
                life.watchdog = birth.watchdog
                self._watch(life)
            self.bring_up(life, birth, handshake)
        except Exception as error:  # noqa: BLE001 - boundary: whatever keeps an actor from starting is the result of the handshake.
            handshake.failed(error, Killed(type(error).__name__))
            return handshake
        return handshake

    def loop_started(self) -> None:
        """There is an event loop, from now on to be watched."""

    def bring_up(self, life: Life, birth: Birth, handshake: Handshake) -> None:
        """Give the new life its thread or task."""
        raise TypeError("a Host is either a ThreadRuntime or a Simulator")

    def ended(self, life: Life) -> None:
        """A life is over."""
        self.lives.pop(life, None)

    def abandoned(self, life: Any) -> None:
        """Something was given up; it has been put into `given_up` under its own lock."""
        self.report(ActorAbandoned(life.label, len(self.given_up)))

    def abandoned_ended(self, life: Any) -> None:
        """What was given up has ended after all."""
        if life in self.given_up:
            self.given_up.discard(life)
            self.report(AbandonedEnded(life.label, len(self.given_up)))

    def next_generation(self) -> int:
        """A number that grows with every start."""
        return next(self._generations)

    def aside(self, call: Callable[[], object], name: str) -> None:
        """Run somebody's code without holding up anybody."""
        raise TypeError("a Host is either a ThreadRuntime or a Simulator")

    # --- private

    def _begin(self, actor_class: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handshake:
        ours = isinstance(actor_class, type) and issubclass(actor_class, Process)
        if not ours or not hasattr(actor_class, "life_kind"):
            raise TypeError(f"{actor_class!r} is not a ThreadActor or TaskActor class")
        return self.launch(Birth(actor_class, args, kwargs, context=copy_context()))

    def _too_late(self, handshake: Handshake, limit: float | None) -> None:
        life = handshake.life
        if handshake.give_up(StartTimeout(f"{life.label} did not start within {limit} s")):
            life.kill(Killed("start_timeout"))

    def _result(self, handshake: Handshake) -> Any:
        kind, value = handshake.outcome
        if kind == "started":
            return handshake.life.ref
        if kind == "ignored":
            return value
        if isinstance(handshake.life.reason, Crashed) and not isinstance(value, AlreadyStarted):
            raise StartError.of(handshake.life.label, value)  # an error of our own, too: it is of the actor's doing
        raise StartError.wrap(handshake.life.label, value)

    def _watch(self, life: Life) -> None:
        """Look at the life when its present turn would be too long, or one limit from now."""
        limit = life.watchdog
        assert limit is not None

        def look() -> None:
            if life.reason is not None:
                return
            began = life.turn_began
            now = self.clock.now()
            if began is not None and now - began >= limit:
                life.kill(Killed("watchdog"))
                return
            token["now"] = self.timers.call_at((now if began is None else began) + limit, look)

        token = {"now": self.timers.call_after(limit, look)}
        life.watch(look, lambda reason: token["now"].cancel())

    def _stop_everything(self, timeout: float, clock: Clock) -> bool:
        """Roots first, in reverse; then who is left; then whoever did not go is killed. True when all went by
        themselves. `clock` measures the time-out: real threads end in real time, whatever the runtime's clock is.
        """
        gently = True
        deadline = clock.now() + timeout
        for root in reversed(list(self.roots)):
            clock.block(root.stop(block=False), deadline)
        waits = [life.ref.stop(reason=Shutdown(), block=False) for life in list(self.lives)]
        for wait in waits:
            gently = clock.block(wait, deadline) and gently
        for life in list(self.lives):
            gently = False
            life.kill(Killed("runtime closed"))
        return gently


class _Settled:
    """Awaits a one-shot."""

    def __init__(self, outcome: Handshake) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        return self._outcome.wait_on_loop()
