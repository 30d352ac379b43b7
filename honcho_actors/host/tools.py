"""The host's tool registry: which tools a model is shown in a turn, in which order, and what becomes of a call.

Promises: the order is the same at every turn, so that a prompt's prefix stands still; where two sources have a tool of
one name, the first by rank keeps it, and the other is reported, never run in its place; a subagent is shown and may run
only what was registered for subagents; whatever a model sends is answered, never raised; text of a source that is not
trusted is neutralised and fenced here, whatever it says of itself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from honcho_actors.model import EMPTY, TurnRequest
from honcho_actors.privacy import fence

Style = Literal["openai", "openai-responses", "anthropic", "mcp"]
STYLES: Final[tuple[Style, ...]] = ("openai", "openai-responses", "anthropic", "mcp")

MAX_ARGUMENT_CHARS: Final = 1_000_000
"""A longer JSON text of arguments is malformed; no tool has a use for it."""

RESULT_BYTES: Final = 60_000
"""What a source that is not trusted may say in one answer, the fence counted in."""

DESCRIPTION_CHARS: Final = 10_000
"""What it may say of one tool, or of one argument."""
_PROSE: Final = frozenset({"description", "title"})

_log = logging.getLogger("honcho_actors.host")


class Rank(StrEnum):
    """Whose tool it is; the earlier wins a name."""

    BUILT_IN = "built_in"
    SATELLITE = "satellite"
    EXTENSION = "extension"
    MCP = "mcp"


_ORDER: Final = {rank: place for place, rank in enumerate(Rank)}
_TRUSTED: Final = frozenset({Rank.BUILT_IN, Rank.SATELLITE})


class ToolAnswer(Protocol):
    """What a tool gives. `text` is for the model."""

    @property
    def text(self) -> str: ...
    @property
    def details(self) -> Mapping[str, Any]: ...
    @property
    def error(self) -> str | None: ...


class HostTool(Protocol):
    """One tool. `call` blocks, `acall` suspends; neither raises for what a model sends."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    def call(self, args: Any, request: Any, /) -> ToolAnswer: ...
    async def acall(self, args: Any, request: Any, /) -> ToolAnswer: ...


@dataclass(frozen=True, slots=True)
class Answered:
    """The registry's own answer, or one that it fenced."""

    text: str
    details: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A tool that is not offered because an earlier source has one of its name."""

    name: str
    kept: str
    dropped: str


Source = Callable[[], Iterable[HostTool]] | Iterable[HostTool]
Policy = Callable[[str, TurnRequest | None], bool]


class _Registered:
    __slots__ = ("hidden", "name", "rank", "shared", "subagents", "tools", "trusted")

    def __init__(
        self, name: str, tools: Source, hidden: Source, rank: Rank, trusted: bool, subagents: bool, shared: bool
    ) -> None:
        self.name = name
        self.tools = _asked(tools)
        self.hidden = _asked(hidden)
        self.rank = rank
        self.trusted = trusted
        self.subagents = subagents
        self.shared = shared

    def offers(self, request: object) -> bool:
        """Whether this source takes part in such a turn. None stands for a main turn of one person; anything else that
        is no request is nobody's."""
        if not isinstance(request, TurnRequest):
            return request is None
        if request.scope != "main" and not self.subagents:
            return False
        return request.audience == "private" or self.shared


class ToolRegistry:
    """Where built-in tools, satellites and extensions register theirs. Any thread, any event loop.

    `policy(name, request)` says whether a tool may be shown and run in a turn; one that raises says no.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy
        self._sources: tuple[_Registered, ...] = ()

    def register(
        self,
        name: str,
        tools: Source,
        *,
        rank: Rank = Rank.SATELLITE,
        hidden: Source = (),
        trusted: bool | None = None,
        subagents: bool = False,
        shared: bool = False,
    ) -> None:
        """Adds a source, or replaces the one of this name in its place.

        `tools` are the tools, or a function that gives those of the moment (`memory.tools`). `hidden` ones are run
        when a model names them and never shown: other names, tools that only refuse. `trusted`: what they say is not
        fenced here; built-in tools and satellites are, extensions and MCP servers are not, unless said. `subagents`
        and `shared`: whether subagents and conversations with several people get them.
        """
        rank = Rank(rank)
        new = _Registered(
            name, tools, hidden, rank, rank in _TRUSTED if trusted is None else trusted, subagents, shared
        )
        sources = [new if one.name == name else one for one in self._sources]
        if all(one is not new for one in sources):
            sources.append(new)
        self._sources = tuple(sorted(sources, key=lambda one: _ORDER[one.rank]))

    def unregister(self, name: str) -> None:
        """Takes a source out; no error when there is none."""
        self._sources = tuple(one for one in self._sources if one.name != name)

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, in the order in which they win a name."""
        return tuple(one.name for one in self._sources)

    # -- what a model is shown -----------------------------------------------------------------------------------------

    def tools(self, request: TurnRequest | None = None) -> tuple[HostTool, ...]:
        """The tools of this turn, in order: by rank of their source, then by registration, then as the source has
        them. Without a request those of a main turn of one person, for hosts that name their tools beforehand."""
        return tuple(tool for _, tool in self._shown(request)[0].values())

    def conflicts(self, request: TurnRequest | None = None) -> tuple[Conflict, ...]:
        """The tools that are not offered because their name was taken."""
        return self._shown(request)[1]

    def schemas(self, request: TurnRequest | None = None, style: Style = "openai") -> list[dict[str, Any]]:
        """What goes into a model's request as its tools, the caller's own copy: `openai` (chat completions),
        `openai-responses`, `anthropic` (messages), `mcp`. What a source that is not trusted says of its tools is
        neutralised; a tool that can't be described is left out."""
        offered = (_offered(source, tool, style) for source, tool in self._shown(request)[0].values())
        return [one for one in offered if one is not None]

    # -- what a model calls --------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: object, request: TurnRequest | None) -> ToolAnswer:
        """Runs one call; `arguments` is what the model sent, a mapping, a JSON text or None. Blocks for the tool's own
        time; on a thread that runs an event loop use `acall`."""
        found, given = self._found(name, arguments, request)
        if isinstance(found, Answered):
            return found
        source, tool = found
        try:
            return _told(tool.call(given, request), source)
        except Exception:  # noqa: BLE001 boundary: a tool that breaks costs its own call, never the turn
            return _broke(name)

    async def acall(self, name: str, arguments: object, request: TurnRequest | None) -> ToolAnswer:
        """As `call`, suspending the task."""
        found, given = self._found(name, arguments, request)
        if isinstance(found, Answered):
            return found
        source, tool = found
        try:
            return _told(await tool.acall(given, request), source)
        except Exception:  # noqa: BLE001 boundary: a tool that breaks costs its own call, never the turn
            return _broke(name)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _shown(self, request: object) -> tuple[dict[str, tuple[_Registered, HostTool]], tuple[Conflict, ...]]:
        taken: dict[str, tuple[_Registered, HostTool]] = {}
        conflicts = []
        for source in self._sources:
            if not source.offers(request):
                continue
            for tool in _those(source.tools, source.name):
                if tool.name in taken:
                    conflicts.append(Conflict(tool.name, taken[tool.name][0].name, source.name))
                elif self._allowed(tool.name, request):
                    taken[tool.name] = (source, tool)
        return taken, tuple(conflicts)

    def _found(
        self, name: object, arguments: object, request: object
    ) -> tuple[Answered | tuple[_Registered, HostTool], object]:
        """The tool of that name in this turn and its arguments, or the answer in its place."""
        found = self._shown(request)[0].get(name) if isinstance(name, str) else None
        if found is None:
            found = self._hidden(name, request)
        if found is None:
            return _refused("unknown_tool", "there is no such tool here", request), None
        try:
            return found, parsed(arguments)
        except ValueError:
            return _refused("bad_argument", "the arguments must be one JSON object", request), None

    def _hidden(self, name: object, request: object) -> tuple[_Registered, HostTool] | None:
        for source in self._sources:
            if source.offers(request):
                for tool in _those(source.hidden, source.name):
                    if tool.name == name and self._allowed(tool.name, request):
                        return source, tool
        return None

    def _allowed(self, name: str, request: Any) -> bool:
        if self._policy is None:
            return True
        try:
            return self._policy(name, request) is True
        except Exception:  # noqa: BLE001 boundary: a policy that fails allows nothing
            return False


def described(tool: HostTool, style: Style = "openai") -> dict[str, Any]:
    """One tool as a provider's API takes it."""
    if style == "anthropic":
        return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    if style == "mcp":
        return {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
    plain = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    if style == "openai-responses":
        return {"type": "function", **plain}
    if style == "openai":
        return {"type": "function", "function": plain}
    raise ValueError(f"style is one of {', '.join(STYLES)}")


def _offered(source: _Registered, tool: HostTool, style: Style) -> dict[str, Any] | None:
    if style not in STYLES:
        return described(tool, style)
    try:
        shown = described(tool, style)
        return shown if source.trusted else _told_of(shown)
    except Exception:  # noqa: BLE001 boundary: a tool that can't be described costs only itself
        _log.warning("tool %s of %s can't be described", tool.name, source.name)
        return None


def _told_of(value: Any) -> Any:
    """A description of a tool, with the words in it neutralised; what a model has to repeat stays as it is."""
    if isinstance(value, Mapping):
        return {
            name: fence.neutral(one[:DESCRIPTION_CHARS]) if name in _PROSE and isinstance(one, str) else _told_of(one)
            for name, one in value.items()
        }
    return [_told_of(one) for one in value] if isinstance(value, list | tuple) else value


def parsed(arguments: object) -> object:
    """What a model sent as arguments: JSON text is read, "" is none, anything else is left to the tool. ValueError for
    text that is no JSON, or nested too deep."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return None
    if len(arguments) > MAX_ARGUMENT_CHARS:
        raise ValueError("too long")
    try:
        return json.loads(arguments)
    except RecursionError:
        raise ValueError("too deep") from None


def _asked(source: Source) -> Callable[[], Iterable[HostTool]]:
    if callable(source):
        return source
    fixed = tuple(source)
    return lambda: fixed


def _those(source: Callable[[], Iterable[HostTool]], name: str) -> tuple[HostTool, ...]:
    try:
        return tuple(tool for tool in source() if isinstance(tool.name, str))
    except Exception:  # noqa: BLE001 boundary: a source that fails costs only its own tools
        _log.warning("tools of %s could not be had", name)
        return ()


def _told(answer: ToolAnswer, source: _Registered) -> ToolAnswer:
    text = answer.text
    if not isinstance(text, str):
        raise TypeError("an answer without text")
    if source.trusted:
        return answer
    # A text that a source made itself is never taken for fenced, whatever type or words it has.
    shown = fence.fenced(str.__str__(text), RESULT_BYTES)
    return Answered(shown or "The tool answered nothing.", MappingProxyType({"fenced": True}), answer.error)


def _refused(error: str, why: str, request: object) -> Answered:
    if error == "unknown_tool" and isinstance(request, TurnRequest):
        if request.scope != "main":
            error, why = "subagent", "this tool is not for subagents, or there is none of that name"
        elif request.audience != "private":
            error, why = "shared_audience", "this tool is not for conversations of several people, or there is none"
    details = MappingProxyType({"outcome": "refused", "error": error})
    return Answered(f"Refused: {why}. Nothing was done.", details, error)


def _broke(name: str) -> Answered:
    _log.warning("tool %s broke", name)
    details = MappingProxyType({"outcome": "failed", "error": "internal"})
    return Answered("Failed: the tool broke. Whether anything was done is not known.", details, "internal")
