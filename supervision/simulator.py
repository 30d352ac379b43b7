"""The same actors on one thread, in virtual time, in an order that a seed decides and replays.

One step is one message of one actor, one supervisor's step, or one callback of the event loop. At every step the seed
chooses among all actors that have something to do. Time stands still while anything is left to do, and only moves
when told to, or to the deadline of somebody who waits.

An actor that blocks here (a blocking ask, a wait on the clock) lets the others go on inside its own turn. If what it
waits for does not come by the time that the simulation has been asked to reach, it stands for a thread that hangs: it
takes no more messages, and can be abandoned. What really blocks (sockets, `time.sleep`, locks) is not for the
simulator.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from supervision._asyncio import Gate, VirtualLoop
from supervision.birth import Birth, Handshake
from supervision.boundary import guarded
from supervision.clock import Clock
from supervision.errors import CallingSelf, Deadlock, Stuck
from supervision.host import KILL_GRACE, MAX_ABANDONED, Host
from supervision.life import Life, TaskLife
from supervision.logged import unsaid
from supervision.loop import LoopPlace, LoopRuntime
from supervision.observer import Observer
from supervision.oneshot import OneShot
from supervision.sim_life import SimLife
from supervision.timers import Timers

__all__ = ["Simulator"]

_log = logging.getLogger("supervision")

T = TypeVar("T")


class SimClock(Clock):
    """The time of a simulation. Whoever blocks on it drives the simulation."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def now(self) -> float:
        return self._simulator.virtual.now

    def block(self, outcome: OneShot, deadline: float | None) -> bool:
        return self._simulator.drive(outcome, deadline)


class SimPlace(LoopPlace):
    """The event loop of a simulation."""

    def __init__(self, owner: LoopRuntime, number: int) -> None:
        host = owner.host
        assert isinstance(host, Simulator)
        self._simulator = host
        self.label = f"{owner.name}-loop#{number}"
        self.loop = host.virtual
        self.lives = {}
        self.dead = False
        self.ended = OneShot()
        self.gone = OneShot()
        self.ident = get_ident()
        self.missed = 0
        self._owner = owner

    def fire(self, gate: Gate) -> None:
        self._simulator.schedule(gate)

    def beat(self) -> bool:
        return True


class Simulator(Host):
    """A runtime without threads. Everything happens inside the calls that its owner makes, and in the calls that wait.

    The same seed and the same calls give the same `trace`. Not for use from several threads.
    """

    thread_life = SimLife
    burst = 1

    def __init__(
        self,
        seed: int = 0,
        *,
        observer: Observer | None = None,
        name: str = "simulation",
        start: float = 0.0,
        max_abandoned: int = MAX_ABANDONED,
        kill_grace: float = KILL_GRACE,
        record: bool = True,
    ) -> None:
        super().__init__(observer, max_abandoned, kill_grace)
        self.name = name
        self.seed = seed
        self.virtual = VirtualLoop(start)
        self.virtual.set_exception_handler(_exception_handler)
        self.clock: Clock = SimClock(self)
        self.timers = Timers(self.clock, self._arm)
        self.loop = LoopRuntime(self, name, SimPlace)
        self.current: Any = None
        self.steps = 0
        self.trace: list[str] = []
        """What ran, in order: `time label` per step."""
        self._record = record
        self._random = random.Random(seed)
        self._runnable: list[Any] = []
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._pumping = False
        self._tick: tuple[float, asyncio.TimerHandle] | None = None
        self._horizon = math.inf

    def __repr__(self) -> str:
        return f"<Simulator seed={self.seed} at {self.virtual.now}: {len(self.lives)} actors>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- driving

    def run_until_idle(self, max_steps: int = 1_000_000) -> int:
        """Do everything that can be done without moving the time; the number of steps. `Deadlock` if it never ends."""
        done = 0
        while self.virtual.step():
            done += 1
            if done > max_steps:
                raise Deadlock(f"still busy after {max_steps} steps at {self.virtual.now}; seed {self.seed}")
        return done

    def advance(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass, with everything that becomes due in them."""
        target = self.virtual.now + seconds
        before, self._horizon = self._horizon, min(target, self._horizon)
        try:
            while True:
                self.run_until_idle()
                if not self.virtual.skip(self._horizon):
                    break
            self.virtual.now = max(self.virtual.now, target)
            self.run_until_idle()
        finally:
            self._horizon = before

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the simulation to its end, moving the time as it needs."""
        reply = self.loop.submit(coroutine)
        result: T = reply.get()
        return result

    def drive(self, outcome: OneShot, deadline: float | None) -> bool:
        """Go on until `outcome` is settled or the time is `deadline`; True when settled."""
        until = math.inf if deadline is None else deadline
        inside = self.current is not None
        horizon = min(until, self._horizon)
        before, self._horizon = self._horizon, horizon
        try:
            while not outcome.settled:
                if self.virtual.step() or self.virtual.skip(horizon):
                    continue
                if horizon == until and until != math.inf:
                    self.virtual.now = max(self.virtual.now, until)
                    return outcome.settled
                if inside:
                    raise Stuck
                raise Deadlock(f"nothing is left that could settle this; seed {self.seed}")
        finally:
            self._horizon = before
        return True

    # --- as a host

    def post(self, call: Callable[..., object], *args: Any) -> bool:
        if self.virtual.is_closed():
            return False
        self._posted.append((call, args))
        if len(self._posted) == 1:
            self.schedule(self)
        return True

    def not_here(self) -> None:
        if self.current is self:
            raise CallingSelf("a blocking call on the control thread would wait for itself")

    def bring_up(self, life: Life, birth: Birth, handshake: Handshake) -> None:
        if isinstance(life, TaskLife):
            self.loop.boot(life, birth, handshake)
            return
        assert isinstance(life, SimLife)
        life.birth = birth
        if birth.context is not None:
            life.context = birth.context
        life.handshake = handshake
        life.wake()

    def aside(self, call: Callable[[], object], name: str) -> None:
        self.schedule(_Aside(call, name, self))

    def close(self, timeout: float = 5.0) -> bool:
        """End everything, in virtual time. True when all of it went by itself."""
        if self.virtual.is_closed():
            return True
        self.not_here()
        self.closing = True
        gently = self._stop_everything(timeout, self.clock)
        self.advance(self.kill_grace)
        others = asyncio.all_tasks(self.virtual)
        for task in others:
            task.cancel()
        self.run_until_idle()
        self.virtual.close()
        return gently

    async def aclose(self, timeout: float = 5.0) -> bool:
        """A simulation is closed from outside; inside it there is nobody to wait for its end."""
        raise CallingSelf("close a simulation from outside of it")

    # --- the seed's choice

    def schedule(self, entry: Any) -> None:
        """Somebody has something to do: a life, a gate, or the simulator itself for what was posted."""
        self._runnable.append(entry)
        if not self._pumping and not self.virtual.is_closed():
            self._pumping = True
            self.virtual.call_soon(self._pump)

    def step(self) -> None:
        """One posted call."""
        call, args = self._posted.popleft()
        if self._posted:
            self.schedule(self)
        before, self.current = self.current, self
        try:
            with self.virtual.outside():
                guarded("a call on the control thread", call, *args)
        finally:
            self.current = before

    def _pump(self) -> None:
        runnable = self._runnable
        chosen = self._random.randrange(len(runnable)) if len(runnable) > 1 else 0
        runnable[chosen], runnable[-1] = runnable[-1], runnable[chosen]
        entry = runnable.pop()
        if runnable:
            self.virtual.call_soon(self._pump)
        else:
            self._pumping = False
        self.steps += 1
        if self._record:
            label = getattr(entry, "label", None) or getattr(entry, "name", None) or type(entry).__name__
            self.trace.append(f"{self.virtual.now:.6f} {label}")
        if isinstance(entry, Gate):
            entry.fire()
        else:
            entry.step()

    # --- timers

    def _arm(self) -> None:
        due = self.timers.next_due()
        if due is None or self.virtual.is_closed() or (self._tick is not None and self._tick[0] <= due):
            return
        if self._tick is not None:
            self._tick[1].cancel()
        self._tick = (due, self.virtual.call_at(due, self._ring))

    def _ring(self) -> None:
        self._tick = None
        self.post(self.timers.run_due)
        self.post(self._arm)


class _Aside:
    __slots__ = ("_call", "_simulator", "name")

    def __init__(self, call: Callable[[], object], name: str, simulator: Simulator) -> None:
        self._call = call
        self._simulator = simulator
        self.name = name

    def step(self) -> None:
        before, self._simulator.current = self._simulator.current, self
        try:
            with self._simulator.virtual.outside():
                self._call()
        except Stuck:
            pass
        finally:
            self._simulator.current = before


def _exception_handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _log.error("in the simulation: %s", context.get("message"), exc_info=unsaid(context.get("exception")))
