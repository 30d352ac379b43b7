"""A share of the soak for every `make test`: a minute of every fault at once; `make soak` is the whole of it.

One run, asked about one thing a test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.soak.__main__ import SHARE, ZERO
from tests.soak.trouble import ALL

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """The run, in a process of its own."""
    command = [sys.executable, "-m", "tests.soak", "--share", "--json", "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    assert done.stdout.strip(), done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("fault", ALL)
def test_each_fault_has_fired(result: dict[str, Any], fault: str) -> None:
    assert result["fired"][fault] >= SHARE.least, result


def test_every_conversation_was_met(result: dict[str, Any]) -> None:
    assert result["sessions"] == SHARE.sessions


def test_no_call_raised(result: dict[str, Any]) -> None:
    assert result["raised"] == []


def test_no_turn_came_back_later_after_its_budget_than_plain_waits_did(result: dict[str, Any]) -> None:
    assert result["over_budget"] == 0, result


def test_every_caller_came_back_and_no_waiter_is_pending(result: dict[str, Any]) -> None:
    assert (result["hanging_callers"], result["waiters"]) == (0, 0)


@pytest.mark.parametrize("gauge", ZERO)
def test_a_gauge_is_back_to_0(result: dict[str, Any], gauge: str) -> None:
    assert result["gauges"][gauge] == 0.0


def test_memory_is_flat(result: dict[str, Any]) -> None:
    assert result["flat"], (result["rss_middle_mb"], result["rss_end_mb"])


def test_what_was_accepted_is_on_the_server_once(result: dict[str, Any]) -> None:
    assert (result["flushed"], result["lost"], result["doubled"]) == (True, 0, 0)
    assert result["captured"] > 20


def test_memory_is_had_again_when_the_faults_have_ended(result: dict[str, Any]) -> None:
    assert result["recovered"]


def test_no_thread_is_left(result: dict[str, Any]) -> None:
    assert result["threads_left"] == []
