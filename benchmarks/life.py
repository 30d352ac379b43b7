"""What a runtime costs that is started once and forgotten: `python -m benchmarks.life [--json] [--quick]`.

Restart with snapshots, start without a network, a storm of cold conversations, threads, memory and collector pauses by
number of conversations, an end with a hung server. A bar (issue 7) is a limit for the figure of its name, `AT_LEAST`
one that must be reached; what is missed is named at the end. What needs a process of its own runs in one. Milliseconds
end in `_ms`, seconds in `_s`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._naming_server import naming_server
from benchmarks._world import (
    NOWHERE,
    Pauses,
    percentile,
    proxied,
    request,
    running,
    until,
    write_snapshots,
)
from benchmarks.turns import hog
from honcho_actors.model import Context, Reason, State, Turn, TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

BARS = {
    "after_restart_first_turn_ms": 1.0,
    "snapshots_loaded_s": 2.0,
    "start_ms": 250.0,
    "storm_overshoot_ms": 0.0,
    "runtime_threads": 8,
    "rss_per_session_kb": 6.0,
    "shutdown_hung_s": 5.0,
    "gc_pause_ms": 20.0,
}
AT_LEAST = {"storm_filled": 0.2, "storm_filled_256": 0.95}

SERVER_DELAY = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def folder(url: str, sessions: int, *, each: int = 4, **changed: Any) -> Iterator[Settings]:
    """Settings whose cache holds so many conversations."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        given = {"state_dir": f"{name}/state", "cache_dir": f"{name}/cache", "admin_port": None, **changed}
        settings = Settings(base_url=url, **given)
        if sessions:
            write_snapshots(settings, sessions, each=each, rendered=True)
        yield settings


def loaded(memory: Memory) -> None:
    until(memory, lambda: memory.status().sessions["snapshots"] != "loading", 120.0)


# -- restart -----------------------------------------------------------------------------------------------------------


def restart(quick: bool) -> dict[str, Any]:
    """10,000 snapshots: how long they load, and what the first turn of a conversation costs then, in three ways; and
    before they are all there."""
    sessions, turns = (2_000, 200) if quick else (10_000, 1_000)
    found: dict[str, Any] = {"snapshots": sessions}
    with naming_server(SERVER_DELAY) as url, folder(url, sessions) as settings:
        numbers = [number * 7919 % sessions for number in range(turns)]
        for way in ("alone", "hog", "loop"):
            with hog() if way == "hog" else contextlib.nullcontext():
                begun = time.perf_counter()
                memory = Memory.start(settings)
                try:
                    loaded(memory)
                    found[f"snapshots_loaded_{way}_s"] = round(time.perf_counter() - begun, 3)
                    assert memory.status().sessions["restored"] >= sessions
                    if way == "loop":
                        times = asyncio.run(from_loop(memory, numbers))
                    else:
                        times = from_thread(memory, numbers)
                finally:
                    memory.close(2.0)
            found[f"first_turn_{way}_p50_ms"] = round(percentile(times, 0.5), 3)
            found[f"first_turn_{way}_p99_ms"] = round(percentile(times, 0.99), 3)
            found[f"first_turn_{way}_max_ms"] = round(max(times), 3)
        found |= early(settings, [number * 7907 % sessions for number in range(20)])
    found["snapshots_loaded_s"] = found["snapshots_loaded_alone_s"]
    found["after_restart_first_turn_ms"] = max(found[f"first_turn_{way}_p99_ms"] for way in ("alone", "hog", "loop"))
    return found


def from_thread(memory: Memory, numbers: list[int]) -> list[float]:
    times = []
    for number in numbers:
        one = request(number)
        begun = time.perf_counter()
        context = memory.context(one)
        times.append((time.perf_counter() - begun) * 1e3)
        assert context.state is State.RESTORED, (number, context.state, context.reason)
        time.sleep(0.001)
    return times


async def from_loop(memory: Memory, numbers: list[int]) -> list[float]:
    times = []
    for number in numbers:
        one = request(number)
        begun = time.perf_counter()
        context = await memory.acontext(one)
        times.append((time.perf_counter() - begun) * 1e3)
        assert context.state is State.RESTORED, (number, context.state, context.reason)
        await asyncio.sleep(0.001)
    return times


def early(settings: Settings, numbers: list[int]) -> dict[str, Any]:
    """The first turns of conversations while the snapshots are still being loaded, one after the other."""
    memory = Memory.start(settings)
    times, known = [], 0
    try:
        for number in numbers:
            one = request(number)
            begun = time.perf_counter()
            context = memory.context(one)
            times.append((time.perf_counter() - begun) * 1e3)
            known += bool(context.system)
    finally:
        memory.close(2.0)
    return {
        "first_turn_while_loading_ms": round(percentile(times, 0.5), 2),
        "first_turn_while_loading_max_ms": round(max(times), 2),
        "first_turn_while_loading_known": round(known / len(numbers), 2),
    }


# -- start and end -----------------------------------------------------------------------------------------------------


def start(quick: bool) -> dict[str, Any]:
    """Each in a process that has done nothing else: the import, and `Memory.start` without a network, which loads the
    rooms."""
    rounds = [bare() for _ in range(4 if quick else 10)][1:]  # the first makes the compiled files
    return {
        "start_ms": percentile([one["start_ms"] for one in rounds], 0.5),
        "start_max_ms": max(one["start_ms"] for one in rounds),
        "import_ms": percentile([one["import_ms"] for one in rounds], 0.5),
    }


STARTING = """
import json, sys, tempfile, time
from pathlib import Path
begun = time.perf_counter()
from honcho_actors import Memory
from honcho_actors.settings import Settings
imported = time.perf_counter()
with tempfile.TemporaryDirectory(prefix="bench-") as name:
    home = Path(name)
    settings = Settings(base_url=sys.argv[1], state_dir=home / "state", cache_dir=home / "cache", admin_port=None)
    ready = time.perf_counter()
    memory = Memory.start(settings)
    started = time.perf_counter()
    memory.close(2.0)
print(json.dumps({"start_ms": (started - ready) * 1e3, "import_ms": (imported - begun) * 1e3}))
"""


def bare() -> dict[str, float]:
    """One start, as `STARTING` does it."""
    command = [sys.executable, "-c", STARTING, NOWHERE]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60, env=compiled())
    answer: dict[str, float] = json.loads(done.stdout)
    return {name: round(value, 1) for name, value in answer.items()}


def compiled() -> dict[str, str]:
    """The environment of a process that keeps compiled files, as pip leaves a package with them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def shutdown(quick: bool) -> dict[str, Any]:
    """`close()` with turns to be delivered to, and conversations waiting for, a server that answers nobody."""
    took = []
    with proxied(NOWHERE, [{"fault": "hang"}]) as hung:
        for _ in range(1 if quick else 3):
            with running(hung) as memory:
                for number in range(50):
                    memory.capture(Turn(f"talk-{number}", f"person-{number}", "I restore a dinghy.", "What a find."))
                waiting = [
                    threading.Thread(target=memory.context, args=(request(number, each=1), 60.0))
                    for number in range(20)
                ]
                for one in waiting:
                    one.start()
                time.sleep(0.3)
                begun = time.perf_counter()
                memory.close()
                took.append(time.perf_counter() - begun)
                for one in waiting:
                    one.join(10.0)
                    assert not one.is_alive(), "a turn still waits for a runtime that is closed"
    return {"shutdown_hung_s": round(max(took), 3)}


# -- storm -------------------------------------------------------------------------------------------------------------


def storm(quick: bool) -> dict[str, Any]:
    """2,000 conversations of as many persons, all cold, all at once, on one event loop; a server that takes 200 ms."""
    count = 2_000
    found: dict[str, Any] = {"storm_sessions": count}
    over, threads = [], []
    with naming_server(SERVER_DELAY) as url:
        for name, slots in (("storm", 32), ("storm_256", 256)):
            before = threading.active_count()
            with running(url, max_concurrent_requests=slots) as memory:
                memory.context(TurnRequest(session_key="first", user="first", query="the runtime is ready"))
                grant = memory.settings.first_turn_wait
                answers, most = asyncio.run(burst(memory, count))
            times = [seconds for seconds, _ in answers]
            reasons: dict[str, int] = {}
            for _, context in answers:
                reasons[context.reason.value] = reasons.get(context.reason.value, 0) + 1
            over.append((max(times) - grant) * 1e3)
            threads.append(most - before)
            found[f"{name}_reasons"] = reasons
            found[f"{name}_last_s"] = round(max(times), 3)
            found[f"{name}_p50_s"] = round(percentile(times, 0.5), 3)
            found["storm_filled" if slots == 32 else "storm_filled_256"] = round(
                reasons.get(Reason.FILLED.value, 0) / count, 3
            )
    found["storm_overshoot_ms"] = round(max(over), 1)
    found["storm_threads"] = max(threads)
    return found


async def burst(memory: Memory, count: int) -> tuple[list[tuple[float, Context]], int]:
    """How long each waited and what it got, and the most threads that there were."""
    most = 0

    async def one(number: int) -> tuple[float, Context]:
        nonlocal most
        begun = time.perf_counter()
        context = await memory.acontext(request(number, each=1))
        most = max(most, threading.active_count())
        return time.perf_counter() - begun, context

    return list(await asyncio.gather(*(one(number) for number in range(count)))), most


# -- what grows with the number of conversations -----------------------------------------------------------------------


def growth(quick: bool) -> dict[str, Any]:
    """Memory of 20,000 conversations of 5,000 persons, and of as many; the collector with 100,000 of 25,000; threads at
    any count."""
    few, many = (5_000, 20_000) if quick else (20_000, 100_000)
    with folder(NOWHERE, 0) as empty:
        nothing = alone("held", empty, 0)
    with folder(NOWHERE, few) as settings:
        some = alone("held", settings, few)
    with folder(NOWHERE, few, each=1) as settings:
        apart = alone("held", settings, few, each=1)
    with folder(NOWHERE, many) as settings:
        crowd = alone("held", settings, many)
    return {
        "rss_sessions": few,
        "rss_per_session_kb": round((some["rss_kb"] - nothing["rss_kb"]) / few - some["block_kb"], 2),
        # Everybody has one conversation: the person's own text, as large as the block, is in it whole.
        "rss_per_session_and_person_kb": round((apart["rss_kb"] - nothing["rss_kb"]) / few - apart["block_kb"], 2),
        "block_kb": round(some["block_kb"], 2),
        "gc_sessions": many,
        # What a full collection takes longer because of them; the whole is what the process's modules cost, too.
        "gc_pause_ms": round(crowd["gc_pause_ms"] - nothing["gc_pause_ms"], 2),
        "gc_pause_whole_ms": crowd["gc_pause_ms"],
        "gc_longest_own_ms": crowd["gc_longest_own_ms"],
        "gc_objects_per_session": round((crowd["objects"] - nothing["objects"]) / many, 3),
        "threads_by_sessions": {0: nothing["threads"], few: some["threads"], many: crowd["threads"]},
    }


def quiet(memory: Memory) -> bool:
    """Every turn is counted, and nothing that they started runs any more."""
    running = memory.meters.registry.get_sample_value("honcho_actors_refresh_in_progress")
    return not running and memory.status().sessions["uncounted_turns"] == 0


def alone(part: str, settings: Settings | None = None, sessions: int = 0, each: int = 4) -> dict[str, Any]:
    """One part in a process of its own."""
    place = "" if settings is None else str(Path(settings.cache_dir).parent)
    command = [sys.executable, "-m", "benchmarks.life", "--part", part, place, str(sessions), str(each)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300, env=compiled())
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def part_held(place: str, sessions: int, each: int) -> dict[str, Any]:
    """A runtime that holds so many conversations, after 3,000 turns of them."""
    before = threading.active_count()
    settings = Settings(
        base_url=NOWHERE,
        state_dir=Path(place) / "state",
        cache_dir=Path(place) / "cache",
        admin_port=None,
        max_sessions=max(sessions + 1_000, 10_000),
        max_cache_bytes=1 << 38,
        context_cadence=1_000_000,
        dialectic_cadence=1_000_000,
        representation_ttl=1_000_000.0,
    )
    with Pauses() as pauses:
        memory = Memory.start(settings)
        try:
            loaded(memory)
            size = 0
            turns = [number * 7919 % sessions for number in range(3_000)] if sessions else []
            for number in turns:
                context = memory.context(request(number, each=each))
                assert context.state in (State.RESTORED, State.WARM), (number, context.state, context.reason)
                size += len(context.system.encode()) + len(context.user_message.encode())
            until(memory, lambda: quiet(memory), 60.0)
            assert memory.status().sessions["sessions"] >= sessions
            own = pauses.longest_ms
            for _ in range(3):
                gc.collect()
            collections = []
            for _ in range(15):
                begun = time.perf_counter()
                gc.collect()
                collections.append((time.perf_counter() - begun) * 1e3)
            return {
                "rss_kb": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1024,
                "block_kb": size / len(turns) / 1024 if turns else 0.0,
                "gc_pause_ms": round(min(collections), 2),
                "gc_longest_own_ms": round(own, 2),
                "objects": len(gc.get_objects()),
                "threads": threading.active_count() - before,
            }
        finally:
            memory.close(2.0)


PARTS = {"held": part_held}


# -- all of it ---------------------------------------------------------------------------------------------------------


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "quick": quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    for part in (start, restart, storm, growth, shutdown):
        begun = time.perf_counter()
        found |= part(quick)
        sys.stderr.write(f"{part.__name__}: {time.perf_counter() - begun:.1f} s\n")
    found["runtime_threads"] = max(found["storm_threads"], *found["threads_by_sessions"].values())
    found["missed"] = [name for name, bar in BARS.items() if found[name] > bar]
    found["missed"] += [name for name, bar in AT_LEAST.items() if found[name] < bar]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="smaller counts, about half a minute")
    parser.add_argument("--part", nargs=4, metavar="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        name, place, sessions, each = given.part
        print(json.dumps(PARTS[name](place, int(sessions), int(each))))
        return
    found = measure(given.quick)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
        bar = f"   (at least {AT_LEAST[name]:g})" if name in AT_LEAST else bar
        print(f"{name:34} {value}{bar}")


if __name__ == "__main__":
    main()
