"""Field cases about caches and deadlines (groups B and C) at their full size: 19, 21 and 30."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from honcho_actors.model import Reason, State, TurnRequest
from tests.support.memory_world import Remote, Server, World, until

CAP = 64
PEOPLE = 2_000

PROCESS = """
import json, sys, time
from pathlib import Path
from honcho_actors.model import TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

url, home, name = sys.argv[1:]
home = Path(home)
settings = Settings(
    base_url=url, state_dir=home / "state", cache_dir=home / "cache", admin_port=None, request_timeout=110.0
)
with Memory.start(settings) as memory:
    found = memory.context(TurnRequest(session_key=name, user=name, query="what about it?"), 110.0)
print(json.dumps([found.reason, found.system]))
"""


def request(number: int, query: str = "what about it?") -> TurnRequest:
    return TurnRequest(session_key=f"s{number}", user=f"u{number}", query=query)


def test_case_19_neither_a_wait_nor_a_restart_nor_a_stop_minds_a_jump_of_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, shift = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    gate = threading.Event()
    remote = Remote({"u0": ("Person 0.", []), "u1": ("Person 1.", [])})
    with World(remote, idle_ttl=7_200.0) as world:
        world.turn(key="s0", user="u0")
        world.quiet(20)
        for jump in (-3_600.0, 86_400.0, -86_400.0):
            shift[0] += jump
            first = world.manager
            first.kill()
            until(lambda first=first: world.sessions.table.manager not in (None, first), 20)  # type: ignore[misc]
            assert world.turn("ok", key="s0", user="u0").state is State.WARM
        remote.closed["session_context"] = gate
        waiter = world.sessions.begin(world.sessions.look(request(1)), world.runtime.clock.now() + 60.0)
        world.settle()
        shift[0] += 86_400.0
        assert not waiter.resolved
        gate.set()
        assert waiter.result().reason is Reason.FILLED
        shift[0] -= 3_600.0
        start = time.monotonic()
        assert world.root.stop(30)
        assert time.monotonic() - start < 25


@pytest.mark.timeout(120)
def test_case_21_two_thousand_conversations_leave_threads_sockets_and_side_tables_as_they_were(tmp_path: Path) -> None:
    remote = Remote({f"u{number}": (f"Person {number}.", []) for number in range(PEOPLE)})
    with World(remote, max_sessions=CAP, first_turn_wait=0.0, dialectic_per_hour=0, cache_dir=tmp_path / "c") as world:
        for number in range(CAP):
            world.sessions.serve(request(number))
        world.quiet(30)
        threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
        most = 0
        for number in range(CAP, PEOPLE):
            world.sessions.serve(request(number))
            most = max(most, len(world.sessions.table.entries))
            if number % CAP == 0:
                world.quiet(30)
        world.quiet(30)
        assert most <= CAP
        assert threading.active_count() <= threads + 2
        until(lambda: len(os.listdir("/proc/self/fd")) <= files + 8)  # idle connections are kept for some seconds
        table = world.sessions.table
        assert len(table.entries) <= CAP
        assert len(table.persons) <= CAP
        assert (len(table.feed), len(table.begun)) == (0, 0)
        assert len(world.sessions._gate.known) <= 1_024 + 2 * CAP
        assert len(table.unsaved) <= 20_000
        until(lambda: world.workers() == [], 20)
        assert (world.gauge("cold_waiters"), world.gauge("refresh_in_progress")) == (0, 0)


@pytest.mark.timeout(300)
def test_case_30_five_processes_on_one_home_ask_at_once_and_wait_for_none_of_each_other(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(5)]
    gate = threading.Event()
    remote = Remote({name: (f"{name} likes tea.", []) for name in names}, closed={"session_context": gate})
    with Server(remote) as server:
        command = [sys.executable, "-c", PROCESS, server.url, str(tmp_path)]
        processes = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in names]
        try:
            until(lambda: {one.peer for one in remote.asked} == set(names), 100)  # all five are on their way at once
            gate.set()
            for name, process in zip(names, processes, strict=True):
                said, _ = process.communicate(timeout=100)
                reason, text = json.loads(said)
                assert (process.returncode, reason) == (0, Reason.FILLED)
                assert f"{name} likes tea." in text
        finally:
            for process in processes:
                process.kill()
                process.communicate()
