"""`context`: what the running process holds for one conversation; with `--live`, a real turn and its block.

Without `--live` nothing is read, made or served for the question. With it a runtime of this command's own serves one
turn, with a state directory that is thrown away: the running process, its outbox and its cache are not touched, and
what it costs is said before it begins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.cli import out
from honcho_actors.cli.attach import Unreachable, attach
from honcho_actors.cli.inspect import running
from honcho_actors.cli.status import reason_off
from honcho_actors.settings import Settings

if TYPE_CHECKING:
    from honcho_actors.model import Context

QUERY: Final = "What do you remember about me, and where were we?"
BEGINS, ENDS = "--- the block begins ---", "--- the block ends ---"


def context(
    *,
    session: str | None,
    user: str | None,
    query: str | None,
    live: bool,
    timeout: float | None,
    state_dir: Path | None,
    as_json: bool,
) -> int:
    """0: a block is there. 1: none. 3: no running process (without `live`)."""
    if live:
        return _live(session, user, query, timeout, state_dir, as_json)
    if query is not None or timeout is not None:
        out.usage("--query and --timeout belong to --live")
    process = running(state_dir)
    wanted = {"key": session, "user": user}
    try:
        shown = process.get("/context", **{name: value for name, value in wanted.items() if value is not None})
    except Unreachable as unreachable:
        raise out.Stop(str(unreachable), out.UNREACHABLE) from None
    if as_json:
        out.emit_json(shown)
    else:
        out.say(f"process {process.pid}")
        for line in _held(shown, session):
            out.say("  " + line)
    row = shown["row"]
    return out.FINE if row is not None and row.get("state") in ("ready", "restored") else out.NOT_FINE


def _held(shown: Mapping[str, Any], session: str | None) -> list[str]:
    if shown["manager"] != "running":
        away = "the session manager is away: nothing is loaded or injected until it is back, and nothing was looked for"
        return [away] if shown["row"] is None else [away, *_row(shown["row"])]
    if shown["row"] is None:
        if session is None:
            return ["no conversation is held yet: one is when its first turn comes"]
        return [f"{session} is not held: untracked, and nothing was created for this question"]
    chosen = "the conversation that was read last" if shown.get("chosen_by") == "most_recent" else "as it is held"
    return [f"{chosen} (no turn was served for this)", *_row(shown["row"])]


def _row(row: Mapping[str, Any]) -> list[str]:
    age = row.get("age")
    pairs = [
        ("key", row["key"]),
        ("user", row["user"]),
        ("remote session", row["remote"] or "pending"),
        ("turns", row["turns"]),
        ("read", "never" if age is None else f"{age:.1f} s ago"),
        ("state", row.get("state", "-")),
        ("reason", row["reason"]),
    ]
    return [f"{name:<15} {value}" for name, value in pairs]


# -- live --------------------------------------------------------------------------------------------------------------


def _live(
    session: str | None,
    user: str | None,
    query: str | None,
    timeout: float | None,
    state_dir: Path | None,
    as_json: bool,
) -> int:
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    key = session or "honcho-actors-context"
    asked = query or QUERY
    out.complain(_announcement(settings, key, user))
    from honcho_actors.model import TurnRequest
    from honcho_actors.runtime import Memory
    from honcho_actors.runtime.io import preload

    preload()
    with tempfile.TemporaryDirectory(prefix="honcho-actors-context-") as folder:
        own = replace(
            settings,
            state_dir=Path(folder) / "state",
            cache_dir=Path(folder) / "cache",
            admin_port=None,
            metrics_port=None,
        )
        with Memory.start(own) as memory, out.working("serving one turn", quiet=as_json):
            served = memory.context(TurnRequest(session_key=key, user=user, query=asked), timeout)
    reasons = [] if served.sections else why_empty(settings, served)
    if as_json:
        out.emit_json(
            {
                "session": key,
                "user": user,
                "query": asked,
                "state": served.state,
                "reason": served.reason,
                "waited": served.waited,
                "system": served.system,
                "user_message": served.user_message,
                "why_empty": reasons,
            }
        )
    else:
        _print(served, reasons)
    return out.FINE if served.sections else out.NOT_FINE


def _announcement(settings: Settings, key: str, user: str | None) -> str:
    whose = "this command's own process"
    with suppress(Unreachable):  # where none runs there is none to be told apart from
        whose += f" (not process {attach(settings.state_dir).pid}, which is left alone)"
    whom = user or (None if settings.require_user else settings.user_peer)
    return (
        f"a real turn of {key} for {whom or 'nobody'} is served by {whose} against"
        f" {settings.server_url or 'no server'}; it costs a request, and the dialectic question it starts may be billed"
    )


def why_empty(settings: Settings, served: Context) -> list[str]:
    """Every reason that applies, the likeliest first; what does not apply is not said."""
    from honcho_actors.ops.overview import WHY

    found = []
    off = reason_off(settings)
    if off:
        found.append(f"memory is off: {off}")
    if settings.configured and settings.recall_mode == "tools":
        found.append("recall_mode is tools: no block is made, the model asks by tools")
    if settings.configured and settings.context_tokens <= 0:
        found.append("context_tokens leaves no room for a block")
    if not found:
        hint = _HINTS.get(served.reason, "")
        found.append(WHY[served.reason] + (f": {hint}" if hint else ""))
    return found


_HINTS: Final[Mapping[str, str]] = {
    "no_identity": "give --user",
    "unauthorized": "correct HONCHO_API_KEY or the key file",
    "server_error": "`honcho-actors doctor` tells more",
    "deadline": "give it more with --timeout",
    "nothing_known": "or has not derived it from what was said; `honcho-actors doctor` shows what is pending",
    "budget": "raise context_tokens",
}


def _print(served: Context, reasons: list[str]) -> None:
    out.say(f"{served.state}, {served.reason}, waited {served.waited:.2f} s")
    if not served.sections:
        out.say("no block, because:")
        for reason in reasons:
            out.say(f"  {reason}")
        return
    out.say(BEGINS)
    for half in (served.system, served.user_message):
        if half:
            out.say(half)
    out.say(ENDS)
