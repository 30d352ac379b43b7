"""What is remembered, kept ready: the published table that a turn reads, its single writer, and the workers that
refill it.

A turn meets `Sessions` (the facade) and the table alone. Everything that waits, renders, decides or talks to the server
happens in the SessionManager and its RefreshWorkers. Nothing here captures, and nothing here knows a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from honcho_actors.sessions.facade import Sessions

__all__ = ["Sessions"]


def __getattr__(name: str) -> Any:
    if name == "Sessions":
        from honcho_actors.sessions.facade import Sessions

        return Sessions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
