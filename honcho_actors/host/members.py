"""Who is registered, by name and in order, with a lane each: one tuple that is replaced as a whole, so that whoever
reads it meanwhile sees the old one or the new one. Pure but for the lanes that it closes.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from honcho_actors.host.lane import Lane


class Named(Protocol):
    """One registration."""

    name: str
    lane: Lane


Member = TypeVar("Member", bound=Named)


def placed(members: tuple[Member, ...], new: Member) -> tuple[Member, ...]:
    """With `new` in the place of the one of its name, or at the end. The lane of the one that it replaces is closed."""
    if all(one.name != new.name for one in members):
        return (*members, new)
    _closed(members, new.name)
    return tuple(new if one.name == new.name else one for one in members)


def without(members: tuple[Member, ...], name: str) -> tuple[Member, ...]:
    """Without the one of this name, whose lane is closed; no error when there is none."""
    _closed(members, name)
    return tuple(one for one in members if one.name != name)


def _closed(members: tuple[Member, ...], name: str) -> None:
    for one in members:
        if one.name == name:
            one.lane.close()
