"""One runtime and one keeper a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.drivers import DRIVERS
from tests.integrations.keeper import House, house
from tests.support.stub_model import StubModel, echo


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    """A runtime before a server that knows ann and bob."""
    with house(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def stub() -> Iterator[StubModel]:
    """The model, for all tests of this room."""
    with StubModel() as model:
        yield model
        for one in DRIVERS:
            if one.is_loaded:
                one.driver.close()


@pytest.fixture
def model(stub: StubModel) -> StubModel:
    """The model, as nobody has asked it yet."""
    stub.script = echo
    stub.seen.clear()
    stub.holding.clear()
    stub.release.clear()
    return stub
