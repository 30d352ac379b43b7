"""A supervised memory runtime for long-running assistants, over Honcho.

The names that users rely on, loaded when they are first used: `import honcho_actors` alone stays light.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # what type checkers take for true; the module that has it costs 15 ms

if TYPE_CHECKING:
    from typing import Any

    from honcho_actors.capture import Receipt
    from honcho_actors.model import Context, Document, Section, Turn, TurnRequest
    from honcho_actors.runtime import HealthChange, Memory
    from honcho_actors.satellite.tools import ToolResult
    from honcho_actors.settings import Settings

_HOME = {
    "Memory": "honcho_actors.runtime",
    "HealthChange": "honcho_actors.runtime",
    "Settings": "honcho_actors.settings",
    "TurnRequest": "honcho_actors.model",
    "Turn": "honcho_actors.model",
    "Context": "honcho_actors.model",
    "Section": "honcho_actors.model",
    "Document": "honcho_actors.model",
    "Receipt": "honcho_actors.capture",
    "ToolResult": "honcho_actors.satellite.tools",
}

__all__ = [
    "Context",
    "Document",
    "HealthChange",
    "Memory",
    "Receipt",
    "Section",
    "Settings",
    "ToolResult",
    "Turn",
    "TurnRequest",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
