"""Time that survives a restart: moments of this boot, the age of a row, the time that a message bears.

A wall clock may be stepped by a year at any moment, and a monotonic one starts anew with the machine. So a moment that
is stored is a `Moment` (boot and seconds since boot); an age is counted on a clock of the outbox's own, which advances
by real time while a machine runs and by a bounded amount across a reboot; and the time that a message bears never
decreases inside a conversation. Pure, but for `read_clock`.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

REBOOT_LEAP = 7 * 86_400.0
"""The most that one reboot can age a row: a machine that was off longer, or whose wall clock jumped, ages it by this.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Moment(NamedTuple):
    """A point in time of one boot of one machine; comparable across processes of that boot."""

    boot: str
    seconds: float


class Reading(NamedTuple):
    """What the clocks show: seconds since boot (suspend included where the system can), the boot, the wall in
    microseconds.
    """

    boot: str
    seconds: float
    wall_us: int

    @property
    def moment(self) -> Moment:
        return Moment(self.boot, self.seconds)


class ReadClock(Protocol):
    """Reads the clocks; tests and the simulator give their own."""

    def __call__(self) -> Reading: ...


@cache
def boot_id() -> str:
    """The identity of this boot. Where the system names none, this process stands for the boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process-{uuid.uuid4().hex}"


def read_clock() -> Reading:
    """The clocks of this machine. Any thread."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    seconds = time.clock_gettime(clock) if clock is not None else time.monotonic()
    return Reading(boot_id(), seconds, time.time_ns() // 1000)


def elapsed(since: Moment, now: Reading) -> float | None:
    """Seconds from a stored moment to now, or None when it belongs to another boot and nothing is known."""
    if since.boot != now.boot:
        return None
    return max(0.0, now.seconds - since.seconds)


def remaining(until: Moment, now: Reading) -> float:
    """Seconds until a stored moment; 0 when it is past, or was promised before the machine restarted."""
    if until.boot != now.boot:
        return 0.0
    return max(0.0, until.seconds - now.seconds)


@dataclass(frozen=True, slots=True)
class AgeClock:
    """The outbox's own clock: `age` seconds of existence, as of the reading beside it."""

    age: float = 0.0
    boot: str = ""
    seconds: float = 0.0
    wall_us: int = 0

    def at(self, now: Reading) -> AgeClock:
        """The clock at this reading: advanced by real time inside a boot, by a bounded leap of the wall across one."""
        if not self.boot:
            passed = 0.0
        elif self.boot == now.boot:
            passed = max(0.0, now.seconds - self.seconds)
        else:
            passed = min(max(0.0, (now.wall_us - self.wall_us) / 1e6), REBOOT_LEAP)
        return AgeClock(self.age + passed, now.boot, now.seconds, now.wall_us)


def to_us(moment: datetime) -> int:
    """Microseconds since 1970; a time without a zone is taken as UTC. What UTC puts outside of the calendar is its
    nearest moment inside."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (min(max(aware, _FIRST), _LAST) - _EPOCH) // timedelta(microseconds=1)


def from_us(microseconds: int) -> datetime:
    """An aware time in UTC. The whole range of `datetime` is given back exactly."""
    return _EPOCH + timedelta(microseconds=microseconds)


def said_at(wanted_us: int, last_us: int) -> int:
    """The time that the next message of a conversation bears: its own, but never before the one that precedes it."""
    return wanted_us if wanted_us >= last_us else last_us
