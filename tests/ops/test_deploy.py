"""docs/deploy.md is true: what it shows can be read by what it is for, and names what there is."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.settings import DEFINITIONS
from honcho_actors.settings.sources import SHARED_NAMES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()


def block(kind: str) -> str:
    """The one block of this kind."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", DEPLOY, re.DOTALL)
    return str(found)


def test_every_variable_is_a_setting() -> None:
    shared = {name for names in SHARED_NAMES.values() for name in names} | {"HONCHO_API_KEY_FILE"}
    for name in set(re.findall(r"\bHONCHO_[A-Z_]+\b", DEPLOY)):
        assert name in shared or name.removeprefix("HONCHO_ACTORS_").lower() in DEFINITIONS, name


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "honcho-actors.service"
    unit.write_text(block("ini").replace("/opt/honcho-actors/bin/honcho-actors", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Unknown" not in done.stderr


def test_the_kubernetes_example_probes_and_scrapes_the_port_that_its_settings_open() -> None:
    yaml = pytest.importorskip("yaml")
    made: dict[str, Any] = yaml.safe_load(block("yaml"))
    pod = made["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    environ = {one["name"]: one["value"] for one in container["env"]}
    assert (made["kind"], made["apiVersion"]) == ("StatefulSet", "apps/v1")
    port = container["ports"][0]["containerPort"]
    assert environ["HONCHO_ACTORS_METRICS_PORT"] == str(port) == pod["metadata"]["annotations"]["prometheus.io/port"]
    assert environ["HONCHO_ACTORS_METRICS_HOST"] == "0.0.0.0"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    for name in ("HONCHO_ACTORS_STATE_DIR", "HONCHO_ACTORS_CACHE_DIR", "HONCHO_API_KEY_FILE"):
        assert any(environ[name].startswith(mount + "/") for mount in mounts), name
    assert pod["spec"]["terminationGracePeriodSeconds"] > 10


def test_the_container_file_copies_what_there_is_and_its_settings_are_taken() -> None:
    text = block("dockerfile")
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
    assert "hatchling" in (ROOT / "requirements.lock").read_text(), "it builds without isolation"


def test_serve_as_the_unit_runs_it_ends_in_order_on_sigterm(tmp_path: Path) -> None:
    """The variables of the unit, with places of this test."""
    state, cache, key = tmp_path / "state", tmp_path / "cache", tmp_path / "key"
    key.write_text("-".join(("a", "key", "of", "this", "test")) + "\n")
    key.chmod(0o600)
    given = dict(re.findall(r"^Environment=(\w+)=(.*)$", block("ini"), re.MULTILINE))
    given = {
        name: value.replace("%S/honcho-actors", str(state)).replace("%C/honcho-actors", str(cache))
        for name, value in given.items()
    }
    given |= {"HONCHO_API_KEY_FILE": str(key), "HONCHO_ACTORS_METRICS_PORT": "0", "HONCHO_URL": "http://127.0.0.1:9"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONCHO_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "honcho_actors.cli", "serve", "--json"],
        env={**kept, **given, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        hello = process.stdout.readline()
        assert '"ready": true' in hello
        assert state.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30.0) == 0
    assert not (state / "admin.json").exists()
