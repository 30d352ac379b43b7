"""What a call costs, how well deadlines hold, how the queue behaves: `python -m benchmarks.client [--quick] [--json]
[--check]`.

Loopback, servers in processes of their own. The bars are those of the project's plan; `--check` exits with 1 when one
is missed. On a machine that does other things at the same time the figures are worse than the product.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.local_context import fill
from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import Endpoint, parse_endpoint
from honcho_actors.honcho.limiter import Limiter
from honcho_actors.honcho.outcomes import Call, FailureKind, Ok, Outcome, Priority
from honcho_actors.honcho.reading import SessionContext
from honcho_actors.local import process

ROOT = Path(__file__).parents[1]
PATH = (
    "/v3/workspaces/w/sessions/s/context"
    "?peer_target=user&max_conclusions=10&tokens=0&summary=false&include_most_frequent=false"
)
BARS: dict[str, float] = {
    "overhead_ms": 1.0,
    "deadline_overshoot_ms": 50.0,
    "queue_ratio": 1.1,
    "urgent_first_s": 2.0,
    "threads": 5,
    "exit_hung_resolver_s": 2.0,
    "local_context_p50_ms": 10.0,
}


@contextlib.contextmanager
def servers() -> Iterator[dict[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks._bench_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def endpoint(url: str) -> Endpoint:
    parsed = parse_endpoint(url)
    assert isinstance(parsed, Endpoint)
    return parsed


async def context(
    honcho: HonchoClient, seconds: float, priority: Priority = Priority.REFRESH
) -> Outcome[SessionContext]:
    call = Call(asyncio.get_running_loop().time() + seconds, priority)
    return await honcho.session_context(
        "w", "s", peer_target="user", max_conclusions=10, tokens=0, summary=False, call=call
    )


# -- what a call costs ---------------------------------------------------------------------------------------------


def raw_call(connection: socket.socket, port: int) -> None:
    connection.sendall(f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    json.loads(body)


async def timed(work: Callable[[], Awaitable[object]], count: int) -> list[float]:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        await work()
        times.append((time.perf_counter() - started) * 1_000)
    return times


async def overhead(port: int, count: int) -> dict[str, float]:
    """Medians, the four ways in turn so that a busy moment meets all of them alike."""
    import aiohttp

    url = f"http://127.0.0.1:{port}"
    times: dict[str, list[float]] = {"raw": [], "ours": [], "httpx": [], "aiohttp": []}
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with (
        HonchoClient(endpoint(url)) as ours,
        httpx.AsyncClient(trust_env=False, timeout=10) as plain,
        aiohttp.ClientSession() as session,
    ):

        async def by_raw() -> None:
            raw_call(connection, port)

        async def by_ours() -> None:
            assert isinstance(await context(ours, 10.0), Ok)

        async def by_httpx() -> None:
            (await plain.get(url + PATH)).json()

        async def by_aiohttp() -> None:
            async with session.get(url + PATH) as reply:
                await reply.json()

        ways = {"raw": by_raw, "ours": by_ours, "httpx": by_httpx, "aiohttp": by_aiohttp}
        for round_number in range(11):
            for name, way in ways.items():
                found = await timed(way, count // 10)
                if round_number:  # the first round warms up
                    times[name] += found
    connection.close()
    middle = {name: statistics.median(found) for name, found in times.items()}
    return {
        "raw_call_ms": round(middle["raw"], 3),
        "overhead_ms": round(middle["ours"] - middle["raw"], 3),
        "httpx_overhead_ms": round(middle["httpx"] - middle["raw"], 3),
        "aiohttp_overhead_ms": round(middle["aiohttp"] - middle["raw"], 3),
    }


# -- deadlines, queue ----------------------------------------------------------------------------------------------


async def overshoot(ports: dict[str, int], rounds: int) -> dict[str, float]:
    """How long after its deadline a call comes back, 32 in flight, half against a drip and half against silence."""
    late: list[float] = []
    loop = asyncio.get_running_loop()
    drip, hang = (endpoint(f"http://127.0.0.1:{ports[name]}") for name in ("drip", "hang"))
    async with HonchoClient(drip) as dripping, HonchoClient(hang) as hanging:

        async def call(honcho: HonchoClient, deadline: float) -> None:
            outcome = await honcho.health(call=Call(deadline))
            late.append((loop.time() - deadline) * 1_000)
            assert not isinstance(outcome, Ok)
            assert outcome.kind is FailureKind.TIMED_OUT

        for _ in range(rounds):
            deadline = loop.time() + 0.5
            await asyncio.gather(*(call((dripping, hanging)[number % 2], deadline) for number in range(32)))
    late.sort()
    return {
        "deadline_overshoot_ms": round(late[int(len(late) * 0.99)], 1),
        "deadline_overshoot_p50_ms": round(late[len(late) // 2], 1),
    }


async def queue(port: int, count: int) -> dict[str, float]:
    """All at once on a 200 ms server behind 32 slots, by host name; a random tenth of them is urgent."""
    dice = random.Random(7)
    loop = asyncio.get_running_loop()
    urgent_done: list[float] = []
    threads = 0
    async with HonchoClient(endpoint(f"http://localhost:{port}"), limiter=Limiter(32)) as honcho:
        assert isinstance(await context(honcho, 10.0), Ok)
        started = loop.time()

        async def call(urgent: bool) -> None:
            outcome = await context(honcho, 120.0, Priority.COLD if urgent else Priority.REFRESH)
            assert isinstance(outcome, Ok), outcome
            if urgent:
                urgent_done.append(loop.time() - started)

        async def watch() -> None:
            nonlocal threads
            while True:
                threads = max(threads, threading.active_count())
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(call(dice.random() < 0.1) for _ in range(count)))
        wall = loop.time() - started
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return {
        "queue_calls": count,
        "queue_wall_s": round(wall, 2),
        "queue_ratio": round(wall / (count / 32 * 0.2), 3),
        "urgent_calls": len(urgent_done),
        "urgent_first_s": round(max(urgent_done), 2),
        "threads": threads,
    }


# -- exit, local ---------------------------------------------------------------------------------------------------

HUNG = """
import asyncio, time
from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import parse_endpoint
from honcho_actors.honcho.outcomes import Call
from honcho_actors.honcho.resolver import Resolver

async def main():
    resolver = Resolver(lambda host, port: time.sleep(600))
    async with HonchoClient(parse_endpoint("http://honcho.internal"), resolver=resolver) as honcho:
        outcome = await honcho.health(call=Call(asyncio.get_running_loop().time() + 0.3))
        assert outcome.kind == "timed_out"

asyncio.run(main())
print(time.monotonic(), flush=True)
"""


def exit_with_hung_resolver() -> float:
    """Seconds from the last line of a program to the end of its process, while its resolver hangs for ten minutes."""
    done = subprocess.run(
        [sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    return round(time.monotonic() - float(done.stdout), 2)


async def local_context(url: str, reads: int) -> list[float]:
    """Milliseconds of a context read, as a turn's refresh makes it, of the session in which everything lies."""
    times = []
    async with HonchoClient(endpoint(url)) as honcho:
        loop = asyncio.get_running_loop()
        for _ in range(reads):
            started = time.perf_counter()
            outcome = await honcho.session_context(
                "bench", "long", peer_target="alice", max_conclusions=25, tokens=1200, summary=True,
                call=Call(loop.time() + 30, Priority.COLD),
            )  # fmt: skip
            times.append((time.perf_counter() - started) * 1_000)
            assert isinstance(outcome, Ok), outcome
    return sorted(times)


def local(messages: int, reads: int) -> dict[str, float]:
    """The embedded server with so many messages stored and derived in one session."""
    with tempfile.TemporaryDirectory(prefix="client-bench-") as data:
        fill(Path(data), messages)
        with process.start(data) as server:
            times = asyncio.run(local_context(server.url, reads))
    return {
        "local_messages": messages,
        "local_context_p50_ms": round(times[len(times) // 2], 2),
        "local_context_p99_ms": round(times[int(len(times) * 0.99)], 2),
    }


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"quick": quick, "python": sys.version.split()[0], "cpus": os.cpu_count()}
    with servers() as ports:
        found |= asyncio.run(overhead(ports["instant"], 500 if quick else 3_000))
        found |= asyncio.run(overshoot(ports, 3 if quick else 10))
        found |= asyncio.run(queue(ports["slow"], 320 if quick else 2_000))
    found["exit_hung_resolver_s"] = exit_with_hung_resolver()
    found |= local(5_000 if quick else 100_000, 100 if quick else 300)
    found["bars"] = {name: found[name] <= bar for name, bar in BARS.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--quick", action="store_true", help="smaller, under half a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    given = parser.parse_args()
    found = measure(given.quick)
    if given.json:
        print(json.dumps(found))
    else:
        for name, figure in found.items():
            bar = f"  (bar {BARS[name]:g}{'' if found['bars'][name] else ', missed'})" if name in BARS else ""
            print(f"{name:28} {figure}{bar}")
    missed = [name for name, met in found["bars"].items() if not met]
    if missed:
        print("missed: " + ", ".join(missed), file=sys.stderr)
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
