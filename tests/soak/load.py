"""The people of a soak: threads and tasks that ask and tell, and note what they got and how long it took."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.model import Context
from tests.support.lateness import Lateness

THREADS: Final = 6
TASKS: Final = 12
BUDGETS: Final = (0.08, 0.15, 0.3, 0.6)
"""Seconds that a turn may wait."""
PAUSE: Final = 0.45
"""Seconds between two turns of one caller, on average."""
WAKES: Final = 3
"""How often a turn that waits must be given the interpreter where a plain wait is given it once: to be answered, to
hand the answer on, and to be looked at by who measures."""
GRAIN: Final = 0.01
"""Seconds that are below what two threads of an interpreter can tell apart."""
BEHIND: Final = 150
"""Turns to be delivered beyond which nothing more is said for a while."""
MEET: Final = 0.45
"""Share of the time in which everybody is met."""
SPEAKS: Final = 0.4
"""Share of the turns after which something is captured."""


@dataclass
class Load:
    """Callers until `end`; every conversation is met, evenly over the first part (`MEET`) of `seconds`: what grows
    after that grows with time."""

    memory: Memory
    sessions: int
    seed: int
    seconds: float
    turns: Counter[str] = field(default_factory=Counter)
    """How they were answered."""
    over: list[tuple[float, float, float, bool]] = field(default_factory=list)
    """Turns that came back after their budget: begun, ended, by how much, on a loop."""
    raised: list[str] = field(default_factory=list)
    captured: Counter[int] = field(default_factory=Counter)
    """Turns accepted, by conversation."""
    met: int = 0

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self._done = threading.Event()
        self.threads_control = Lateness()
        self.loop_control = Lateness(threads=0)
        self._lock = threading.Lock()
        self._callers = [
            threading.Thread(target=partial(self._thread, number), name=f"caller-{number}", daemon=True)
            for number in range(THREADS)
        ]
        loop = threading.Thread(target=lambda: asyncio.run(self._loop()), name="caller-loop", daemon=True)
        self._callers.append(loop)

    def __enter__(self) -> Load:
        self.threads_control.__enter__()
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.threads_control.__exit__()

    def end(self, patience: float = 60.0) -> int:
        """Nobody begins a turn any more; how many callers have not come back `patience` seconds later."""
        self._done.set()
        until = time.monotonic() + patience
        for caller in self._callers:
            caller.join(max(0.0, until - time.monotonic()))
        return sum(caller.is_alive() for caller in self._callers)

    def beyond_control(self) -> list[tuple[float, float]]:
        """Turns that came back later after their budget than `WAKES` plain waits of the same moments would have: by how
        much, and by how much the latest of the plain waits was late."""
        found = []
        for begun, ended, over, on_loop in self.over:
            control = self.loop_control if on_loop else self.threads_control
            late = control.worst(begun, ended)
            if over > WAKES * late + GRAIN:
                found.append((over, late))
        return found

    # -- one caller --------------------------------------------------------------------------------------------------

    def _thread(self, number: int) -> None:
        dice = random.Random(f"{self.seed}/thread/{number}")
        while not self._done.is_set():
            session, request, budget = self._next(dice)
            try:
                begun = time.monotonic()
                context = self.memory.context(request, budget)
                self._note(begun, budget, context, False)
                self._beside(dice, request)
                if self._speaks(dice):
                    receipt = self.memory.capture(self._said(session, dice))
                    if receipt.wait("accepted", 10.0) in ("accepted", "delivered"):
                        self._accepted(session)
            except Exception as error:
                self.raised.append(repr(error))
            time.sleep(dice.expovariate(1 / PAUSE))

    async def _loop(self) -> None:
        control = asyncio.create_task(self.loop_control.on_loop())
        await asyncio.gather(*(self._task(number) for number in range(TASKS)))
        control.cancel()

    async def _task(self, number: int) -> None:
        dice = random.Random(f"{self.seed}/task/{number}")
        while not self._done.is_set():
            session, request, budget = self._next(dice)
            try:
                begun = time.monotonic()
                context = await self.memory.acontext(request, budget)
                self._note(begun, budget, context, True)
                if self._speaks(dice):
                    receipt = await self.memory.acapture(self._said(session, dice))
                    if receipt.state in ("accepted", "delivered"):
                        self._accepted(session)
            except Exception as error:
                self.raised.append(repr(error))
            await asyncio.sleep(dice.expovariate(1 / PAUSE))

    def _next(self, dice: random.Random) -> tuple[int, TurnRequest, float]:
        """A conversation that is due to be met for the first time, else one that was met lately, or at any time."""
        share = (time.monotonic() - self.begun) / (MEET * self.seconds)
        with self._lock:
            if self.met < min(self.sessions, share * self.sessions + 1):
                session = self.met
                self.met += 1
            elif dice.random() < 0.7:
                session = max(0, self.met - 1 - int(dice.expovariate(1 / 60)))
            else:
                session = dice.randrange(self.met)
        request = TurnRequest(
            session_key=f"talk-{session}", user=self._user(session), query=f"where were we, {session}?"
        )
        return session, request, dice.choice(BUDGETS)

    def _speaks(self, dice: random.Random) -> bool:
        """Nobody says more than this machine can deliver under such faults: what is owed is delivered in the end."""
        counts = self.memory._capture.core.counts
        return dice.random() < SPEAKS and (counts is None or counts.turns < BEHIND)

    def _user(self, session: int) -> str:
        return f"person-{session % max(1, self.sessions // 3)}"

    def _said(self, session: int, dice: random.Random) -> Turn:
        word = f"{dice.randrange(1 << 30):x}"
        return Turn(f"talk-{session}", self._user(session), f"I keep {word} bees in hive {session}.", "So many!")

    def _beside(self, dice: random.Random, request: TurnRequest) -> None:
        roll = dice.random()
        if roll < 0.02:
            self.memory.refresh(request)
        elif roll < 0.04:
            self.memory.prewarm(request)
        elif roll < 0.05:
            self.memory.status()

    def _note(self, begun: float, budget: float, context: Context, on_loop: bool) -> None:
        ended = time.monotonic()
        with self._lock:
            self.turns[f"{context.state} {context.reason}"] += 1
        if ended - begun > budget:
            self.over.append((begun, ended, ended - begun - budget, on_loop))

    def _accepted(self, session: int) -> None:
        with self._lock:
            self.captured[session] += 1
