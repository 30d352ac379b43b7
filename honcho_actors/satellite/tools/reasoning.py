"""`honcho_reasoning` and its two other names: a question about the person that a model on the server answers.

Billed and slow, so: a person whom the server does not know is not asked about (and not created), the hourly budget of
the dialectic counts these calls too, and the effort stays under the operator's cap.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from honcho_actors.honcho.outcomes import Failure, FailureKind
from honcho_actors.privacy.egress import Field, Screened
from honcho_actors.satellite.tools.answers import ToolError, ToolResult, excerpt, failed, nothing, recalled, refusal
from honcho_actors.satellite.tools.arguments import QUERY_CHARS, Arguments
from honcho_actors.satellite.tools.desk import Definition, Desk, Work
from honcho_actors.sessions.cadence import LEVELS
from honcho_actors.settings import Settings

if TYPE_CHECKING:
    from honcho_actors.honcho.client import Level

ANSWER_CHARS: Final = 12_000


def plan(given: object, settings: Settings, level_name: str | None = "reasoning_level") -> Work | ToolResult:
    """Reads a call of `honcho_reasoning`; `level_name` is what the level is called, None where there is none."""
    arguments = Arguments(given, ("query",) if level_name is None else ("query", level_name))
    base = settings.reasoning_level
    level = base if level_name is None else arguments.choice(level_name, LEVELS, base)
    query = arguments.text("query", QUERY_CHARS, Field.QUERY)
    most = max(LEVELS.index(settings.reasoning_level_cap), LEVELS.index(base))
    used = LEVELS[min(LEVELS.index(level), most)]

    async def run(desk: Desk) -> ToolResult:
        return await ask(desk, query, level, used)

    return Work(settings.dialectic_timeout, run)


async def ask(desk: Desk, query: Screened, wanted: str, level: str) -> ToolResult:
    """One look whether the person is known, then one billed question."""
    said = {"level": level, "wanted_level": wanted}
    unknown = nothing("Nothing found: nothing is known of this user yet.", answer="", **said)
    known = await desk.client.peer_context(desk.workspace, desk.peer, max_conclusions=1, call=desk.call)
    if isinstance(known, Failure):
        return unknown if known.kind is FailureKind.NOTHING_KNOWN else failed(known)
    now = asyncio.get_running_loop().time()
    if not desk.spend.reserve(1, now, desk.settings.dialectic_per_hour):
        return refusal(
            ToolError.BUDGET,
            "Refused: the operator's budget of questions for this hour is used up. honcho_search and honcho_context "
            "still work.",
        )
    desk.meters.dialectic_calls.labels("tool").inc()
    found = await desk.client.chat(desk.workspace, desk.peer, query, level=cast("Level", level), call=desk.call)
    if isinstance(found, Failure):
        return unknown if found.kind is FailureKind.NOTHING_KNOWN else failed(found)
    answer = excerpt(found.value or "", ANSWER_CHARS)
    if not answer:
        return nothing("Nothing found: what is known of this user does not bear on the question.", answer="", **said)
    tail = "" if level == wanted else f"The operator allows reasoning level {level} at most; that was used."
    return recalled("What the memory server makes of it:", answer, tail, answer=answer, **said)


_QUERY: Final = {
    "type": "string",
    "description": "The question about the user, in plain words; at most 1500 characters count.",
}
_LEVEL: Final = {
    "type": "string",
    "enum": LEVELS,
    "description": "Effort: minimal, low, medium, high or max. More is slower and dearer; the operator may cap it.",
}
_WORDS: Final = (
    "Asks the memory server a question about the user. The server runs a language model (LLM) over everything that it "
    "knows of them and gives back an answer in prose, or says that nothing is known. Billed and slow (seconds): use it "
    "for questions that need judgement across conversations, and honcho_search for plain look-ups."
)

REASONING: Final = Definition(
    "honcho_reasoning",
    "honcho_reasoning",
    _WORDS,
    {"query": _QUERY, "reasoning_level": _LEVEL},
    ("query",),
    plan,
)
MEMORY_QUERY: Final = Definition(
    "memory_query",
    "honcho_reasoning",
    f"{_WORDS} Another name of honcho_reasoning.",
    {"query": _QUERY},
    ("query",),
    partial(plan, level_name=None),
)
CHAT: Final = Definition(
    "honcho_chat",
    "honcho_reasoning",
    f"{_WORDS} Another name of honcho_reasoning.",
    {"query": _QUERY, "reasoningLevel": _LEVEL},
    ("query",),
    partial(plan, level_name="reasoningLevel"),
)
