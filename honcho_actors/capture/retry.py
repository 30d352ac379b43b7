"""When to try again: full jitter under a doubling, capped ceiling; what the server asks for is honoured and clamped.

The schedule is stored with the conversation (attempts, the moment before which nothing is tried), so that a restart
neither forgets nor repeats it. Pure: the caller brings the random number.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Seconds. `first` is the ceiling of the first delay, `cap` of every later one, `longest` of a server's wish."""

    first: float = 0.5
    cap: float = 60.0
    longest: float = 900.0

    def ceiling(self, attempts: int) -> float:
        """The longest delay after this many failures in a row (the first failure is 1)."""
        if attempts < 1:
            return 0.0
        return min(self.cap, self.first * float(2 ** min(attempts - 1, 60)))

    def delay(self, attempts: int, random: float, retry_after: float | None = None) -> float:
        """Seconds until the next try: `random` in [0, 1) of the ceiling; never before what the server asked for."""
        drawn = self.ceiling(attempts) * random
        if retry_after is None or not retry_after > 0:
            return drawn
        return min(self.longest, retry_after) + drawn
