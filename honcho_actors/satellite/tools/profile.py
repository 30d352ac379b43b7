"""`honcho_profile`: reads the card of key facts about the person, or replaces it as a whole.

A write is all of the lines or none; it is told as stored only when reading the same slot back gives the same lines.
"""

from __future__ import annotations

from typing import Final

from honcho_actors.honcho.outcomes import Failure, FailureKind, Ok
from honcho_actors.privacy import fence
from honcho_actors.privacy.egress import Screened
from honcho_actors.satellite.tools.answers import ToolError, ToolResult, failed, missing, nothing, recalled, refusal
from honcho_actors.satellite.tools.arguments import CARD_LINE_CHARS, CARD_LINES, Arguments
from honcho_actors.satellite.tools.desk import Definition, Desk, Work
from honcho_actors.sessions import block
from honcho_actors.settings import Settings

UNSURE: Final = (FailureKind.UNKNOWN_OUTCOME, FailureKind.TRANSPORT, FailureKind.BAD_REPLY)
"""After these a write may have been done: what is stored says which."""


def plan(given: object, settings: Settings) -> Work | ToolResult:
    """Reads a call of `honcho_profile`."""
    arguments = Arguments(given, ("card",))
    if not arguments.has("card"):
        return Work(settings.request_timeout, read)
    lines = arguments.lines("card")

    async def run(desk: Desk) -> ToolResult:
        return await replace(desk, lines)

    return Work(settings.request_timeout, run, writes=True)


async def read(desk: Desk) -> ToolResult:
    """The card as it is."""
    found = await desk.client.get_card(desk.workspace, desk.peer, call=desk.call)
    if isinstance(found, Failure) and not missing(found) and found.kind is not FailureKind.NOTHING_KNOWN:
        return failed(found)
    card = [line for one in (found.value if isinstance(found, Ok) else ()) if (line := fence.line(one))]
    if not card:
        return nothing("Nothing found: the card of this user is empty.", card=[])
    return recalled("The card of this user:", "\n".join(f"- {line}" for line in card), card=card)


async def replace(desk: Desk, lines: tuple[Screened, ...]) -> ToolResult:
    """Puts the lines in place of the card, and reads it back."""
    once = tuple(dict.fromkeys(lines))
    put = await desk.client.put_card(desk.workspace, desk.peer, once, call=desk.call)
    if isinstance(put, Failure) and not (put.kind in UNSURE and put.bytes_sent):
        return failed(put, write=True)
    stored = await desk.client.get_card(desk.workspace, desk.peer, call=desk.call)
    if isinstance(stored, Failure):
        return failed(put, write=True) if isinstance(put, Failure) else _unverified("could not be read back")
    if stored.value != tuple(line.text for line in once):
        return failed(put, write=True) if isinstance(put, Failure) else _unverified("reads back differently")
    shown = [fence.line(line) for line in stored.value]
    return recalled(
        "Stored, and read back the same. The card of this user is now:",
        "\n".join(f"- {line}" for line in shown),
        _remarks(len(lines) - len(once), stored.value),
        card=list(stored.value),
        duplicates=len(lines) - len(once),
        verified=True,
    )


def _unverified(how: str) -> ToolResult:
    return refusal(
        ToolError.NOT_VERIFIED,
        f"Failed: the server accepted the card, but it {how}. Do not tell the user that it was stored; read it first.",
    )


def _remarks(doubles: int, stored: tuple[str, ...]) -> str:
    said = []
    if doubles:
        said.append(f"{doubles} line{' was' if doubles == 1 else 's were'} given twice and stored once.")
    if len(stored) > block.CARD_LINES or any(len(line) > block.CARD_LINE_CHARS for line in stored):
        said.append(
            f"All of it is stored; the background given with a conversation shows at most {block.CARD_LINES} lines of "
            f"{block.CARD_LINE_CHARS} characters."
        )
    return " ".join(said)


PROFILE: Final = Definition(
    "honcho_profile",
    "honcho_profile",
    "Reads or replaces the card of key facts about the user. Without `card` it gives back the lines as they are. With "
    "`card` it replaces the whole card: every line that is not in the new list is deleted, so read it first and send "
    "all lines that should stay. Gives back the lines as stored. For one new fact use honcho_conclude.",
    {
        "card": {
            "type": "array",
            "items": {"type": "string", "description": "One fact on one line.", "maxLength": CARD_LINE_CHARS},
            "minItems": 1,
            "maxItems": CARD_LINES,
            "description": "The new card, complete: 1 to 50 lines of at most 500 characters. Replaces and deletes.",
        }
    },
    (),
    plan,
)
