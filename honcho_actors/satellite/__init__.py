"""What a host registers: the contributor that brings recalled memory into a prompt.

Translates between a host's registries and the rooms below. It holds no state of its own, decides nothing about
refreshes and restates no constant of the host: what the host grants comes in with the call.
"""

from __future__ import annotations

from honcho_actors.satellite.contributor import ContextContributor

__all__ = ["ContextContributor"]
