"""The page that one learns from runs, and prints what it says."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from pathlib import Path

import supervision

PAGE = Path(__file__).resolve().parents[2] / "docs" / "supervision.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_example_of_the_page_prints_what_the_page_says() -> None:
    example, simulation = blocks("python")
    run = [sys.executable, "-c", example + simulation]
    done = subprocess.run(run, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks("text")[0] + "fetched in 3600 s - and no second passed\n"


def test_every_class_and_constant_of_the_page_is_public() -> None:
    named = set(re.findall(r"`([A-Z]\w+)`", PAGE.read_text()))
    elsewhere = {"Task", "PartitionSupervisor", *dir(builtins)}
    assert not {name for name in named - elsewhere if not hasattr(supervision, name)}
