"""`status`: how the running process is, and whether its server answers; without one, what a process started here would
make of these settings.

The server is asked once, by this command and not by the running process, inside one total deadline, and only where
both mean the same server. Loaded without the command tree (see `cli`): monitoring asks this every few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from honcho_actors.cli import out, probe
from honcho_actors.cli.attach import Attached, Unreachable, attach
from honcho_actors.settings import Settings


def status(*, state_dir: Path | None, timeout: float | None, as_json: bool) -> int:
    """0: ready. 1: not, or the server does not answer this command. 3: no running process (what can be said without one
    is still shown). `timeout` in seconds for the one question; 0 asks nothing."""
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    limit = min(settings.request_timeout, probe.STATUS_SECONDS) if timeout is None else timeout
    try:
        process = attach(settings.state_dir)
        shown = process.get("/status")
    except Unreachable as unreachable:
        return _alone(settings, str(unreachable), limit, as_json)
    asked = _asked(settings, shown["settings"], limit)
    if as_json:
        out.emit_json({"running": True, "probe": asked, **shown})
    else:
        _say(process, settings, shown, asked)
    return out.FINE if shown["state"] == "ready" and asked["fine"] is not False else out.NOT_FINE


def _alone(settings: Settings, sentence: str, limit: float, as_json: bool) -> int:
    why = reason_off(settings)
    asked = _probed(settings, limit) if not why else _NOT_ASKED
    if as_json:
        out.emit_json(
            {
                "running": False,
                "why": sentence,
                "configured": settings.configured,
                "reason": why,
                "probe": asked,
                "settings": settings.shown(),
                "problems": [str(problem) for problem in settings.problems],
            }
        )
        return out.UNREACHABLE
    out.say(f"{sentence}. A process that is started here would have:")
    out.say(f"  {'memory':<22} {'off: ' + why if why else 'on'}")
    out.say(f"  {'server':<22} {settings.server_url or 'none'}")
    out.say(f"  {'reached':<22} {asked['text']}")
    for name, value in _lines(settings):
        out.say(f"  {name:<22} {value}")
    for problem in settings.problems:
        out.say(f"  {'problem':<22} {problem}")
    return out.UNREACHABLE


def reason_off(settings: Settings) -> str:
    """Why memory is off, in a clause; "" when it is on."""
    if not settings.enabled:
        return f"it is switched off ({settings.sources['enabled']})"
    if not settings.configured:
        bad = next((problem for problem in settings.problems if problem.field == "base_url"), None)
        if bad is not None:
            return f"the server's address from {bad.source} cannot be used: {bad.text}"
        return "neither HONCHO_URL nor HONCHO_API_KEY is set"
    refused = probe.why_not(settings)
    return f"{settings.server_url} may not be asked: {refused}" if refused else ""


_NOT_ASKED: Mapping[str, Any] = {"fine": None, "text": "not asked", "seconds": None}


def _asked(settings: Settings, running: Mapping[str, Any], limit: float) -> Mapping[str, Any]:
    """Whether the running process's server answers this command; not asked when these settings mean another one."""
    if not running.get("configured") or not settings.configured:
        return _NOT_ASKED
    if running.get("server") != settings.server_url:
        return {**_NOT_ASKED, "text": "not asked: the settings found here name another server"}
    return _probed(settings, limit)


def _probed(settings: Settings, limit: float) -> Mapping[str, Any]:
    if limit <= 0.0:
        return _NOT_ASKED
    reply = probe.ask(settings, limit)
    fine = reply.status is not None and (reply.status < 300 or reply.status == 404) and reply.speaks_json
    if fine:
        text = f"answers in {reply.seconds * 1000:.0f} ms (asked by this command)"
    elif reply.problem == probe.HANGS:
        text = f"gave no answer within {limit:g} s (asked by this command)"
    elif reply.status is None:
        text = reply.problem if reply.problem.startswith("not asked") else f"cannot be reached: {reply.problem}"
    elif reply.status in (401, 403):
        text = "rejects the key" if settings.api_key else "wants a key and none is set"
    elif not reply.speaks_json:
        text = f"answers, but not as Honcho does (status {reply.status})"
    else:
        text = f"refuses (status {reply.status})" + (f": {reply.said}" if reply.said else "")
    return {"fine": fine, "text": text, "seconds": round(reply.seconds, 3)}


def _lines(settings: Settings) -> list[tuple[str, str]]:
    """Every setting that decides whose memory is read and written, and when; a key as present or absent."""
    budget = settings.context_tokens
    return [
        ("key", f"present ({settings.sources['api_key']})" if settings.api_key else "absent"),
        ("workspace", settings.workspace),
        ("user peer", settings.user_peer + (" (a turn must name its own)" if settings.require_user else "")),
        ("assistant's peer", settings.ai_peer),
        ("recall mode", settings.recall_mode),
        ("session strategy", settings.session_strategy),
        ("observation mode", settings.observation_mode),
        ("reasoning level", f"{settings.reasoning_level}, at most {settings.reasoning_level_cap}"),
        ("context cadence", _turns(settings.context_cadence)),
        ("dialectic cadence", _turns(settings.dialectic_cadence)),
        ("dialectic an hour", "no limit" if settings.dialectic_per_hour is None else str(settings.dialectic_per_hour)),
        ("context tokens", str(budget) if budget > 0 else f"{budget}: no block"),
        ("first turn waits", f"{settings.first_turn_wait:g} s"),
        ("a request may take", f"{settings.request_timeout:g} s"),
        ("messages", "saved" if settings.save_messages else "not saved (read-only)"),
        ("subagents", "get the block" if settings.inject_in_subagents else "get no block"),
        ("state directory", str(settings.state_dir)),
    ]


def _turns(number: int) -> str:
    return "every turn" if number == 1 else f"every {number} turns"


def _say(process: Attached, settings: Settings, shown: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    out.say(f"process {process.pid} on {settings.state_dir}")
    out.say(f"{shown['state']}: {shown['health']}")
    for one in shown.get("degraded", {}).get("causes", ()):
        out.say(f"  {'degraded':<10} {one['cause']} since {moment(one['since'])}: {one['text']}; {one['fix']}")
    out.say(f"  {'server':<10} {shown['settings'].get('server') or 'none'} {asked['text']}")
    for name in ("settings", "sessions", "outbox", "client", "endpoints"):
        flat = ", ".join(
            f"{key} {word(when(key, value))}"
            for key, value in shown[name].items()
            if not isinstance(value, (dict, list))
        )
        out.say(f"  {name:<10} {flat or '-'}")
    ran = [_ran(name, one) for name, one in shown.get("workers", {}).items()]
    out.say(f"  {'workers':<10} {'; '.join(ran) or '-'}")
    for problem in shown["problems"]:
        out.say(f"  {'problem':<10} {problem}")


def _ran(name: str, one: Mapping[str, Any]) -> str:
    """When a kind of work last ended and what last went wrong with it."""
    line = f"{name} {moment(one['last_run'])}"
    error = one.get("last_error")
    return f"{line} (last error {error} {moment(one['last_error_at'])})" if error else line


def moment(seconds: float) -> str:
    """A moment for people, to the second, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def when(name: str, value: Any) -> Any:
    """A value of a status; one that is a moment, for people."""
    return moment(value) if name == "last_delivery" and value else value


def word(value: Any) -> str:
    """A value of a status as one word."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e6 else f"{value:.0f}"
    return str(value)
