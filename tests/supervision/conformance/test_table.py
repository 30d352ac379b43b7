"""The table is complete: no row is missing, and none is skipped without a reason."""

from __future__ import annotations

from tests.supervision.conformance.kit import RUNTIMES
from tests.supervision.conformance.rows import BLOCKS, LIMITED, NOT_APPLICABLE, every_row, load


def test_there_are_229_rows_and_198_are_implemented() -> None:
    assert sum(BLOCKS.values()) == 229
    assert sum(BLOCKS.values()) - len(NOT_APPLICABLE) == 198


def test_every_row_that_applies_has_its_tests_on_every_runtime() -> None:
    seen: dict[str, set[str]] = {}
    for test in load():
        marks = getattr(test, "pytestmark", [])
        only = next((mark.args for mark in marks if mark.name == "only"), RUNTIMES)
        for mark in marks:
            if mark.name == "row":
                seen.setdefault(mark.args[0], set()).update(only)
                assert mark.args[0].replace("-", "_") in test.__name__ or mark.args[0].split("-")[1] in test.__name__
    assert set(seen) == set(every_row()) - set(NOT_APPLICABLE)
    assert {name for name, on in seen.items() if on != set(RUNTIMES)} == set(LIMITED)


def test_no_conformance_test_is_skipped_or_expected_to_fail() -> None:
    for test in load():
        assert not {mark.name for mark in getattr(test, "pytestmark", [])} & {"skip", "skipif", "xfail"}
