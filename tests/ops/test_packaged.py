"""What an operator is given comes with the package, not only with a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from honcho_actors.ops import rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked where nothing of the checkout is."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def command(installed: Path, *arguments: str) -> str:
    """The command line of the wheel, away from the checkout."""
    start = f"import sys; sys.path.insert(0, {str(installed)!r}); from honcho_actors.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_prints_the_rules_the_dashboard_and_every_runbook(installed: Path) -> None:
    assert command(installed, "alerts", "--runbooks", "https://wiki.example.org/") == rules.text(
        "https://wiki.example.org/"
    )
    assert json.loads(command(installed, "dashboards", "--json"))["uid"] == "honcho-actors"
    held = {path.name for path in (installed / "honcho_actors" / "ops" / "runbooks").iterdir()}
    assert held == {rules.runbook_file(alert) for alert in rules.names()}
    assert command(installed, "alerts", "--runbook", "OutboxStuck").startswith("# HonchoActorsOutboxStuck")


def test_the_wheel_holds_the_page_as_it_is_served(installed: Path) -> None:
    page = Path("honcho_actors") / "ops" / "page.html"
    assert (installed / page).read_bytes() == (ROOT / page).read_bytes()
