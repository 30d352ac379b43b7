"""The newcomer's walk of docs/operating.md: its commands, as they stand there, from a clone to a scraped dashboard.

Only ports are changed, so that what runs on this machine anyway is left alone, and the package is not installed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.ops import rules
from tests.system.rig import LIMIT, ROOT, environment, free_port, get_json, query, until

pytestmark = [pytest.mark.usefixtures("prometheus"), pytest.mark.timeout(400)]


def commands() -> list[str]:
    """The lines of the walk."""
    text = (ROOT / "docs" / "operating.md").read_text()
    found = re.search(r"<!-- walk: .*? -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1].strip().splitlines()


@contextlib.contextmanager
def shell(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One shell for all lines, and everything that it started, ended together."""
    home = environment(folder / "home")
    with (folder / "said").open("w") as said, (folder / "complained").open("w") as complained:
        process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={name: value for name, value in home.items() if name != "PYTHONPATH"},
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=complained,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20.0)
        until(lambda: not _alive(process.pid), "what the walk started has ended", 30.0)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_walk_is_under_ten_commands_and_ends_at_a_dashboard_with_figures(tmp_path: Path) -> None:
    lines = commands()
    assert 3 < len(lines) < 10
    ports = {"8000": free_port(), "9464": free_port(), "9090": free_port()}
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    with shell(tmp_path) as walking:
        assert walking.stdin is not None
        for number, line in enumerate(lines):
            if line.startswith("sudo apt-get install"):
                continue  # `make test-system` has done this one
            if line == "make setup":
                subprocess.run(line.split(), cwd=ROOT, check=True, timeout=300)
                continue
            for port, free in ports.items():
                line = re.sub(rf"\b{port}\b", str(free), line)
            walking.stdin.write(f"{line}\necho done-{number}\n")
            walking.stdin.flush()
            until(lambda number=number: f"done-{number}\n" in said(tmp_path), line)  # type: ignore[misc]
            if line.endswith("&"):
                time.sleep(1.0)
        link = until(lambda: re.search(r"^http://127\.0\.0\.1:\d+/#\S+$", said(tmp_path), re.MULTILINE), "the link")
        assert urllib.request.urlopen(link[0].split("#")[0], timeout=10).status == 200
        there = f"http://127.0.0.1:{ports['9090']}"
        until(lambda: _scraped(there), "Prometheus has scraped the process", LIMIT)
        loaded = get_json(f"{there}/api/v1/rules")["data"]["groups"][0]["rules"]
        assert [one["name"] for one in loaded] == list(rules.names())
        asked = {target["expr"] for panel in shown(tmp_path)["panels"] for target in panel.get("targets", ())}
        for expression in asked:
            query(there, re.sub(r"\$(job|instance)", ".*", expression).replace("$__rate_interval", "1m"))


def shown(folder: Path) -> Any:
    return json.loads((folder / "honcho-actors.json").read_text())


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def _scraped(there: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(query(there, "honcho_actors_sessions"))
    return False
