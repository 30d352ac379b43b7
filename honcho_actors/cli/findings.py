"""What `doctor` can find, each told apart by a word of a closed vocabulary, with one sentence of what to do about it.

Judgements alone: they are given settings, replies and the running process's pages, and look nowhere themselves. What is
not fine is mended by whoever reads it; a note (`fine`, with a `fix`) is worth knowing and will pass by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from honcho_actors.cli import out, probe
from honcho_actors.cli.probe import Reply
from honcho_actors.cli.status import reason_off
from honcho_actors.honcho.endpoint import Endpoint, keyless_note, parse_endpoint
from honcho_actors.settings import Problem, Settings

WRONG_CLOCK_SECONDS: Final = 120.0
OLD_SECONDS: Final = 900.0
JUST_NOW_SECONDS: Final = 30.0
LOW_DISK_BYTES: Final = 200_000_000

CODES: Final = frozenset(
    {
        "no_key", "off", "bad_address", "read_only", "setting", "key_file", "wrong_key", "server_down", "wrong_port",
        "server_hangs", "server_fails", "server_refuses", "not_honcho", "not_asked", "clock", "derivation", "state_dir",
        "disk", "store", "port_taken", "breaker_open", "refresh_failing", "given_up", "restarts", "outbox_stuck",
        "set_aside", "skipped", "fork", "hidden_memory", "settings", "server", "process", "no_process", "problem",
    }
)  # fmt: skip
"""Closed; docs/operating.md says what each means."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `code` names it for scripts; `fix` is "" when there is nothing to do."""

    what: str
    code: str
    fine: bool
    text: str
    fix: str = ""

    @property
    def line(self) -> str:
        mark = "NOT" if not self.fine else "see" if self.fix else "ok "
        return f"{mark}  {self.what:<10} {self.text}" + (f"; {self.fix}" if self.fix else "")


def of_settings(settings: Settings) -> list[Finding]:
    """Is memory switched on, may it write, what was not taken."""
    key = "present" if settings.api_key else "absent"
    found = []
    if not settings.enabled:
        found.append(_not("settings", "off", "memory is switched off", f"set enabled ({settings.sources['enabled']})"))
    elif not settings.configured:
        bad = any(problem.field == "base_url" for problem in settings.problems)
        why, fix = f"memory is off: {reason_off(settings)}", "set HONCHO_URL (self-hosted) or HONCHO_API_KEY (hosted)"
        found.append(_not("settings", "bad_address" if bad else "no_key", why, fix))
    elif settings.read_only:
        text = f"nothing is written: save_messages is off ({settings.sources['save_messages']})"
        found.append(_not("settings", "read_only", text, "set save_messages = true"))
    else:
        text = f"{settings.server_url}, workspace {settings.workspace}, key {key}"
        end = parse_endpoint(settings.server_url, settings.api_key, allow_public_http=settings.allow_public_http)
        note = keyless_note(end) if isinstance(end, Endpoint) else None
        found.append(Finding("settings", "settings", True, text, note or ""))
    return found + [_problem(problem) for problem in settings.problems]


def _problem(problem: Problem) -> Finding:
    if problem.field == "api_key":
        return _not("setting", "key_file", str(problem), "correct the path, or let this user read the file")
    fix = "correct it; the value in force is shown by `honcho-actors settings`"
    return _not("setting", "setting", str(problem), fix)


def of_server(settings: Settings, reply: Reply, healthy: bool | None, elsewhere: str = "") -> Finding:
    """What the one question came to. `healthy`: what `/health` said, where that had to be asked; `elsewhere`: a Honcho
    that answers on the same host."""
    where = settings.server_url
    if reply.problem.startswith("not asked"):
        return _not("server", "not_asked", f"{where}: {reply.problem}", "use https, or an address of a private network")
    if reply.problem == probe.HANGS:
        return _not("server", "server_hangs", f"{where} gives no answer", "look at the server's own log, or restart it")
    if reply.status is None:
        if elsewhere:
            text = f"{where} cannot be reached ({reply.problem}), but a Honcho answers at {elsewhere}"
            return _not("server", "wrong_port", text, f"set HONCHO_URL to {elsewhere}")
        if reply.problem == probe.NO_HTTP:
            fix = "something else has that port: correct the port in HONCHO_URL"
            return _not("server", "wrong_port", f"{where}: {reply.problem}", fix)
        text = f"{where} cannot be reached ({reply.problem})"
        return _not("server", "server_down", text, "start the server, or correct the address and its port")
    words = f": {reply.said}" if reply.said else ""
    if reply.status in (401, 403):
        if not settings.api_key:
            return _not("server", "no_key", f"{where} wants a key and none is set", "set HONCHO_API_KEY")
        fix = f"the key from {settings.sources['api_key']} is not the right one: put a valid one there"
        return _not("server", "wrong_key", f"{where} rejects the key{words}", fix)
    if not reply.speaks_json or 300 <= reply.status < 400 or healthy is False:
        fix = "something else listens there (a login page, a proxy): correct the address"
        return _not("server", "not_honcho", f"{where} answers, but not as Honcho does", fix)
    if reply.status >= 500:
        text = f"{where} fails (status {reply.status}){words}"
        return _not("server", "server_fails", text, "look at the server's own log")
    if reply.status == 404 or reply.status < 300:
        return Finding("server", "server", True, f"{where} answers")
    text = f"{where} refuses (status {reply.status}){words}"
    return _not("server", "server_refuses", text, "compare its version with docs/honcho.md")


def is_honcho(reply: Reply) -> bool | None:
    """Whether the reply to a list alone says that this is Honcho; None: `/health` has to be asked."""
    if reply.status is None or not reply.speaks_json:
        return False
    if reply.status < 300:
        return isinstance(reply.body, Mapping) and isinstance(reply.body.get("items"), list)
    return None if reply.status == 404 else True


def of_clock(reply: Reply) -> list[Finding]:
    """This machine's clock against the `Date` of the reply."""
    if not reply.date:
        return []
    try:
        off = time.time() - parsedate_to_datetime(reply.date).timestamp()
    except (TypeError, ValueError):
        return []
    if abs(off) < WRONG_CLOCK_SECONDS:
        return []
    which = "ahead of" if off > 0 else "behind"
    text = f"this machine's clock is {abs(off):.0f} s {which} the server's"
    return [_not("clock", "clock", text, "set the clock of whichever is wrong (a time service does it for good)")]


def of_queue(reply: Reply) -> list[Finding]:
    """What the server has still to derive from what it was given."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    waiting = [body.get("pending_work_units"), body.get("in_progress_work_units")]
    count = sum(one for one in waiting if isinstance(one, int) and not isinstance(one, bool))
    if reply.status != 200 or count <= 0:
        return []
    text = f"the server has still to derive memory from {out.counted(count, 'piece')} of what it was given"
    fix = "what was said lately is remembered when that is done; if the number does not fall, look at its deriver"
    return [Finding("derivation", "derivation", True, text, fix)]


def of_process(whose: str, shown: Mapping[str, Any]) -> list[Finding]:
    """What the running process says of itself."""
    causes = {str(one["cause"]): one for one in shown.get("degraded", {}).get("causes", ())}
    fix = "" if shown["state"] == "ready" else "each reason stands below" if causes else "start it with other settings"
    found = [Finding("process", "process", shown["state"] == "ready", f"{whose}: {shown['health']}", fix)]
    for cause, one in causes.items():
        what, code = _CAUSES.get(cause, ("degraded", cause))
        found.append(_not(what, code, f"{whose}: {one['text']}", str(one["fix"])))
    for text in shown["problems"]:
        if text == shown["outbox"].get("trouble"):
            continue
        port = "cannot be used: address already in use" in text
        todo = "end what has it, or set another one (0 picks one)" if port else "see docs/settings.md and the log"
        found.append(_not("port" if port else "problem", "port_taken" if port else "problem", f"{whose}: {text}", todo))
    return found + _of_outbox(whose, shown["outbox"], causes)


_CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "breaker_open": ("breaker", "breaker_open"),
    "unauthorized": ("key", "wrong_key"),
    "outbox_stuck": ("outbox", "outbox_stuck"),
    "nothing_captured": ("captures", "skipped"),
    "store": ("outbox", "store"),
    "disk": ("disk", "disk"),
    "refresh_failing": ("reads", "refresh_failing"),
    "given_up": ("tree", "given_up"),
    "restarts": ("tree", "restarts"),
}
"""Where a cause of the running process belongs among the findings."""


def _of_outbox(whose: str, outbox: Mapping[str, Any], causes: Iterable[str]) -> list[Finding]:
    found = []
    oldest = outbox.get("oldest_age")
    if oldest is not None and oldest > OLD_SECONDS and "outbox_stuck" not in causes:
        text = f"{whose}: the oldest undelivered turn has waited {oldest / 60:.0f} minutes"
        found.append(_not("outbox", "outbox_stuck", text, "set save_messages = true: what is queued is delivered then"))
    if outbox.get("set_aside"):
        text = f"{whose}: {out.counted(outbox['set_aside'], 'message')} set aside"
        found.append(_not("outbox", "set_aside", text, "`honcho-actors outbox list --state set_aside` says why"))
    failed = {str(why): int(count) for why, count in dict(outbox.get("forks_failed") or {}).items()}
    if failed:
        reasons = ", ".join(f"{why}: {count}" for why, count in sorted(failed.items()))
        text = f"{whose}: {out.counted(sum(failed.values()), 'fork')} began without the parent's history ({reasons})"
        fix = "docs/capture.md says what each word means; mend it before the next fork"
        found.append(_not("fork", "fork", text, fix))
    skipped = {str(why): int(count) for why, count in dict(outbox.get("skipped") or {}).items()}
    taken = outbox.get("delivered") or outbox.get("pending_turns")
    if skipped and not taken and "nothing_captured" not in causes:
        reasons = ", ".join(f"{why}: {count}" for why, count in sorted(skipped.items()))
        text = f"{whose}: every turn so far was skipped ({reasons})"
        found.append(_not("captures", "skipped", text, "docs/capture.md says what each word means"))
    return found


def of_hidden(whose: str, row: Mapping[str, Any], reply: Reply) -> list[Finding]:
    """The server's answer about a person of whom the running process shows nothing; a note while it may just have been
    learned."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    known = body.get("representation") or body.get("peer_card")
    if reply.status != 200 or not known:
        return []
    text = f"{whose}: the server remembers something for the conversation {row['key']}, and its block is empty"
    fix = "the next turn reads it again; if it stays so, compare workspace and peer with what the server has"
    age = row.get("age")
    return [Finding("memory", "hidden_memory", age is not None and age < JUST_NOW_SECONDS, text, fix)]


def _not(what: str, code: str, text: str, fix: str) -> Finding:
    return Finding(what, code, False, text, fix)
