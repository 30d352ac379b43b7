"""`serve`: the memory runtime as a process of its own, until SIGTERM, SIGINT or the end of its input.

With `--stdio` it takes turns: one JSON object a line on stdin, one answer a line on stdout, in order. What may be asked
is the table `_DO`. A line that cannot be used is answered with an `error`, and the next one is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from honcho_actors.cli import out
from honcho_actors.cli.signals import told_to_end
from honcho_actors.model import ReceiptState, Turn, TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.runtime.io import preload
from honcho_actors.settings import Settings

DRAIN_TIMEOUT: Final = 10.0
MOST_BUDGET: Final = 60.0
_REQUEST_FIELDS: Final = frozenset(one.name for one in fields(TurnRequest))
_TURN_FIELDS: Final = frozenset(one.name for one in fields(Turn))


def serve(*, stdio: bool, state_dir: Path | None, as_json: bool) -> int:
    """Runs until it is told to end; drains; gives 0, or 1 when something accepted is still undelivered (it is kept)."""
    explicit: dict[str, Any] = {"require_user": True}
    if state_dir is not None:
        explicit["state_dir"] = state_dir
    settings = Settings.load(**explicit)
    ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    with told_to_end(lambda: ended.put(None)):
        return _run(settings, ended, stdio=stdio, as_json=as_json)


def _run(settings: Settings, ended: queue.SimpleQueue[str | None], *, stdio: bool, as_json: bool) -> int:
    preload()
    memory = Memory.start(settings)
    try:
        hello = _hello(memory)
        if stdio or as_json:
            out.emit_line(hello)
        else:
            out.say(f"memory runs as process {hello['pid']}; {hello['health']}")
            for name in ("metrics", "admin"):
                if hello[name]:
                    out.say(f"{name}: {hello[name]}")
        if stdio:
            threading.Thread(target=_read_lines, args=(ended,), name="serve-stdin", daemon=True).start()
            _take_turns(memory, ended)
        else:
            ended.get()
        drained = memory.close(DRAIN_TIMEOUT)
    finally:
        memory.close(0.0)
    return out.FINE if drained else out.NOT_FINE


def _hello(memory: Memory) -> dict[str, Any]:
    status = memory.status().as_dict()
    return {
        "ready": True,
        "pid": os.getpid(),
        "health": status["health"],
        "metrics": status["endpoints"]["metrics"],
        "admin": status["endpoints"]["admin"],
    }


def _read_lines(lines: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in sys.stdin:
            lines.put(line)
    lines.put(None)


def _take_turns(memory: Memory, lines: queue.SimpleQueue[str | None]) -> None:
    while (line := lines.get()) is not None:
        if not line.strip():
            continue
        try:
            asked = json.loads(line)
            done = _DO[asked.pop("do")](memory, asked)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            done = {"error": f"this line cannot be used: {type(error).__name__}"}
        try:
            out.emit_line(done)
        except OSError:  # whoever drove us has gone
            return


def _request(asked: Mapping[str, Any]) -> TurnRequest:
    return TurnRequest(**{name: value for name, value in asked.items() if name in _REQUEST_FIELDS})


def _context(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    budget = asked.get("budget")
    limit = min(float(budget), MOST_BUDGET) if isinstance(budget, (int, float)) else None
    found = memory.context(_request(asked), limit)
    return {
        "state": found.state,
        "reason": found.reason,
        "waited": found.waited,
        "age": found.age,
        "degraded": list(found.degraded),
        "system": found.system,
        "user_message": found.user_message,
    }


def _capture(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in asked.items() if name in _TURN_FIELDS}
    if isinstance(given.get("prompt"), list):
        given["prompt"] = tuple(given["prompt"])
    if isinstance(given.get("at"), str):
        given["at"] = datetime.fromisoformat(given["at"])
    receipt = memory.capture(Turn(**given))
    wanted = asked.get("wait")
    if isinstance(wanted, str):
        receipt.wait(ReceiptState(wanted), min(float(asked.get("timeout", 5.0)), MOST_BUDGET))
    return {"state": receipt.state, "reason": receipt.reason, "batch_id": receipt.batch_id}


def _flush(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    return {"flushed": memory.flush(min(float(asked.get("timeout", 10.0)), 600.0))}


def _status(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    return memory.status().as_dict()


def _prewarm(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    memory.prewarm(_request(asked))
    return {"started": True}


def _refresh(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    memory.refresh(_request(asked))
    return {"started": True}


def _search(memory: Memory, asked: dict[str, Any]) -> dict[str, Any]:
    found = memory.search(str(asked["query"]), asked.get("scope", "session"), asked.get("key"))
    return {"documents": [asdict(one) for one in found]}


_DO: Final[Mapping[str, Callable[[Memory, dict[str, Any]], dict[str, Any]]]] = {
    "context": _context,
    "capture": _capture,
    "flush": _flush,
    "status": _status,
    "prewarm": _prewarm,
    "refresh": _refresh,
    "search": _search,
}
