"""Who may call a tool, and on whose memory it works: decided before anything is parsed or sent.

Order, outermost first: off, not configured, context-only mode, a subagent, a shared audience, no conversation, nobody.
Writing is a gate of its own, after parsing. A call that names no conversation is refused; the latest one of somebody
else is never taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from honcho_actors.model import TurnRequest
from honcho_actors.privacy import identity
from honcho_actors.privacy.identity import Identity, NoIdentity
from honcho_actors.satellite.tools.answers import ToolError, ToolResult, refusal
from honcho_actors.settings import Settings


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose memory a call works on: one person in one conversation, under one reading of the settings."""

    settings: Settings
    request: TurnRequest
    identity: Identity


def admit(settings: Settings, request: object, *, off: bool) -> Asker | ToolResult:
    """The asker, or the outermost reason why there is none. Any thread; never raises; sends nothing."""
    if off:
        return refusal(ToolError.OFF, "Failed: the memory of this assistant is not running.")
    if not settings.configured:
        why = "is switched off" if not settings.enabled else "is not configured"
        return refusal(
            ToolError.NOT_CONFIGURED,
            f"Refused: memory {why}. The operator turns it on with HONCHO_API_KEY, or with HONCHO_URL for an own "
            "server. Go on without memory.",
        )
    if settings.recall_mode == "context":
        return refusal(
            ToolError.CONTEXT_MODE,
            "Refused: memory tools are inactive here (recall_mode is context). What is remembered is given with the "
            "conversation.",
        )
    if not isinstance(request, TurnRequest):
        return refusal(ToolError.NO_SESSION, _NO_SESSION)
    if request.scope != "main":
        return refusal(ToolError.SUBAGENT, "Refused: memory tools are not for subagents. Ask the main assistant.")
    if request.audience != "private":
        return refusal(
            ToolError.SHARED_AUDIENCE,
            "Refused: others take part in this conversation, and a person's memory is neither shown nor changed here.",
        )
    if not any(isinstance(one, str) and one.strip() for one in (request.session_key, request.session_id, request.cwd)):
        return refusal(ToolError.NO_SESSION, _NO_SESSION)
    who = identity.resolve(request, settings)
    if isinstance(who, NoIdentity):
        return refusal(
            ToolError.NO_IDENTITY, "Refused: it is not known whose memory this would be, and nobody is guessed."
        )
    return Asker(settings, request, who)


def may_write(settings: Settings) -> ToolResult | None:
    """The gate of writes, or None when it is open."""
    if not settings.read_only:
        return None
    return refusal(
        ToolError.READ_ONLY,
        "Refused: memory is read-only here (save_messages is off). Nothing was changed; reading still works.",
    )


_NO_SESSION = "Refused: the call belongs to no conversation, and no other one is taken in its place."
