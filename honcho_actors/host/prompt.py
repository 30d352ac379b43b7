"""One prompt out of three things: the static prefix, what memory holds still, and what moves with the turn.

The system text is the host's static prefix followed by the stable half, so that its bytes change only when memory did;
what moves stands behind the user's own words, after the last place where a provider's cache can begin anew, inside the
conversation's envelope. What our own memory gives comes neutral, labelled and fenced; whatever else was collected is
made so here. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from honcho_actors.host.history import Prefix
from honcho_actors.host.registry import Collected, Outcome, OutcomeState
from honcho_actors.host.sections import MAX_BYTES
from honcho_actors.model import Context, Placement, Reason, Section
from honcho_actors.privacy import fence
from honcho_actors.privacy.envelope import PLAIN, Envelope


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is given.

    `system` is `static`, a blank line, `stable`; `user` is `typed` followed by `added`, to the byte. A provider's cache
    marks belong behind `static` and behind `stable` (Anthropic: one text block each), and on the last message before
    this one; `added` comes after all of them.
    """

    system: str
    user: str
    typed: str
    static: str = ""
    stable: str = ""
    prefix: Prefix | None = None
    """How it stands to the prompt before it; None when nobody kept one."""

    @property
    def added(self) -> str:
        """What stands beside the user's words; "" when nothing does."""
        return self.user[len(self.typed) :]


def compose_prompt(static: str, collected: Collected | Context, user_text: str, mark: str | Envelope = "") -> Prompt:
    """The prompt of one turn. `mark` is the conversation's envelope (`transcript.envelope`) or its id; without one the
    lines are plain and nothing can be stripped again. A host that keeps a `Transcript` calls its `compose` instead."""
    if not isinstance(collected, (Collected, Context)):
        raise TypeError("compose_prompt takes what was collected, or a Context")
    envelope = mark if isinstance(mark, Envelope) else Envelope(mark) if mark else PLAIN
    return composed(static, stable_half(collected), moving_half(collected), user_text, envelope)


def composed(
    static: str, stable: str, moving: str, user_text: str, envelope: Envelope, prefix: Prefix | None = None
) -> Prompt:
    """A prompt out of finished halves. Joins strings and formats nothing."""
    system = f"{static}\n\n{stable}" if static and stable else static or stable
    return Prompt(system, user_text + envelope.beside(user_text, moving), user_text, static, stable, prefix)


FOR_NOW: Final = frozenset(
    {
        Reason.LOADING,
        Reason.DEADLINE,
        Reason.BREAKER_OPEN,
        Reason.UNAUTHORIZED,
        Reason.SERVER_ERROR,
        Reason.WORKER_DIED,
        Reason.OVERLOADED,
        Reason.EVENT_LOOP,
        Reason.GIVEN_UP,
        Reason.CLOSED,
    }
)
"""Reasons for which memory could not be had this time, and may well be there the next."""

_NOT_HAD: Final = frozenset({OutcomeState.LATE, OutcomeState.FAILED, OutcomeState.BUSY, OutcomeState.EVENT_LOOP})


def stable_parts(collected: Collected | Context) -> list[tuple[str, str, bool]]:
    """What belongs into the system text, of each contributor by name, and whether it only could not be had for now."""
    if isinstance(collected, Context):
        return [("", _ready(collected, Placement.SYSTEM), collected.reason in FOR_NOW)]
    return [
        (outcome.name, _of(outcome.ours, sections, Placement.SYSTEM), _for_now(outcome))
        for outcome, sections in collected.parts()
    ]


def stable_half(collected: Collected | Context) -> str:
    """What belongs into the system text."""
    return "\n\n".join(text for _, text, _ in stable_parts(collected) if text)


def moving_half(collected: Collected | Context) -> str:
    """What belongs beside the user's message."""
    if isinstance(collected, Context):
        return _ready(collected, Placement.USER_MESSAGE)
    texts = (_of(outcome.ours, sections, Placement.USER_MESSAGE) for outcome, sections in collected.parts())
    return "\n\n".join(text for text in texts if text)


def written(sections: Iterable[Section], *, ours: bool = False) -> str:
    """Sections as text, each under its title. `ours`: they come out of a Context and stand inside the fence already."""
    texts = (f"## {one.title}\n\n{one.body}" if ours else _given(one.title, one.body) for one in sections)
    return "\n\n".join(text for text in texts if text)


def stripped(text: str, mark: str | Envelope) -> str:
    """A user's message without the added envelope of this mark. Anything else, however it looks, is the user's and
    keeps every byte."""
    return (mark if isinstance(mark, Envelope) else Envelope(mark)).stripped(text)


def _ready(context: Context, placement: Placement) -> str:
    """A placement as Memory has finished it; a Context that somebody else made is written like any other text."""
    ready = context.system if placement is Placement.SYSTEM else context.user_message
    return ready or _of(False, context.sections, placement)


def _of(ours: bool, sections: Iterable[Section], placement: Placement) -> str:
    return written((one for one in sections if one.placement is placement), ours=ours)


def _for_now(outcome: Outcome) -> bool:
    return outcome.state in _NOT_HAD or outcome.reason in FOR_NOW


@lru_cache(maxsize=256, typed=True)
def _given(title: str, body: str) -> str:
    """A section of somebody else's, made safe. Remembered: a section that stands still costs one look a turn."""
    heading = fence.line(title)
    text = fence.fenced(body, MAX_BYTES - len(heading.encode()) - len("## \n\n"))
    return f"## {heading}\n\n{text}" if text else ""
