"""The pages of `docs/integrations`: each has a complete program, which runs as it stands and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.drivers import DRIVERS
from tests.integrations.keeper import keeper
from tests.support.memory_world import Server
from tests.support.stub_model import StubModel

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "integrations"
PAGES = sorted(FOLDER.glob("*.md"))
IMPORTS = re.compile(r"^from (honcho_actors[\w.]*) import ([\w, ]+)$", re.MULTILINE)
PROGRAM = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_program_of_a_page_prints_what_the_page_says(page: Path, model: StubModel, tmp_path: Path) -> None:
    programs = PROGRAM.findall(page.read_text("utf-8"))
    assert programs, "a page without a program and its output"
    remote = keeper()
    with Server(remote) as honcho:
        given = {
            **os.environ,
            "HONCHO_URL": honcho.url,
            "HONCHO_ACTORS_STATE_DIR": str(tmp_path / "state"),
            "HONCHO_ACTORS_CACHE_DIR": str(tmp_path / "cache"),
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model.root,
            "ANTHROPIC_API_KEY": "none",
            "PYTHONWARNINGS": "ignore",
            "HONCHO_ACTORS_FIRST_TURN_WAIT": "30",
        }
        for program, output in programs:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, env=given, timeout=110, check=False
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == output.strip()


def test_every_page_stands_in_the_index_and_every_driver_has_a_row() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    for page in PAGES:
        assert page.stem == "index" or f"]({page.name})" in index, page.name
    for driver in DRIVERS:
        assert driver.name.split("-")[0] in index, driver.name


def test_every_name_of_ours_on_the_pages_exists() -> None:
    for page in PAGES:
        for module, names in re.findall(
            r"^from (honcho_actors[\w.]*) import ([\w, ]+)$", page.read_text("utf-8"), re.M
        ):
            found = __import__(module, fromlist=["_"])
            for name in names.split(", "):
                assert hasattr(found, name), (page.name, module, name)
