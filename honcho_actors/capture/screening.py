"""Screening a captured turn: on the writer's thread, or, for a large one, on a thread of its own beside it.

Screening costs up to a microsecond a character, whatever is written to the disk meanwhile. One large turn at a time, on
a daemon thread that lives for that turn alone.
"""

from __future__ import annotations

import threading

from honcho_actors.capture import content
from honcho_actors.capture.core import Core, log
from honcho_actors.capture.intake import Captured, Large
from honcho_actors.model import SkipReason
from honcho_actors.privacy import identity as identities

_FAILED = content.Drafted(None, SkipReason.STORE_FAILED)


def drafted(core: Core, item: Captured) -> content.Drafted:
    """What becomes of the turn. Any thread; never raises; linear in the turn's texts."""
    try:
        found = content.draft(
            item.turn,
            identities.locate(item.identity),
            gate=core.ports.gate,
            max_chars=item.max_chars,
            at_us=item.at_us,
            batch_id=item.batch_id,
        )
    except Exception as error:  # noqa: BLE001 boundary: one odd turn is skipped; its neighbours are written
        log.error("a turn could not be prepared: %s", type(error).__name__, extra={"event": "turn_not_prepared"})
        return _FAILED
    for name in found.withheld:
        core.ports.meters.egress_withheld.labels(name).inc()
    return found


def screen_large(core: Core) -> None:
    """Begins to screen the next large turn, if there is one and none is being screened. Returns at once."""
    large = core.intake.next_large()
    if large is None:
        return
    try:
        threading.Thread(target=_screen, args=(core, large), name="honcho-screen", daemon=True).start()
    except RuntimeError:  # no more threads: everybody waits, and nothing is lost
        _screen(core, large)


def _screen(core: Core, large: Large) -> None:
    found = _FAILED
    try:
        found = drafted(core, large.item)
    finally:
        large.drafted = found
        core.wake()
