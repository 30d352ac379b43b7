"""Capture: everything that is said is accepted once, and delivered once, in order.

Here live the outbox (`schema`, `outbox`, `writer`), what a turn becomes (`content`), the policy of delivery as pure
functions (`decide`, `retry`, `dispatch`, `clocks`), its shell (`worker`, `sweeper`), forks, the importer, the ledger
and the face that `runtime` uses (`Capture`). Nothing here reads memory, knows a prompt, or talks to a server but
through the Honcho client; nothing here runs on a turn but `Capture.capture`, which touches neither disk nor network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from honcho_actors.capture.facade import Capture, CapturePorts
    from honcho_actors.capture.receipt import Receipt

__all__ = ["Capture", "CapturePorts", "Receipt"]

_HOME = {"Capture": "facade", "CapturePorts": "facade", "Receipt": "receipt"}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
