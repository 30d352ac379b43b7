"""An option for the long form of the names' property test, and texts that stand for credentials."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--names",
        type=int,
        default=100_000,
        help="how many keys the property test of names takes (1000000 for a release)",
    )
