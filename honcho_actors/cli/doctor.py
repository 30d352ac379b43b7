"""`ping` and `doctor`: is the server there, and what is wrong, each with what to do about it in one sentence.

Both ask from this process, once, inside a total deadline, and change nothing on the server. Keys are present or absent.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import httpx

from honcho_actors.cli import asking, out
from honcho_actors.cli.attach import Unreachable, attach
from honcho_actors.cli.status import reason_off
from honcho_actors.settings import Settings

WITHIN: Final = 5.0
LOW_DISK_BYTES: Final = 200_000_000
WRONG_CLOCK_SECONDS: Final = 120.0
OLD_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `fix` is "" when it is fine."""

    what: str
    fine: bool
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from the server: a status, or why none."""

    status: int | None
    seconds: float
    problem: str = ""
    speaks_json: bool = False
    date: str | None = None


def ping(*, timeout: float, as_json: bool) -> int:
    """One request; 0 when something that speaks Honcho accepted it."""
    settings = Settings.load()
    if not settings.configured:
        raise out.Stop(f"memory is off: {reason_off(settings)}", out.NOT_FINE)
    reply = _ask(settings, timeout)
    finding = _server(settings, reply)
    if as_json:
        out.emit_json({**asdict(finding), "seconds": round(reply.seconds, 3), "server": settings.server_url})
    else:
        out.say(f"{finding.text} ({reply.seconds * 1000:.0f} ms, asked by this process)")
    return out.FINE if finding.fine else out.NOT_FINE


def doctor(*, state_dir: Path | None, timeout: float, as_json: bool) -> int:
    """Everything that can be looked at from here; 1 when something is not fine."""
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    findings = [_settings(settings)]
    findings += [
        Finding("setting", False, str(problem), "correct it; the value in force is shown by `honcho-actors settings`")
        for problem in settings.problems
    ]
    if settings.configured:
        reply = _ask(settings, timeout)
        findings.append(_server(settings, reply))
        findings += _clock(reply)
    findings.append(_directory(settings.state_dir))
    findings += _process(settings)
    fine = all(one.fine for one in findings)
    if as_json:
        out.emit_json({"fine": fine, "findings": [asdict(one) for one in findings]})
    else:
        for one in findings:
            out.say(f"{'ok ' if one.fine else 'NOT'}  {one.what:<10} {one.text}" + (f"; {one.fix}" if one.fix else ""))
    return out.FINE if fine else out.NOT_FINE


def _settings(settings: Settings) -> Finding:
    key = "present" if settings.api_key else "absent"
    if not settings.enabled:
        return Finding("settings", False, "memory is switched off", f"set enabled ({settings.sources['enabled']})")
    if not settings.configured:
        return Finding("settings", False, f"memory is off: {reason_off(settings)}", "set HONCHO_URL or HONCHO_API_KEY")
    if settings.read_only:
        return Finding("settings", False, "nothing is written: save_messages is off", "set save_messages = true")
    return Finding("settings", True, f"{settings.server_url}, workspace {settings.workspace}, key {key}")


def _ask(settings: Settings, timeout: float) -> Reply:
    """A list of at most one workspace peer: reads, creates nothing, and needs the key that everything else needs."""
    headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
    url = f"{settings.server_url}/v3/workspaces/{settings.workspace}/peers/list?size=1"

    async def ask() -> httpx.Response:
        async with asyncio.timeout(timeout), httpx.AsyncClient(trust_env=False, timeout=None) as client:
            return await client.post(url, json={}, headers=headers)

    begun = time.monotonic()
    refused = asking.why_not(settings)
    if refused:
        return Reply(None, time.monotonic() - begun, f"not asked: {refused}")
    try:
        reply = asyncio.run(ask())
    except TimeoutError:
        return Reply(None, time.monotonic() - begun, "hangs")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return Reply(None, time.monotonic() - begun, type(error).__name__)
    kind = reply.headers.get("content-type", "")
    return Reply(reply.status_code, time.monotonic() - begun, "", "json" in kind, reply.headers.get("date"))


def _server(settings: Settings, reply: Reply) -> Finding:
    where = settings.server_url
    if reply.problem == "hangs":
        return Finding(
            "server", False, f"{where} takes the request and gives no answer", "look at the server's own log"
        )
    if reply.status is None:
        fix = "start the server, or correct the address and its port"
        return Finding("server", False, f"{where} cannot be reached ({reply.problem})", fix)
    if reply.status in (401, 403):
        if settings.api_key:
            fix = f"the key from {settings.sources['api_key']} is not the right one"
            return Finding("server", False, f"{where} rejects the key", fix)
        return Finding("server", False, f"{where} wants a key and none is set", "set HONCHO_API_KEY")
    if not reply.speaks_json or (reply.status >= 300 and reply.status < 400):
        fix = "something else listens there (a login page, a proxy): correct the address"
        return Finding("server", False, f"{where} answers, but not as Honcho does", fix)
    if reply.status >= 500:
        return Finding("server", False, f"{where} fails (status {reply.status})", "look at the server's own log")
    if reply.status == 404 or reply.status < 300:
        return Finding("server", True, f"{where} answers")
    return Finding(
        "server", False, f"{where} refuses (status {reply.status})", "compare its version with docs/honcho.md"
    )


def _clock(reply: Reply) -> list[Finding]:
    if not reply.date:
        return []
    try:
        off = time.time() - parsedate_to_datetime(reply.date).timestamp()
    except (TypeError, ValueError):
        return []
    if abs(off) < WRONG_CLOCK_SECONDS:
        return []
    return [Finding("clock", False, f"this machine's clock is {off:.0f} s off the server's", "set the clock")]


def _directory(folder: Path) -> Finding:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        fix = "give this user the right to write there, or set state_dir"
        return Finding("disk", False, f"the state directory {folder} cannot be written ({why})", fix)
    if free < LOW_DISK_BYTES:
        return Finding("disk", False, f"{free // 1_000_000} MB are left for {folder}", "make room, or set state_dir")
    return Finding("disk", True, f"{folder} can be written")


def _process(settings: Settings) -> list[Finding]:
    try:
        process = attach(settings.state_dir)
        shown = process.get("/status")
    except Unreachable as unreachable:
        return [Finding("process", True, str(unreachable))]
    whose = f"process {process.pid}"
    found = [Finding("process", shown["state"] == "ready", f"{whose}: {shown['health']}")]
    found += [Finding("process", False, f"{whose}: {text}", "see docs/settings.md") for text in shown["problems"]]
    found += _outbox(whose, shown["outbox"])
    return found


def _outbox(whose: str, shown: dict[str, Any]) -> list[Finding]:
    found = []
    oldest = shown.get("oldest_age")
    if oldest is not None and oldest > OLD_SECONDS:
        text = f"{whose}: the oldest undelivered turn has waited {oldest / 60:.0f} minutes"
        found.append(Finding("outbox", False, text, "mend the server; it is delivered by itself then"))
    if shown.get("set_aside"):
        text = f"{whose}: {shown['set_aside']} turns were set aside"
        found.append(Finding("outbox", False, text, "see `honcho-actors outbox`"))
    return found
