"""What a tool works with on the event loop, and how a tool is described.

A tool is a `Definition`: its words for the model, its schema, and `plan`, which reads the arguments (pure, any thread)
and gives the `Work` that is left to do. `Work.run` gets a `Desk` and talks to the server under one total deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from honcho_actors.honcho.outcomes import Call, Priority
from honcho_actors.metrics import Meters
from honcho_actors.privacy import fence, names
from honcho_actors.satellite.locating import Locating
from honcho_actors.satellite.tools.answers import ToolResult
from honcho_actors.satellite.tools.gates import Asker
from honcho_actors.settings import Settings

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient


class Spend(Protocol):
    """The budget of billed calls, shared with the dialectic of turns. Safe from any thread."""

    def reserve(self, calls: int, now: float, limit: int | None) -> int: ...
    def give_back(self, calls: int) -> None: ...


class Desk:
    """One call's slot, client and deadline. Made and used on the runtime's event loop.

    The slot is one: observer = observed = the asking person's own peer, for what is read, asked, concluded and kept on
    the card.
    """

    def __init__(
        self, client: HonchoClient, asker: Asker, seconds: float, meters: Meters, spend: Spend, locating: Locating
    ) -> None:
        self.client = client
        self.asker = asker
        self.settings = asker.settings
        self.meters = meters
        self.spend = spend
        self._locating = locating
        self.workspace = names.workspace_id(asker.settings.workspace)
        self.peer = asker.identity.user_peer
        self.deadline = asyncio.get_running_loop().time() + seconds

    @property
    def call(self) -> Call:
        """The frame of every request of this call: somebody waits for it now."""
        return Call(self.deadline, Priority.COLD)

    async def session(self) -> str:
        """The remote name of this conversation; TimeoutError when a disk does not answer in this call's time."""
        return await self._locating(self.asker.identity, self.deadline)

    def speaker(self, peer: str) -> str:
        """A peer's name for a model: what it is to this person, else its own on one line."""
        if peer == self.peer:
            return "the user"
        if peer == self.asker.identity.ai_peer:
            return "the assistant"
        return fence.line(peer)[:100] or "somebody"


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do after parsing. `seconds` is the whole time that it may take."""

    seconds: float
    run: Callable[[Desk], Awaitable[ToolResult]]
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool. `counts_as` is the name under which it is counted. `plan` raises `Wrong` and `Held` only."""

    name: str
    counts_as: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    plan: Callable[[object, Settings], Work | ToolResult]

    def schema(self) -> dict[str, Any]:
        """A JSON Schema of the arguments, the caller's own copy."""
        return {
            "type": "object",
            "properties": {name: _copied(one) for name, one in self.properties.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }


def _copied(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for name, value in one.items()
    }
