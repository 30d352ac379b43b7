"""Gives each row its runtimes, and keeps the results by row and runtime for the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.supervision.conformance.kit import RUNTIMES, Kit


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every runtime, unless the test says `only`."""
    if "kit" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        metafunc.parametrize("kit", RUNTIMES if only is None else only.args, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of this folder that hangs fails by itself, and lets the others run."""
    for item in items:
        if item.path.parent.name == "conformance" and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(30, method="signal"))


@pytest.fixture
def kit(request: pytest.FixtureRequest) -> Iterator[Kit]:
    options = request.node.get_closest_marker("options")
    kit = Kit(request.param, **(options.kwargs if options else {}))
    try:
        yield kit
    finally:
        kit.close()
