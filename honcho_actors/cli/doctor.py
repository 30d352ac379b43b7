"""`ping` and `doctor`: is the server there, and what is wrong, each with what to do about it in one sentence.

Both ask from this process, inside total deadlines, and change nothing on the server; `doctor` also asks the running
process. Keys are present or absent. What the answers mean stands in `findings`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from honcho_actors.cli import findings, out, probe
from honcho_actors.cli.attach import Attached, Unreachable, attach
from honcho_actors.cli.findings import Finding
from honcho_actors.cli.probe import Reply
from honcho_actors.cli.status import reason_off
from honcho_actors.settings import Settings, normal_url

OTHER_PORTS: Final = (8000, 8080, 80, 443)
"""Where a Honcho is looked for when nothing listens on the port that is set: its own default first."""
LOOKED_AT: Final = 3
"""Conversations without memory of which the server is asked."""


def ping(*, timeout: float | None, as_json: bool) -> int:
    """One request; 0 when something that speaks Honcho accepted it. `timeout` in seconds: `request_timeout`."""
    settings = Settings.load()
    why = reason_off(settings)
    if why:
        raise out.Stop(f"memory is off: {why}", out.NOT_FINE)
    limit = settings.request_timeout if timeout is None else timeout
    with out.working(f"asking {settings.server_url}", quiet=as_json):
        reply = probe.ask(settings, limit)
        finding = findings.of_server(settings, reply, _healthy(settings, reply, limit))
    if as_json:
        out.emit_json({**asdict(finding), "seconds": round(reply.seconds, 3), "server": settings.server_url})
    else:
        out.say(f"{finding.text} ({reply.seconds * 1000:.0f} ms, asked by this process)")
    return out.FINE if finding.fine else out.NOT_FINE


def doctor(*, state_dir: Path | None, timeout: float, as_json: bool) -> int:
    """Everything that can be looked at from here; 1 when something is not fine. `timeout` in seconds for each
    question."""
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    found: list[Finding] = []
    for one in _looked(settings, timeout, as_json):
        found.append(one)
        if not as_json:
            out.say(one.line)
    fine = all(one.fine for one in found)
    if as_json:
        out.emit_json({"fine": fine, "findings": [asdict(one) for one in found]})
    return out.FINE if fine else out.NOT_FINE


def _looked(settings: Settings, timeout: float, quiet: bool) -> Iterator[Finding]:
    yield from findings.of_settings(settings)
    answers = False
    if settings.configured:
        with out.working(f"asking {settings.server_url}", quiet=quiet):
            reply = probe.ask(settings, timeout)
            healthy = _healthy(settings, reply, timeout)
            server = findings.of_server(settings, reply, healthy, _elsewhere(settings, reply, timeout))
        yield server
        yield from findings.of_clock(reply)
        answers = server.fine
    if answers:
        yield from findings.of_queue(probe.ask(settings, timeout, probe.QUEUE))
    yield _directory(settings.state_dir)
    try:
        process = attach(settings.state_dir)
        shown = process.get("/status")
    except Unreachable as unreachable:
        yield Finding("process", "no_process", True, str(unreachable))
        return
    yield from findings.of_process(f"process {process.pid}", shown)
    if answers and shown["settings"].get("server") == settings.server_url:
        yield from _hidden(process, settings, shown, timeout)


def _healthy(settings: Settings, reply: Reply, timeout: float) -> bool | None:
    """Whether this is Honcho, where a list alone does not say so."""
    said = findings.is_honcho(reply)
    if said is not None or reply.status is None:
        return said
    return _says_ok(probe.ask(settings, timeout, probe.HEALTH))


def _says_ok(reply: Reply) -> bool:
    return reply.status == 200 and isinstance(reply.body, dict) and reply.body.get("status") == "ok"


def _elsewhere(settings: Settings, reply: Reply, timeout: float) -> str:
    """The address of a Honcho on another port of the same host, when nothing answers where it was looked for. Asked
    for its health alone, without the key."""
    if reply.status is not None or not reply.reached_host:
        return ""
    scheme, _, rest = (settings.server_url or "").partition("://")
    host = rest.partition("/")[0]
    host = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    for port in OTHER_PORTS:
        url = normal_url(f"{scheme}://{host}:{port}")
        if url != settings.server_url:
            other = replace(settings, base_url=url, api_key=None)
            if _says_ok(probe.ask(other, min(1.0, timeout), probe.HEALTH)):
                return url
    return ""


def _hidden(process: Attached, settings: Settings, shown: dict[str, Any], timeout: float) -> Iterator[Finding]:
    """Does the server remember what the running process does not show? Of the conversations that had turns last."""
    try:
        rows = process.get("/recent", limit="50")
    except Unreachable:
        return
    asked = replace(settings, workspace=shown["settings"].get("workspace", settings.workspace))
    without = [row for row in rows if row.get("state") in ("empty", "absent")]
    for row in without[:LOOKED_AT]:
        reply = probe.ask(asked, timeout, probe.person(str(row["user"])))
        yield from findings.of_hidden(f"process {process.pid}", row, reply)


def _directory(folder: Path) -> Finding:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        fix = "give this user the right to write there, or set state_dir"
        return Finding("disk", "state_dir", False, f"the state directory {folder} cannot be written ({why})", fix)
    if free < findings.LOW_DISK_BYTES:
        text = f"{free // 1_000_000} MB are left for {folder}"
        return Finding("disk", "disk", False, text, "make room, or set state_dir")
    return Finding("disk", "disk", True, f"{folder} can be written")
