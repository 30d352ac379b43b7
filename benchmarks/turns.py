"""What a turn costs: `python -m benchmarks.turns [--json] [--quick]`. Everything through `Memory.context`, metrics on.

Beside it, in the same run: stock Pykka's `ask`, and the official SDK called directly where it is installed. A bar
(issue 6) is a limit for the figure of its name; one that is missed is named at the end. Microseconds end in `_us`,
milliseconds in `_ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pykka

from benchmarks._world import Pauses, filled, local_server, percentile, proxied, request, running, until
from honcho_actors.model import State, Turn, TurnRequest
from honcho_actors.runtime import Memory

BARS = {
    "warm_p50_us": 10.0,
    "warm_p99_us": 60.0,
    "warm_scale": 1.5,
    "warm_over_ask": 0.5,
    "warm_paced_p50_us": 50.0,
    "warm_paced_p99_us": 200.0,
    "warm_hog_p99_us": 1_000.0,
    "cold_new_ms": 260.0,
    "cold_known_session_ms": 260.0,
    "cold_slow_dialectic_ms": 260.0,
    "new_session_known_person_ms": 1.0,
    "cold_overshoot_p999_ms": 0.0,
    "requests_per_turn": 2.6,
    "llm_calls_per_turn": 0.51,
}
SERVER_DELAY = 0.2
SLOW_DIALECTIC = 3.0
SPACED_TURNS = 104


class Echo(pykka.ThreadingActor):
    """Pykka as it is."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        return message


def timed(call: Callable[[int], object], count: int, *, pause: float = 0.0) -> list[float]:
    """Microseconds of each call; `pause` seconds between two (a host's turns are not back to back)."""
    clock, found = time.perf_counter, []
    for number in range(count):
        begun = clock()
        call(number)
        found.append((clock() - begun) * 1e6)
        if pause:
            time.sleep(pause)
    return found


def warm(memory: Memory, sessions: int, count: int, *, pause: float = 0.0, conversations: int = 1_000) -> list[float]:
    """Turns of so many different conversations, spread over all that the table holds."""
    requests = [request(number * 7919 % sessions) for number in range(min(sessions, conversations))]
    for one in requests:
        memory.context(one)
    until(memory, lambda: memory.status().sessions["uncounted_turns"] == 0)
    return timed(lambda number: memory.context(requests[number % len(requests)]), count, pause=pause)


def ask(count: int) -> list[float]:
    actor = Echo.start()
    try:
        timed(lambda number: actor.ask(number), 500)
        return timed(lambda number: actor.ask(number), count)
    finally:
        actor.stop()


def small_beside(large: Memory, sessions: int) -> tuple[list[float], list[float]]:
    """Microseconds of a hundred conversations in the large table, and in one that holds a hundred: by turns, because a
    processor's speed moves between two minutes by more than the tables differ."""
    of_large: list[float] = []
    of_small: list[float] = []
    with filled(100) as small:
        for _ in range(20):
            of_large += warm(large, sessions, 1_000, conversations=100)
            of_small += warm(small, 100, 1_000, conversations=100)
    return of_large, of_small


def back_to_back(quick: bool) -> dict[str, Any]:
    """Sessions from one to a hundred thousand (ten thousand when quick), and stock Pykka's ask beside them."""
    found: dict[str, Any] = {"warm_by_sessions": {}}
    scale: list[float] = []
    alike: list[float] = []
    sizes = (1, 100, 1_000, 10_000) if quick else (1, 100, 1_000, 10_000, 100_000)
    asks: list[float] = []
    for sessions in sizes:
        with filled(sessions) as memory, Pauses() as pauses:
            times = warm(memory, sessions, 20_000)
            if sessions == sizes[-1]:
                scale, alike = small_beside(memory, sessions)
            found["warm_by_sessions"][sessions] = {
                "p50_us": round(percentile(times, 0.5), 2),
                "p99_us": round(percentile(times, 0.99), 2),
                "max_us": round(max(times), 1),
                "collector_ms": round(pauses.longest_ms, 2),
            }
            asks += ask(2_000)
            if sessions == 1_000:
                found["threads"] = threading.active_count()
    rows = found["warm_by_sessions"]
    found["warm_p50_us"] = max(row["p50_us"] for row in rows.values())
    found["warm_p99_us"] = max(row["p99_us"] for row in rows.values())
    found["warm_max_us"] = max(row["max_us"] for row in rows.values())
    found["collector_pause_ms"] = max(row["collector_ms"] for row in rows.values())
    # What a turn costs more because the table is larger.
    found["warm_scale"] = round(percentile(scale, 0.5) / percentile(alike, 0.5), 2)
    # The same with a thousand conversations in turn at the larger sizes: the processor's caches are in it, too.
    found["warm_scale_of_1000"] = round(rows[sizes[-1]]["p50_us"] / rows[100]["p50_us"], 2)
    found["ask_p50_us"] = round(percentile(asks, 0.5), 2)
    found["warm_over_ask"] = round(rows[1_000]["p50_us"] / found["ask_p50_us"], 3)
    return found


def paced(quick: bool) -> dict[str, Any]:
    """One call a millisecond: alone, from eight threads, from asyncio, beside a busy thread, with a hung server."""
    count = 1_000 if quick else 5_000
    found: dict[str, Any] = {}

    def note(name: str, times: list[float]) -> None:
        found[f"{name}_p50_us"] = round(percentile(times, 0.5), 1)
        found[f"{name}_p99_us"] = round(percentile(times, 0.99), 1)
        found[f"{name}_max_us"] = round(max(times), 1)

    with filled(1_000) as memory:
        note("warm_paced", warm(memory, 1_000, count, pause=0.001))
        note("warm_threads", from_threads(memory, 8, count // 4))
        note("warm_asyncio", asyncio.run(from_asyncio(memory, count)))
        with hog():
            note("warm_hog", warm(memory, 1_000, count, pause=0.001))
    with proxied("http://127.0.0.1:9", [{"fault": "hang"}]) as hung, filled(1_000, hung) as memory:
        note("warm_hung_server", warm(memory, 1_000, count, pause=0.001))
    return found


def from_threads(memory: Memory, threads: int, count: int) -> list[float]:
    times: list[float] = []

    def work(first: int) -> None:
        times.extend(timed(lambda number: memory.context(request((first + number) % 1_000)), count, pause=0.001))

    workers = [threading.Thread(target=work, args=(number * 100,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return times


async def from_asyncio(memory: Memory, count: int) -> list[float]:
    times = []
    for number in range(count):
        one = request(number % 1_000)
        begun = time.perf_counter()
        await memory.acontext(one)
        times.append((time.perf_counter() - begun) * 1e6)
        await asyncio.sleep(0.001)
    return times


@contextlib.contextmanager
def hog() -> Any:
    """A thread that never gives the interpreter away by itself."""
    done = threading.Event()

    def spin() -> None:
        number = 0
        while not done.is_set():
            number = (number * 31 + 7) % 1_000_003

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def cold(quick: bool) -> dict[str, Any]:
    """First turns on a server that takes 200 ms for everything; the slow dialectic takes three seconds more."""
    rounds = 5 if quick else 20
    found: dict[str, Any] = {}
    with local_server(SERVER_DELAY) as url:
        with running(url) as memory:
            memory.context(TurnRequest(session_key="first", user="first", query="the runtime is ready"))
            found["cold_new_ms"] = median_ms(
                memory,
                [
                    TurnRequest(session_key=f"new-{n}", user=f"new-{n}", query="hello there, old boat")
                    for n in range(rounds)
                ],
            )
            for number in range(rounds):
                memory.capture(
                    Turn(f"known-{number}", f"known-{number}", "I restore a clinker dinghy.", "What a find.")
                )
            assert memory.flush(30.0)
        with running(url) as memory:
            memory.context(TurnRequest(session_key="first", user="first", query="the runtime is ready"))
            known = [
                TurnRequest(session_key=f"known-{n}", user=f"known-{n}", query="where were we with it?")
                for n in range(rounds)
            ]
            found["cold_known_session_ms"] = median_ms(memory, known)
            fresh = [
                TurnRequest(session_key=f"other-{n}", user=f"known-{n}", query="a new talk about it")
                for n in range(rounds)
            ]
            found["new_session_known_person_ms"] = median_ms(memory, fresh, cold=False)
        rules = [{"fault": "latency", "on": ["chat"], "delay": SLOW_DIALECTIC}]
        with proxied(url, rules) as slow, running(slow) as memory:
            memory.context(TurnRequest(session_key="first", user="first", query="the runtime is ready"))
            found["cold_slow_dialectic_ms"] = median_ms(
                memory,
                [
                    TurnRequest(session_key=f"known-{n}", user=f"known-{n}", query="and now?  tell me")
                    for n in range(rounds)
                ],
            )
        found |= sdk(url, rounds)
    return found


def median_ms(memory: Memory, requests: list[TurnRequest], *, cold: bool = True) -> float:
    times = []
    for one in requests:
        begun = time.perf_counter()
        context = memory.context(one)
        times.append((time.perf_counter() - begun) * 1e3)
        assert (context.state is State.COLD) is cold, (context.state, context.reason)
    return round(percentile(times, 0.5), 3)


def sdk(url: str, rounds: int) -> dict[str, Any]:
    """The official SDK asked for the same, directly; {} where it is not installed."""
    try:
        import httpx
        from honcho import Honcho
    except ModuleNotFoundError:
        return {}
    times = []
    with httpx.Client() as http:
        client = Honcho(base_url=url, workspace_id="honcho-actors", api_key="unused", http_client=http)
        for number in range(rounds):
            begun = time.perf_counter()
            client.session(f"known-{number}").context(summary=True, peer_target=f"known-{number}", tokens=1200)
            times.append((time.perf_counter() - begun) * 1e3)
    return {"sdk_context_ms": round(percentile(times, 0.5), 1)}


def overshoot(quick: bool) -> dict[str, Any]:
    """Cold turns against a server that never answers: by how much an answer comes after its grant (below 0: before)."""
    count, budget = (200, 0.5) if quick else (1_000, 1.0)
    times: list[float] = []
    with proxied("http://127.0.0.1:9", [{"fault": "hang"}]) as hung, running(hung) as memory:
        lock = threading.Lock()

        def turn(number: int) -> None:
            one = TurnRequest(session_key=f"hung-{number}", user=f"hung-{number}", query="is anybody there now?")
            begun = time.perf_counter()
            context = memory.context(one, budget)
            over = (time.perf_counter() - begun - budget) * 1e3
            assert context.state is State.COLD
            with lock:
                times.append(over)

        for first in range(0, count, 50):
            workers = [threading.Thread(target=turn, args=(first + number,)) for number in range(50)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    return {
        "cold_overshoot_p999_ms": round(percentile(times, 0.999), 2),
        "cold_overshoot_max_ms": round(max(times), 2),
        "cold_overshoot_turns": count,
    }


def spend(quick: bool) -> dict[str, Any]:
    """What 104 spaced turns at defaults ask of the server, counted by the metrics."""
    turns = SPACED_TURNS // 2 if quick else SPACED_TURNS
    with local_server(0.0) as url, running(url) as memory:
        value = memory.meters.registry.get_sample_value
        in_progress = "honcho_actors_refresh_in_progress"
        for number in range(turns):
            talk = TurnRequest(session_key="talk", user="ines", query=f"what about rib number {number} of the boat?")
            memory.context(talk)
            memory.capture(Turn("talk", "ines", f"I steamed rib number {number} today.", f"Rib {number} it is."))
            memory.flush(10.0)
            until(memory, lambda: memory.status().sessions["uncounted_turns"] == 0 and not value(in_progress))
        return {
            "requests_per_turn": round(total(memory, "requests_total") / turns, 3),
            "llm_calls_per_turn": round(total(memory, "dialectic_calls_total") / turns, 3),
            "spaced_turns": turns,
            "requests": by_label(memory, "requests_total", "op"),
        }


def total(memory: Memory, name: str) -> float:
    return sum(by_label(memory, name, None).values())


def by_label(memory: Memory, name: str, label: str | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in memory.meters.registry.collect():
        for sample in metric.samples:
            if sample.name == f"honcho_actors_{name}" and sample.value:
                key = sample.labels[label] if label else "all"
                found[key] = found.get(key, 0.0) + sample.value
    return found


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "quick": quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    for part in (back_to_back, paced, cold, overshoot, spend):
        begun = time.perf_counter()
        found |= part(quick)
        sys.stderr.write(f"{part.__name__}: {time.perf_counter() - begun:.1f} s\n")
    found["missed"] = [name for name, bar in BARS.items() if name in found and found[name] > bar]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="smaller counts, under 50 seconds")
    given = parser.parse_args()
    found = measure(given.quick)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
        print(f"{name:28} {value}{bar}")


if __name__ == "__main__":
    main()
