"""What tools and the memory provider are given of one runtime: its settings, its loop, its client, its budget of billed
questions.

Without a tree there is nothing to run on, and every call answers *off*.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from honcho_actors.host.tools import ToolAnswer, ToolRegistry
from honcho_actors.metrics import Meters
from honcho_actors.model import Document, Turn, TurnRequest
from honcho_actors.runtime.searching import Searching
from honcho_actors.runtime.tree import Tree
from honcho_actors.satellite import HonchoProvider
from honcho_actors.satellite.locating import Locating
from honcho_actors.satellite.tools import Details, Ports, Tool, ToolError, ToolResult, make_tools, toolbox
from honcho_actors.sessions.cadence import SpendBudget
from honcho_actors.settings import SettingsCell
from supervision import Clock, NoProc, Reply, Waiter

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
    return ToolResult(answer.text, Details(answer.details), None if answer.error is None else ToolError(answer.error))


def provider(
    cell: SettingsCell, tree: Tree | None, off: Callable[[], bool], keep: Callable[[Turn], object]
) -> HonchoProvider:
    """Honcho as a memory provider: searched on the runtime's loop, whichever that is by then."""
    clock = Clock() if tree is None else tree.runtime.clock

    def find(text: str, scope: str, key: str | None, limit: int, seconds: float) -> Waiter[tuple[Document, ...]] | None:
        if tree is None or off():
            return None
        found: Waiter[tuple[Document, ...]] = Waiter(clock=clock)
        try:
            reply = Searching(tree).start(cell.current, text, scope, key, limit, seconds)
        except NoProc:
            return None
        reply.subscribe(lambda: found.resolve(_hits(reply)))
        return found

    return HonchoProvider(cell, clock, find, keep)


def _hits(reply: Reply[tuple[Document, ...]]) -> tuple[Document, ...]:
    try:
        hits: tuple[Document, ...] = reply.get(timeout=0.0)
        return hits
    except Exception:  # noqa: BLE001 boundary: a search that fails finds nothing
        return ()


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
    located = Locating() if tree is None else tree.locating
    return Ports(cell, meters, client, submit, written, spend, off, located)
