"""What the tools are given of one runtime: its settings, its loop, its client, its budget of billed questions.

Without a tree there is nothing to run on, and every call answers *off*.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from honcho_actors.metrics import Meters
from honcho_actors.model import TurnRequest
from honcho_actors.runtime.tree import Tree
from honcho_actors.satellite.tools import Ports, Tool, ToolResult, make_tools
from honcho_actors.sessions.cadence import SpendBudget
from honcho_actors.settings import SettingsCell
from supervision import NoProc, Reply

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient


def tools(
    cell: SettingsCell, meters: Meters, tree: Tree | None, off: Callable[[], bool], *, aliases: bool
) -> tuple[Tool, ...]:
    """The tools of one runtime."""

    async def client(server_id: str) -> HonchoClient | None:
        return None if tree is None else tree.clients.for_server(server_id)

    def submit(work: Coroutine[Any, Any, ToolResult]) -> Reply[ToolResult]:
        if tree is None:
            work.close()
            raise NoProc("there is no tree")
        return tree.runtime.loop.submit(work)

    def written(request: TurnRequest) -> None:
        if tree is not None:
            tree.sessions.refresh(request)

    spend = SpendBudget() if tree is None else tree.sessions.spend
    return make_tools(Ports(cell, meters, client, submit, written, spend, off), aliases=aliases)
