"""What it costs to be watched: `python -m benchmarks.ops [--json] [--quick]`.

`metrics_cost_us`: what a warm turn pays, on its caller's side, for being counted (`serve` beside `look`, the same turn
without it: medians, by turns). `scrape_ms` (p99): a scrape over HTTP with 10,000 conversations held. `status_p99_ms`:
the admin endpoint's `/status` under load: four threads that serve some 1,500 turns a second and capture some of them,
and beside a thread that never gives the interpreter away (`status_hogged_p99_ms`, without a bar). `cli_status_ms`
(median): the whole command `honcho-actors status --json`, a new process each time, attached to a running one whose
server answers. A bar (issue 10) is a limit for the figure of its name; one that is missed is named at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks._world import filled, local_server, percentile, request, running, until
from benchmarks.turns import hog, timed
from honcho_actors.cli.attach import attach
from honcho_actors.model import Turn
from honcho_actors.runtime import Memory

BARS = {"metrics_cost_us": 1.6, "scrape_ms": 20.0, "status_p99_ms": 50.0, "cli_status_ms": 300.0}
SESSIONS = 10_000
PAUSE = 0.01
"""Seconds between two questions about the status."""


def metrics_cost(memory: Memory, rounds: int) -> dict[str, Any]:
    """The difference of medians: turns that are counted, and the same turns uncounted, by turns. What the manager does
    with them is on its own thread, and shows in the slowest calls alone."""
    sessions = memory._sessions
    asked = [request(number * 7919 % SESSIONS) for number in range(100)]
    counted: list[float] = []
    uncounted: list[float] = []
    for one in range(rounds):
        for first in asked:  # so that both find what they find the same way
            sessions.look(first)
        for counts in (True, False) if one % 2 else (False, True):
            call, times = (sessions.serve, counted) if counts else (sessions.look, uncounted)
            times += timed(lambda number, call=call: call(asked[number]), len(asked))  # type: ignore[misc]
        until(memory, lambda: memory.status().sessions["uncounted_turns"] == 0)
    with_it, without = percentile(counted, 0.5), percentile(uncounted, 0.5)
    return {
        "metrics_cost_us": round(with_it - without, 3),
        "turn_counted_us": round(with_it, 3),
        "turn_uncounted_us": round(without, 3),
    }


def scraping(memory: Memory, times: int) -> dict[str, Any]:
    """A scrape over HTTP, as Prometheus does it: a connection of its own each time."""
    url = str(memory.status().endpoints["metrics"])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found: list[float] = []
    size = 0
    for _ in range(times):
        begun = time.perf_counter()
        with opener.open(url, timeout=10) as reply:
            size = len(reply.read())
        found.append((time.perf_counter() - begun) * 1e3)
    return {
        "scrape_ms": round(percentile(found, 0.99), 2),
        "scrape_p50_ms": round(percentile(found, 0.5), 2),
        "scrape_bytes": size,
        "scrape_sessions": memory.status().sessions["sessions"],
    }


def held(quick: bool) -> dict[str, Any]:
    """With ten thousand conversations held."""
    with filled(SESSIONS, metrics_port=0) as memory:
        until(memory, lambda: memory.status().endpoints["metrics"])
        return metrics_cost(memory, 100 if quick else 400) | scraping(memory, 40 if quick else 200)


def status_under_load(quick: bool) -> dict[str, Any]:
    """`/status` while turns are served and captured."""
    asked = 60 if quick else 300
    with local_server(0.0) as url, running(url, admin_port=0, context_cadence=50) as memory:
        until(memory, lambda: memory.status().endpoints["admin"])
        with talking(memory) as served:
            times = statuses(memory, asked)
            rate = served() / (sum(times) / 1e3 + asked * PAUSE)
            with hog():
                hogged = statuses(memory, asked // 3)
    return {
        "status_p99_ms": round(percentile(times, 0.99), 2),
        "status_p50_ms": round(percentile(times, 0.5), 2),
        "status_turns_per_s": round(rate),
        "status_hogged_p99_ms": round(percentile(hogged, 0.99), 2),
    }


@contextlib.contextmanager
def talking(memory: Memory) -> Iterator[Callable[[], int]]:
    """Four threads that take turns and capture every fiftieth; gives how many turns they have had."""
    stop = threading.Event()
    served = [0] * 4

    def talk(which: int) -> None:
        while not stop.wait(PAUSE / 5):
            number = served[which] = served[which] + 1
            one = request(which * 1_000 + number % 200)
            memory.context(one, 1.0)
            if number % 50 == 0:
                memory.capture(Turn(str(one.session_key), one.user, "I steamed a rib today.", "A rib it is."))

    threads = [threading.Thread(target=talk, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(served)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def statuses(memory: Memory, count: int) -> list[float]:
    """Milliseconds of so many `/status`, as a command or a page asks for them."""
    process = attach(memory.settings.state_dir)
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        process.get("/status")
        found.append((time.perf_counter() - begun) * 1e3)
        time.sleep(PAUSE)
    return found


def command(quick: bool) -> dict[str, Any]:
    """The whole command, cold."""
    with local_server(0.0) as url, running(url, admin_port=0) as memory:
        until(memory, lambda: memory.status().endpoints["admin"])
        line = [
            sys.executable,
            "-m",
            "honcho_actors.cli",
            "status",
            "--json",
            "--state-dir",
            str(memory.settings.state_dir),
        ]
        environ = {**os.environ, "HONCHO_URL": url}
        found: list[float] = []
        for _ in range(7 if quick else 25):
            at = time.perf_counter()
            finished = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=30, check=False)
            found.append((time.perf_counter() - at) * 1e3)
            assert finished.returncode == 0, finished.stderr
            assert json.loads(finished.stdout)["probe"]["fine"]
    return {"cli_status_ms": round(percentile(found, 0.5), 1), "cli_status_max_ms": round(max(found), 1)}


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "quick": quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    for part in (held, status_under_load, command):
        begun = time.perf_counter()
        found |= part(quick)
        sys.stderr.write(f"{part.__name__}: {time.perf_counter() - begun:.1f} s\n")
    found["missed"] = [name for name, bar in BARS.items() if found[name] > bar]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="smaller counts")
    given = parser.parse_args()
    found = measure(given.quick)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
        print(f"{name:<24} {value}{bar}")


if __name__ == "__main__":
    main()
