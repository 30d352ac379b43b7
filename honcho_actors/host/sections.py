"""What of a contributor's answer is taken: checked shape by shape, bounded in number and bytes. Total on any value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from honcho_actors.model import Context, Placement, Section

MAX_SECTIONS = 8
MAX_BYTES = 16_384
"""What one contributor may give to one prompt, unless the registry is told otherwise."""

_PLACEMENTS = frozenset(Placement)


def taken(answer: Any, max_sections: int, max_bytes: int) -> tuple[tuple[Section, ...], int, bool]:
    """The usable sections, how many were dropped, and whether the answer had a shape at all.

    Kept is the longest run from the start that fits, whole sections only. A bad section costs only itself.
    """
    if answer is None:
        return (), 0, True
    trusted = isinstance(answer, Context)
    given = answer if isinstance(answer, (list, tuple)) else getattr(answer, "sections", None)
    if isinstance(answer, Section):
        given = (answer,)
    if not isinstance(given, (list, tuple)):
        return (), 0, False
    kept: list[Section] = []
    used = 0
    for position, one in enumerate(given):
        section = one if trusted else _checked(one)
        if section is None:
            continue
        size = len(section.title.encode("utf-8", "surrogatepass")) + len(section.body.encode("utf-8", "surrogatepass"))
        if len(kept) >= max_sections or used + size > max_bytes:
            return tuple(kept), len(given) - position, True
        kept.append(section)
        used += size
    return tuple(kept), len(given) - len(kept), True


def _checked(one: Any) -> Section | None:
    """The section trimmed, or None: not a section, blank, or placed where nothing is placed. Nothing is coerced."""
    if not isinstance(one, Section) or not isinstance(one.title, str) or not isinstance(one.body, str):
        return None
    if not isinstance(one.placement, Placement) or one.placement not in _PLACEMENTS:
        return None
    title, body = one.title.strip(), one.body.strip()
    if not title or not body:
        return None
    return one if title == one.title and body == one.body else replace(one, title=title, body=body)
