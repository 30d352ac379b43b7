"""What a delivery tells the sweeper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """How a worker ended. `again` in seconds: None, nothing is left; `why` in a word, for status."""

    conversation: int
    again: float | None
    why: str = ""
    waits_for_server: bool = False
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """This conversation is waited for by another."""

    conversation: int


class CountCopies:
    """Something was sent twice; count its copies."""
