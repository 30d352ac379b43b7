"""The runtime: `Memory` starts the tree, wires every port, and is the public face.

What stands here joins rooms and decides nothing that belongs to one of them: no cadence, no rendering, no retry, no
SQL. It prints nothing, installs no signal handler, and changes nothing that belongs to the whole process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from honcho_actors.runtime.memory import Forgotten, Memory

if TYPE_CHECKING:
    from honcho_actors.runtime.status import Status
    from honcho_actors.runtime.telling import HealthChange

__all__ = ["Forgotten", "HealthChange", "Memory", "Status"]

_HOME = {"Status": "honcho_actors.runtime.status", "HealthChange": "honcho_actors.runtime.telling"}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
