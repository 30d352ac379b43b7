"""Every step of every scenario, one test each, named after the recorded exchange that it restates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.scenarios import RUNS
from tests.contract.steps import RECORDED, Absent, Answer, Step, Target, judge

_played: dict[tuple[str, str], dict[str, Answer | Exception]] = {}
CASES = [
    pytest.param(run, step, id=f"{run}: {step.exchange}")
    for run, steps in RUNS.items()
    for step in steps
    if step.exchange is not None
]


@pytest.mark.parametrize(("run", "step"), CASES)
def test_the_server_answers_as_recorded(target: Target, run: str, step: Step) -> None:
    if not step.is_for(target.name):
        pytest.skip(step.why)
    key = (target.name, run)
    if key not in _played:
        _played[key] = target.play(run, RUNS[run])
    assert step.exchange is not None
    answer = _played[key][step.exchange]
    if isinstance(answer, Absent):
        pytest.skip(str(answer))
    if isinstance(answer, Exception):
        raise answer
    judge(step, target.name, answer)


@pytest.mark.shared
@pytest.mark.parametrize("version", RECORDED)
def test_every_recorded_exchange_has_its_step(shared: Path, version: str) -> None:
    recording = json.loads((shared / "reference" / f"honcho-exchanges-{version}.json").read_text("utf-8"))
    recorded = {(exchange["run"].split("-", 1)[1], exchange["name"]) for exchange in recording}
    assert recorded <= {(run, step.exchange) for run, steps in RUNS.items() for step in steps}
