"""From what was read to what is published: renders texts and makes the tuples that a turn takes.

A text that has not changed keeps its very string, so that bytes stay the same and memory is shared: every conversation
of a person of which nothing more is known holds the person's own block.
"""

from __future__ import annotations

from honcho_actors.sessions.block import About, Limits, Recalled, made_for_turn, says_something, stable, volatile
from honcho_actors.sessions.table import (
    EPOCH,
    KNOWN,
    NO_ROOM,
    P_BLOCK,
    P_CARD,
    P_FLAGS,
    P_MADE_AT,
    STABLE,
    Block,
    Entry,
    Person,
    representation_of,
)


def person(
    representation: str,
    card: tuple[str, ...],
    *,
    made_at: float,
    flags: int,
    before: Person | None,
    limits: Limits,
    epoch: int,
    text: str | None = None,
    told: About | None = None,
) -> Person:
    """What is known of somebody, with the block of a conversation that adds nothing to it.

    `text` is that block rendered earlier, in another process, out of the same and with the same limits; `told` what
    `about` gave for it.
    """
    if text is not None:
        pass
    elif (
        before is not None
        and representation_of(before) == representation
        and before[P_CARD] == card
        and before[P_BLOCK][EPOCH] == epoch
    ):
        card = before[P_CARD]
        text = before[P_BLOCK][STABLE]
    else:
        text = stable(Recalled(representation, card), limits, told) if flags & KNOWN else ""
    shown = flags
    if not text and flags & KNOWN and says_something(Recalled(representation, card), limits):
        shown |= NO_ROOM
    at = text.find(representation) if representation else -1
    held = representation if at < 0 else (at, at + len(representation))
    return (held, card, made_at, flags, (text, "", made_at, 0, 0.0, 0, epoch, shown))


def block(
    entry: Entry,
    known: Person,
    *,
    made_turn: int,
    limits: Limits,
    epoch: int,
    text: str | None = None,
    told: About | None = None,
) -> Block:
    """The block of one conversation: the person's part, its own summary, its own supplement. `text` and `told` as for
    `person`."""
    made_at = known[P_MADE_AT]
    flags = known[P_FLAGS]
    shared = known[P_BLOCK]
    if entry.summary and text is not None:
        flags |= KNOWN
    elif entry.summary:
        text = stable(Recalled(representation_of(known), known[P_CARD], entry.summary), limits, told)
        flags |= KNOWN
    elif shared[EPOCH] == epoch:
        text = shared[STABLE]
    else:
        text = stable(Recalled(representation_of(known), known[P_CARD]), limits) if flags & KNOWN else ""
    before = entry.block
    if before is not None and before[STABLE] == text:
        text = before[STABLE] if entry.summary else text
    if not text and flags & KNOWN:
        recalled = Recalled(representation_of(known), known[P_CARD], entry.summary)
        if says_something(recalled, limits):
            flags |= NO_ROOM
    beside = ""
    if entry.answer:
        beside = volatile(entry.answer, made_for_turn(entry.answered_turn), limits, limits.counter(text))
    return (text, beside, made_at, made_turn, entry.answered_at, entry.answered_turn, epoch, flags)
