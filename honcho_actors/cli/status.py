"""`status`: how the running process is; without one, what the settings of this process would make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from honcho_actors.cli import out
from honcho_actors.cli.attach import Unreachable, attach
from honcho_actors.settings import Settings


def status(*, state_dir: Path | None, as_json: bool) -> int:
    """0: ready. 1: not. 3: no running process (what can be said without one is still shown)."""
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    try:
        process = attach(settings.state_dir)
        shown = process.get("/status")
    except Unreachable as unreachable:
        return _alone(settings, str(unreachable), as_json)
    if as_json:
        out.emit_json(shown)
    else:
        out.say(f"process {process.pid} on {settings.state_dir}")
        for line in _lines(shown):
            out.say(line)
    return out.FINE if shown["state"] == "ready" else out.NOT_FINE


def _alone(settings: Settings, sentence: str, as_json: bool) -> int:
    why = reason_off(settings)
    if as_json:
        out.emit_json(
            {
                "running": False,
                "why": sentence,
                "configured": settings.configured,
                "reason": why,
                "settings": settings.shown(),
                "problems": [str(problem) for problem in settings.problems],
            }
        )
    else:
        out.say(f"{sentence}. A process that is started here would have:")
        out.say(f"  server     {settings.server_url or 'none'}, key {'present' if settings.api_key else 'absent'}")
        out.say(f"  workspace  {settings.workspace}")
        out.say(f"  memory     {'on' if settings.configured else 'off: ' + why}")
        for problem in settings.problems:
            out.say(f"  problem    {problem}")
    return out.UNREACHABLE


def reason_off(settings: Settings) -> str:
    """Why memory is off, in a clause; "" when it is on."""
    if settings.configured:
        return ""
    if not settings.enabled:
        return f"it is switched off ({settings.sources['enabled']})"
    bad = next((problem for problem in settings.problems if problem.field == "base_url"), None)
    if bad is not None:
        return f"the server's address from {bad.source} cannot be used: {bad.text}"
    return "neither HONCHO_URL nor HONCHO_API_KEY is set"


def _lines(shown: dict[str, Any]) -> list[str]:
    lines = [f"{shown['state']}: {shown['health']}"]
    sections = [("settings", shown["settings"]), ("sessions", shown["sessions"]), ("outbox", shown["outbox"])]
    sections += [("client", shown["client"]), ("endpoints", shown["endpoints"])]
    for name, values in sections:
        flat = ", ".join(
            f"{key} {_word(value)}" for key, value in values.items() if not isinstance(value, (dict, list))
        )
        lines.append(f"  {name:<10} {flat or '-'}")
    lines += [f"  problem    {problem}" for problem in shown["problems"]]
    return lines


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e6 else f"{value:.0f}"
    return str(value)
