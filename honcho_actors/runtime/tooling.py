"""What tools and the memory provider are given of one runtime: its settings, its loop, its client, its budget of billed
questions.

Without a tree there is nothing to run on, and every call answers *off*.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from honcho_actors.host.tools import ToolAnswer, ToolRegistry
from honcho_actors.metrics import Meters
from honcho_actors.model import TurnRequest
from honcho_actors.runtime.tree import Tree
from honcho_actors.satellite.tools import Ports, Tool, ToolError, ToolResult, make_tools, toolbox
from honcho_actors.sessions.cadence import SpendBudget
from honcho_actors.settings import SettingsCell
from supervision import NoProc, Reply

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient


def tools(
    cell: SettingsCell, meters: Meters, tree: Tree | None, off: Callable[[], bool], *, aliases: bool
) -> tuple[Tool, ...]:
    """The tools of one runtime."""
    return make_tools(_ports(cell, meters, tree, off), aliases=aliases)


def box(cell: SettingsCell, meters: Meters, tree: Tree | None, off: Callable[[], bool]) -> ToolRegistry:
    """The same behind one door: what a model is shown and what runs its calls."""
    return toolbox(_ports(cell, meters, tree, off))


def result(answer: ToolAnswer) -> ToolResult:
    """An answer of the door as one of a tool."""
    if isinstance(answer, ToolResult):
        return answer
    return ToolResult(answer.text, answer.details, None if answer.error is None else ToolError(answer.error))


def _ports(cell: SettingsCell, meters: Meters, tree: Tree | None, off: Callable[[], bool]) -> Ports:
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
    return Ports(cell, meters, client, submit, written, spend, off)
