"""A transcript cut into the phases of the demo: which turn is told when. Pure.

Every turn of the transcript is told once, in the order of its conversation. Where a short transcript leaves a phase
without a turn, that phase only reads, as a host does for a turn whose answer is still to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from honcho_actors.cli.transcript import Conversation, Exchange, Transcript

OUTAGE_TURNS: Final = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the story; `exchange=None` only reads, as a host does for a turn whose answer is still to come."""

    conversation: Conversation
    exchange: Exchange | None
    query: str


@dataclass(frozen=True, slots=True)
class Story:
    """The turns by phase."""

    known: tuple[Step, ...]
    new_conversation: tuple[Step, ...]
    outage: tuple[Step, ...]
    recovered: tuple[Step, ...]
    restarted: tuple[Step, ...]


def story(told: Transcript) -> Story:
    """Cuts the turns into phases: the last one is kept for after the restart, up to three before it for the outage."""
    conversations = told.conversations
    steps = [
        Step(conversation, exchange, exchange.prompt[-1] if exchange.prompt else "")
        for conversation in conversations
        for exchange in conversation.turns
    ]
    last = conversations[-1]
    restarted = [Step(last, None, "Where were we?")]
    if len(last.turns) > 1:
        restarted.append(steps.pop())
    recovered = [steps.pop()] if len(steps) > OUTAGE_TURNS + 2 else []
    outage = [steps.pop() for _ in range(min(OUTAGE_TURNS, max(0, len(steps) - 1)))][::-1]
    first = next((index for index, step in enumerate(steps) if _is_known_person(steps[:index], step)), len(steps))
    fresh = steps[first:]
    if not fresh:  # one conversation alone: the same person opens another, which is read and not written
        user = conversations[0].user
        fresh = [Step(Conversation("another-conversation", user, ()), None, "Hello again, it's me.")]
        outage = outage or [Step(last, None, "Are you still there?")]
    return Story(tuple(steps[:first]), tuple(fresh), tuple(outage), tuple(recovered), tuple(restarted))


def _is_known_person(before: list[Step], step: Step) -> bool:
    return any(one.conversation.user == step.conversation.user for one in before) and all(
        one.conversation.key != step.conversation.key for one in before
    )
