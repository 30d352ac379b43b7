"""Thousands of seeded histories of one delivery line against a model of the server, in virtual time.

The real ledger (SQLite), the real policy and the real worker; a server that stores late, loses replies, refuses,
answers 500 and 503, and goes on storing what it holds after its client has died. Between any two steps the process may
be killed: the open file is dropped as it is, and the next life begins. In the end every accepted message is there once,
in order.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import store
from honcho_actors.capture import accepting, content
from honcho_actors.capture.clocks import Reading
from honcho_actors.capture.core import CapturePorts, Core
from honcho_actors.capture.retry import RetryPolicy
from honcho_actors.capture.schema import MIGRATIONS
from honcho_actors.capture.worker import Delivery
from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok
from honcho_actors.honcho.reading import Message, Page
from honcho_actors.metrics import Meters
from honcho_actors.model import Turn
from honcho_actors.privacy import egress, identity
from honcho_actors.privacy.identity import Identity
from honcho_actors.settings import Settings, SettingsCell

SETTLE = 10.0
SETTINGS = Settings(base_url="http://localhost:1", settle_time=SETTLE, workspace="w")
METERS = Meters()


class Killed(BaseException):
    """The process ends here."""


@dataclass
class World:
    """Time, the server, and what has been accepted."""

    dice: random.Random
    seconds: float = 1000.0
    stored: list[tuple[str, Message]] = field(default_factory=list)
    held: list[tuple[float, str, list[Message]]] = field(default_factory=list)
    poison: set[str] = field(default_factory=set)
    posts: int = 0
    kill_share: float = 0.02
    stormy: bool = True

    def reading(self) -> Reading:
        return Reading("boot", self.seconds, int(self.seconds * 1e6))

    def step(self, seconds: float = 0.01) -> None:
        """Time passes; what was held is stored when its time comes; perhaps the process dies."""
        self.seconds += seconds
        due = [entry for entry in self.held if entry[0] <= self.seconds]
        self.held = [entry for entry in self.held if entry[0] > self.seconds]
        for _, session, messages in sorted(due, key=lambda entry: entry[0]):
            self.stored += [(session, message) for message in messages]
        if self.stormy and self.dice.random() < self.kill_share:
            raise Killed


class Server:
    """As much of Honcho as delivery needs, with weather."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def ensure_session(self, *_: Any, **__: Any) -> Any:
        self._world.step()
        if self._world.stormy and self._world.dice.random() < 0.1:
            return Failure(FailureKind.TRANSPORT, "ensure_session", bytes_sent=False)
        return Ok(None, 201)

    async def set_member(self, *_: Any, **__: Any) -> Any:
        return Ok(None, 204)

    async def add_messages(self, workspace: str, session: str, messages: Any, call: Any) -> Any:
        world = self._world
        world.posts += 1
        made = [
            Message(
                f"m{world.posts}-{place}",
                one.peer,
                one.text.text,
                session,
                dict(one.metadata),
                one.created_at,
            )
            for place, one in enumerate(messages)
        ]
        ids = tuple(message.id for message in made)
        world.step()
        if any(message.text in world.poison for message in made):
            return Failure(FailureKind.REFUSED, "add_messages", 422)
        roll = world.dice.random() if world.stormy else 1.0
        if roll < 0.08:
            return Failure(FailureKind.TRANSPORT, "add_messages", bytes_sent=False)
        if roll < 0.12:
            return Failure(FailureKind.RATE_LIMITED, "add_messages", 429, retry_after=1.0)
        if roll < 0.30:  # held, and stored later, whoever is still there
            world.held.append((world.seconds + world.dice.uniform(0.05, SETTLE * 0.9), session, made))
            world.step()
            return Failure(FailureKind.UNKNOWN_OUTCOME, "add_messages")
        if roll < 0.36:
            return Failure(FailureKind.UNKNOWN_OUTCOME, "add_messages", world.dice.choice((502, 503)))
        world.stored += [(session, message) for message in made]
        world.step()
        if roll < 0.52:
            return Failure(FailureKind.UNKNOWN_OUTCOME, "add_messages", world.dice.choice((None, 500, 502)))
        return Ok(ids, 201)

    async def list_messages(self, workspace: str, session: str, *, filters: Any, **_: Any) -> Any:
        world = self._world
        world.step()
        if world.stormy and world.dice.random() < 0.2:
            return Failure(FailureKind.TIMED_OUT, "list_messages")
        wanted = filters["metadata"]["delivery_id"]
        first, last = (datetime.fromisoformat(filters["created_at"][edge]) for edge in ("gte", "lte"))
        found = tuple(
            message
            for place, message in world.stored
            if place == session
            and message.metadata["delivery_id"] == wanted
            and message.created_at is not None
            and first <= message.created_at <= last
        )
        return Ok(Page(found, len(found), 1, 1))


class DirectCore(Core):
    """The ledger without an actor in front: each entry is one transaction; the process may die before or after it."""

    def __init__(self, ports: CapturePorts, directory: Path, world: World, connection: sqlite3.Connection) -> None:
        super().__init__(ports, directory)
        self._world = world
        self._connection = connection

    async def run(self, act: Callable[[sqlite3.Connection], Any], *, after: Any = None) -> Any:
        self._world.step()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            value = act(self._connection)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        self._world.step()
        return value if after is None else after(value)


def life(path: Path, world: World, captures: int, numbers: dict[str, int], accepted: list[tuple[str, str]]) -> None:
    """One life: some turns are accepted, and deliveries run until the process is killed or nothing is due."""
    connection = store.open_outbox(path, MIGRATIONS).connection
    connection.execute("PRAGMA synchronous=OFF")  # a kill of the process, not of the machine
    try:
        ports = CapturePorts(
            settings=SettingsCell(SETTINGS),
            client=lambda server: Server(world),  # type: ignore[arg-type,return-value]
            meters=METERS,
            retry=RetryPolicy(first=0.2, cap=2.0),
            read_clock=world.reading,
            random=world.dice.random,
        )
        core = DirectCore(ports, path.parent, world, connection)
        core.owner.alive = lambda name: name == core.owner.name  # type: ignore[method-assign]
        conversations = accepting.Conversations()
        for _ in range(captures):
            session = world.dice.choice("ab")
            number = numbers[session] = numbers[session] + 1
            who = identity.resolve(Turn(session_key=session), SETTINGS)
            assert isinstance(who, Identity)
            turn = Turn(session_key=session, prompt=f"q{number}", answer=f"a{number}", turn_id=f"t{number}")
            drafted = content.draft(
                turn,
                who,
                gate=egress.DEFAULT,
                max_chars=1000,
                at_us=world.reading().wall_us,
                batch_id=content.batch_id_of(who, turn.turn_id),
            ).draft
            assert drafted is not None
            connection.execute("BEGIN IMMEDIATE")
            accepting.accept(connection, conversations, drafted, wall_us=0, age=0.0, keep=False)
            connection.execute("COMMIT")
            accepted += [(session, f"q{number}"), (session, f"a{number}")]
            world.step()
        idle = 0
        while idle < 2:
            idle = 0
            for (conversation,) in connection.execute("SELECT id FROM conversation ORDER BY id").fetchall():
                report = asyncio.run(Delivery(core, conversation).run())
                if report.again is None:
                    idle += 1
                world.step(max(0.05, report.again or 0.0))
            if not connection.execute("SELECT 1 FROM conversation LIMIT 1").fetchone():
                return
            if len(connection.execute("SELECT id FROM conversation").fetchall()) == 1 and idle == 1:
                return
    except Killed:
        pass
    finally:
        connection.close()


@pytest.mark.parametrize("seed", range(16))
def test_every_accepted_message_is_stored_once_and_in_order_whatever_dies_when(seed: int) -> None:
    dice = random.Random(seed)
    world = World(dice, poison={"q7"} if seed % 4 == 0 else set())
    numbers = {"a": 0, "b": 0}
    accepted: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        path = Path(folder) / "outbox.db"
        for _ in range(25):
            life(path, world, dice.randrange(0, 4), numbers, accepted)
            world.seconds += dice.choice((0.01, 0.5, 3.0, SETTLE))
        world.stormy = False
        life(path, world, 1, numbers, accepted)
        world.seconds += 10 * SETTLE
        world.step()
        life(path, world, 1, numbers, accepted)
    for session in "ab":
        wanted = [text for place, text in accepted if place == session and text not in world.poison]
        assert [message.text for place, message in world.stored if place == session] == wanted
    assert world.posts > len(accepted) / 40


def test_without_the_settle_wait_the_same_weather_doubles_so_the_model_can_fail() -> None:
    doubled = 0
    for seed in range(16):
        dice = random.Random(seed)
        world = World(dice, kill_share=0.0)
        numbers = {"a": 0, "b": 0}
        accepted: list[tuple[str, str]] = []
        hasty = Settings(base_url="http://localhost:1", settle_time=0.0, workspace="w")
        with tempfile.TemporaryDirectory(prefix="model-") as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.capture.test_model.SETTINGS", hasty)
            life(Path(folder) / "outbox.db", world, 6, numbers, accepted)
            world.seconds += 100.0
            world.stormy = False
            world.step()
        doubled += len(world.stored) - len({message.text + place for place, message in world.stored})
    assert doubled > 0
