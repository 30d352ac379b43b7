"""Runtimes for the tests of this folder, and the promise that none leaves anything behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from supervision import ManualClock, Simulator, ThreadRuntime


@pytest.fixture
def rt() -> Iterator[ThreadRuntime]:
    """A runtime on real threads and real time."""
    runtime = ThreadRuntime(name="test")
    yield runtime
    runtime.close(2.0)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock(1000.0)


@pytest.fixture
def timed(clock: ManualClock) -> Iterator[ThreadRuntime]:
    """A runtime on real threads, in time that the test moves with `clock`."""
    runtime = ThreadRuntime(name="timed", clock=clock)
    yield runtime
    closer = threading.Thread(target=runtime.close, args=(0.5,))
    closer.start()
    while closer.is_alive():
        clock.advance(0.5)
        closer.join(0.02)


@pytest.fixture
def sim() -> Iterator[Simulator]:
    """A simulator."""
    with Simulator(7) as simulator:
        yield simulator


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Returns when the condition holds; fails when it does not within so many real seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.001)
