"""One life of the process that is killed: it captures and delivers until it is."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from honcho_actors.capture.retry import RetryPolicy
from honcho_actors.model import ReceiptState
from tests.kill.points import Announcer, Stopped
from tests.support.capture_rig import Rig, turn

RETRY = RetryPolicy(first=0.05, cap=0.25, longest=1.0)


@dataclass(frozen=True, slots=True)
class Life:
    """What one life is told."""

    state: Path
    url: str
    workspace: str
    point: str
    seed: int
    numbers: dict[str, int]
    """The next turn of each conversation."""
    settle: float
    timeout: float = 1.5
    """Of its requests."""
    pause: float = 0.012
    """Between two turns, on average."""
    drain: float = 0.0
    """Above 0: capture nothing, deliver for so many seconds, and end in order."""


def live(life: Life, pipe: int) -> None:
    """Runs in a forked process; returns only when it drains."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    announcer = Announcer(pipe)
    dice = random.Random(life.seed)
    with Rig(
        life.state,
        life.url,
        workspace=life.workspace,
        wrap=lambda client: Stopped(client, announcer, life.point),
        ports={"retry": RETRY},
        settle_time=life.settle,
        delivery_timeout=life.timeout,
        request_timeout=life.timeout,
    ) as rig:
        announcer.say("UP")
        if life.drain:
            until = time.monotonic() + life.drain
            while time.monotonic() < until and not rig.capture.flush(2.0):
                pass
            announcer.say("FLUSHED", rig.capture.flush(5.0))
            return
        numbers = dict(life.numbers)
        while True:
            session = dice.choice(list(numbers))
            number = numbers[session]
            numbers[session] += 1
            announcer.say("TRY", session, number)
            receipt = rig.capture.capture(turn(number, session))
            if receipt.wait("accepted", 10.0) in (ReceiptState.ACCEPTED, ReceiptState.DELIVERED):
                announcer.say("ACCEPTED", session, number)
            time.sleep(dice.expovariate(1 / life.pause))
