"""Random trees of pure supervisors behave as the model of OTP says, whatever happens to them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.supervision.support.treemachine import TreeMachine

TestRandomTrees = TreeMachine.TestCase
TestRandomTrees.settings = settings(
    max_examples=100, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
