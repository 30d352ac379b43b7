"""`bench`: what a turn costs on this machine, in half a minute: an embedded server that is as far away as is said, a
runtime of its own in this process, nothing left behind. The project's own benchmarks (`benchmarks/`) measure more.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from honcho_actors.cli import out
from honcho_actors.cli.processes import in_order_when_told_to_end
from honcho_actors.local.process import DidNotStart, start
from honcho_actors.model import ReceiptState, Turn, TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.runtime.io import preload
from honcho_actors.settings import Settings

COLD_TURNS: Final = 5
CAPTURES: Final = 50
QUERY: Final = "where were we with the boat and its ribs?"
_LABELS: Final = (
    ("start_ms", "start of the runtime, ms"),
    ("cold_ms", "first turn of an unknown person, ms"),
    ("known_person_ms", "first turn of a known person's new conversation, ms"),
    ("warm_p50_us", "warm turn, median us"),
    ("warm_p99_us", "warm turn, 99 of 100 within us"),
    ("capture_p50_us", "handing over what was said, median us"),
    ("delivered_s", f"{CAPTURES} turns on the server after, s"),
)


def bench(*, turns: int, delay: float, as_json: bool) -> int:
    """Measures and prints; 1 when something did not come back."""
    preload()
    with (
        in_order_when_told_to_end(),
        tempfile.TemporaryDirectory(prefix="honcho-actors-bench-") as folder,
        out.working("measuring", quiet=as_json),
    ):
        try:
            with start(Path(folder) / "server", delay=delay) as server:
                found = _measured(server.url, Path(folder), turns)
        except DidNotStart as error:
            raise out.Stop(f"the embedded server did not start: {error}", out.NOT_FINE) from None
    found |= {"server_delay_ms": round(delay * 1e3, 1), "turns": turns, "python": platform.python_version()}
    if as_json:
        out.emit_json(found)
    else:
        out.say(f"on this machine, with a server that takes {delay * 1e3:g} ms for a request:")
        for name, label in _LABELS:
            out.say(f"  {label:<52} {found[name]:g}")
    return out.FINE if found["delivered"] else out.NOT_FINE


def _measured(url: str, folder: Path, turns: int) -> dict[str, Any]:
    settings = Settings(
        base_url=url,
        workspace="bench",
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        admin_port=None,
        metrics_port=None,
        require_user=True,
    )
    begun = time.perf_counter()
    with Memory.start(settings) as memory:
        found: dict[str, Any] = {"start_ms": round((time.perf_counter() - begun) * 1e3, 1)}
        cold = [_timed(memory, f"talk-{number}", f"person-{number}") for number in range(COLD_TURNS)]
        found["cold_ms"] = round(_share(cold, 0.5) / 1e3, 1)
        found["known_person_ms"] = round(_timed(memory, "another talk", "person-0") / 1e3, 3)
        warm = [
            _timed(memory, f"talk-{number % COLD_TURNS}", f"person-{number % COLD_TURNS}") for number in range(turns)
        ]
        found["warm_p50_us"] = round(_share(warm, 0.5), 1)
        found["warm_p99_us"] = round(_share(warm, 0.99), 1)
        receipts, took = [], []
        handed = time.perf_counter()
        for number in range(CAPTURES):
            at = time.perf_counter()
            receipts.append(memory.capture(Turn("talk-0", "person-0", f"I steamed rib {number}.", "A rib it is.")))
            took.append((time.perf_counter() - at) * 1e6)
        memory.flush(60.0)
        found["capture_p50_us"] = round(_share(took, 0.5), 1)
        found["delivered_s"] = round(time.perf_counter() - handed, 2)
        found["delivered"] = all(one.wait(ReceiptState.DELIVERED, 0.0) is ReceiptState.DELIVERED for one in receipts)
    return found


def _timed(memory: Memory, session: str, user: str) -> float:
    """Microseconds of one turn."""
    request = TurnRequest(session_key=session, user=user, query=QUERY)
    begun = time.perf_counter()
    memory.context(request, 10.0)
    return (time.perf_counter() - begun) * 1e6


def _share(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
