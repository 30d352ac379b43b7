"""The system tests: `make test-system`. Not part of `make test`, which needs neither a browser nor a Prometheus."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if os.environ.get("HONCHO_SYSTEM") else ["test_*.py"]

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
)  # fmt: skip


@pytest.fixture(scope="session")
def prometheus() -> None:
    """A skip that says what is missing, where Debian's package is not there."""
    for name in ("prometheus", "promtool"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed (apt-get install prometheus)")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real headless browser."""
    if not Path(CHROMIUM).exists():
        pytest.skip("chromium is not installed (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()
