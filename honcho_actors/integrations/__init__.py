"""Adapters: memory inside the frameworks and clients that people use, each a thin layer over `turns`.

One object does the work (`turns.Turns`): it begins a turn of a person once, whatever number of model calls the turn
takes, and finishes it once. An adapter finds the person's words and the answer in its framework's own data, and puts
two blocks in their places. Nothing here holds a cadence, a rule of privacy or a rendering; no adapter is imported
before it is used, and a missing extra names the command that installs it.
"""

from __future__ import annotations

from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current, talking

__all__ = ["OpenTurn", "Turns", "current", "talking"]
