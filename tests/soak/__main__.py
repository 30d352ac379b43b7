"""`python -m tests.soak`: a runtime under thousands of conversations and every fault at once, and what is left of it.

An embedded server, the fault proxy in front of it, one runtime in this process, eighteen callers on threads and on a
loop. For the length of the run something is wrong with a third of all requests and look-ups, workers die all the
time, and the manager, the write side and the event loop are killed or blocked in turn. Then the faults end, and it is
counted: how often each fault fired (too seldom is a failure of the soak), turns that came back after their budget,
waiters that nobody has answered, gauges, memory, threads, and whether what was accepted is on the server once.

*Over budget* is measured against a control: plain timed waits on threads of this process, and a plain `asyncio.sleep`
on the callers' loop, all through the run. A turn counts when it came back later after its budget than three times the
latest of the plain waits of the same moments did after theirs (it is given the interpreter three times where they are
given it once), and ten milliseconds: what the scheduler, the interpreter's lock and the callers themselves cost is not
taken for the runtime's. Both figures are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from honcho_actors import Memory, Settings, TurnRequest
from supervision import Waiter
from tests.soak.load import Load
from tests.soak.trouble import ALL, NAME, NETWORK, Names, Trouble, weather
from tests.support.capture_rig import server, texts
from tests.support.faults import FaultProxyProcess

WORKSPACE: Final = "soak"
ZERO: Final = ("cold_waiters", "refresh_in_progress", "actors_abandoned", "outbox_pending")
"""Gauges that are 0 when nothing happens."""
FLAT_SHARE, FLAT_BYTES = 0.05, 6 << 20
"""What memory may grow by between the middle and the end of a run: one in twenty, and what the allocator keeps."""
READ_BACK: Final = 40
"""Conversations whose messages are read back from the server."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long, how many conversations, and how often each fault fires at least. `longer`: seconds more until all of
    that has been brought about. `settle`: seconds within which all
    that was accepted is delivered and everything is at rest; a breaker may have opened for one minute and a quarter."""

    seconds: float
    sessions: int
    least: int
    longer: float
    settle: float


WHOLE = Size(seconds=460.0, sessions=5000, least=20, longer=20.0, settle=100.0)
SHARE = Size(seconds=40.0, sessions=400, least=3, longer=60.0, settle=100.0)
"""In `make test`: a twelfth of the time, so a twelfth of the faults would do; it takes two more."""


def rss() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def pending_waiters() -> list[Waiter[Any]]:
    """Every reply of this process that somebody was promised and nobody has given."""
    return [one for one in gc.get_objects() if type(one) is Waiter and not one.settled]


class Remembered:
    """`rss`, twice a second."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="rss")

    def __enter__(self) -> Remembered:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.5):
            self.samples.append(rss())

    def middle_and_end(self) -> tuple[int, int]:
        """Medians of the third and of the last sixth of a run: when it was under way, and when it was over."""
        count = len(self.samples)
        middle, end = self.samples[count // 2 : count * 2 // 3], self.samples[count * 5 // 6 :]
        return int(statistics.median(middle)), int(statistics.median(end))


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def soak(size: Size, seed: int) -> dict[str, Any]:
    """One run. JSON-able; judges nothing but what it needs to know when to go on."""
    fired: Counter[str] = Counter()
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        honcho = stack.enter_context(server(folder / "honcho"))
        proxy = stack.enter_context(FaultProxyProcess(honcho.url))
        names = stack.enter_context(Names(seed, fired))
        before = set(threading.enumerate())
        memory = Memory.start(
            Settings(
                base_url=f"http://{NAME}:{urlsplit(proxy.url).port}",
                workspace=WORKSPACE,
                state_dir=folder / "state",
                cache_dir=folder / "cache",
                max_sessions=size.sessions * 3 // 10,
                idle_ttl=size.seconds / 3,
                request_timeout=1.5,
                delivery_timeout=2.0,
                dialectic_timeout=2.0,
                dialectic_cadence=4,
                settle_time=4.0,
            )
        )
        stack.callback(memory.close, 5.0)
        proxy.plan(weather(), seed=seed)
        with (
            Load(memory, size.sessions, seed, size.seconds) as load,
            Remembered() as remembered,
            Trouble(memory, seed, size.seconds, size.least, fired) as trouble,
        ):
            time.sleep(size.seconds)

            def enough() -> bool:
                """A busy machine gets more time to bring everything about."""
                report = proxy.report()["fired"].values()
                for kind, called in NETWORK.items():
                    fired[kind] = sum(counts.get(one, 0) for counts in report for one in called)
                return load.met >= size.sessions and all(fired[kind] >= size.least for kind in ALL)

            until(enough, size.longer)
            trouble.end()
            hanging = load.end()
        proxy.plan([])
        names.honest = True
        rested = time.monotonic()
        end = rested + size.settle
        flushed = until(lambda: memory.flush(2.0), size.settle)
        recovered = until(lambda: warm(memory, load), max(1.0, end - time.monotonic()))
        value = memory.meters.registry.get_sample_value
        gauges: dict[str, float | None] = {}
        waiters: list[Waiter[Any]] = []

        def at_rest() -> bool:
            """In one moment: what a look at the outbox or at the settings waits for comes and goes."""
            gauges.update({name: value(f"honcho_actors_{name}") for name in ZERO})
            waiters[:] = pending_waiters()
            return not any(gauges.values()) and not waiters

        until(at_rest, max(5.0, end - time.monotonic()))
        status = memory.status().as_dict()
        stuck = [row for row in status["tree"] if row["state"] != "running"]
        found = {"tree": stuck, "outbox": status["outbox"], "problems": status["problems"], "health": status["health"]}
        settled = time.monotonic() - rested
        closed = memory.close(5.0)
        left: set[str] = set()

        def gone() -> bool:
            left.clear()
            left.update(thread.name for thread in threading.enumerate() if thread not in before)
            return not left

        until(gone, 20.0)
        beyond = load.beyond_control()
        middle, last = remembered.middle_and_end()
        lost, doubled = read_back(honcho.url, load, seed)
        return {
            "seconds": round(time.monotonic() - begun, 1),
            "sessions": load.met,
            "turns": sum(load.turns.values()),
            "answers": dict(load.turns.most_common()),
            "captured": sum(load.captured.values()),
            "fired": {kind: fired[kind] for kind in ALL},
            "not_there": dict(Counter(trouble.errors)),
            "raised": load.raised[:5],
            "past_budget": len(load.over),
            "past_budget_worst_ms": round(1000 * max((one[2] for one in load.over), default=0.0), 1),
            "over_budget": len(beyond),
            "over_budget_worst_ms": [[round(1000 * one, 1) for one in pair] for pair in sorted(beyond)[-3:]],
            "control_worst_ms": round(
                1000 * max(load.threads_control.worst_of_all(), load.loop_control.worst_of_all()), 1
            ),
            "hanging_callers": hanging,
            "waiters": len(waiters),
            "gauges": gauges,
            "rss_middle_mb": round(middle / 2**20, 1),
            "rss_end_mb": round(last / 2**20, 1),
            "flat": last <= middle * (1 + FLAT_SHARE) + FLAT_BYTES,
            "flushed": flushed,
            "recovered": recovered,
            "settled_s": round(settled, 1),
            "closed": closed,
            "threads_left": sorted(left),
            "lost": lost,
            "doubled": doubled,
            "status": found,
        }


def warm(memory: Memory, load: Load) -> bool:
    """Whether the person of the conversation that was met last gets a block again."""
    request = TurnRequest(
        session_key=f"talk-{load.met - 1}", user=load._user(load.met - 1), query="and where are we now?"
    )
    context = memory.context(request, 1.0)
    if context.reason in ("hit", "filled", "nothing_known"):
        return True
    memory.refresh(request)
    return False


def read_back(url: str, load: Load, seed: int) -> tuple[int, int]:
    """Of some conversations: messages that were accepted and are not there, and messages that are there twice. A turn
    whose acceptance was not heard of may be there, too, once."""
    lost = doubled = 0
    for session in random.Random(seed).sample(sorted(load.captured), min(READ_BACK, len(load.captured))):
        found = [text for text in texts(url, f"talk-{session}", WORKSPACE) if text.startswith("I keep")]
        doubled += len(found) - len(set(found))
        lost += max(0, load.captured[session] - len(set(found)))
    return lost, doubled


def complaints(result: dict[str, Any], size: Size) -> list[str]:
    """What did not hold, one sentence each."""
    found = [
        f"{kind} fired {count} times, fewer than {size.least}"
        for kind, count in result["fired"].items()
        if count < size.least
    ]
    wanted: list[tuple[bool, str]] = [
        (result["sessions"] >= size.sessions, f"only {result['sessions']} of {size.sessions} conversations were met"),
        (not result["raised"], f"calls raised: {result['raised']}"),
        (result["over_budget"] == 0, f"{result['over_budget']} turns came back after their budget"),
        (result["hanging_callers"] == 0, f"{result['hanging_callers']} callers hang"),
        (result["waiters"] == 0, f"{result['waiters']} waiters are pending"),
        (not any(result["gauges"].values()), f"gauges are not 0: {result['gauges']}"),
        (result["flat"], f"memory grew from {result['rss_middle_mb']} to {result['rss_end_mb']} MB"),
        (result["flushed"], "what was accepted was not delivered after the faults had ended"),
        (result["recovered"], "nobody got memory again after the faults had ended"),
        (not result["threads_left"], f"threads are left: {result['threads_left']}"),
        ((result["lost"], result["doubled"]) == (0, 0), f"lost {result['lost']} doubled {result['doubled']}"),
    ]
    return found + [words for holds, words in wanted if not holds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--share", action="store_true", help="the share that is in `make test`")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    size = SHARE if given.share else WHOLE
    result = soak(size, given.seed)
    wrong = complaints(result, size)
    if given.json:
        print(json.dumps({**result, "complaints": wrong}))
        return 1 if wrong else 0
    print(f"fault        fired (at least {size.least} each)")
    for kind, count in result["fired"].items():
        print(f"{kind:12} {count:6}")
    print(f"{result['sessions']} conversations, {result['turns']} turns, {result['captured']} captured", end=", ")
    print(f"{result['seconds']} s")
    for answer, count in result["answers"].items():
        print(f"    {answer:28} {count:6}")
    print(
        f"turns over budget {result['over_budget']} (past it {result['past_budget']}, worst by"
        f" {result['past_budget_worst_ms']} ms; a plain wait was late by up to {result['control_worst_ms']} ms)",
        result["over_budget_worst_ms"] or "",
    )
    print(
        f"waiters pending {result['waiters']}, callers hanging {result['hanging_callers']}, gauges {result['gauges']}"
    )
    print(f"memory {result['rss_middle_mb']} MB in the middle, {result['rss_end_mb']} MB at the end")
    print(f"at rest after {result['settled_s']} s, lost {result['lost']} doubled {result['doubled']}", end="; ")
    print(f"closed {result['closed']}, threads left {len(result['threads_left'])}")
    for words in wrong:
        print(f"NOT AS PROMISED: {words}")
    if wrong:
        print(json.dumps(result["status"], indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
