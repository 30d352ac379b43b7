"""OTP-77 and OTP-88: what many children cost."""

from __future__ import annotations

import os
import time

import pytest

from supervision import Restart
from tests.supervision.conformance.kit import Kit

row = pytest.mark.row

FULL = bool(os.environ.get("CONFORMANCE_FULL"))
"""Whether to take the sizes of the table (`make conformance`) or a tenth of them."""
SCALE = 10 if FULL else 1


def start_many(kit: Kit, many: int, *, dynamic: bool) -> tuple[float, float]:
    """Seconds of this thread (the simulator runs everything on it) to start and to stop so many children."""
    sup = kit.dyn() if dynamic else kit.sup()
    begun = time.thread_time()
    for number in range(many):
        sup.start_child(kit.spec(number, restart=Restart.TEMPORARY), block=False)
    kit.until(lambda: sup.count_children().active == many)
    middle = time.thread_time()
    done = sup.stop(block=False)
    assert kit.get(done)
    ended = time.thread_time()
    kit.born.clear()
    kit.log.clear()
    return middle - begun, ended - middle


@row("OTP-77")
@pytest.mark.only("sim")
@pytest.mark.timeout(240, method="signal")
def test_OTP_77_stopping_ten_times_as_many_dynamic_children_costs_about_ten_times_as_much(kit: Kit) -> None:
    few = min(start_many(kit, 100 * SCALE, dynamic=True)[1] for _ in range(3))
    many = start_many(kit, 1_000 * SCALE, dynamic=True)[1]
    assert many < 50 * few


@row("OTP-88")
@pytest.mark.only("sim")
@pytest.mark.timeout(240, method="signal")
def test_OTP_88_twenty_times_as_many_named_children_cost_about_twenty_times_as_much(kit: Kit) -> None:
    few = [start_many(kit, 100 * SCALE, dynamic=False) for _ in range(3)]
    many = start_many(kit, 2_000 * SCALE, dynamic=False)
    assert many[0] < 100 * min(start for start, _ in few)
    assert many[1] < 100 * min(stop for _, stop in few)
