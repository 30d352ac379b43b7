"""Field cases of group D (threads, shutdown, exit), by number, on the whole runtime. 34, 35 and 37 stand in
`test_trouble`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.privacy import egress
from honcho_actors.runtime import tree as tree_module
from honcho_actors.sessions.manager import SessionManager
from supervision import ChildSpec, ThreadActor
from tests.capture.test_field_cases_e import until
from tests.support.shared_faults import faults

PATIENCE = 20.0
HANGING = [{"fault": "hang", "on": ["*"]}]
EXITS = int(os.environ.get("EXIT_ROUNDS", "3"))
"""Of each kind; the case's own number is 30."""


def begun(folder: Path, url: str | None = "http://127.0.0.1:9", **more: Any) -> Memory:
    """A runtime with a turn served, and one captured that can't be delivered."""
    given = {"state_dir": folder / "state", "cache_dir": folder / "cache", "admin_port": None, **more}
    memory = Memory.start(Settings(base_url=url, **given))
    memory.context(TurnRequest(session_key="one", user="ines", query="where were we?"), 0.05)
    memory.capture(Turn("one", "ines", "hello there", "you"))
    return memory


# One process imports everything and then forks a child for each exit: an exit costs its own time, not an import's.
EXITING = """
import json, os, sys, time
from pathlib import Path
from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.runtime.io import preload
preload()
folder, url, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ended = []
for number in range(2 * rounds):
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        place = folder / str(number)
        memory = Memory.start(Settings(base_url=url, state_dir=place / "state", cache_dir=place / "cache"))
        memory.context(TurnRequest(session_key="one", user="ines", query="where were we?"), 0.1)
        receipt = memory.capture(Turn("one", "ines", "hello there", "you"))
        if number % 3 == 0:
            receipt.wait("accepted", 30.0)
        if number % 2:
            raise RuntimeError("the host's own")
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.append((code, time.monotonic() - began))
print(json.dumps(ended))
"""


def test_case_31_a_process_that_ends_without_a_stop_against_a_hanging_server_ends_by_itself(
    honcho: str, tmp_path: Path
) -> None:
    with faults(honcho, HANGING) as proxy:
        done = subprocess.run(
            [sys.executable, "-c", EXITING, str(tmp_path), proxy.url, str(EXITS)],
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert [code for code, _ in ended] == [0, 1] * EXITS
    assert "Fatal Python error" not in done.stderr
    assert done.stderr.count("Traceback") == EXITS == done.stderr.count("RuntimeError: the host's own")
    assert max(seconds for _, seconds in ended) < PATIENCE


RAISING = """
import sys
from pathlib import Path
from honcho_actors import Memory, Settings, Turn
folder = Path(sys.argv[1])
memory = Memory.start(Settings(base_url="http://127.0.0.1:9", state_dir=folder / "state", cache_dir=folder / "cache"))
for number in range(20):
    memory.capture(Turn(f"talk-{number}", "ines", "hello", "you")).wait("accepted", 30.0)
raise KeyError("main has gone")
"""


def test_case_32_a_main_that_raises_before_any_stop_ends_the_process_with_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RAISING, str(tmp_path)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.rstrip().endswith("KeyError: 'main has gone'")


class Inside:
    """Closes a runtime from a place inside it, once, and keeps the answer."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.answers: list[Any] = []

    def close(self, *_: Any) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            self.answers.append(memory.close(1.2))


def on_the_loop(inside: Inside, memory: Memory) -> Callable[[], object]:
    """Where an injected client's method or a tool runs."""
    inside.memory = memory
    assert memory._tree is not None
    memory._tree.runtime.loop.call_soon(inside.close)
    return lambda: None


def on_the_writer(inside: Inside, memory: Memory) -> Callable[[], object]:
    """A screener of the host's is asked on the outbox writer's thread."""

    def screener(text: str) -> bool:
        if "close yourself" in text:
            inside.close()
        return False

    release = egress.guard(lambda: (), screener)
    inside.memory = memory
    memory.capture(Turn("one", "ines", "close yourself, please", "yes"))
    return release


def in_a_metrics_callback(inside: Inside, memory: Memory) -> Callable[[], object]:
    class Collector:
        def collect(self) -> Iterator[Any]:
            inside.close()
            return iter(())

    collector = Collector()
    memory.meters.registry.register(collector)
    inside.memory = memory
    scraper = threading.Thread(target=lambda: list(memory.meters.registry.collect()))
    scraper.start()

    def after() -> None:
        scraper.join(PATIENCE)
        memory.meters.registry.unregister(collector)

    return after


class ClosesAsItStarts(ThreadActor):
    """A child whose first act is to close everything that it is part of."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    def on_start(self) -> None:
        self._inside.close()


def in_a_child_that_starts(inside: Inside, memory: Memory) -> Callable[[], object]:
    inside.memory = memory
    assert memory._tree is not None
    root = memory._tree._root
    assert root is not None

    def start() -> None:
        try:
            root.start_child(ChildSpec("closing", ClosesAsItStarts, args=(inside,)), timeout=5.0)
        except Exception:
            pass  # the tree goes away under this call, which is the point

    starter = threading.Thread(target=start)
    starter.start()
    return lambda: starter.join(PATIENCE)


@pytest.mark.parametrize("place", [on_the_loop, on_the_writer, in_a_metrics_callback, in_a_child_that_starts])
def test_case_33_a_stop_from_inside_returns_and_the_runtime_ends_stopped(tmp_path: Path, place: Any) -> None:
    inside, memory = Inside(), begun(tmp_path)
    after = place(inside, memory)
    assert until(lambda: len(inside.answers) == 1, PATIENCE)
    assert inside.answers[0] in (True, False)
    after()
    assert memory.status().state == "closed"
    assert memory.close(1.0) is inside.answers[0]
    assert memory.context(TurnRequest(session_key="one", user="ines")).reason == "closed"
    assert memory.capture(Turn("one", "ines", "late", "yes")).reason == "closed"


def test_case_35_every_call_after_the_stop_answers_at_once_and_a_new_start_goes_on(
    honcho: str, workspace: str, tmp_path: Path
) -> None:
    memory = begun(tmp_path)
    threads = threading.active_count()
    stopper = threading.Thread(target=memory.close, args=(1.2,))
    stopper.start()
    request = TurnRequest(session_key="one", user="ines", query="where were we?")
    said = Turn("one", "ines", "hello again", "you")
    while stopper.is_alive():  # during the stop: stored, or refused in a word
        memory.context(request, 0.01)
        assert memory.capture(said).reason in ("", "closed")
        stopper.join(0.01)
    assert memory.context(request).reason == "closed"
    assert memory.capture(said).reason == "closed"
    assert memory.search("where", "session", "one") == ()
    assert memory.status().state == "closed"
    memory.prewarm(request)
    memory.refresh(request)
    assert until(lambda: threading.active_count() < threads, PATIENCE)
    again = begun(tmp_path / "again", honcho, workspace=workspace)
    assert again.capture(said).wait("delivered", PATIENCE) == "delivered"
    again.close(PATIENCE)


def test_case_36_five_threads_that_stop_at_once_get_the_same_answer_and_later_ones_too(tmp_path: Path) -> None:
    memory = begun(tmp_path)
    answers: list[bool] = []
    together = threading.Barrier(5)

    def stop() -> None:
        together.wait(PATIENCE)
        answers.append(memory.close(2.0))

    stoppers = [threading.Thread(target=stop) for _ in range(5)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(PATIENCE)
    assert len(answers) == 5
    assert len({*answers, memory.close(2.0), memory.close(0.0)}) == 1


def test_case_36_a_runtime_that_never_started_can_be_stopped() -> None:
    memory = Memory.start(Settings(base_url="http://127.0.0.1:9"), tree=False)
    assert [memory.close(), memory.close()] == [True, True]
    assert memory.status().state == "closed"


# -- case 38: the threads after each way of ending are those from before -----------------------------------------------


def by_leaving_its_context(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(folder, None):  # without a server there is nothing to wait for
        pass


def by_a_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(folder).close(1.2)


def after_it_gave_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = begun(folder)
    assert memory._tree is not None
    root = memory._tree._root
    assert root is not None
    root.kill()
    assert until(lambda: memory.status().sessions["manager"] == "away", PATIENCE)
    memory.close(2.0)


def after_half_a_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: SessionManager) -> None:
        raise RuntimeError("half-way")

    monkeypatch.setattr(SessionManager, "on_start", fails)
    monkeypatch.setattr(tree_module, "START_SECONDS", 2.0)
    memory = begun(folder)
    assert memory.status().state == "degraded"
    memory.close(2.0)


@pytest.mark.parametrize("end", [by_leaving_its_context, by_a_stop, after_it_gave_up, after_half_a_start])
def test_case_38_every_way_of_ending_leaves_the_threads_that_were_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    before = set(threading.enumerate())
    end(tmp_path, monkeypatch)
    assert until(lambda: set(threading.enumerate()) <= before, PATIENCE), set(threading.enumerate()) - before
