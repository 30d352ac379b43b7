"""What a caller holds of a captured turn: its batch id, how far it has come, and a way to wait.

States only move forward: pending, accepted, then delivered, set aside or expired; or skipped, with the reason. Any
number of threads and event loops may wait on one receipt; one that is dropped costs nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

from honcho_actors.model import FINAL_STATES, ReceiptState
from supervision import Clock, Waiter, WouldBlockLoop

_REACHED = {
    ReceiptState.PENDING: 0,
    ReceiptState.ACCEPTED: 1,
    ReceiptState.DELIVERED: 2,
    ReceiptState.SET_ASIDE: 2,
    ReceiptState.EXPIRED: 2,
    ReceiptState.SKIPPED: 2,
}


class Receipt:
    """`batch_id` is hexadecimal; `reason` is "" unless the turn was skipped, set aside or expired."""

    __slots__ = ("__weakref__", "_clock", "_watched", "batch_id", "reason", "repeated", "state")

    def __init__(
        self, batch_id: str, state: ReceiptState = ReceiptState.PENDING, reason: str = "", clock: Clock | None = None
    ) -> None:
        self.batch_id = batch_id
        self.state = state
        self.reason = reason
        self.repeated = False
        """True when the same turn was in the outbox before this capture of it."""
        self._clock = clock
        self._watched: list[tuple[int, Waiter[ReceiptState]]] | None = None

    def __repr__(self) -> str:
        return f"Receipt({self.batch_id}, {self.state.value}{', ' + self.reason if self.reason else ''})"

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for more than has been reached."""
        return bool(self._watched)

    def wait(self, state: ReceiptState | str = ReceiptState.DELIVERED, timeout: float | None = None) -> ReceiptState:
        """Waits until `state` (or any final one) is reached and returns the state reached; after `timeout` seconds,
        whatever it is by then. On a thread that runs an event loop it does not wait: use `await receipt.until(...)`.
        """
        waiter = self._waiter(ReceiptState(state), timeout)
        if waiter is not None:
            with suppress(WouldBlockLoop):
                waiter.result()
        return self.state

    async def until(
        self, state: ReceiptState | str = ReceiptState.DELIVERED, timeout: float | None = None
    ) -> ReceiptState:
        """As `wait`, for coroutines, on any loop."""
        waiter = self._waiter(ReceiptState(state), timeout)
        if waiter is not None:
            await waiter
        return self.state

    def __await__(self) -> Generator[Any, None, ReceiptState]:
        """Until the turn is on disk, or was skipped."""
        return self.until(ReceiptState.ACCEPTED).__await__()

    def advance(self, state: ReceiptState, reason: str = "") -> bool:
        """For the room's own use: moves forward and answers who waits. False when it was there already, or is final.

        Whoever was told by a writer that had been given up did not hear it: who waits for what has been reached is
        answered again, whether or not it moves now.
        """
        moves = self.state not in FINAL_STATES and _REACHED[state] > _REACHED[self.state]
        if moves:
            self.reason = reason
            self.state = state
        watched = self._watched
        if watched:
            reached = _REACHED[self.state]
            for entry in list(watched):
                if entry[0] <= reached:
                    entry[1].resolve(self.state)
                    if entry[1].resolved and entry in watched:
                        watched.remove(entry)
        return moves

    def _waiter(self, state: ReceiptState, timeout: float | None) -> Waiter[ReceiptState] | None:
        wanted = _REACHED[state]
        if _REACHED[self.state] >= wanted or (timeout is not None and timeout <= 0):
            return None
        clock = self._clock or Clock()
        deadline = None if timeout is None else clock.now() + timeout
        waiter: Waiter[ReceiptState] = Waiter(clock=clock, deadline=deadline, on_deadline=self.state)
        if self._watched is None:
            self._watched = []
        self._watched.append((wanted, waiter))
        if _REACHED[self.state] >= wanted:  # it moved between the look and the entry
            waiter.resolve(self.state)
        return waiter
