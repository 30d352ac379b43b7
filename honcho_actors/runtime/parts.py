"""Everything that a running `Memory` stands on, in one place.

`from honcho_actors import Memory` costs a program 40 ms and not 300: the rooms are loaded by the first `Memory.start`.
What is here is put into the globals of `runtime.memory` then.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version

# Whole before `start` returns: `runtime.io` loads the rest of the client on another thread, and the clients of models
# look for httpx in `sys.modules`, where half of it would break them.
import httpx  # noqa: F401

from honcho_actors.capture import Capture, Receipt
from honcho_actors.metrics import Meters
from honcho_actors.privacy import identity
from honcho_actors.runtime.health import Health
from honcho_actors.runtime.searching import Searching
from honcho_actors.runtime.status import RunState, Status, part
from honcho_actors.runtime.telling import HealthChange, shown
from honcho_actors.runtime.tree import Tree
from honcho_actors.sessions import Sessions
from honcho_actors.settings import Settings, SettingsCell
from supervision import Clock

__all__ = [
    "Capture",
    "Clock",
    "Health",
    "HealthChange",
    "Meters",
    "PackageNotFoundError",
    "Receipt",
    "RunState",
    "Searching",
    "Sessions",
    "Settings",
    "SettingsCell",
    "Status",
    "Tree",
    "asyncio",
    "identity",
    "part",
    "shown",
    "version",
]
