"""What a runtime says of itself: JSON-able, without a secret, without a text, and without asking anybody.

Every part is read from what is published; a part that cannot be read is left at nothing with its reason, and never
takes the others along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal

RunState = Literal["ready", "degraded", "off", "closed"]
ALL_WELL: Final[Mapping[str, Any]] = MappingProxyType({"since": None, "causes": ()})
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Status:
    """`health` is one sentence; `state` one word. Times of day are Unix seconds, durations seconds."""

    state: RunState
    health: str
    pid: int
    version: str
    started_at: float
    uptime: float
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sessions: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    outbox: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    client: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    tree: tuple[Mapping[str, Any], ...] = ()
    endpoints: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    problems: tuple[str, ...] = ()
    workers: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """By kind of background work: when it last ended, and what last went wrong with it."""
    degraded: Mapping[str, Any] = field(default_factory=lambda: ALL_WELL)
    """`since` (None: it is not) and `causes`: cause (a word of `Cause`), text, fix, since; gravest first."""

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, as JSON has them."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}


def part(read: Callable[[], Mapping[str, Any]], problems: list[str], name: str) -> Mapping[str, Any]:
    """One part of the status; what goes wrong while it is read is a problem of that part."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - boundary: a broken store degrades its own part of the status, no more
        problems.append(f"{name} cannot be read ({type(error).__name__})")
        return _NOTHING


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value
