"""Every adapter that the suite runs for."""

from __future__ import annotations

from tests.integrations.driving import Driver
from tests.integrations.proxying import PROXY
from tests.integrations.raw import RAW

DRIVERS: list[Driver] = [*RAW, *PROXY]
