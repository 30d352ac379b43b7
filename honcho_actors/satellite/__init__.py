"""What a host registers: the contributor that brings recalled memory into a prompt, the memory provider that is
searched and told, and the tools that a model calls.

Translates between a host's registries and the rooms below. It holds no state of its own, decides nothing about
refreshes and restates no constant of the host: what the host grants comes in with the call.
"""

from __future__ import annotations

from honcho_actors.satellite.contributor import ContextContributor
from honcho_actors.satellite.provider import HonchoProvider

__all__ = ["ContextContributor", "HonchoProvider"]
