"""The read side in the simulator: the same actors, virtual time, an order and faults that a seed decides.

A part of the seeds runs with the suite; `SIMULATED_SEEDS=1000` runs that many. A failure names its seed, and
the seed replays it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from honcho_actors.honcho.outcomes import Call, Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import PeerContext, SessionContext, Summaries
from honcho_actors.metrics import Meters
from honcho_actors.model import Context, Reason, State, TurnRequest
from honcho_actors.privacy.egress import Screened
from honcho_actors.privacy.identity import Identity, resolve
from honcho_actors.sessions import Sessions, dispatch, residence
from honcho_actors.sessions.residence import entry_bytes, person_bytes
from honcho_actors.sessions.table import ENTRY_BYTES, P_BLOCK
from honcho_actors.settings import Settings, SettingsCell
from supervision import Simulator, Strategy, Supervisor, Waiter

SEEDS = int(os.environ.get("SIMULATED_SEEDS", "60"))
STEPS = 70
PEERS = ("ann", "bob", "eve", "dan")
METERS = Meters()
FAILURES = [kind for kind in FailureKind if kind is not FailureKind.NOTHING_KNOWN]


class Weather:
    """A server of whom a seed decides how it feels: quick, slow, hung, refusing, or crashing whoever asks."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.known = {"ann", "bob", "dan"}
        self.seen: Counter[str] = Counter()
        self.asked_about_strangers = 0

    async def _feel(self, op: str, call: Call) -> Failure | None:
        self.seen[op] += 1
        mood = self._rng.random()
        left = call.deadline - asyncio.get_running_loop().time()
        assert left > 0
        if mood < 0.08:
            await asyncio.sleep(left)
            return Failure(FailureKind.TIMED_OUT, op)
        if mood < 0.11:
            raise RuntimeError("a fault in the worker")
        if mood < 0.13:
            await asyncio.sleep(10_000)
        await asyncio.sleep(min(left, self._rng.choice((0.0, 0.005, 0.2, 1.0, 4.0))))
        return Failure(self._rng.choice(FAILURES), op) if mood > 0.85 else None

    async def session_context(
        self, workspace: str, session: str, *, peer_target: str, call: Call, **_: Any
    ) -> Outcome[Any]:
        if failure := await self._feel("session_context", call):
            return failure
        if peer_target not in self.known:
            return Failure(FailureKind.NOTHING_KNOWN, "session_context", 404)
        return Ok(
            SessionContext(f"facts of {peer_target}", ("a card",), self._rng.choice(("", f"talk of {peer_target}")))
        )

    async def peer_context(self, workspace: str, peer: str, *, call: Call, **_: Any) -> Outcome[Any]:
        failure = await self._feel("peer_context", call)
        if failure is None and peer not in self.known:
            failure = Failure(FailureKind.NOTHING_KNOWN, "peer_context", 404)
        return failure or Ok(PeerContext(f"facts of {peer}", ()))

    async def summaries(self, workspace: str, session: str, *, call: Call) -> Outcome[Any]:
        failure = await self._feel("summaries", call)
        return failure or Ok(Summaries("", ""))

    async def chat(self, workspace: str, peer: str, query: Screened, *, call: Call, **_: Any) -> Outcome[Any]:
        self.asked_about_strangers += peer not in self.known
        failure = await self._feel("chat", call)
        return failure or Ok(self._rng.choice((None, f"answer about {peer}")))


class Run:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        residence.LIVELY = self.rng.choice((1, 2, 2_048))  # type: ignore[misc]
        dispatch.CROWD = self.rng.choice((0, 8))
        self.sim = Simulator(seed=seed)
        self.weather = Weather(self.rng)
        self.cell = SettingsCell(self._settings(4))
        self.sessions = Sessions(
            self.cell, METERS, lambda server: self.weather, clock=self.sim.clock, jitter=lambda: 0.5
        )
        self.root = Supervisor.start(
            self.sim, self.sessions.child_specs()[:1], strategy=Strategy.ONE_FOR_ONE, intensity=1000, period=1.0
        )
        self.waiting: list[tuple[Any, Waiter[Context], float]] = []
        self.resolved_at: dict[int, float] = {}
        self.served: list[tuple[str, Context]] = []

    def _settings(self, most: int) -> Settings:
        return Settings(
            base_url="http://127.0.0.1:9",
            max_sessions=most,
            max_concurrent_requests=self.rng.choice((1, 32)),
            idle_ttl=self.rng.choice((30.0, 600.0)),
            dialectic_cadence=self.rng.choice((1, 2)),
            dialectic_depth=self.rng.choice((1, 2, 3)),
            dialectic_per_hour=self.rng.choice((None, 5)),
        )

    def request(self) -> TurnRequest:
        user = self.rng.choice(PEERS)
        query = self.rng.choice(("ok", "what about the garden?", "and the pond over there?", ""))
        return TurnRequest(session_key=f"{user}-{self.rng.randrange(3)}", user=user, query=query)

    def step(self) -> None:
        {
            0: self.turn, 1: self.turn, 2: self.turn, 3: self.turn, 4: self.turn, 5: self.turn,
            6: lambda: self.sim.advance(self.rng.choice((0.01, 0.3, 2.0, 20.0))),
            7: lambda: self.sim.advance(self.rng.choice((0.01, 0.3, 2.0, 70.0))),
            8: lambda: self.sessions.prewarm(self.request()),
            9: lambda: self.sessions.refresh(self.request()),
            10: self.leave,
            11: self.upload,
            12: self.kill_someone,
            13: self.change,
        }[self.rng.randrange(14)]()  # fmt: skip

    def turn(self) -> None:
        request = self.request()
        turn = self.sessions.look(request)
        if turn.context is not None:
            self.served.append((request.user or "", self.sessions.counted(turn)))
            return
        if self.rng.random() < 0.2:
            self.served.append((request.user or "", self.sessions.unserved(turn)))
            return
        deadline = self.sim.clock.now() + self.rng.choice((0.05, 1.0, 3.0))
        waiter = self.sessions.begin(turn, deadline)
        number = len(self.waiting)
        self.waiting.append((turn, waiter, deadline))
        self.sim.timers.call_at(deadline, waiter.expire)

        def ended(done: Waiter[Context]) -> None:
            assert number not in self.resolved_at
            self.resolved_at[number] = self.sim.clock.now()
            self.served.append((request.user or "", self.sessions.ended(turn, done)))

        waiter.add_done_callback(ended)

    def leave(self) -> None:
        if self.waiting:
            _, waiter, _ = self.rng.choice(self.waiting)
            waiter.resolve(Context((), State.OFF, Reason.CLOSED), "cancelled")

    def upload(self) -> None:
        identity = resolve(self.request(), self.cell.current)
        assert isinstance(identity, Identity)
        self.sessions.note_upload(identity.session)

    def kill_someone(self) -> None:
        refresh = self.sim.registry.whereis("honcho.refresh")
        workers = [] if refresh is None or not refresh.is_alive() else [one.ref for one in refresh.which_children()]
        manager = self.sessions.table.manager
        if workers and self.rng.random() < 0.6:
            self.rng.choice(workers).kill()
        elif manager is not None and self.rng.random() < 0.5:
            manager.kill()

    def change(self) -> None:
        self.cell.publish(self._settings(self.rng.choice((2, 4, 6))))

    def check(self) -> None:
        """What has to hold once everything has come to rest."""
        table = self.sessions.table
        assert len(self.resolved_at) == len(self.waiting), "a waiter was never answered"
        for number, (_, waiter, deadline) in enumerate(self.waiting):
            assert waiter.resolved
            assert self.resolved_at[number] <= deadline + 1e-9, "an answer came after its grant"
        for entry in table.entries.values():
            assert not entry.pinned, "an entry is pinned for ever"
            assert entry.question_due is None
        assert len(table.entries) <= self.cell.current.max_sessions
        assert len(table.feed) == 0, "a served turn was not counted"
        assert METERS.registry.get_sample_value("honcho_actors_cold_waiters") == 0
        assert METERS.registry.get_sample_value("honcho_actors_refresh_in_progress") == 0
        held = sum(
            entry_bytes(one, table.persons[one.person][P_BLOCK] if one.person in table.persons else None)
            for one in table.entries.values()
        )
        assert table.bytes == held + sum(map(person_bytes, table.persons.values())), "the count of bytes drifted"
        assert all(one.bytes >= ENTRY_BYTES for one in table.entries.values())
        assert self.weather.asked_about_strangers == 0, "a question about somebody whom the server does not know"
        for user, context in self.served:
            for other in PEERS:
                assert other == user or f"of {other}" not in context.system
                assert other == user or f"about {other}" not in context.user_message


def run(seed: int) -> Run:
    one = Run(seed)
    with one.sim:
        for _ in range(STEPS):
            one.step()
            if one.rng.random() < 0.5:
                one.sim.run_until_idle()
        one.sim.advance(700.0)
        manager = one.sessions.table.manager
        assert manager is not None, "the read side did not come back"
        one.cell.publish(one._settings(6))
        one.sim.run_until_idle()
        one.sim.advance(40.0)
        one.check()
        one.root.stop(5)
    return one


@pytest.fixture(autouse=True)
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed decides how many conversations stay awake and whether workers stay; afterwards it is as it was."""
    monkeypatch.setattr(residence, "LIVELY", residence.LIVELY)
    monkeypatch.setattr(dispatch, "CROWD", dispatch.CROWD)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_whatever_the_order_and_the_faults_every_waiter_is_answered_in_time_and_nothing_is_left_over(part: int) -> None:
    ways: Counter[str] = Counter()
    for seed in range(part, SEEDS, 4):
        try:
            one = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        ways.update(waiter.cause for _, waiter, _ in one.waiting)
        ways["generation"] += one.sessions.table.generation - 1
    for cause in ("result", "deadline", "cancelled", "down", "generation"):
        assert ways[cause] > 0, f"{cause} never happened: {ways}"


def test_a_seed_replays_to_the_same_turns_in_the_same_order() -> None:
    first, second = (run(7).served for _ in range(2))
    assert [(user, one.reason, one.system) for user, one in first] == [
        (user, one.reason, one.system) for user, one in second
    ]
