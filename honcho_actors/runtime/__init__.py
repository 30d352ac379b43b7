"""The runtime: `Memory` starts the tree, wires every port, and is the public face.

What stands here joins rooms and decides nothing that belongs to one of them: no cadence, no rendering, no retry, no
SQL. It prints nothing, installs no signal handler, and changes nothing that belongs to the whole process.
"""

from __future__ import annotations

from honcho_actors.runtime.memory import Forgotten, Memory
from honcho_actors.runtime.status import Status
from honcho_actors.runtime.telling import HealthChange

__all__ = ["Forgotten", "HealthChange", "Memory", "Status"]
