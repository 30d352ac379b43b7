"""What the dialectic is asked. The user's message travels here and nowhere else on a read, screened.

A *cold* question is general and says nothing of the message; a *warm* one asks what bears on it. A second and a third
pass show the answer so far and ask for what it misses. Every question leaves through the egress gate as a whole.
"""

from __future__ import annotations

from honcho_actors.privacy.egress import Field, Gate, Screened, screen
from honcho_actors.sessions.budget import cut_chars

MESSAGE_MAX_CHARS = 1_500
ANSWER_MAX_CHARS = 4_000
QUESTION_MAX_CHARS = 10_000
"""What the server takes for one question."""

MAX_DEPTH = 3
STRONG_ANSWER_FRACTION = 0.9
"""An answer that already fills this much of the room for it is not asked about again."""

COLD = (
    "Who is this person? Give what is known of their identity, preferences, working style and current concerns that an "
    "assistant should know before a conversation with them begins. Say only what is supported by what you know."
)
WARM = (
    "Given this conversation, what of what is known about this person bears on it now: relevant facts, preferences, "
    "constraints, earlier decisions? Prefer what the conversation itself does not say."
)
MESSAGE = "\n\nTheir message now:\n"
DEEPER = (
    "\n\nAn answer so far:\n{answer}\n\nWhat important and supported thing does it miss or get wrong? "
    "Give the improved answer, not a comment on it."
)
RECONCILE = (
    "\n\nAn answer so far:\n{answer}\n\nGive the final answer: free of contradiction and repetition, the most useful "
    "things first, nothing that is not supported."
)


def screened_message(query: object, gate: Gate | None = None) -> str:
    """The message as it may travel, at most 1,500 characters and cut after a whole word; "" when blank or withheld."""
    ask = gate.screen if gate is not None else screen
    found = ask(query, MESSAGE_MAX_CHARS, field=Field.QUERY)
    if found is None:
        return ""
    if isinstance(query, str) and len(query.strip()) > len(found.text):
        return cut_chars(found.text + " ", min(len(found.text), MESSAGE_MAX_CHARS))
    return cut_chars(found.text, MESSAGE_MAX_CHARS)


def question(message: str, *, cold: bool, answer: str = "", last: bool = False) -> Screened | None:
    """The question of one pass. `message` is already screened; `answer`: of the pass before. None: withheld."""
    text = COLD if cold else WARM + (MESSAGE + message if message else "")
    if answer:
        text += (RECONCILE if last else DEEPER).format(answer=cut_chars(answer, ANSWER_MAX_CHARS))
    return screen(text, QUESTION_MAX_CHARS, field=Field.QUERY)


def enough(answer: str | None, before: str, max_chars: int) -> bool:
    """True when another pass is not worth its price: nothing came, nothing changed, or the room for it is full."""
    if not answer or not answer.strip():
        return True
    return answer.strip() == before.strip() or len(answer) >= max_chars * STRONG_ANSWER_FRACTION
