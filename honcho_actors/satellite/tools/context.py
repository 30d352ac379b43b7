"""`honcho_context`: what is known of the person now, and what this conversation held, without a model in between.

Several small reads at once; one that fails is said to have failed and the others are shown. All of them failing is a
failure, all of them empty is *nothing found*.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import Conclusion
from honcho_actors.privacy import fence
from honcho_actors.privacy.egress import Field, Screened
from honcho_actors.satellite.tools.answers import ToolResult, excerpt, failed, missing, nothing, recalled
from honcho_actors.satellite.tools.arguments import QUERY_CHARS, Arguments
from honcho_actors.satellite.tools.desk import Definition, Desk, Work
from honcho_actors.satellite.tools.search import facts
from honcho_actors.settings import Settings

MAX_CONCLUSIONS: Final = 40
FOCUS_FACTS: Final = 10
RECENT: Final = 20
MAX_TOKENS: Final = 100_000
PART_CHARS: Final = 12_000
"""The longest summary or representation that is shown; the rest is cut after a whole word."""


def plan(given: object, settings: Settings) -> Work | ToolResult:
    """Reads a call of `honcho_context`."""
    arguments = Arguments(given, ("query", "tokens"))
    tokens = arguments.whole("tokens", max(1, settings.context_tokens), MAX_TOKENS)
    query = arguments.text("query", QUERY_CHARS, Field.QUERY) if arguments.has("query") else None

    async def run(desk: Desk) -> ToolResult:
        return await read(desk, tokens, query)

    return Work(settings.request_timeout, run)


async def read(desk: Desk, tokens: int, query: Screened | None) -> ToolResult:
    """The reads, then one answer of what came."""
    client, workspace, call, session = desk.client, desk.workspace, desk.call, await desk.session()
    known, recent, focus = await asyncio.gather(
        client.session_context(
            workspace,
            session,
            peer_target=desk.peer,
            max_conclusions=MAX_CONCLUSIONS,
            tokens=tokens,
            summary=True,
            include_most_frequent=True,
            call=call,
        ),
        client.list_messages(workspace, session, size=RECENT, reverse=True, call=call),
        _focused(desk, query),
    )
    troubles = [one for one in (known, recent, focus) if isinstance(one, Failure) and not _empty(one)]
    asked = 2 if query is None else 3
    if len(troubles) == asked:
        return failed(troubles[0])
    room = desk.settings.tool_preview_chars
    context = known.value if isinstance(known, Ok) else None
    messages = (
        [
            {"peer": desk.speaker(one.peer), "text": text}
            for one in reversed(recent.value.items[:RECENT])
            if (text := excerpt(one.text, room))
        ]
        if isinstance(recent, Ok)
        else []
    )
    parts: dict[str, Any] = {
        "summary": excerpt(context.summary, PART_CHARS) if context else "",
        "representation": excerpt(context.representation, PART_CHARS) if context else "",
        "card": [line for one in (context.card if context else ()) if (line := fence.line(one))],
        "focus": facts(focus.value, desk) if isinstance(focus, Ok) else [],
        "messages": messages,
    }
    said = {**parts, "tokens": tokens, "message_count": len(messages), "failed_reads": len(troubles)}
    if not any(parts.values()):
        if troubles:
            return failed(troubles[0])
        return nothing("Nothing found: nothing is known of this user yet, and this conversation holds nothing.", **said)
    tail = "One of the reads failed, so parts may be missing." if troubles else ""
    return recalled("What is remembered now:", _written(parts), tail, **said)


async def _focused(desk: Desk, query: Screened | None) -> Outcome[tuple[Conclusion, ...]]:
    if query is None:
        return Ok(())
    return await desk.client.query_conclusions(
        desk.workspace, query, observer=desk.peer, observed=desk.peer, top_k=FOCUS_FACTS, call=desk.call
    )


def _empty(failure: Failure) -> bool:
    return failure.kind is FailureKind.NOTHING_KNOWN or missing(failure)


def _written(parts: dict[str, Any]) -> str:
    blocks = []
    if parts["focus"]:
        blocks.append("Nearest to the question:\n" + "\n".join(f"- {one['text']}" for one in parts["focus"]))
    if parts["summary"]:
        blocks.append("Earlier in this conversation:\n" + parts["summary"])
    if parts["representation"]:
        blocks.append("What is known:\n" + parts["representation"])
    if parts["card"]:
        blocks.append("Key facts:\n" + "\n".join(f"- {line}" for line in parts["card"]))
    if parts["messages"]:
        blocks.append("Latest messages:\n" + "\n".join(f"- {one['peer']}: {one['text']}" for one in parts["messages"]))
    return "\n\n".join(blocks)


CONTEXT: Final = Definition(
    "honcho_context",
    "honcho_context",
    "Reads what is remembered now: gives back the summary of this conversation, what is known of the user, the key "
    "facts of their card, and the latest messages. With `query`, the facts nearest to it come first. Cheap: no model "
    "is called. Use it when the background in the prompt is missing, old or cut, not before every answer.",
    {
        "query": {"type": "string", "description": "Optional: what the facts shown first should bear on."},
        "tokens": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_TOKENS,
            "description": "Optional: how many tokens of this conversation's context the server may use.",
        },
    },
    (),
    plan,
)
