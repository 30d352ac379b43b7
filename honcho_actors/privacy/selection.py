"""Does a host's selection for one conversation include this extension: a pure rule, asked at every turn (seed 001).

A list selects exactly its members. An object edits the host's default: `remove` of what is not in the default changes
nothing, unless `add` brings it in; what is both added and removed is removed. Nothing said is the host's default; what
can't be read selects nothing. Since nothing is remembered, an opt-out after a yes holds from the next turn on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Selection = Sequence[str] | Mapping[str, object] | None
"""Exactly these names; or `add` and `remove`, edits of the host's own default; or nothing."""


def selected(selection: Selection, name: str, *, host_default: bool) -> bool:
    """Whether the selection includes `name`; `host_default`: whether the host includes it where nothing is said."""
    if selection is None:
        return host_default
    if isinstance(selection, Mapping):
        added, removed = _names(selection.get("add")), _names(selection.get("remove"))
        if added is None or removed is None:
            return False
        return (host_default or name in added) and name not in removed
    exact = _names(selection)
    return exact is not None and name in exact


def _names(value: object) -> frozenset[str] | None:
    """The names of a list; None for what is no list of names."""
    if value is None:
        return frozenset()
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None
    return frozenset(entry for entry in value if isinstance(entry, str))
