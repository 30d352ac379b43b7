"""One runtime and one keeper a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.keeper import House, house


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    """A runtime before a server that knows ann and bob."""
    with house(tmp_path) as made:
        yield made
