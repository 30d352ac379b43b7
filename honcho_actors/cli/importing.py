"""`import`: brings what was said elsewhere into the outbox, once, and waits for it to be delivered.

All files are looked over before anything is taken, so that a wrong one costs nothing. What is taken is on disk at once;
a run that is cut off, or is given a conversation that has grown, goes on where it was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from honcho_actors.capture import inspect
from honcho_actors.capture.importer import Imported, NotReadable, look_over
from honcho_actors.cli import out
from honcho_actors.cli.processes import in_order_when_told_to_end
from honcho_actors.cli.status import reason_off
from honcho_actors.model import SkipReason
from honcho_actors.runtime import Memory
from honcho_actors.runtime.io import preload
from honcho_actors.settings import Settings
from honcho_actors.store import StoreFailed

CLOSE: Final = 1.0
"""Seconds for the end of the runtime: what is undelivered by then stays on disk."""
STEP: Final = 0.5
"""Seconds between two looks at what is still to be delivered."""
SAY_EVERY: Final = 5.0
"""Seconds between two lines of progress, where stderr is no terminal."""
_FINE: Final = frozenset({SkipReason.BLANK, SkipReason.WITHHELD, SkipReason.OPTED_OUT})
"""Why a message may be left out without anything being wrong."""


def import_(*, files: Sequence[Path], user: str | None, state_dir: Path | None, wait: float, as_json: bool) -> int:
    """0: all of it is remembered. 1: some of it is not, or not delivered yet. 2: nothing was taken, and why."""
    settings = _settings(state_dir, user)
    try:
        total = look_over(files)
    except NotReadable as refused:
        out.usage(str(refused))
    if not total:
        out.usage("there is no message of a person or of an assistant to import")
    preload()
    progress = _Progress(total)
    with in_order_when_told_to_end(), Memory.start(settings) as memory:
        imported = memory.import_files(files, user=user, progress=progress.imported)
        if settings.configured:
            _deliver(memory, wait, progress)
        trouble = str(memory.status().outbox.get("trouble") or "")
        memory.close(CLOSE)
    left = _owed(settings)
    progress.end()
    _show(imported, left, bool(trouble), settings, as_json)
    if trouble:
        out.complain(f"the outbox can't be written: {trouble}")
    elif left:
        why = f", since {reason_off(settings)}" if not settings.configured else ""
        are = out.counted(left, "message is", "messages are")
        out.complain(f"{are} on disk and not delivered{why}: what is there goes out when a runtime runs here")
    lost = imported.problems or any(reason not in _FINE for reason in imported.skipped)
    return out.NOT_FINE if lost or left or trouble else out.FINE


def _settings(state_dir: Path | None, user: str | None) -> Settings:
    """The settings in force, without an endpoint: whoever runs here already keeps its own."""
    given: dict[str, Any] = {"admin_port": "off", "metrics_port": "off"}
    if state_dir is not None:
        given["state_dir"] = state_dir
    settings = Settings.load(**given)
    if not settings.enabled:
        out.usage(f"nothing is imported: {reason_off(settings)}")
    if settings.read_only:
        out.usage(f"nothing is imported: save_messages is off ({settings.sources['save_messages']})")
    if settings.require_user and user is None:
        out.usage("whose words are these? --user NAME (require_user is on)")
    return settings


def _deliver(memory: Memory, wait: float, progress: _Progress) -> None:
    """Waits as long as the number of undelivered messages falls, and `wait` seconds beyond that."""
    until = time.monotonic() + wait
    left = _owed(memory.settings)
    while left and time.monotonic() < until:
        memory.flush(min(STEP, wait))
        now = _owed(memory.settings)
        if now < left:
            until = time.monotonic() + wait
        left = now
        progress.delivering(left)


def _owed(settings: Settings) -> int:
    """Messages on disk that this server, or the first one that is set, has still to get."""
    try:
        return inspect.owed(settings.state_dir / "outbox.db", settings.server_id)
    except StoreFailed:
        return 0  # nothing could be stored, and that is told


def _show(imported: Imported, left: int, trouble: bool, settings: Settings, as_json: bool) -> None:
    if as_json:
        where = {"server": settings.server_url, "workspace": settings.workspace, "state_dir": str(settings.state_dir)}
        out.emit_json({**asdict(imported), "undelivered": left, **where})
        return
    out.say(
        f"{out.counted(imported.messages, 'message')} of {out.counted(imported.conversations, 'conversation')}"
        f" in {out.counted(imported.files, 'file')}:"
        f" {imported.accepted:,} new, {imported.known:,} known from an earlier import"
    )
    for reason, count in sorted(imported.skipped.items()):
        out.say(f"  {count:,} left out: {reason}")
    for problem in imported.problems:
        out.say(f"  {problem}")
    if not left and not trouble:
        out.say(f"delivered to {settings.server_url}, workspace {settings.workspace}")


class _Progress:
    """How far it is, on stderr: one line that moves on a terminal, now and then a line elsewhere."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()
        self._open = False

    def imported(self, count: int) -> None:
        self._say(f"{count:,} of {self._total:,} messages are on disk")

    def delivering(self, left: int) -> None:
        self._say(f"{left:,} messages are still to be delivered")

    def end(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False

    def _say(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said < (0.1 if self._terminal else SAY_EVERY):
            return
        self._said = now
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._open = True
        else:
            out.complain(text)
