"""A share of the exits for every `make test`: each state once. `make exits` has two hundred."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.life.exits import ALL, ENDS, Exit, run


@pytest.fixture(scope="module")
def ended() -> Mapping[str, Exit]:
    """One process in each state, eight at a time."""
    return {one.state: one for one in run(ALL, ENDS)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", ALL)
def test_a_process_leaves_as_promised(ended: Mapping[str, Exit], state: str) -> None:
    assert ended[state].faults == []
