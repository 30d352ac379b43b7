"""`sessions`, `tree`, `outbox`, `settings`: what the running process holds, read over its admin endpoint.

Each says whose state it shows. `settings` alone also answers without a running process, because the files and the
environment are the same; what another process would make of them is said to be just that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from honcho_actors.cli import out
from honcho_actors.cli.attach import Attached, Unreachable, attach
from honcho_actors.cli.status import when
from honcho_actors.settings import Settings
from honcho_actors.settings.document import json_schema, toml_template

Row = Mapping[str, Any]


def sessions(*, state_dir: Path | None, limit: int, as_json: bool) -> int:
    """The conversations that are kept ready. What is not here may still be on the server."""
    process = running(state_dir)
    try:
        rows = process.get("/sessions", limit=str(limit))
        away = not rows and process.get("/status")["sessions"].get("manager") != "running"
    except Unreachable as unreachable:
        raise out.Stop(str(unreachable), out.UNREACHABLE) from None
    if as_json:
        out.emit_json(rows)
        return out.FINE
    out.say(f"process {process.pid}")
    if away:
        out.say("  the session manager is away, so nothing can be listed; it comes back by itself (honcho-actors tree)")
        return out.NOT_FINE
    for line in session_lines(rows):
        out.say("  " + line)
    return out.FINE


def session_lines(rows: Sequence[Row]) -> list[str]:
    """The conversations as a table. What has no remote session yet is *pending*, what was never read says *never*."""
    if not rows:
        return ["none yet: a conversation is held from its first turn on; what is not here may still be on the server"]
    shown = [{**row, "remote": row["remote"] or "pending", "read": _ago(row["age"])} for row in rows]
    return table(("key", "user", "remote", "turns", "read", "state", "reason"), shown)


def _ago(age: float | None) -> str:
    return "never" if age is None else f"{age:.1f} s ago"


def tree(*, state_dir: Path | None, as_json: bool) -> int:
    """The supervision tree as it runs."""
    columns = ("supervisor", "child", "state", "generation", "count")
    return _show(state_dir, "/tree", as_json, lambda rows: table(columns, rows))


def outbox(*, state_dir: Path | None, as_json: bool) -> int:
    """What waits to be delivered, and why."""
    return _show(state_dir, "/outbox", as_json, _pairs)


def settings(*, state_dir: Path | None, as_json: bool, toml: bool, schema: bool) -> int:
    """Each value, where it came from, and what lost."""
    if toml:
        out.say(toml_template().rstrip("\n"))
        return out.FINE
    if schema:
        out.emit_json(json_schema())
        return out.FINE
    loaded = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    try:
        process = attach(loaded.state_dir)
        shown, whose = process.get("/settings"), f"process {process.pid} on {loaded.state_dir}"
    except Unreachable:
        whose = "no process runs here; one that is started here would have"
        shown = {
            "values": loaded.shown(),
            "sources": dict(loaded.sources),
            "shadowed": dict(loaded.shadowed),
            "problems": [str(problem) for problem in loaded.problems],
            "epoch": 0,
        }
    if as_json:
        out.emit_json({"whose": whose, **shown})
        return out.FINE
    out.say(whose)
    for name, value in shown["values"].items():
        source = shown["sources"].get(name, "default")
        lost = shown["shadowed"].get(name)
        out.say(f"  {name:<24} {_setting(value):<28} {source}" + (f" (over {', '.join(lost)})" if lost else ""))
    for problem in shown["problems"]:
        out.say(f"  problem: {problem}")
    return out.FINE if not shown["problems"] else out.NOT_FINE


def running(state_dir: Path | None) -> Attached:
    """The process to ask; exit 3 with one sentence when there is none."""
    loaded = Settings.load(**({} if state_dir is None else {"state_dir": state_dir}))
    try:
        return attach(loaded.state_dir)
    except Unreachable as unreachable:
        raise out.Stop(str(unreachable), out.UNREACHABLE) from None


def _show(state_dir: Path | None, page: str, as_json: bool, lines: Callable[[Any], Sequence[str]]) -> int:
    process = running(state_dir)
    try:
        shown = process.get(page)
    except Unreachable as unreachable:
        raise out.Stop(str(unreachable), out.UNREACHABLE) from None
    if as_json:
        out.emit_json(shown)
        return out.FINE
    out.say(f"process {process.pid}")
    for line in lines(shown):
        out.say("  " + line)
    return out.FINE


def table(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Rows under their column names, aligned; nothing for no rows."""
    if not rows:
        return []
    cells = [[_word(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(columns)]
    lines = ["  ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True)).rstrip()]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return lines


def _setting(value: Any) -> str:
    """A value as docs/settings.md and a file spell it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "unset" if value is None else str(value) if value not in ("", {}) else "none"


def _pairs(values: Row) -> list[str]:
    return [f"{name:<18} {_word(when(name, value))}" for name, value in values.items()]


def _word(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = ", ".join(f"{key}: {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
    return text if text.isprintable() else repr(text)
