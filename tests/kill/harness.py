"""Kills a capturing process again and again, under faults, and counts what the server holds in the end.

`python -m tests.kill.harness --kills 500 --seed 7`: one embedded server, one fault proxy in front of it, and lives of
one process on one state directory, each ended by SIGKILL: half of them in a named state, the others at any moment. The
faults are seeded, and *held and forwarded after the client has gone* is among them, always for less than the settle
time. What was accepted is known from the child's own words before its death; what is there is read with the official
SDK. Prints a histogram of the states and `lost 0 duplicated 0 reordered 0`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kill import points
from tests.kill.child import Life, live
from tests.support.capture_rig import _ask, server
from tests.support.faults import FaultProxyProcess

OURS = [f"conversation-{number}" for number in range(8)]
THEIRS = [f"companion-{number}" for number in range(3)]
SESSIONS = OURS + THEIRS
SETTLE = 1.2
HELD = 0.45
"""Longest that a request is held before it is forwarded: well below every settle time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take: a server that answers in 0.2 s at best needs longer than the embedded one."""

    settle: float = SETTLE
    timeout: float = 1.5
    """Of the child's requests."""
    patience: float = 4.0
    """For the state that a life is aimed at."""
    drain: float = 120.0
    pause: float = 0.012
    """Between two turns, on average: what is captured must be deliverable by the end."""


SLOW = Pace(settle=8.0, timeout=4.0, patience=6.0, drain=180.0, pause=0.15)
"""For a server that is not ours."""


def weather(seed: int) -> list[dict[str, Any]]:
    """The faults of one life: about half of all writes, a fifth of all looks."""
    write = ["add_messages"]
    return [
        {"fault": "late_commit", "on": write, "chance": 0.10, "delay": 0.05, "delay_max": HELD},
        {"fault": "commit_then_drop", "on": write, "chance": 0.12},
        {"fault": "commit_then_status", "on": write, "chance": 0.05, "status": 500},
        {"fault": "cut_request", "on": write, "chance": 0.05},
        {"fault": "refuse", "on": write, "chance": 0.08},
        {"fault": "status", "on": write, "chance": 0.05, "status": 503},
        {"fault": "late_reply", "on": write, "chance": 0.05, "delay": 0.1, "delay_max": HELD},
        {"fault": "cut", "on": write, "chance": 0.04},
        {"fault": "refuse", "on": ["list_messages", "ensure_session", "set_member"], "chance": 0.10},
        {"fault": "status", "on": ["list_messages", "ensure_session"], "chance": 0.05, "status": 500},
        {"fault": "late_reply", "on": ["list_messages"], "chance": 0.05, "delay": 0.05, "delay_max": 0.3},
    ]


@dataclass
class Run:
    """What has happened so far."""

    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SESSIONS, 0))
    accepted: dict[str, set[int]] = field(default_factory=lambda: {session: set() for session in SESSIONS})
    histogram: collections.Counter[str] = field(default_factory=collections.Counter)
    held: int = 0


class Child:
    """One life, as its parent sees it."""

    def __init__(self, life: Life, run: Run) -> None:
        self._run = run
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            code = 1
            try:
                live(life, write)
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        os.set_blocking(read, False)
        self._pipe = read
        self._rest = b""
        self.last: dict[str, tuple[str, str]] = {}
        self.up = False
        self.flushed = ""

    def hear(self, seconds: float) -> list[list[str]]:
        """What the child said, after waiting at most so long for a first word."""
        if not select.select([self._pipe], [], [], max(0.0, seconds))[0]:
            return []
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        said = [line.decode().split() for line in lines]
        for words in said:
            self._note(words)
        return said

    def _note(self, words: list[str]) -> None:
        match words:
            case ["UP"]:
                self.up = True
            case ["TRY", session, number]:
                self._run.numbers[session] = int(number) + 1
            case ["ACCEPTED", session, number]:
                self._run.accepted[session].add(int(number))
            case ["AT", point, session, *more]:
                self.last[session] = (point, more[0] if more else "")
            case ["POST", session, delivery]:
                self.last[session] = ("posted", delivery)
            case ["DONE", session, _]:
                self.last.pop(session, None)
            case ["FLUSHED", answer]:
                self.flushed = answer

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while self.hear(0.05):
            pass
        os.close(self._pipe)

    def wait(self) -> int:
        """Until the child ends by itself."""
        while True:
            self.hear(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.hear(0.0)
                os.close(self._pipe)
                return os.waitstatus_to_exitcode(status)


class Companion:
    """A second process on the same directory, now and then: it outlives some of the others, and is killed too."""

    def __init__(self, folder: Path, workspace: str, dice: random.Random, run: Run, pace: Pace) -> None:
        self._folder, self._workspace, self._dice, self._run = folder, workspace, dice, run
        self._pace = pace
        self._child: Child | None = None
        self._lives = 0
        self.kills = 0

    def before_life(self, url: str, point: str) -> None:
        """Perhaps starts it, perhaps kills it. A life that is aimed at a state of its own requests is alone."""
        if point in points.DIRECTED[:4]:
            self.end()
        elif self._child is None and self._dice.random() < 0.3:
            numbers = {session: self._run.numbers[session] for session in THEIRS}
            seed, pace = self._dice.randrange(1 << 30), self._pace
            life = Life(
                self._folder,
                url,
                self._workspace,
                points.MOMENT,
                seed,
                numbers,
                pace.settle,
                timeout=pace.timeout,
                pause=pace.pause,
            )
            self._child, self._lives = Child(life, self._run), self._dice.randrange(2, 6)
        elif self._child is not None:
            self._lives -= 1
            if self._lives <= 0:
                self.end()

    def hear(self) -> None:
        if self._child is not None:
            self._child.hear(0.0)

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None
            self.kills += 1


def aim(number: int, dice: random.Random, run: Run, least: int) -> str:
    """Half of the lives are aimed at the state that has been met least; the others are killed at any moment."""
    wanted = [point for point in points.DIRECTED[:4] if run.histogram[point] < least]
    if wanted and (number % 2 == 0 or dice.random() < 0.4):
        return min(wanted, key=lambda point: run.histogram[point])
    if dice.random() < 0.3:
        return dice.choice(points.DIRECTED[4:])
    return points.MOMENT


def one_life(
    child: Child,
    point: str,
    dice: random.Random,
    proxy: FaultProxyProcess,
    upstream: str,
    workspace: str,
    companion: Companion,
    patience: float,
) -> str:
    """Waits for the moment of this life's end; returns the state in which it is to be killed."""
    until = time.monotonic() + patience
    while not child.up and time.monotonic() < until:
        child.hear(0.05)
    if point == points.MOMENT:
        until = time.monotonic() + min(1.5, dice.expovariate(1 / 0.12))
        while (left := until - time.monotonic()) > 0:
            child.hear(min(left, 0.05))
            companion.hear()
        return points.MOMENT
    before = _fired(proxy) if point == points.AFTER_BYTES else 0
    while time.monotonic() < until:
        companion.hear()
        for words in child.hear(0.02):
            if words[:2] == ["AT", point]:
                return point
        posted = [(session, state[1]) for session, state in child.last.items() if state[0] == "posted"]
        if point == points.AFTER_BYTES and posted and _fired(proxy) > before:
            there = _stored(upstream, workspace, *posted[0])
            return points.MOMENT if there is None else points.AFTER_COMMIT if there else point
        if point == points.AFTER_COMMIT:
            for session, delivery in posted:
                if _stored(upstream, workspace, session, delivery) and session in child.last:
                    child.hear(0.0)
                    if child.last.get(session) == ("posted", delivery):
                        return point
    return points.MOMENT


def _fired(proxy: FaultProxyProcess) -> int:
    return sum(count for name, count in _counts(proxy.report()).items() if "late_commit" in name)


def _counts(report: Any) -> dict[str, int]:
    found: dict[str, int] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{prefix}/{name}", inner)
        elif isinstance(value, int):
            found[prefix] = value

    walk("", report)
    return found


def _stored(upstream: str, workspace: str, session: str, delivery: str) -> bool | None:
    body = {"filters": {"metadata": {"delivery_id": delivery}}}
    path = f"/v3/workspaces/{workspace}/sessions/{session}/messages/list?page=1&size=1"
    with contextlib.suppress(TimeoutError, urllib.error.URLError):  # a busy server: it is not known
        return bool(_ask(upstream, path, body)["total"])
    return None


def directed_rules(point: str, seed: int) -> list[dict[str, Any]]:
    """The weather, with the fault in front that makes a state long enough to be killed in."""
    write = ["add_messages"]
    if point == points.AFTER_BYTES:
        first = [{"fault": "late_commit", "on": write, "delay": 0.3, "delay_max": HELD}]
    elif point == points.AFTER_COMMIT:
        first = [{"fault": "late_reply", "on": write, "delay": 1.0}]
    elif point in (points.LOOKING, points.LOOKED):
        first = [{"fault": "commit_then_drop", "on": write, "chance": 0.5}]
    else:
        first = []
    return first + weather(seed)


def judge(run: Run, upstream: str, workspace: str) -> dict[str, int]:
    """Reads the server with the official SDK and compares it with what was accepted."""
    from honcho import Honcho

    sdk = Honcho(base_url=upstream, workspace_id=workspace, max_retries=0)
    lost = duplicated = reordered = found = 0
    for session in SESSIONS:
        texts = [message.content for message in sdk.session(session).messages()]
        found += len(texts)
        counts = collections.Counter(texts)
        duplicated += sum(count - 1 for count in counts.values())
        firsts = list(dict.fromkeys(texts))
        keys = [(int(text.split()[1]), 0 if text.startswith("question") else 1) for text in firsts]
        reordered += sum(1 for earlier, later in itertools.pairwise(keys) if later < earlier)
        for number in run.accepted[session]:
            lost += sum(1 for text in (f"question {number}", f"answer {number}") if text not in counts)
    return {"lost": lost, "duplicated": duplicated, "reordered": reordered, "found": found}


@contextlib.contextmanager
def standing(url: str | None, workspace: str, data: Path) -> Iterator[str]:
    """The address of the server: the one that is given, or an embedded one for as long as this lasts.

    In a real server's workspace nothing is derived or summarised: that would be most of its work, and none of ours.
    """
    if url:
        quiet = {"reasoning": {"enabled": False}, "summary": {"enabled": False}}
        _ask(url, "/v3/workspaces", {"id": workspace, "configuration": quiet})
        yield url
    else:
        with server(data) as honcho:
            yield honcho.url


def run_kills(kills: int, seed: int, *, least: int, seconds: float, upstream: str | None = None) -> dict[str, Any]:
    """The whole run; ends early, and says so, when its time is up."""
    pace = SLOW if upstream else Pace()
    dice = random.Random(seed)
    run = Run()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-") as scratch:
        folder = Path(scratch)
        workspace = f"kill-{seed}-{time.time_ns():x}" if upstream else f"kill-{seed}"
        with standing(upstream, workspace, folder / "server") as honcho, FaultProxyProcess(honcho) as proxy:
            companion = Companion(folder / "state", workspace, dice, run, pace)
            done = 0
            while done < kills and time.monotonic() - began < seconds:
                point = aim(done, dice, run, least)
                proxy.plan(directed_rules(point, done), seed=seed * 100_003 + done)
                companion.before_life(proxy.url, point)
                numbers = {session: run.numbers[session] for session in OURS}
                life = Life(
                    folder / "state",
                    proxy.url,
                    workspace,
                    point,
                    dice.randrange(1 << 30),
                    numbers,
                    pace.settle,
                    timeout=pace.timeout,
                    pause=pace.pause,
                )
                child = Child(life, run)
                try:
                    state = one_life(child, point, dice, proxy, honcho, workspace, companion, pace.patience)
                finally:
                    child.kill()
                run.histogram[state] += 1
                done += 1
                if done % 20 == 0:
                    sys.stderr.write(f"{done} kills in {time.monotonic() - began:.0f} s\n")
            companion.end()
            run.held = _fired(proxy)
            proxy.plan([])
            life = Life(
                folder / "state",
                proxy.url,
                workspace,
                "",
                0,
                {},
                pace.settle,
                drain=pace.drain,
                timeout=pace.timeout,
                pause=pace.pause,
            )
            child = Child(life, run)
            code = child.wait()
            verdict = judge(run, honcho, workspace)
            result = {
                "kills": done,
                "workspace": workspace,
                "companions_killed": companion.kills,
                "seconds": round(time.monotonic() - began, 1),
                "histogram": dict(sorted(run.histogram.items())),
                "held_and_forwarded": run.held,
                "accepted_turns": sum(len(numbers) for numbers in run.accepted.values()),
                "flushed": child.flushed == "True" and code == 0,
                **verdict,
            }
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--least", type=int, default=50, help="kills in each of the four states that matter most")
    parser.add_argument("--seconds", type=float, default=540.0, help="longest time of the run")
    parser.add_argument("--upstream", help="address of a server that runs already; otherwise an embedded one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = run_kills(given.kills, given.seed, least=given.least, seconds=given.seconds, upstream=given.upstream)
    if given.json:
        print(json.dumps(result))
    else:
        for state, count in result["histogram"].items():
            print(f"{state:28} {count:5}  {'#' * (count // 4)}")
        print(f"kills {result['kills']} and {result['companions_killed']} companions in {result['seconds']} s")
        print(f"held and forwarded {result['held_and_forwarded']}, flushed {result['flushed']}")
        print(f"accepted {result['accepted_turns']} turns, found {result['found']} messages")
        print(f"lost {result['lost']} duplicated {result['duplicated']} reordered {result['reordered']}")
    clean = not (result["lost"] or result["duplicated"] or result["reordered"]) and result["flushed"]
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
