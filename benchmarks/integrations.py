"""What memory costs a program that has it through an adapter: `python -m benchmarks.integrations --json`.

Every driver of the adapters' test suite talks with a model on loopback: two conversations by turns, one of a person who
is known and warm, one of nobody, whose calls go out untouched. What an adapter adds is the median of the differences of
two neighbouring turns, of which now the one and now the other comes first; a turn begins when what was said before has
been delivered, as with people, who take seconds. After ten turns both begin a new history: a
framework's own work grows with the history, and would bury what is measured. The proxy is a process of its own, beside
the same client asking the model directly. A prefix is stable when a model call's system text and messages are the
beginning of the next call's, to the byte. An import is measured in a fresh interpreter, from the statement to its end.

Costs are measured with the model in a process of its own. Under load the differences of neighbours scatter: the load
stands in the output, and beside each time on the clock the processor time of this process, background threads included.
Each part is told on stderr when it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import openai

from honcho_actors import TurnRequest
from tests.integrations.drivers import DRIVERS
from tests.integrations.driving import Driver, ratio, with_a_tool
from tests.integrations.keeper import ANN, House, house, keeper, settled
from tests.integrations.load import Proxied
from tests.support.memory_world import Server
from tests.support.stub_model import StubModel, echo

BARS: Final = {
    "adapter_added_p50_max_ms": 0.5,
    "proxy_added_p50_ms": 2.0,
    "import_bare_ms": 30.0,
    "import_memory_ms": 90.0,
}
ANN_TALKS: Final = TurnRequest(session_key="garden", user="ann")
ASKED: Final = "what shall I do with the tomatoes this week?"
TURNS: Final = 20
BEGUN: Final = time.perf_counter()
IMPORT_MEMORY: Final = "from honcho_actors import Memory"
LENGTH: Final = 10
"""Turns of one conversation while costs are measured."""
FLUSHED: Final = 20.0
"""Seconds for a delivery: what was said is with the server, here one in this process, before the next turn begins."""
PAUSE: Final = 0.02
"""Seconds between two turns through the proxy, for the same reason: people take longer."""


class Elsewhere(StubModel):
    """The stub model in a process of its own: no host has its model in the interpreter that memory works in."""

    def __enter__(self) -> Elsewhere:
        command = [sys.executable, "-u", "-m", "tests.support.stub_model", "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        address = self._process.stdout.readline().split("/v1")[0]
        self.port = int(address.rsplit(":", 1)[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


@contextmanager
def known(**settings: Any) -> Iterator[House]:
    """A runtime that has Ann's conversation warm and reads nothing meanwhile."""
    quiet = {"context_cadence": 1_000_000, "dialectic_cadence": 1_000_000, "representation_ttl": 1e6}
    with tempfile.TemporaryDirectory(prefix="bench-") as name, house(Path(name), **{**quiet, **settings}) as home:
        home.warm("garden", "ann")
        yield home


def added(driver: Driver, model: StubModel, rounds: int) -> tuple[float, float]:
    """Milliseconds that memory adds to a turn of one model call, at the median: on the clock, and of the processor."""
    clock, cpu = [], []
    with known() as home:
        for begin in range(0, rounds + LENGTH, LENGTH):  # one conversation more: in the first one, things are loaded
            with driver.chat(home, model, ANN_TALKS) as ann, driver.chat(home, model, None) as nobody:
                for number in range(begin, begin + LENGTH):
                    took = {}
                    for chat in (nobody, ann) if number % 2 else (ann, nobody):
                        times = time.perf_counter(), time.process_time()
                        chat.say(f"{ASKED} ({number})")
                        took[chat] = time.perf_counter() - times[0], time.process_time() - times[1]
                        assert home.memory.flush(FLUSHED)
                    if begin:
                        clock.append(took[ann][0] - took[nobody][0])
                        cpu.append(took[ann][1] - took[nobody][1])
    return round(statistics.median(clock) * 1000, 3), round(statistics.median(cpu) * 1000, 3)


def prefix(driver: Driver, model: StubModel) -> dict[str, Any]:
    """Twenty turns with tool calls while memory stands still; twelve while it moves."""
    model.seen.clear()
    model.script = lambda asked: with_a_tool(asked) if len(driver.users(asked)) % 4 == 0 else echo(asked)
    with known() as home, driver.chat(home, model, ANN_TALKS) as chat:
        for number in range(TURNS):
            chat.say(f"{ASKED} ({number})")
    still = list(model.calls)
    assert ANN in driver.system(still[0])
    model.seen.clear()
    model.script = echo
    published = 1
    with known(context_cadence=1, dialectic_cadence=1) as home, driver.chat(home, model, ANN_TALKS) as chat:
        for number in range(12):
            home.remote.about = {"ann": f"It is about bed {number}."}
            if number % 4 == 3:
                home.remote.persons["ann"] = (f"{ANN} It is week {number}.", ["Name: Ann"])
                published += 1
                home.memory.refresh(ANN_TALKS)
                settled(home)
            chat.say(f"{ASKED} ({number})")
            settled(home)
    systems = [driver.system(one) for one in model.calls]
    return {
        "still": ratio(driver, still),
        "calls": len(still),
        "system_changes": sum(one != other for one, other in pairwise(systems)),
        "publications_that_changed": published - 1,
    }


def proxied(model: StubModel, rounds: int) -> dict[str, float]:
    """Milliseconds that the proxy adds: with memory, and for a request that passes through."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        Server(keeper()) as honcho,
        Proxied(model.root, honcho.url, Path(name)) as proxy,
    ):
        key = "sk-" + "stub" * 5
        direct = openai.OpenAI(base_url=model.url, api_key=key, max_retries=0)
        through = openai.OpenAI(base_url=proxy.url + "/v1", api_key=key, max_retries=0)
        named = {"x-honcho-session": "garden", "x-honcho-user": "ann"}
        memory, passing = [], []
        for number in range(rounds + 10):
            messages: Any = [{"role": "user", "content": f"{ASKED} ({number})"}]
            times = [time.perf_counter()]
            direct.chat.completions.create(model="stub", messages=messages)
            times.append(time.perf_counter())
            through.chat.completions.create(model="stub", messages=messages)
            times.append(time.perf_counter())
            through.chat.completions.create(model="stub", messages=messages, extra_headers=named)
            times.append(time.perf_counter())
            time.sleep(PAUSE)
            plain, passed, remembered = (later - earlier for earlier, later in pairwise(times))
            passing.append(passed - plain)
            memory.append(remembered - plain)
        direct.close()
        through.close()
    return {
        "proxy_added_p50_ms": round(statistics.median(memory[10:]) * 1000, 2),
        "proxy_passing_added_p50_ms": round(statistics.median(passing[10:]) * 1000, 2),
    }


def imported(code: str, rounds: int) -> float:
    """Milliseconds of a statement in a fresh interpreter, at the median."""
    # As pip leaves a package: with compiled files. The first run makes them where they are not there.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = f"import time\nbegun = time.perf_counter()\n{code}\nprint((time.perf_counter() - begun) * 1000)"
    took = [
        float(
            subprocess.run(
                [sys.executable, "-c", command], check=True, capture_output=True, text=True, env=environment
            ).stdout
        )
        for _ in range(rounds + 1)
    ]
    return round(statistics.median(took[1:]), 1)


def told(part: str, value: object) -> None:
    """One part is done."""
    print(f"{time.perf_counter() - BEGUN:6.1f} s  {part}: {value}", file=sys.stderr, flush=True)


def measure(quick: bool, names: list[str] | None) -> dict[str, Any]:
    """Everything, once."""
    rounds = 40 if quick else 100
    found: dict[str, Any] = {}
    for name, code in (("import_bare_ms", "import honcho_actors"), ("import_memory_ms", IMPORT_MEMORY)):
        found[name] = imported(code, 5 if quick else 15)
        told(name, found[name])
    with StubModel() as model, Elsewhere() as elsewhere:
        through = proxied(elsewhere, 2 * rounds)
        told("proxy", through)
        found |= through
        costs, cpu, prefixes = {}, {}, {}
        for one in DRIVERS:
            if names and one.name not in names:
                continue
            driver = one.driver
            if not driver.name.startswith("proxy"):
                costs[driver.name], cpu[driver.name] = added(driver, elsewhere, rounds)
                driver.close()  # its client belongs to that model
                told(f"{driver.name}, added ms on the clock, of the processor", (costs[driver.name], cpu[driver.name]))
            prefixes[driver.name] = prefix(driver, model)
            told(f"{driver.name}, prefix", prefixes[driver.name])
            driver.close()
    found["adapter_added_p50_ms"] = costs
    found["adapter_added_cpu_p50_ms"] = cpu
    found["adapter_added_p50_max_ms"] = max(costs.values(), default=0.0)
    found["prefix_stable_ratio"] = min(one["still"] for one in prefixes.values())
    found["system_changes_beyond_publications"] = max(
        max(0, one["system_changes"] - one["publications_that_changed"]) for one in prefixes.values()
    )
    found["prefix"] = prefixes
    found["load_1m"] = round(os.getloadavg()[0], 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, less than a minute")
    parser.add_argument("--driver", action="append", help="only this driver; may be given more than once")
    given = parser.parse_args()
    found = measure(given.quick, given.driver)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
        print(f"{name:36} {value}{bar}")


if __name__ == "__main__":
    main()
