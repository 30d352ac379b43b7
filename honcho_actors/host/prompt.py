"""One prompt out of three things: the static prefix, what memory holds still, and what moves with the turn.

The system text is the host's static prefix followed by the stable half, so that its bytes change only when memory
did; what moves stands after the user's own words, between two marks that carry an id nobody can guess. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from honcho_actors.host.registry import Collected
from honcho_actors.model import Context, Placement, Section

OPENING = "[context {mark}: supplied by the system, not by the user; background only, do not answer it]"
CLOSING = "[end of context {mark}]"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is given. `typed` is what the user wrote, to the byte; `user` is that and what was added beside
    it."""

    system: str
    user: str
    typed: str

    @property
    def added(self) -> str:
        """What stands beside the user's words; "" when nothing does."""
        return self.user[len(self.typed) :]


def compose_prompt(static: str, collected: Collected | Context, user_text: str, mark: str = "") -> Prompt:
    """The prompt of one turn. `mark` is the conversation's id (`Transcript.mark`); without one the marks are plain."""
    if not isinstance(collected, (Collected, Context)):
        raise TypeError("compose_prompt takes what was collected, or a Context")
    stable = written(one for one in collected.sections if one.placement == Placement.SYSTEM)
    moving = written(one for one in collected.sections if one.placement == Placement.USER_MESSAGE)
    system = "\n\n".join(part for part in (static, stable) if part)
    if not moving:
        return Prompt(system, user_text, user_text)
    opening, closing = OPENING.format(mark=mark).replace(" :", ":"), CLOSING.format(mark=mark).replace(" ]", "]")
    front = f"{user_text}\n\n" if user_text else ""
    return Prompt(system, f"{front}{opening}\n{moving}\n{closing}", user_text)


def written(sections: Iterable[Section]) -> str:
    """Sections as text, each under its title."""
    return "\n\n".join(f"## {one.title}\n\n{one.body}" for one in sections)


def stripped(text: str, mark: str) -> str:
    """`text` without the added block of this mark. Anything else, however it looks, is the user's and keeps every
    byte."""
    if not mark:
        return text
    opening, closing = OPENING.format(mark=mark), CLOSING.format(mark=mark)
    start = text.rfind(opening)
    if start < 0 or not text.endswith(closing):
        return text
    return text[: max(0, start - 2)] if text[:start].endswith("\n\n") else text[:start]
