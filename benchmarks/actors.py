"""What our actors cost beside stock Pykka's, in one run: `python -m benchmarks.actors [--json] [--quick]`.

One asker. Each ratio is ours over stock's: the median of rounds that alternate between the two, so that a busy
machine hurts both alike. Bars (issue 3): ask_ratio 1.2, task_ask_ratio 2.0, tell_ratio 1.0, task_start_stop_ratio
0.7, task_actor_rss_bytes 6,000, abandon_ms 1, kill_task_ms 5.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pykka

from supervision import TaskActor, ThreadActor, ThreadRuntime, Waiter

BARS = {
    "ask_ratio": 1.2,
    "task_ask_ratio": 2.0,
    "tell_ratio": 1.0,
    "task_start_stop_ratio": 0.7,
    "task_actor_rss_bytes": 6_000,
    "abandon_ms": 1.0,
    "kill_task_ms": 5.0,
}


class Stock(pykka.ThreadingActor):
    """Pykka as it is."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        return message


class OnThread(ThreadActor):
    """The same on our thread."""

    mailbox_limit = float("inf")

    def on_receive(self, message: Any) -> Any:
        return message.wait() if isinstance(message, threading.Event) else message


class OnLoop(TaskActor):
    """The same on our loop."""

    async def on_start(self) -> None:
        """The handshake is part of what is measured."""

    async def on_receive(self, message: Any) -> Any:
        return message


def ask_seconds(ref: Any, count: int) -> float:
    """Median of one ask."""
    clock = time.perf_counter
    times = []
    for _ in range(count):
        began = clock()
        ref.ask(1)
        times.append(clock() - began)
    return statistics.median(times)


def tell_seconds(ref: Any, count: int) -> float:
    """Mean of one tell, as its sender sees it."""
    tell = ref.tell
    began = time.perf_counter()
    for _ in range(count):
        tell(1)
    took = (time.perf_counter() - began) / count
    ref.ask(1)
    return took


def start_stop_seconds(start: Callable[[], Any], count: int) -> float:
    """Median of starting one actor and stopping it."""
    clock = time.perf_counter
    times = []
    for _ in range(count):
        began = clock()
        start().stop()
        times.append(clock() - began)
    return statistics.median(times)


def rounds(count: int, stock: Callable[[], float], ours: Callable[[], float]) -> tuple[float, float, float]:
    """Medians of both and of their ratio over alternating rounds."""
    pairs = [(stock(), ours()) for _ in range(count)]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
        statistics.median(pair[1] / pair[0] for pair in pairs),
    )


def rss_bytes() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(quick: bool) -> dict[str, Any]:
    """Everything, in one process."""
    many = 10_000
    asks, tells, starts, repeat = (1_000, 10_000, 100, 3) if quick else (4_000, 40_000, 300, 7)
    result: dict[str, Any] = {"python": platform.python_version(), "quick": quick}
    with ThreadRuntime(name="bench", max_abandoned=10_000) as runtime:
        stock, on_thread, on_loop = Stock.start(), runtime.spawn(OnThread), runtime.spawn(OnLoop)
        for ref in (stock, on_thread, on_loop):
            ask_seconds(ref, 200)

        base, ours, ratio = rounds(repeat, lambda: ask_seconds(stock, asks), lambda: ask_seconds(on_thread, asks))
        result.update(stock_ask_us=base * 1e6, ask_us=ours * 1e6, ask_ratio=ratio)
        base, ours, ratio = rounds(repeat, lambda: ask_seconds(stock, asks), lambda: ask_seconds(on_loop, asks))
        result.update(task_ask_us=ours * 1e6, task_ask_ratio=ratio)
        base, ours, ratio = rounds(repeat, lambda: tell_seconds(stock, tells), lambda: tell_seconds(on_thread, tells))
        result.update(stock_tell_us=base * 1e6, tell_us=ours * 1e6, tell_ratio=ratio)

        gc.collect()
        before = rss_bytes()
        others = [runtime.spawn(OnLoop) for _ in range(many)]
        gc.collect()
        result.update(task_actors=many, task_actor_rss_bytes=(rss_bytes() - before) / many)

        base, ours, ratio = rounds(
            repeat,
            lambda: start_stop_seconds(Stock.start, starts),
            lambda: start_stop_seconds(lambda: runtime.spawn(OnLoop), starts),
        )
        result.update(stock_start_stop_us=base * 1e6, task_start_stop_us=ours * 1e6, task_start_stop_ratio=ratio)

        kills = []
        for ref in others[: starts * 2]:
            ended: Waiter[float] = Waiter()
            ended.bind(ref, lambda down: time.perf_counter())
            began = time.perf_counter()
            ref.kill()
            kills.append(ended.result() - began)
        result.update(kill_task_ms=statistics.median(kills) * 1e3, kill_task_max_ms=max(kills) * 1e3)

        abandons = []
        gates = []
        for _ in range(50):
            ref = runtime.spawn(OnThread)
            gate = threading.Event()
            reply = ref.ask(gate, block=False)
            while ref.life.current is None:
                time.sleep(0.0005)
            ended = Waiter()
            ended.bind(ref, lambda down: time.perf_counter())
            began = time.perf_counter()
            ref.kill()
            abandons.append(ended.result() - began)
            assert reply.settled
            gates.append(gate)
        result.update(abandon_ms=statistics.median(abandons) * 1e3, abandon_max_ms=max(abandons) * 1e3)
        for gate in gates:
            gate.set()
        stock.stop()
    result["bars_met"] = {name: bool(result[name] <= bar) for name, bar in BARS.items()}
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    result = measure(options.quick)
    if options.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        bar = f"   (bar {BARS[key]})" if key in BARS else ""
        print(f"{key:24} {value}{bar}")


if __name__ == "__main__":
    main()
