"""The tools as a host gets them: gates, parsing, one piece of work on the runtime's loop, and always an answer.

`call` blocks its thread for at most the tool's own time; on a thread that runs an event loop it does not wait but says
to use `acall`. Nothing is raised for what a model sends, a server does, or a runtime that ends meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.host.tools import ToolRegistry
from honcho_actors.metrics import Meters
from honcho_actors.model import TurnRequest
from honcho_actors.privacy.egress import Field
from honcho_actors.satellite.locating import Locating
from honcho_actors.satellite.tools.answers import ToolError, ToolResult, refusal, timed_out, withheld
from honcho_actors.satellite.tools.arguments import Held, Wrong
from honcho_actors.satellite.tools.conclude import CONCLUDE, REMEMBER
from honcho_actors.satellite.tools.context import CONTEXT
from honcho_actors.satellite.tools.desk import Definition, Desk, Spend, Work
from honcho_actors.satellite.tools.gates import Asker, admit, may_write
from honcho_actors.satellite.tools.profile import PROFILE
from honcho_actors.satellite.tools.reasoning import CHAT, MEMORY_QUERY, REASONING
from honcho_actors.satellite.tools.search import SEARCH
from honcho_actors.settings import SettingsCell
from supervision import CallTimeout, Reply

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient

TOOLS: Final = (SEARCH, CONTEXT, PROFILE, CONCLUDE, REASONING)
ALIASES: Final = (MEMORY_QUERY, CHAT, REMEMBER)
REPORT_SECONDS: Final = 0.5
"""The requests of a tool end by their own deadline; this much later the tool ends, in case they did not."""
_COUNTED_HERE: Final = {Field.CONCLUSION: "conclusion", Field.CARD: "card"}


@dataclass(frozen=True, slots=True)
class Ports:
    """What the runtime gives. `client` is called on the runtime's loop and gives the client of a server, None when
    another is set now; `submit` runs a coroutine on that loop; `written` is told of every write that was verified;
    `off` says whether the runtime runs; `locating` finds a conversation's remote name off the loop.
    """

    cell: SettingsCell
    meters: Meters
    client: Callable[[str], Awaitable[HonchoClient | None]]
    submit: Callable[[Coroutine[Any, Any, ToolResult]], Reply[ToolResult]]
    written: Callable[[TurnRequest], None]
    spend: Spend
    off: Callable[[], bool]
    locating: Locating


class Tool:
    """One tool of one runtime. Any thread, any event loop; immutable."""

    __slots__ = ("_definition", "_ports")

    def __init__(self, definition: Definition, ports: Ports) -> None:
        self._definition = definition
        self._ports = ports

    @property
    def name(self) -> str:
        """What a model calls it."""
        return self._definition.name

    @property
    def description(self) -> str:
        """What it does, what comes back and what it costs, for a model."""
        return self._definition.description

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; each access gives a new copy."""
        return self._definition.schema()

    def __repr__(self) -> str:
        return f"Tool({self.name})"

    def call(self, args: object, request: object) -> ToolResult:
        """Answers a call; `args` is what the model sent, `request` what the host's own code says of the turn.

        Blocks for at most the tool's time. On a thread that runs an event loop: error `event_loop`, at once.
        """
        if _on_loop():
            return self._counted(
                refusal(
                    ToolError.EVENT_LOOP, "Refused: this thread runs an event loop; the host must use `acall` here."
                )
            )
        begun = self._begin(args, request)
        if isinstance(begun, ToolResult):
            return self._counted(begun)
        asker, work = begun
        try:
            reply = self._ports.submit(self._run(asker, work))
            return self._counted(self._told(reply.get(timeout=work.seconds + 2 * REPORT_SECONDS)))
        except Exception as error:  # noqa: BLE001 - boundary: a tool answers, whatever ends under it
            return self._counted(self._ended(error, work))

    async def acall(self, args: object, request: object) -> ToolResult:
        """As `call`, suspending the task; on any event loop."""
        begun = self._begin(args, request)
        if isinstance(begun, ToolResult):
            return self._counted(begun)
        asker, work = begun
        try:
            reply = self._ports.submit(self._run(asker, work))
            async with asyncio.timeout(work.seconds + 2 * REPORT_SECONDS):
                return self._counted(self._told(await reply))
        except Exception as error:  # noqa: BLE001 - boundary: a tool answers, whatever ends under it
            return self._counted(self._ended(error, work))

    def _begin(self, args: object, request: object) -> tuple[Asker, Work] | ToolResult:
        """Everything before the network: gates, parsing, screening, the gate of writes."""
        try:
            settings = self._ports.cell.current
            asker = admit(settings, request, off=self._ports.off())
            if isinstance(asker, ToolResult):
                return asker
            work = self._definition.plan(args, settings)
            if isinstance(work, ToolResult):
                return work
            closed = may_write(settings) if work.writes else None
            return closed if closed is not None else (asker, work)
        except Wrong as wrong:
            return refusal(
                ToolError.BAD_ARGUMENT, f"Refused: {wrong}. Nothing was sent; correct the call and repeat it."
            )
        except Held as held:
            if held.field in _COUNTED_HERE:
                self._ports.meters.egress_withheld.labels(_COUNTED_HERE[held.field]).inc()
            return withheld(held.parameter)
        except Exception:  # noqa: BLE001 - boundary: what a model sends is answered, never raised
            return refusal(ToolError.INTERNAL, "Failed: the call could not be read. Nothing was sent.")

    async def _run(self, asker: Asker, work: Work) -> ToolResult:
        """On the runtime's loop."""
        client = await self._ports.client(asker.settings.server_id)
        if client is None:
            return refusal(ToolError.NOT_CONFIGURED, "Refused: the memory server was changed meanwhile. Call again.")
        desk = Desk(client, asker, work.seconds, self._ports.meters, self._ports.spend, self._ports.locating)
        async with asyncio.timeout(work.seconds + REPORT_SECONDS):
            result = await work.run(desk)
        if work.writes and result.error is None:
            self._ports.written(asker.request)
        return result

    def _told(self, result: object) -> ToolResult:
        if isinstance(result, ToolResult):
            return result
        return refusal(ToolError.INTERNAL, _BROKE)

    def _ended(self, error: Exception, work: Work) -> ToolResult:
        if self._ports.off():
            return refusal(ToolError.OFF, "Failed: the memory of this assistant is being shut down.")
        if isinstance(error, (TimeoutError, CallTimeout)):
            return timed_out(write=work.writes)
        return refusal(ToolError.INTERNAL, _BROKE)

    def _counted(self, result: ToolResult) -> ToolResult:
        self._ports.meters.tool_calls.labels(self._definition.counts_as, str(result.outcome)).inc()
        return result


_BROKE: Final = "Failed: something inside the memory of this assistant broke. Whether anything was done is not known."


def make_tools(ports: Ports, *, aliases: bool = True) -> tuple[Tool, ...]:
    """The five tools, then the three other names; none while `recall_mode` is context."""
    if ports.cell.current.recall_mode == "context":
        return ()
    return tuple(Tool(one, ports) for one in (*TOOLS, *(ALIASES if aliases else ())))


def toolbox(ports: Ports) -> ToolRegistry:
    """A registry that holds the tools alone: shown are the five, by recall mode; run are the other names too, and in
    every mode, so that a call which comes all the same is refused with the true reason."""
    every = tuple(Tool(one, ports) for one in (*TOOLS, *ALIASES))
    box = ToolRegistry()
    box.register("memory", lambda: make_tools(ports, aliases=False), hidden=every)
    return box


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
