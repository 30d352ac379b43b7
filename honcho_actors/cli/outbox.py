"""`outbox list|show|retry|export`: the file itself, whether a process runs on it or not.

What was said is shown only with `--reveal`. Each says which file it read; a file that is not there yet is an empty
outbox.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from honcho_actors.capture import inspect
from honcho_actors.cli import out
from honcho_actors.cli.inspect import table
from honcho_actors.settings import Settings
from honcho_actors.store import StoreFailed

STATES: Final = ("accepted", "sending", "set_aside", "delivered")
COLUMNS: Final = ("batch_id", "state", "reason", "conversation", "user", "accepted_at", "messages", "waits_for")


def list_(*, state_dir: Path | None, states: Sequence[str], limit: int, as_json: bool) -> int:
    """Turns that are not on the server, oldest first; with `--state delivered` those that are still remembered."""
    unknown = next((state for state in states if state not in STATES), None)
    if unknown is not None:
        out.usage(f"there is no state {unknown!r}: {', '.join(STATES)}")
    path = _path(state_dir)
    rows: list[dict[str, Any]] = []
    with _said_plainly():
        if path.exists():
            rows = [one.as_dict() for one in inspect.entries(path, states=frozenset(states) or None, limit=limit)]
    if as_json:
        out.emit_json(rows)
        return out.FINE
    out.say(str(path))
    for line in table(COLUMNS, rows) or ["nothing waits here"]:
        out.say("  " + line)
    if len(rows) == limit:
        out.say(f"  and perhaps more: --limit is {limit}")
    return out.FINE


def show(*, state_dir: Path | None, batch_id: str, reveal: bool, as_json: bool) -> int:
    """The messages of one turn. 1: none of it is here."""
    path = _path(state_dir)
    with _said_plainly():
        found = inspect.show(path, batch_id, reveal=reveal) if path.exists() else []
    if not found:
        raise out.Stop("nothing of that turn is here: it was delivered, or was never in this outbox", out.NOT_FINE)
    if as_json:
        out.emit_json([one.as_dict() for one in found])
        return out.FINE
    out.say(str(path))
    for one in found:
        reason = f" ({one.reason})" if one.reason else ""
        out.say(f"  {one.position}  {one.peer}  {one.said_at}  {one.state}{reason}  {one.characters:,} characters")
        if one.text is not None:
            out.say(f"     metadata {json.dumps(one.metadata, ensure_ascii=True)}")
            for line in one.text.splitlines():
                out.say("     " + _plain(line))
    return out.FINE


def retry(*, state_dir: Path | None, batch_id: str | None, every: bool, as_json: bool) -> int:
    """Makes what was set aside owed again. 1: there was nothing."""
    if (batch_id is None) != every:
        out.usage("which turn? its id, as `honcho-actors outbox list` shows it, or --all")
    path = _path(state_dir)
    with _said_plainly():
        moved = inspect.retry(path, batch_id) if path.exists() else 0
    if as_json:
        out.emit_json({"messages": moved})
    elif moved:
        out.say(f"{moved:,} messages are owed again; the process that runs here, or the next one, delivers them")
    else:
        raise out.Stop("nothing was set aside there; what waits for its time is due now", out.NOT_FINE)
    return out.FINE if moved else out.NOT_FINE


def export(*, state_dir: Path | None, output: Path | None, reveal: bool, as_json: bool) -> int:
    """Every turn that is not on the server, as JSON Lines (`--json`: as one array)."""
    path = _path(state_dir)
    with _said_plainly():
        found = inspect.export(path, reveal=reveal) if path.exists() else iter(())
        if output is not None:
            count = _write(output, found, as_json)
            out.say(f"{count:,} turns of {path} are in {output}")
        elif as_json:
            out.emit_json(list(found))
        else:
            for one in found:
                out.emit_line(one)
    return out.FINE


def _write(output: Path, found: Iterator[dict[str, Any]], as_json: bool) -> int:
    """Into a new file that only its owner may read."""
    count = 0
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        out.usage(f"{output} can't be written: {error.strerror or type(error).__name__}")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        for count, one in enumerate(found, 1):
            before = ("[" if count == 1 else ",\n") if as_json else ""
            stream.write(before + json.dumps(one, ensure_ascii=False) + ("" if as_json else "\n"))
        if as_json:
            stream.write("]\n" if count else "[]\n")
    return count


def _path(state_dir: Path | None) -> Path:
    return Settings.load(**({} if state_dir is None else {"state_dir": state_dir})).state_dir / "outbox.db"


@contextlib.contextmanager
def _said_plainly() -> Iterator[None]:
    try:
        yield
    except StoreFailed as failed:
        raise out.Stop(f"the outbox can't be read: {failed}", out.NOT_FINE) from None
    except PermissionError as refused:
        raise out.Stop(f"the outbox can't be read: {refused.filename}: permission denied", out.NOT_FINE) from None


def _plain(line: str) -> str:
    """A line as a terminal may show it: what was said never moves the cursor."""
    return "".join(char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in line)
