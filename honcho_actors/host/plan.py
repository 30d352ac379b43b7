"""What a contributor and a registry say to each other.

A contributor is asked for a *plan*: how long it would like to take (`wants`, seconds; 0 when its answer is at hand)
and how to begin (`run`). The registry grants an absolute deadline on its clock; `run(deadline)` answers at once, with
the answer or with a `Waiter` that will hold it, and never blocks. The registry does the waiting, for everyone at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from honcho_actors.model import Context, Section, TurnRequest
from supervision import Waiter


@dataclass(frozen=True, slots=True)
class Contribution:
    """Sections of one contributor, in its own order."""

    sections: tuple[Section, ...] = ()


Answer = Contribution | Context | None
"""What a contributor gives in the end; None: nothing to say."""


class Plan:
    """A contributor's offer for one turn. `wants` in seconds; `run(deadline)` never blocks."""

    __slots__ = ("run", "wants")

    def __init__(self, wants: float, run: Callable[[float], Answer | Waiter[Any]]) -> None:
        self.wants = wants
        self.run = run


@runtime_checkable
class Contributor(Protocol):
    """Whoever has something to add to a prompt."""

    def plan(self, request: TurnRequest) -> Plan | None:
        """The offer for this turn; None: nothing to say. Called for every turn, so it should be quick."""
        ...
