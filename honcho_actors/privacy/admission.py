"""May this turn read memory, and may what was said in it be captured: pure rules, one answer each.

Order matters: the first reason that applies is the one that is told. Whether the store is open and what the server
says are other rooms' reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from honcho_actors.model import Reason, SkipReason, Turn, TurnRequest

Selection = Sequence[str] | Mapping[str, object] | None
"""What a host says of its extensions for one conversation: exactly these names; or `add` and `remove`, edits of the
host's own default; or nothing."""


class ReadSettings(Protocol):
    """The settings that decide about reading."""

    @property
    def enabled(self) -> bool: ...
    @property
    def configured(self) -> bool: ...
    @property
    def recall_mode(self) -> str: ...
    @property
    def inject_in_subagents(self) -> bool: ...


class CaptureSettings(Protocol):
    """The settings that decide about capturing."""

    @property
    def enabled(self) -> bool: ...
    @property
    def save_messages(self) -> bool: ...


def may_read(request: TurnRequest, settings: ReadSettings) -> Reason | None:
    """None when a turn may be given a block, else why not. A scope that is not `main` counts as a subagent."""
    if not settings.enabled:
        return Reason.DISABLED
    if not settings.configured:
        return Reason.NOT_CONFIGURED
    if settings.recall_mode == "tools":
        return Reason.TOOLS_MODE
    if request.scope != "main" and settings.inject_in_subagents is not True:
        return Reason.SUBAGENT
    if request.audience != "private":
        return Reason.SHARED_AUDIENCE
    return None


def may_use_tools(request: TurnRequest, settings: ReadSettings) -> Reason | None:
    """None when a memory tool may answer, else why not. Subagents have no memory tools, whatever is injected into
    them."""
    if not settings.enabled:
        return Reason.DISABLED
    if not settings.configured:
        return Reason.NOT_CONFIGURED
    if request.scope != "main":
        return Reason.SUBAGENT
    if request.audience != "private":
        return Reason.SHARED_AUDIENCE
    return None


def may_capture(turn: Turn, settings: CaptureSettings, *, opted_out: bool = False) -> SkipReason | None:
    """None when what was said may be stored and sent, else why not."""
    if not settings.enabled:
        return SkipReason.DISABLED
    if settings.save_messages is not True:
        return SkipReason.READ_ONLY
    if turn.scope != "main":
        return SkipReason.SUBAGENT
    if turn.interactive is not True:
        return SkipReason.NOT_INTERACTIVE
    if turn.ephemeral is not False:
        return SkipReason.EPHEMERAL
    if turn.synthetic is not False:
        return SkipReason.SYNTHETIC
    return SkipReason.OPTED_OUT if opted_out else None


def selected(selection: Selection, name: str, *, host_default: bool) -> bool:
    """Whether a host's selection for a conversation includes this extension (seed 001).

    A list selects exactly its members. An object edits the host's default: `remove` of what is not in the default
    changes nothing, unless `add` brings it in; what is both added and removed is removed. Anything unreadable selects
    nothing.
    """
    if selection is None:
        return host_default
    if isinstance(selection, str):
        return False
    if isinstance(selection, Mapping):
        added, removed = _names(selection.get("add")), _names(selection.get("remove"))
        if added is None or removed is None:
            return False
        return (host_default or name in added) and name not in removed
    return name in selection


def _names(value: object) -> frozenset[str] | None:
    if value is None:
        return frozenset()
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None
    return frozenset(entry for entry in value if isinstance(entry, str))
