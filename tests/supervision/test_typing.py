"""What users' type checkers see: `tests/typing/supervised.py` under mypy --strict and pyright strict, and it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "tests" / "typing" / "supervised.py"


def run(*command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_users_code_runs() -> None:
    assert run(sys.executable, "-W", "error", str(CODE)) == ""


@pytest.mark.timeout(120)
def test_a_users_code_is_clean_under_mypy_strict() -> None:
    pytest.importorskip("mypy")
    assert "Success" in run(sys.executable, "-m", "mypy", "--strict", str(CODE))


@pytest.mark.timeout(120)
def test_a_users_code_is_clean_under_pyright_strict() -> None:
    pytest.importorskip("pyright")
    probe = subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, timeout=60, check=False)
    if probe.returncode != 0:
        pytest.skip("pyright has no node to run on here")
    assert "0 errors" in run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(CODE))
