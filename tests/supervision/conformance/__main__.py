"""`python -m tests.supervision.conformance`: runs the suite and prints the table of all rows by id and runtime.

Exit code 0 when every row that applies passed on every runtime that it is meant for.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.supervision.conformance.kit import RUNTIMES
from tests.supervision.conformance.rows import BLOCKS, LIMITED, NOT_APPLICABLE, every_row


class Ledger:
    """Collects, for each row and runtime, how many tests passed and failed."""

    def __init__(self) -> None:
        self.results: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.rows: dict[str, list[str]] = {}
        self.other: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.rows[item.nodeid] = [mark.args[0] for mark in item.iter_markers("row")]
            params = getattr(getattr(item, "callspec", None), "params", {})
            for row in self.rows[item.nodeid]:
                self.results[row, params.get("kit", "-")]["collected"] += 1
            item.user_properties.append(("runtime", params.get("kit", "-")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        runtime = dict(report.user_properties).get("runtime", "-")
        outcome = "passed" if report.when == "call" and report.passed else ""
        if report.failed or report.skipped:
            outcome = report.outcome
        if not outcome:
            return
        if not self.rows.get(report.nodeid) and outcome != "passed":
            self.other.append(report.nodeid)
        for row in self.rows.get(report.nodeid, []):
            self.results[row, str(runtime)][outcome] += 1

    def verdict(self, row: str, runtime: str) -> str:
        """One cell of the table."""
        seen = self.results.get((row, runtime))
        if seen is None or not seen["collected"]:
            return "-" if row in LIMITED else "MISSING"
        if seen["failed"] or seen["skipped"]:
            return "FAILED" if seen["failed"] else "SKIPPED"
        return "ok" if seen["passed"] == seen["collected"] else "MISSING"


def main() -> int:
    os.environ["CONFORMANCE_FULL"] = "1"
    ledger = Ledger()
    folder = str(Path(__file__).parent)
    code = pytest.main([folder, "-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[ledger])
    print(f"\n{'row':<9}" + "".join(f"{name:<9}" for name in RUNTIMES))
    good, bad = 0, []
    for row in every_row():
        if row in NOT_APPLICABLE:
            print(f"{row:<9}not applicable: {NOT_APPLICABLE[row]}")
            continue
        cells = [ledger.verdict(row, runtime) for runtime in RUNTIMES]
        ran = [cell for cell in cells if cell != "-"]
        if ran and all(cell == "ok" for cell in ran):
            good += 1
        else:
            bad.append(row)
        why = f"  ({LIMITED[row]})" if row in LIMITED else ""
        print((f"{row:<9}" + "".join(f"{cell:<9}" for cell in cells) + why).rstrip())
    total = sum(BLOCKS.values())
    print(
        f"\n{total} rows and {len(every_row()) - total} more: {good} passed, {len(bad)} did not, "
        f"{len(NOT_APPLICABLE)} not applicable"
    )
    for name in bad + ledger.other:
        print(f"did not pass: {name}")
    return 1 if bad or ledger.other or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
