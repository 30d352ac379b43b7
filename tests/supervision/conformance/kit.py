"""One test body, three runtimes: threads, the event loop, the simulator.

A `Kit` is a runtime, its clock, and scripted children: what each does when it is started, told something, or stopped is
written down beforehand, by id, and what happened is in `log`. Time is always moved by hand.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from supervision import (
    IGNORE,
    ChildSpec,
    Clock,
    DynamicSupervisor,
    ManualClock,
    Observer,
    Reason,
    Simulator,
    Strategy,
    Supervisor,
    SupervisorRef,
    SupervisorReport,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
    started,
)
from supervision.events import Happening, Report

RUNTIMES = ("threads", "loop", "sim")
PATIENCE = 30.0
"""Real seconds after which something that should have happened has not."""


class Boom(Exception):
    """A bug of a child."""


class Expected(Exception):
    """An error that a caller of a child may provoke."""


class Witness(Observer):
    """Keeps what a runtime reports."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.between: dict[Any, Callable[[], object]] = {}

    def observe(self, event: Any) -> None:
        self.seen.append(event)
        if isinstance(event, SupervisorReport) and event.report.what is Happening.START_FAILED:
            act = self.between.pop(event.report.child_id, None)
            if act is not None:
                act()

    def reports(self, what: Happening) -> list[Report]:
        """The supervisors' reports of this kind."""
        reports = [event.report for event in self.seen if isinstance(event, SupervisorReport)]
        return [report for report in reports if report.what is what]


class _Script:
    """What both kinds of probe share. The last positional argument is the kit; those before it are recorded."""

    id: Any
    kit: Kit

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        *self.args, self.id, self.kit = args
        self.kwargs = kwargs
        self.heard: list[Any] = []
        factory = self.kit.factories.get(self.id)
        if factory is not None:
            factory()

    def begin(self) -> Any:
        """The next thing in this child's plan; returns "hang" where it must block."""
        self.kit.log.append(("start", self.id))
        self.kit.born.append(self)
        plan = self.kit.plans[self.id]
        what = plan.popleft() if plan else "ok"
        if isinstance(what, BaseException):
            raise what
        if callable(what):
            what = what(self)
        return what

    def act(self, message: Any) -> Any:
        match message:
            case ("raise", error):
                raise error
            case ("stop", reason):
                return self.stop(reason)  # type: ignore[attr-defined]
            case ("do", call):
                return call(self)
            case "ping":
                return "pong"
            case "heard":
                return list(self.heard)
        self.heard.append(message)
        return message

    def on_failure(self, kind: Any, error: Any, traceback: Any) -> None:
        if ("failure", self.id) in self.kit.endings:
            raise self.kit.endings["failure", self.id]

    def finish(self, reason: Reason) -> Any:
        self.kit.log.append(("stop", self.id))
        self.kit.reasons[self.id].append(reason)
        what = self.kit.endings.get(self.id)
        if isinstance(what, BaseException):
            raise what
        return what


class ThreadProbe(_Script, ThreadActor):
    expected_errors = (Expected,)

    def on_start(self) -> Any:
        return _meaning(self._wait(self.begin(), "start"))

    def on_receive(self, message: Any) -> Any:
        return self._wait(message, "turn") if message == "hang" else self.act(message)

    def on_stop(self, reason: Reason) -> Any:
        return self._wait(self.finish(reason), "stop")

    def _wait(self, what: Any, where: str) -> Any:
        if what == "hang":
            self.kit.log.append((f"hangs in {where}", self.id))
            self.kit.gate.wait(60)
            return None
        return what


class TaskProbe(_Script, TaskActor):
    expected_errors = (Expected,)

    async def on_start(self) -> Any:
        return _meaning(await self._wait(self.begin(), "start"))

    async def on_receive(self, message: Any) -> Any:
        if isinstance(message, tuple) and message[0] == "await":
            return await message[1](self)
        return await self._wait(message, "turn") if message == "hang" else self.act(message)

    async def on_stop(self, reason: Reason) -> Any:
        return await self._wait(self.finish(reason), "stop")

    async def _wait(self, what: Any, where: str) -> Any:
        if what == "hang":
            self.kit.log.append((f"hangs in {where}", self.id))
            await asyncio.get_running_loop().create_future()
        return what


def _meaning(what: Any) -> Any:
    if what == "ok" or what is None:
        return None
    if what == "ignore":
        return IGNORE
    if isinstance(what, tuple) and what[0] == "info":
        return started(what[1])
    return what


class Kit:
    """A runtime for one test. `name` is one of RUNTIMES."""

    def __init__(self, name: str, *, real_time: bool = False, **options: Any) -> None:
        self.name = name
        self.witness = Witness()
        self.clock = Clock() if real_time else ManualClock()
        self.rt: Any
        if name == "sim":
            self.rt = Simulator(seed=7, observer=self.witness, **options)
        else:
            self.rt = ThreadRuntime(observer=self.witness, clock=self.clock, name="kit", **options)
        self.gate = threading.Event()
        self.log: list[tuple[str, Any]] = []
        self.born: list[Any] = []
        self.plans: dict[Any, deque[Any]] = defaultdict(deque)
        self.endings: dict[Any, Any] = {}
        self.factories: dict[Any, Callable[[], object]] = {}
        self.reasons: dict[Any, list[Reason]] = defaultdict(list)

    @property
    def sim(self) -> bool:
        return self.name == "sim"

    # --- children and trees

    def probe(self, *, hangs: bool = False) -> type[Any]:
        """The class of a scripted child. In the simulator a thread cannot hang, so one that will is a task there."""
        return TaskProbe if self.name == "loop" or (self.sim and hangs) else ThreadProbe

    def spec(self, child_id: Any, *args: Any, hangs: bool = False, **fields: Any) -> ChildSpec:
        return ChildSpec(child_id, self.probe(hangs=hangs), args=(*args, child_id, self), **fields)

    def specs(self, ids: str, **fields: Any) -> list[ChildSpec]:
        return [self.spec(child_id, **fields) for child_id in ids]

    def sup(self, children: Any = (), strategy: Strategy = Strategy.ONE_FOR_ONE, **flags: Any) -> SupervisorRef:
        return Supervisor.start(self.rt, children, strategy=strategy, **flags)

    def dyn(self, **flags: Any) -> SupervisorRef:
        return DynamicSupervisor.start(self.rt, **flags)

    def spawn(self, child_id: Any = "solo", *, hangs: bool = False, **kwargs: Any) -> Any:
        return self.rt.spawn(self.probe(hangs=hangs), child_id, self, **kwargs)

    # --- waiting and time

    def until(self, condition: Callable[[], Any], what: str = "it") -> Any:
        """The first true value of the condition."""
        if self.sim:
            self.rt.run_until_idle()
            value = condition()
            assert value, f"{what} has not happened"
            return value
        deadline = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert time.monotonic() < deadline, f"{what} has not happened"
            time.sleep(0.0005)
        return value

    def get(self, reply: Any) -> Any:
        """The value of a reply that must come without time passing."""
        if self.sim:
            self.rt.run_until_idle()
            assert reply.settled, "no answer"
        else:
            assert reply.block(PATIENCE), "no answer"
        return reply.get()

    def ask(self, ref: Any, message: Any) -> Any:
        """The reply to an ask."""
        return self.get(ref.ask(message, block=False))

    def now(self) -> float:
        return float(self.rt.clock.now())

    def advance(self, seconds: float) -> None:
        """Lets time pass; whatever is due has begun when it returns."""
        if self.sim:
            self.rt.advance(seconds)
        else:
            assert isinstance(self.clock, ManualClock)
            self.settled()
            self.clock.advance(seconds)

    def settled(self) -> None:
        """What the control thread is at, timers that it arms included, is done when this returns."""
        done = threading.Event()
        self.rt.post(done.set)
        assert done.wait(PATIENCE)

    def quiet(self) -> None:
        """Gives what should not happen its chance."""
        if self.sim:
            self.rt.run_until_idle()
        else:
            for _ in range(3):
                self.settled()
                time.sleep(0.002)

    # --- looking and acting

    def ref(self, sup: SupervisorRef, child_id: Any) -> Any:
        return sup.which_child(child_id).ref

    def state(self, sup: SupervisorRef, child_id: Any) -> str:
        return str(sup.which_child(child_id).state)

    def fresh(self, sup: SupervisorRef, child_id: Any, old: Any) -> Any:
        """The ref of a child once it is another than `old`."""

        def look() -> Any:
            ref = self.ref(sup, child_id)
            return ref if ref is not None and ref is not old else None

        return self.until(look, f"a new {child_id}")

    def reason(self, ref: Any) -> Reason:
        """Why it ended, once it has."""
        reason: Reason = self.until(lambda: ref.exit_reason, f"the end of {ref}")
        return reason

    def crash(self, ref: Any) -> Reason:
        ref.tell(("raise", Boom("bug")))
        return self.reason(ref)

    def end(self, ref: Any, how: Any) -> Reason:
        """Has a child end by itself: "crash", "kill" or a reason to stop with."""
        if how == "crash":
            return self.crash(ref)
        if how == "kill":
            ref.kill()
        else:
            ref.tell(("stop", how))
        return self.reason(ref)

    def between(
        self, child_id: Any, look: Callable[[], Any] = lambda: None, ask: Callable[[], Any] = lambda: None
    ) -> list[Any]:
        """What `look` and `ask` give, once, between a failed restart of the child and its next attempt.

        `look` runs on the control thread when the failure has been published; what `ask` requests (with `block=False`)
        lies in the supervisor's mailbox before the retry.
        """
        found: list[Any] = []

        def act() -> None:
            asked: list[Any] = []
            self.rt.post(lambda: found.append((look(), asked[0])))
            asked.append(ask())

        self.witness.between[child_id] = act
        return found

    def happened(self, what: str) -> list[Any]:
        """The ids to which `what` happened, in order."""
        return [child_id for word, child_id in self.log if word == what]

    def close(self) -> None:
        """Ends everything, and holds the runtime to leaving nothing."""
        self.gate.set()
        self.rt.close(0.2 if any(what.startswith("hangs") for what, _ in self.log) else 5.0)
        self.until(lambda: not self.rt.lives, "the end of every actor")
        self.until(lambda: not self.rt.abandoned_count, "the end of every abandoned actor")
        assert not len(self.rt.registry)
