"""What breaks, and what a turn sees of it: managers, loops, sides and workers that die; gauges that must come back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from honcho_actors import Memory
from honcho_actors.model import Reason, ReceiptState, SkipReason, State
from honcho_actors.runtime import tree as tree_module
from honcho_actors.sessions.facade import MANAGER
from tests.runtime.conftest import MakeMemory
from tests.runtime.test_memory import ask, counted, say
from tests.support.memory_world import until


def inside(memory: Memory) -> tree_module.Tree:
    """The tree of this runtime: the tests of this file break it on purpose."""
    found = memory._tree
    assert found is not None
    return found


def supervisor(memory: Memory, name: str) -> Any:
    """A running actor of the tree by its registered name."""
    found = inside(memory).runtime.registry.whereis(name)
    assert found is not None
    return found


def workers(refresh: Any) -> list[Any]:
    return [child.ref for child in refresh.which_children() if child.ref is not None]


def gauge(memory: Memory, name: str, **labels: str) -> float:
    value = memory.meters.registry.get_sample_value(f"honcho_actors_{name}", labels)
    assert value is not None, name
    return value


def warm(memory: Memory, session: str = "one") -> None:
    memory.capture(say(session)).wait(ReceiptState.DELIVERED, 30.0)
    memory.refresh(ask(session))
    until(lambda: "1963" in memory.context(ask(session)).system)
    until(partial(counted, memory))


class TestReadSide:
    def test_a_manager_that_dies_leaves_every_conversation_warm_and_a_new_one_takes_over(
        self, make: MakeMemory, server: str
    ) -> None:
        memory = make(server, workspace="manager")
        warm(memory)
        before = memory.status().sessions["generation"]
        supervisor(memory, MANAGER).kill()
        found = memory.context(ask("one"))
        assert (found.state, found.reason) == (State.WARM, Reason.HIT)
        until(lambda: memory.status().sessions["generation"] == before + 1)
        assert memory.context(ask("other", user="tomasz")).reason is Reason.NOTHING_KNOWN
        assert memory.context(ask("one")).state is State.WARM

    def test_a_loop_that_is_blocked_is_replaced_and_turns_go_on(self, make: MakeMemory, server: str) -> None:
        memory = make(server, workspace="blocked", metrics_port=0)
        warm(memory)
        url = str(memory.status().endpoints["metrics"])
        generation = memory.status().sessions["generation"]
        release = threading.Event()
        inside(memory).runtime.loop.call_soon(release.wait, 30.0)
        try:
            assert memory.context(ask("one")).state is State.WARM
            until(lambda: inside(memory).runtime.loop.replaced == 1, 30.0)
            until(lambda: memory.status().sessions["generation"] > generation)
            until(lambda: {row["state"] for row in memory.status().tree} == {"running"})
            assert memory.context(ask("other", user="tomasz")).reason is Reason.NOTHING_KNOWN
            assert memory.capture(say("one", "after the block")).wait(ReceiptState.DELIVERED, 30.0) == "delivered"
            assert gauge(memory, "actors_abandoned") == 1.0
            until(lambda: memory.status().endpoints["metrics"] is not None)
        finally:
            release.set()
        until(lambda: gauge(memory, "actors_abandoned") == 0.0)
        assert str(memory.status().endpoints["metrics"]).startswith(url[:17])

    def test_when_everything_has_given_up_the_table_is_served_and_the_tree_comes_back(
        self, make: MakeMemory, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tree_module, "TRY_AGAIN_AFTER", 0.5)
        monkeypatch.setattr(tree_module, "LOOK_EVERY", 0.2)
        memory = make(server, workspace="given-up")
        warm(memory)
        inside(memory)._root.kill()  # type: ignore[union-attr]
        assert memory.context(ask("one")).state is State.WARM
        until(lambda: memory.status().sessions["manager"] == "away")
        until(lambda: memory.status().sessions["manager"] == "running", 30.0)
        until(lambda: memory.status().state == "ready", 30.0)
        assert memory.context(ask("other", user="tomasz")).reason is Reason.NOTHING_KNOWN
        assert memory.capture(say("one", "after it came back")).wait(ReceiptState.DELIVERED, 30.0) == "delivered"


class TestWriteSide:
    def test_a_write_side_that_gives_up_costs_no_turn_and_comes_back(
        self, make: MakeMemory, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tree_module, "TRY_AGAIN_AFTER", 1.0)
        monkeypatch.setattr(tree_module, "LOOK_EVERY", 0.2)
        memory = make(server, workspace="write-side")
        warm(memory)
        generation = memory.status().sessions["generation"]
        root = inside(memory)._root
        assert root is not None
        root.terminate_child("write_side")
        until(lambda: memory.status().state == "degraded")
        assert "write side gave up" in memory.status().health
        assert memory.context(ask("one")).state is State.WARM
        assert memory.capture(say("one", "meanwhile")).reason == SkipReason.GIVEN_UP
        until(lambda: memory.status().state == "ready", 30.0)
        assert memory.capture(say("one", "afterwards")).wait(ReceiptState.DELIVERED, 30.0) == "delivered"
        assert memory.status().sessions["generation"] == generation


class TestGauges:
    def test_107_gauges_come_back_to_exactly_0_after_workers_were_killed_in_mid_request(
        self, make: MakeMemory, hung: str
    ) -> None:
        memory = make(hung)
        refresh = supervisor(memory, "honcho.refresh")
        killed = 0
        for number in range(100):
            memory.prewarm(ask(f"talk-{number}", user=f"person-{number}"))
            until(lambda: bool(workers(refresh)))
            for worker in workers(refresh):
                worker.kill()
                killed += 1
            until(lambda: not workers(refresh))
        assert killed == 100
        until(lambda: gauge(memory, "refresh_in_progress") == 0.0)
        assert gauge(memory, "cold_waiters") == 0.0
        assert gauge(memory, "refresh_total", layer="base", outcome="worker_died") == 100.0

    def test_107_waiters_that_were_answered_leave_no_place_behind(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)
        callers = [
            threading.Thread(target=memory.context, args=(ask(f"talk-{number}", user=f"person-{number}"), 0.3))
            for number in range(40)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(30.0)
        until(partial(counted, memory))
        until(lambda: gauge(memory, "cold_waiters") == 0.0)
        assert gauge(memory, "waiters_resolved_total", cause="deadline") == 40.0

    def test_107_the_depth_of_the_queue_is_that_of_the_outbox(self, make: MakeMemory) -> None:
        memory = make("http://127.0.0.1:9")
        for number in range(7):
            memory.capture(say("one", f"thing {number}")).wait(ReceiptState.ACCEPTED, 30.0)
        until(lambda: gauge(memory, "outbox_pending") == 7.0)
        assert memory.status().outbox["pending_turns"] == 7

    def test_103_scrapes_while_runtimes_start_and_stop_are_whole_or_refused(
        self, make: MakeMemory, server: str
    ) -> None:
        urls: list[str] = []
        done = threading.Event()
        wrong: list[Any] = []
        whole = [0]

        def scrape() -> None:
            with httpx.Client(timeout=30.0) as client:
                while not done.is_set():
                    for url in urls[-1:]:
                        try:
                            reply = client.get(url)
                        except httpx.TransportError:
                            continue
                        if reply.status_code == 200 and "honcho_actors_turns_total" in reply.text:
                            whole[0] += 1
                        else:
                            wrong.append(reply.status_code)

        scrapers = [threading.Thread(target=scrape) for _ in range(8)]
        for scraper in scrapers:
            scraper.start()
        for number in range(3):
            memory = make(server, metrics_port=0, workspace="scrapes")
            urls.append(str(memory.status().endpoints["metrics"]))
            memory.context(ask(f"talk-{number}", user=f"person-{number}"))
            seen = whole[0]
            until(lambda seen=seen: whole[0] > seen)  # type: ignore[misc]
            memory.close(3.0)
        done.set()
        for scraper in scrapers:
            scraper.join(30.0)
        assert not [scraper for scraper in scrapers if scraper.is_alive()]
        assert wrong == []


class TestProcess:
    PROGRAM = """
import os, sys, time
from pathlib import Path
from honcho_actors import Memory, Settings, Turn, TurnRequest
folder = Path(sys.argv[1])
memory = Memory.start(Settings(base_url=sys.argv[2], state_dir=folder / "state", cache_dir=folder / "cache"))
memory.context(TurnRequest(session_key="one", user="ines", query="where were we?"), 0.2)
memory.capture(Turn("one", "ines", "hello", "you")).wait("accepted", 30.0)
if sys.argv[3] == "fork":
    child = os.fork()
    if child == 0:
        found = memory.context(TurnRequest(session_key="two", user="eve", query="and here?"), 1.0)
        receipt = memory.capture(Turn("two", "eve", "hello", "you"))
        os._exit(0 if found.sections == () and receipt.state in ("skipped", "pending") else 1)
    assert os.waitpid(child, 0)[1] == 0
if sys.argv[3] == "close":
    memory.close(2.0)
"""

    @pytest.mark.parametrize("how", ["open", "close", "fork"])
    @pytest.mark.parametrize("where", ["hung", "nobody"])
    def test_an_interpreter_ends_with_0_whatever_the_runtime_was_doing(
        self, how: str, where: str, hung: str, tmp_path: Any
    ) -> None:
        url = hung if where == "hung" else "http://127.0.0.1:9"
        warnings = ["-X", "dev", "-W", "error"] if how != "fork" else ["-W", "ignore"]
        begun = time.monotonic()
        finished = subprocess.run(
            [sys.executable, *warnings, "-c", self.PROGRAM, str(tmp_path), url, how],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        assert "Traceback" not in finished.stderr
        assert time.monotonic() - begun < 45


SLOW_LIBRARY = """
import importlib.util, sys, time
from honcho_actors import Memory, Settings, Turn, TurnRequest

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "honcho_actors.honcho.client":
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (time.sleep(4.0), load(module))
            return spec

assert "honcho_actors.honcho.client" not in sys.modules
sys.meta_path.insert(0, Slow())
settings = Settings(base_url=sys.argv[1], workspace="slow", state_dir=sys.argv[2], cache_dir=sys.argv[2] + "-cache")
with Memory.start(settings) as memory:
    receipt = memory.capture(Turn(session_key="one", user="ann", prompt="hello there", answer="hello"))
    found = memory.context(TurnRequest(session_key="one", user="ann", query="where were we?"), budget=20.0)
    print(found.state, found.reason, receipt.wait("delivered", 20.0), memory.status().sessions["generation"])
"""


def test_a_library_that_is_slow_to_load_holds_up_the_first_turn_and_not_the_loop(server: str, tmp_path: Path) -> None:
    # Longer than the loop's heartbeat allows: imported on the loop, it would have had the loop given up.
    done = subprocess.run(
        [sys.executable, "-c", SLOW_LIBRARY, server, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout == "cold nothing_known delivered 1\n", done.stderr
    assert done.stderr == ""
