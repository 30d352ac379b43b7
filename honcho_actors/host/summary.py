"""What memory ingest passes on of a turn: each half cut to a bound, and nothing at all where either holds a credential.

These are beginnings, not summaries in other words: no model is asked. What is looked at is each whole half, so that a
credential behind the cut drops the turn too, and then what is left of both, side by side, as it would travel. Pure, but
for the counting of the egress gate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from honcho_actors.model import EMPTY, Turn
from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Blank, Field, Screened, Withheld
from honcho_actors.privacy.text import clip_bytes

HALF_BYTES: Final = 2_000
MARK: Final = " \u2026"
"""Shows that there was more; counted in."""


def bounded(text: str, most_bytes: int = HALF_BYTES) -> str:
    """The beginning of a text in at most `most_bytes` of UTF-8, the mark counted in; no character is ever split."""
    text = text.strip()
    if len(text) * 4 <= most_bytes or len(text.encode("utf-8", "replace")) <= most_bytes:
        return text
    kept = clip_bytes(text, most_bytes - len(MARK.encode())).rstrip()
    return kept + MARK if kept else ""


def summarised(turn: Turn, most_bytes: int = HALF_BYTES) -> Turn | Blank | Withheld:
    """The same turn with its halves bounded and no metadata; Blank when neither half says anything, Withheld when
    either holds what must not leave. `answer` stays None for an unanswered run."""
    prompts = turn.prompt if isinstance(turn.prompt, tuple | list) else (turn.prompt,)
    prompt = "\n\n".join(one for one in prompts if isinstance(one, str) and one.strip())
    answer = turn.answer if isinstance(turn.answer, str) else ""
    halves: list[str] = []
    for text in (prompt, answer):
        verdict = _judged(text)
        if isinstance(verdict, Withheld):
            return verdict
        halves.append("" if isinstance(verdict, Blank) else bounded(verdict.text, most_bytes))
    if not any(halves):
        return Blank()
    together = _judged(" ".join(half for half in halves if half))
    if isinstance(together, Withheld):
        return together
    return replace(turn, prompt=halves[0], answer=halves[1] or (None if turn.answer is None else ""), metadata=EMPTY)


def _judged(text: str) -> Screened | Blank | Withheld:
    return egress.verdict(text, egress.INSPECTED_CHARS, field=Field.MESSAGE)
