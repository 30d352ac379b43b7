"""Every adapter that the suite runs for."""

from __future__ import annotations

from tests.integrations.agent_framework_driver import AGENT_FRAMEWORK
from tests.integrations.agents_driver import AGENTS
from tests.integrations.driving import Driver
from tests.integrations.proxying import PROXY
from tests.integrations.raw import RAW

DRIVERS: list[Driver] = [*RAW, *PROXY, *AGENT_FRAMEWORK, *AGENTS]
