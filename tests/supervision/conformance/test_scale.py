"""OTP-77 and OTP-88: what many children cost. Counted in steps, which the machine's load cannot change, and in time."""

from __future__ import annotations

import time

import pytest

from supervision import Restart
from tests.supervision.conformance.kit import Kit

row = pytest.mark.row


def start_many(kit: Kit, many: int, *, dynamic: bool) -> tuple[float, float]:
    """Seconds to start and to stop so many children."""
    sup = kit.dyn() if dynamic else kit.sup()
    begun = time.perf_counter()
    for number in range(many):
        sup.start_child(kit.spec(number, restart=Restart.TEMPORARY), block=False)
    kit.until(lambda: sup.count_children().active == many)
    middle = time.perf_counter()
    done = sup.stop(block=False)
    assert kit.get(done)
    ended = time.perf_counter()
    kit.born.clear()
    kit.log.clear()
    return middle - begun, ended - middle


@row("OTP-77")
@pytest.mark.only("sim")
def test_OTP_77_stopping_ten_times_as_many_dynamic_children_costs_about_ten_times_as_much(kit: Kit) -> None:
    start_many(kit, 200, dynamic=True)
    few = min(start_many(kit, 500, dynamic=True)[1] for _ in range(3))
    many = start_many(kit, 5_000, dynamic=True)[1]
    assert many < 50 * few


@row("OTP-88")
@pytest.mark.only("sim")
def test_OTP_88_twenty_times_as_many_named_children_cost_about_twenty_times_as_much(kit: Kit) -> None:
    start_many(kit, 200, dynamic=False)
    few = [start_many(kit, 500, dynamic=False) for _ in range(3)]
    many = start_many(kit, 10_000, dynamic=False)
    assert many[0] < 100 * min(start for start, _ in few)
    assert many[1] < 100 * min(stop for _, stop in few)
