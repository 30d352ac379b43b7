"""What the best peers lose or double, done to us: outage, lost acknowledgement, slow start, kill in an outage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from honcho_actors.capture.clocks import Reading, read_clock
from honcho_actors.model import ReceiptState
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, said, stored, texts, turn
from tests.support.shared_faults import faults


def test_a_55_turn_outage_then_recovery_delivers_132_of_132_messages_in_order(
    honcho: str, workspace: str, state: Path
) -> None:
    with faults(honcho) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        for number in range(6):
            rig.capture.capture(turn(number))
        assert rig.capture.flush(30.0)
        proxy.down()
        for number in range(6, 61):
            receipt = rig.capture.capture(turn(number))
            assert receipt.wait("accepted", 30.0) is ReceiptState.ACCEPTED
        assert rig.capture.flush(0.5) is False
        proxy.up()
        for number in range(61, 66):
            rig.capture.capture(turn(number))
        assert rig.capture.flush(20.0)
    found = texts(honcho, "s", workspace)
    assert len(found) == 132
    assert found == said(*range(66))


def test_a_lost_acknowledgement_leaves_one_copy(honcho: str, workspace: str, state: Path) -> None:
    rules = [{"fault": "commit_then_drop", "on": ["add_messages"], "times": 1}]
    with faults(honcho, rules) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        receipt = rig.capture.capture(turn(1))
        assert receipt.wait("delivered", 30.0) is ReceiptState.DELIVERED
        assert rig.meters.reconciliations.labels("found")._value.get() == 1
        assert proxy.requests()["add_messages"] == 1
    assert texts(honcho, "s", workspace) == said(1)


def test_slow_initialisation_delivers_6_of_6_turns_that_came_before_it_ended(
    honcho: str, workspace: str, state: Path
) -> None:
    slow = [{"fault": "latency", "on": ["ensure_session"], "delay": 1.5}]
    with faults(honcho, slow) as proxy, Rig(state, proxy.url, workspace=workspace) as rig:
        for number in range(6):
            rig.capture.capture(turn(number))
        assert rig.capture.flush(30.0)
        requests = proxy.requests()
        assert requests["ensure_session"] == 1
    assert texts(honcho, "s", workspace) == said(*range(6))


CHILD = """
import sys, time
from pathlib import Path
from typing import Any
from tests.capture.test_field_cases_e import until
from tests.support.capture_rig import Rig, turn
with Rig(Path(sys.argv[1]), sys.argv[2], workspace=sys.argv[3]) as rig:
    for number in range(15):
        receipt = rig.capture.capture(turn(number))
        assert receipt.wait("accepted", 30.0) == "accepted", receipt
    print("accepted", flush=True)
    time.sleep(60)
"""


def test_sigkill_in_an_outage_loses_none_of_15_turns(honcho: str, workspace: str, state: Path) -> None:
    with faults(honcho) as proxy:
        proxy.down()
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(state), proxy.url, workspace], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "accepted"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        proxy.up()
        with Rig(state, proxy.url, workspace=workspace) as rig:
            assert rig.capture.flush(30.0)
    assert texts(honcho, "s", workspace) == said(*range(15))


def test_a_commit_later_than_the_settle_time_is_noticed_counted_and_named(
    honcho: str, workspace: str, state: Path
) -> None:
    """The clock by which the server must have settled is moved by hand; only the commit itself is really late."""
    late = [{"fault": "late_commit", "on": ["add_messages"], "delay": 3.2, "times": 1}]
    shift = [0.0]

    def clock() -> Reading:
        now = read_clock()
        return Reading(now.boot, now.seconds + shift[0], now.wall_us)

    more: dict[str, Any] = {"settle_time": 3600.0, "delivery_timeout": 0.3}
    ports = {"read_clock": clock, "sweep_every": 0.3}
    with faults(honcho, late) as proxy, Rig(state, proxy.url, workspace=workspace, ports=ports, **more) as rig:
        receipt = rig.capture.capture(turn(1))
        assert until(lambda: rig.capture.status()["waiting"] == {"settling": 1})
        rig.change(delivery_timeout=30.0)
        shift[0] = 4_000.0
        rig.capture.nudge()
        assert receipt.wait("delivered", 30.0) is ReceiptState.DELIVERED
        assert until(lambda: len(stored(honcho, "s", workspace)) == 4)
        shift[0] = 400_000.0
        assert until(lambda: rig.capture.status().get("doubled") == 2)
    deliveries = [message["metadata"]["delivery_id"] for message in stored(honcho, "s", workspace)]
    assert len(deliveries) == 4
    assert len(set(deliveries)) == 1


def test_a_double_that_comes_while_nobody_runs_is_counted_by_the_next_process(
    honcho: str, workspace: str, state: Path
) -> None:
    late = [{"fault": "late_commit", "on": ["add_messages"], "delay": 3.0, "times": 1}]
    with faults(honcho, late) as proxy:
        more: Any = {"settle_time": 0.3, "delivery_timeout": 0.2}
        with Rig(state, proxy.url, workspace=workspace, **more) as rig:
            assert rig.capture.capture(turn(1)).wait("delivered", 30.0) is ReceiptState.DELIVERED
        time.sleep(3.2)  # the server commits while nobody runs
        with Rig(state, proxy.url, workspace=workspace, **more) as rig:
            assert until(lambda: rig.capture.status().get("doubled") == 2, 30.0)
