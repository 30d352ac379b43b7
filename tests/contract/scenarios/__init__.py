"""The scenarios, in the order in which their exchanges were recorded: one run is one story on one server."""

from __future__ import annotations

from collections.abc import Sequence

from tests.contract.scenarios import (
    auth,
    budget,
    clones,
    conclusions,
    contexts,
    dialectic,
    limits,
    merging,
    messages,
    model_down,
    names,
    no_model,
)
from tests.contract.steps import Step

RUNS: dict[str, Sequence[Step]] = {
    "noauth": [*names.STEPS, *messages.STEPS, *limits.STEPS],
    "noauth-2": [*conclusions.STEPS, *contexts.STEPS, *dialectic.STEPS, *clones.STEPS],
    "extra": merging.STEPS,
    "budget": budget.STEPS,
    "auth": auth.STEPS,
    "noderiver-llmdown": model_down.STEPS,
    "noderiver-nokeys-noembed": no_model.STEPS,
}
