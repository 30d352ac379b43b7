"""Processes that use memory and leave, in every state that a process can leave in: `python -m tests.life.exits`.

Each is an interpreter of its own (`-X dev -W error`), eight at a time, on real files and real sockets; `leaving`
holds the states. Judged is what each promises: its exit code, that nothing was printed that looks like a fault, that
`close` kept its timeout, and that the process was gone soon after it began to leave. The limits are of a quiet
machine: how late plain waits were at the same time is allowed on top (see `tests/support/lateness.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.life.leaving import CLOSE, PLAIN, STATES
from tests.support.capture_rig import server
from tests.support.hung import hung

AT_ONCE = 8
LIMIT = 5.0
"""Seconds from the beginning of the end to the end, with everything hung: `close` has half of them. Three times what a
plain process of the same size took too long at the same time is allowed on top, where that is below `QUIET`."""
QUIET = 0.5
"""Seconds. Where a plain process takes longer than that too long, the machine is too busy to measure on: see `ENDS`."""
ENDS = 60.0
"""What is allowed there, and in `make test`: it tells an end from a hang."""
SLACK = 0.2
"""Seconds beyond a timeout that are nobody's: threads that start, locks that are taken."""
PATIENCE = 180.0
"""Seconds after which a process counts as one that never ends."""
DELIVERS = ("close_delivers", "fork_and_the_child_starts_its_own")
"""States with a server that works; the others have one that takes every connection and never says a word."""
SERVE = "serve_under_sigterm"
ALL = (*STATES, SERVE)
EXPECTED = {"sigterm_unhandled": -signal.SIGTERM}
LOOKS_WRONG = re.compile(r"Traceback|Fatal|Exception ignored|Warning:|Error")
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Exit:
    """One process, as its parent saw it. `faults`: what it promised and did not keep, in words."""

    state: str
    code: int | None = None
    took: float = 0.0
    said: list[dict[str, Any]] = field(default_factory=list)
    errors: str = ""
    faults: list[str] = field(default_factory=list)


def leave(state: str, folder: Path, url: str) -> Exit:
    """Starts one process, sends what its state needs, waits for its end, judges it."""
    one = Exit(state)
    module = ["honcho_actors.cli", "serve", "--stdio"] if state == SERVE else ["tests.life.leaving", state]
    more = ["--state-dir", str(folder / "state")] if state == SERVE else [str(folder), url]
    dropped = ("HONCHO_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    environment |= {"HOME": str(folder), "HONCHO_URL": url, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error", "-m", *module, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        overdue = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))  # and what it has forked
        overdue.start()
        left = _attend(process, one)
        one.code = process.wait()
        gone = time.monotonic()
        overdue.cancel()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
    one.errors = (folder / "errors").read_text()
    one.took = gone - (left or gone)
    _judge(one, left is not None, folder)
    return one


def _attend(process: Any, one: Exit) -> float | None:
    """Hears the process and sends it its signals; the moment in which it began to leave."""
    left: float | None = None
    for line in process.stdout:
        words = json.loads(line)
        one.said.append(words)
        if "leaves" in words:
            left = float(words["leaves"])
        elif "suspend" in words:
            time.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            time.sleep(words["suspend"])
            process.send_signal(signal.SIGCONT)
        elif "signal" in words:
            left = time.monotonic()
            process.send_signal(words["signal"])
        elif words.get("ready"):
            turn = {"do": "capture", "session_key": "one", "user": "ines", "prompt": "hello", "wait": "accepted"}
            process.stdin.write(json.dumps(turn) + "\n")
            process.stdin.flush()
        elif one.state == SERVE:
            words["accepted"] = words.get("state") in ("accepted", "delivered")
            left = time.monotonic()
            process.send_signal(signal.SIGTERM)
    return left


def _judge(one: Exit, left: bool, folder: Path) -> None:
    found = one.faults
    expected = EXPECTED.get(one.state, 0)
    if one.code != expected:
        found.append(f"it ended with {one.code}, not {expected}")
    if not left:
        found.append("it never began to leave")
    if wrong := LOOKS_WRONG.search(one.errors):
        found.append(f"it printed {one.errors[max(0, wrong.start() - 200) : wrong.start() + 1500]}")
    if not any(words.get("accepted") for words in one.said):
        found.append("what it captured was not accepted")
    for words in one.said:
        if words.get("over", 0.0) > SLACK + 2 * words.get("late", 0.0):
            found.append(f"a close or a turn took {words['over']:.2f} s longer than it was given: {words}")
        if "state" in words and "closed" in words and words["state"] != "closed":
            found.append(f"after its close it is {words['state']}")
        if words.get("drained") is False:
            found.append("what it accepted was not delivered")
        if words.get("drained_for", CLOSE) < CLOSE - 1.0 - 0.05:
            found.append(f"it drained for {words['drained_for']:.2f} s only")
        if words.get("answered", ["closed"]) != ["closed"]:
            found.append(f"whoever waited was answered {words['answered']}")
        if words.get("child", 0) != 0 or words.get("parent", "accepted") not in ("accepted", "delivered"):
            found.append(f"after its fork: {words}")
    if one.state != PLAIN and stored(folder) < 1:
        found.append("what it accepted is not in the outbox")


def stored(folder: Path) -> int:
    """How many turns the outbox of this folder holds, delivered ones included."""
    path = folder / "state" / "outbox.db"
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM batch").fetchone()[0])


def run(states: Sequence[str], limit: float | None = None) -> list[Exit]:
    """One process for each of these, `AT_ONCE` at a time, held to `limit` seconds (None: to `LIMIT`, beside control
    processes)."""
    whole = [*states, *[PLAIN] * (0 if limit else max(3, len(states) // 10))]
    random.Random(len(whole)).shuffle(whole)
    with (
        tempfile.TemporaryDirectory(prefix="exits-") as scratch,
        hung() as silent,
        server(Path(scratch) / "honcho") as honcho,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):

        def one(number: int, state: str) -> Exit:
            folder = Path(scratch) / f"exit-{number}"
            folder.mkdir()
            url = honcho.url if state in (*DELIVERS, SERVE) else silent
            if "resolver" in state:
                url = "http://honcho.test:8000"
            found = leave(state, folder, url)
            sys.stderr.write(f"{number + 1}: {state}, {found.took:.2f} s{' !' * len(found.faults)}\n")
            return found

        ended = list(pool.map(one, range(len(whole)), whole))
    plain = max((one.took for one in ended if one.state == PLAIN), default=CLOSE) - CLOSE
    allowed = limit or (LIMIT + 3 * plain if plain < QUIET else ENDS)
    for found in ended:
        if found.took > allowed:
            found.faults.append(f"it took {found.took:.2f} s to leave, and {allowed:.2f} were allowed")
    return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--exits", type=int, default=210, help="at least so many processes, over all states alike")
    parser.add_argument("--only", action="append", choices=ALL, help="a state; may be repeated")
    given = parser.parse_args()
    states = tuple(given.only or ALL)
    shown = (*states, PLAIN)
    begun = time.monotonic()
    ended = run(states * -(-given.exits // len(states)))
    for state in shown:
        these = [one for one in ended if one.state == state]
        worst = max(one.took for one in these)
        kept = sum(not one.faults for one in these)
        print(f"{state:50} {kept:4} of {len(these):3} as promised, gone within {worst:5.2f} s")
        for one in these:
            for fault in one.faults:
                print(f"    {fault}")
    bad = sum(bool(one.faults) for one in ended)
    count = sum(one.state != PLAIN for one in ended)
    print(f"{count} exits in {len(states)} states, {bad} not as promised, {time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
