"""Asks by the million, racing stops, kills and crashes: what is lost, doubled or left is counted.

Each asker owns its tally: an ask that was accepted must be answered, once, with its own value or with the error that
the end of the actor gives. `switch` sets the interpreter's switch interval for the duration, so this belongs into a
process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from supervision import (
    CallTimeout,
    ChildSpec,
    NoProc,
    Overloaded,
    Restart,
    Shutdown,
    Strategy,
    Supervisor,
    TaskActor,
    ThreadActor,
    ThreadRuntime,
)

PATIENCE = 20.0
"""Seconds after which an ask counts as lost."""


class Bug(Exception):
    """Crashes its actor."""


def _answer(actor: Any, message: Any) -> Any:
    word, value = message
    if word == "crash":
        raise Bug
    if word == "stop":
        actor.stop(Shutdown())
    return value


class ThreadEcho(ThreadActor):
    def on_receive(self, message: Any) -> Any:
        return _answer(self, message)


class TaskEcho(TaskActor):
    def on_receive(self, message: Any) -> Any:
        return _answer(self, message)


class AwaitingEcho(TaskActor):
    async def on_receive(self, message: Any) -> Any:
        if message[1] % 7 == 0:
            await asyncio.sleep(0)
        return _answer(self, message)


CLASSES: dict[str, list[type[Any]]] = {"thread": [ThreadEcho], "task": [TaskEcho, AwaitingEcho]}


@dataclass
class Result:
    """What a storm saw."""

    kind: str
    seconds: float = 0.0
    asks: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    double: int = 0
    wrong: int = 0
    ends: int = 0
    left: int = 0
    leftovers: str = ""
    """Names of what was left."""


@dataclass
class _Tally:
    asks: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    double: int = 0
    wrong: int = 0


class _Asker:
    """One thread that asks in batches: many asks are in flight, and each answer is counted by its own callback."""

    def __init__(self, targets: list[Any], stop: threading.Event, seed: int) -> None:
        self.targets, self.stop, self.random = targets, stop, random.Random(seed)
        self.tally = _Tally()

    def run(self) -> None:
        tally, choose = self.tally, self.random.choice
        number = 0
        while not self.stop.is_set():
            batch = []
            ref = choose(self.targets)
            for _ in range(self.random.randrange(1, 400)):
                number += 1
                reply = ref.ask(("echo", number), block=False)
                answers: list[int] = []
                reply.subscribe(lambda answers=answers: answers.append(1))
                batch.append((number, reply, answers))
            tally.asks += len(batch)
            self.count(batch)
            try:
                number += 1
                tally.asks += 1
                value = choose(self.targets).ask(("echo", number), timeout=PATIENCE)
                tally.answered += 1
                tally.wrong += value != number
            except CallTimeout:
                tally.lost += 1
            except (NoProc, Overloaded, Bug):
                tally.refused += 1

    def count(self, batch: list[Any]) -> None:
        tally = self.tally
        for number, reply, answers in batch:
            try:
                value = reply.get(timeout=PATIENCE)
            except CallTimeout:
                tally.lost += 1
                continue
            except (NoProc, Overloaded, Bug):
                tally.refused += 1
            else:
                tally.answered += 1
                tally.wrong += value != number
            tally.double += len(answers) > 1 or reply.succeed("again")


def storm(kind: str, *, seconds: float, asks: int = 0, seed: int = 1, switch: float | None = None) -> Result:
    """Lets askers and enders loose on a supervised tree for so many seconds, or until so many asks have been made."""
    before = set(threading.enumerate())
    interval = sys.getswitchinterval()
    result = Result(kind)
    if switch is not None:
        sys.setswitchinterval(switch)
    try:
        _storm(result, kind, seconds, asks, seed)
    finally:
        sys.setswitchinterval(interval)
    deadline = time.monotonic() + 5.0
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.005)
    threads = sorted(thread.name for thread in set(threading.enumerate()) - before)
    result.left += len(threads)
    result.leftovers = " ".join([result.leftovers, *threads]).strip()
    return result


def _storm(result: Result, kind: str, seconds: float, asks: int, seed: int) -> None:
    rt = ThreadRuntime(name="storm", max_abandoned=10_000)
    stop = threading.Event()
    classes = CLASSES[kind]
    specs = [
        ChildSpec(number, classes[number % len(classes)], restart=Restart.PERMANENT, name=f"echo{number}")
        for number in range(6)
    ]
    sup = Supervisor.start(rt, specs, strategy=Strategy.ONE_FOR_ONE, intensity=10**9)
    targets = [_ByName(rt.registry, f"echo{number}") for number in range(6)]
    askers = [_Asker(targets, stop, seed + number) for number in range(4)]
    threads = [threading.Thread(target=asker.run, daemon=True) for asker in askers]
    rng = random.Random(seed)
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    while time.monotonic() - begun < seconds and not (asks and sum(one.tally.asks for one in askers) >= asks):
        ref = rt.registry.whereis(f"echo{rng.randrange(6)}")
        if ref is not None:
            _end(ref, rng)
            result.ends += 1
        time.sleep(rng.choice((0.0, 0.0005, 0.002)))
    stop.set()
    deadline = time.monotonic() + PATIENCE + 5
    for thread in threads:
        thread.join(max(0.1, deadline - time.monotonic()))
        result.lost += thread.is_alive()
    result.seconds = round(time.monotonic() - begun, 2)
    for asker in askers:
        for field, value in asdict(asker.tally).items():
            setattr(result, field, getattr(result, field) + value)
    sup.stop(10.0)
    rt.close(10.0)
    result.left += len(rt.lives)
    result.leftovers = " ".join(f"{life.label}({life.reason}, {life.closed})" for life in list(rt.lives))


def _end(ref: Any, rng: random.Random) -> None:
    way = rng.randrange(4)
    try:
        if way == 0:
            ref.kill()
        elif way == 1:
            ref.stop(block=False)
        else:
            ref.tell(("crash" if way == 2 else "stop", 0))
    except (NoProc, Overloaded):
        pass


class _ByName:
    """Asks whoever has the name; nobody is an answer too."""

    def __init__(self, registry: Any, name: str) -> None:
        self.registry, self.name = registry, name

    def ask(self, message: Any, **how: Any) -> Any:
        ref = self.registry.whereis(self.name)
        while ref is None:
            time.sleep(0)
            ref = self.registry.whereis(self.name)
        return ref.ask(message, **how)


def main() -> int:
    parser = argparse.ArgumentParser(description="asks racing stops, kills and crashes")
    parser.add_argument("--asks", type=int, default=5_200_000, help="asks in all, over both kinds")
    parser.add_argument("--seconds", type=float, default=480.0, help="the longest that it may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--switch", type=float, default=1e-6, help="switch interval of the interpreter, in seconds")
    options = parser.parse_args()
    import logging

    logging.getLogger("supervision").setLevel(logging.CRITICAL + 1)
    results = [
        storm(kind, seconds=options.seconds / 2, asks=options.asks // 2, seed=options.seed, switch=options.switch)
        for kind in ("thread", "task")
    ]
    for result in results:
        print(json.dumps(asdict(result)))
    asks = sum(result.asks for result in results)
    wrong = {name: sum(getattr(one, name) for one in results) for name in ("lost", "double", "wrong", "left")}
    print(f"asks {asks}: " + ", ".join(f"{name} {count}" for name, count in wrong.items()))
    return 1 if any(wrong.values()) or asks < options.asks * 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
