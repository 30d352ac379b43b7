"""A short share of `make stress`, and what it has found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from supervision import ChildSpec, Registry, Strategy, Supervisor, TaskActor, ThreadActor, ThreadRuntime

ROOT = Path(__file__).parent.parent.parent


def test_no_ask_is_lost_and_nothing_left_when_stops_kills_and_crashes_race_a_thousand_switches_a_millisecond() -> None:
    command = [sys.executable, "-m", "tests.supervision.support.stress", "--asks", "0", "--seconds", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, double 0, wrong 0, left 0" in done.stdout


class _Ambush(Registry):
    """Ends whoever is registered, in the moment in which it can be found."""

    def register(self, name: str, ref: Any) -> None:
        super().register(name, ref)
        ref.kill()


class Named(ThreadActor):
    pass


class NamedTask(TaskActor):
    pass


def test_an_actor_that_is_killed_by_its_name_while_it_starts_leaves_nothing() -> None:
    with ThreadRuntime(name="ambush") as rt:
        sup = Supervisor.start(rt, [], strategy=Strategy.ONE_FOR_ONE)
        rt.registry = _Ambush()
        specs = [ChildSpec("a", Named, name="a"), ChildSpec("b", NamedTask, name="b"), ChildSpec.dynamic("c", name="c")]
        for spec in specs:
            reply = sup.start_child(spec, block=False)
            assert reply.block(30.0)
        sup.stop()
        assert not rt.lives
        assert not len(rt.registry)
