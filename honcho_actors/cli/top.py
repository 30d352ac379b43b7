"""`top`: the running process, live, in a terminal.

Reads one page a look over the admin endpoint and waits for no actor there. In a terminal the view is redrawn in place;
into a pipe each look is a block of plain lines, with `--json` one JSON value a line. A process that goes away is said
so and waited for; Ctrl-C ends it with 0.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from honcho_actors.cli import out
from honcho_actors.cli.attach import Unreachable, attach
from honcho_actors.cli.status import moment
from honcho_actors.settings import Settings

SESSIONS_SHOWN: Final = 12
_COLOURS: Final[Mapping[str, str]] = {
    "ready": "green", "degraded": "yellow", "off": "red", "closed": "red", "restored": "cyan", "empty": "yellow",
    "loading": "cyan", "absent": "red",
}  # fmt: skip


def top(*, state_dir: Path | None, every: float, count: int | None, as_json: bool) -> int:
    """0 when the last look was answered, 3 when it was not. `every` in seconds."""
    settings = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    console = Console(highlight=False)
    live = console.is_terminal and not as_json
    answered = False
    try:
        with Live(console=console, auto_refresh=False, screen=count is None) if live else nullcontext() as view:
            looks = 0
            while True:
                shown, why = _look(settings.state_dir)
                answered = shown is not None
                if as_json:
                    out.emit_line({"running": answered, "why": why, **(shown or {})})
                elif view is not None:
                    view.update(Text(f"{why}; waiting for one") if shown is None else drawn(shown), refresh=True)
                elif shown is None:
                    out.complain(why)
                else:
                    console.print(drawn(shown))
                looks += 1
                if count is not None and looks >= count:
                    break
                time.sleep(every)
    except KeyboardInterrupt:
        return out.FINE
    return out.FINE if answered else out.UNREACHABLE


def _look(state_dir: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        shown: dict[str, Any] = attach(state_dir).get("/overview")
    except Unreachable as unreachable:
        return None, str(unreachable)
    return shown, ""


def drawn(shown: Mapping[str, Any]) -> Group:
    """One look, for people."""
    parts: list[Any] = [_head(shown)]
    for one in shown["degraded"]["causes"]:
        line = f"  {one['cause']} since {moment(one['since'])}: {one['text']}; {one['fix']}"
        parts.append(Text(line, style="yellow"))
    parts += [Text(f"  problem: {problem}", style="yellow") for problem in shown["problems"]]
    parts += [Text(), _figures(shown), Text(), _sessions(shown["sessions"])]
    return Group(*parts)


def _head(shown: Mapping[str, Any]) -> Text:
    line = Text(f"process {shown['pid']}, {shown['version']}, up {_span(shown['uptime'])}: ")
    line.append(shown["state"], style=f"bold {_COLOURS.get(shown['state'], '')}")
    line.append(f": {shown['health']}")
    return line


def _figures(shown: Mapping[str, Any]) -> Table:
    outbox, sessions, settings = shown["outbox"], shown["sessions"], shown["settings"]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    age = outbox.get("oldest_age")
    last = outbox.get("last_delivery")
    table.add_row("server", f"{settings.get('server') or 'none'}, workspace {settings.get('workspace')}")
    areas = Text(", ").join(
        Text(f"{one['area']} {one['state']}", style="green" if one["state"] == "closed" else "red")
        for one in shown["breakers"]
    )
    table.add_row("breakers", areas or Text("-"))
    table.add_row("turns", _turns(shown["turns"]))
    held = f"{sessions.get('sessions', 0):,} held, of {out.counted(sessions.get('persons', 0), 'person', 'people')}"
    table.add_row("conversations", held)
    table.add_row(
        "to deliver",
        f"{out.counted(outbox.get('pending_turns', 0), 'turn')}, the oldest {'-' if age is None else _span(age)}, "
        f"{outbox.get('set_aside', 0)} set aside, last delivery {'never' if last is None else moment(last)}",
    )
    table.add_row("billed questions", f"{shown['spend']['last_hour']:.0f} in the last hour")
    restarts = sum(int(row.get("restarts", 0)) for row in shown["tree"])
    table.add_row("restarts", str(restarts))
    return table


def _turns(turns: Mapping[str, Any]) -> str:
    """Turns of the last hour, and the commonest reason for an empty block that somebody should do something about."""
    line = f"{turns['total']:.0f} in the last hour, {turns['with_memory']:.0f} with memory"
    bad = next((row for row in turns["empty"] if row["trouble"] and row["count"]), None)
    return line if bad is None else f"{line}; {bad['count']:.0f} without: {bad['why']}"


def _sessions(sessions: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for name in ("conversation", "user", "state", "turns", "read s ago"):
        right = name in ("turns", "read s ago")
        table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in sessions["rows"][:SESSIONS_SHOWN]:
        age = row.get("age")
        state = str(row.get("state", "-"))
        table.add_row(
            Text(str(row["key"])),
            Text(str(row["user"])),
            Text(state, style=_COLOURS.get(state, "")),
            str(row["turns"]),
            "never" if age is None else f"{age:.0f}",
        )
    return table


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
