"""`page`, `alerts`, `dashboards`: what an operator takes away from here, and the way into the status page.

`alerts` and `dashboards` print what lies in the package, and need no process; `page` asks for nothing either: whoever
can read the private file of the state directory can make a link.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from honcho_actors.cli import out
from honcho_actors.cli.attach import Unreachable
from honcho_actors.cli.inspect import running
from honcho_actors.ops import dashboard, rules
from honcho_actors.ops.access import TICKET_SECONDS, ticket

HOW_LONG: Final = f"It can be opened once, within {TICKET_SECONDS // 60} minutes."


def page(*, state_dir: Path | None, as_json: bool) -> int:
    """A link into the running process's status page. 3: no process answers."""
    process = running(state_dir)
    try:
        process.get("/healthz")
    except Unreachable as unreachable:
        raise out.Stop(str(unreachable), out.UNREACHABLE) from None
    link = f"{process.url}/#{ticket(process.token, time.time())}"
    if as_json:
        out.emit_json({"url": link, "pid": process.pid, "seconds": TICKET_SECONDS})
    else:
        out.say(link)
        out.complain(f"the status page of process {process.pid}. {HOW_LONG}")
    return out.FINE


def alerts(*, runbook: str | None, runbooks: str, as_json: bool) -> int:
    """The rules as a file for Prometheus, or one runbook as text."""
    if runbook is not None:
        text = rules.runbook(runbook)
        if text is None:
            out.usage(f"there is no runbook {runbook!r}; there are: {', '.join(rules.names())}")
        out.say(text.rstrip("\n"))
        return out.FINE
    if as_json:
        out.emit_json([{"alert": name, "runbook": rules.runbook_file(name)} for name in rules.names()])
        return out.FINE
    out.say(rules.text(runbooks).rstrip("\n"))
    return out.FINE


def dashboards(*, scrape: str | None, as_json: bool) -> int:
    """The Grafana dashboard, or a configuration of Prometheus that reads one process and the rules beside it."""
    if scrape is None:
        out.emit_json(dashboard.dashboard())
    else:
        out.say(dashboard.scrape_configuration(scrape).rstrip("\n"))
    return out.FINE
