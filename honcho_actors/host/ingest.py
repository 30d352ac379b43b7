"""The host's memory ingest: tells the memory providers, in short, what was said in a turn that has ended.

Promises: `ingest` returns at once, on any thread and on any event loop, and never raises; each half is bounded; a turn
with a credential in either half reaches no provider at all; the host's switch `session_search` closes it; turns are
handed on in the order in which they came. The turn keeps its `turn_id`, so a provider that knows it already (because
the host also hands turns to `memory.capture`) stores it once.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Final

from honcho_actors.host.providers import MemoryProviders, _open
from honcho_actors.host.registry import _running_loop, _wait
from honcho_actors.host.summary import HALF_BYTES, summarised
from honcho_actors.model import Turn
from honcho_actors.privacy.egress import INSPECTED_CHARS, Blank, Withheld
from supervision import Clock, Waiter

MAX_QUEUED: Final = 10_000
MAX_QUEUED_CHARS: Final = 64 * 1024 * 1024
DRAIN_SECONDS: Final = 5.0

_log = logging.getLogger("honcho_actors.host")


class IngestState(StrEnum):
    """What became of a turn that was handed in. Closed."""

    QUEUED = "queued"
    OFF = "off"
    """The host's switch is closed."""
    NO_SESSION = "no_session"
    NO_TURN = "no_turn"
    OVERLOADED = "overloaded"
    CLOSED = "closed"


class Ingest:
    """One for each host. Its thread is a daemon, starts with the first turn, and is never joined."""

    def __init__(
        self,
        providers: MemoryProviders,
        *,
        session_search: bool | Callable[[], bool] = True,
        half_bytes: int = HALF_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self._providers = providers
        self._gate = session_search
        self._half_bytes = half_bytes
        self._clock = clock or Clock()
        self._queue: deque[Turn | Waiter[bool]] = deque()
        self._chars = 0
        self._work = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._closed = False
        self.counts: Counter[str] = Counter()
        """How many were queued, handed on, blank, withheld, and refused for each reason."""

    def ingest(self, turn: Turn) -> IngestState:
        """Hands in a turn that has ended. Returns at once."""
        state = self._taken(turn)
        with self._work:
            self.counts[state] += 1
        return state

    def _taken(self, turn: object) -> IngestState:
        if self._closed:
            return IngestState.CLOSED
        if not isinstance(turn, Turn):
            return IngestState.NO_TURN
        if not isinstance(turn.session_key, str) or not turn.session_key.strip():
            return IngestState.NO_SESSION
        if not _open(self._gate):
            return IngestState.OFF
        turn = _held(turn)
        size = _chars(turn)
        with self._work:
            if len(self._queue) >= MAX_QUEUED or self._chars + size > MAX_QUEUED_CHARS:
                return IngestState.OVERLOADED
            self._add(turn, size)
        return IngestState.QUEUED

    def _add(self, item: Turn | Waiter[bool], size: int) -> None:
        """Under the lock."""
        self._queue.append(item)
        self._chars += size
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="memory-ingest", daemon=True)
            self._thread.start()
        self._work.notify()

    def drain(self, timeout: float = DRAIN_SECONDS) -> bool:
        """True when everything that was handed in before has been handed to the providers; False after `timeout`, for
        a provider that is stuck, and on a thread that runs an event loop."""
        if _running_loop():
            return False
        until = self._clock.now() + max(0.0, timeout)
        mark: Waiter[bool] = Waiter()
        with self._work:
            if self._thread is not None:
                self._add(mark, 0)
            else:
                mark.resolve(True)
        return _wait(mark, until, self._clock) is True and self._providers.drain(until - self._clock.now())

    def close(self, timeout: float = DRAIN_SECONDS) -> bool:
        """Takes nothing more and drains. As `drain`."""
        self._closed = True
        done = self.drain(timeout)
        with self._work:
            self._work.notify_all()
        return done

    def status(self) -> dict[str, int]:
        """Counts since the start, and how many wait. JSON-able."""
        return {"waiting": len(self._queue), **dict(sorted(self.counts.copy().items()))}

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._queue:
                    if self._closed:
                        self._thread = None
                        return
                    self._work.wait()
                item = self._queue.popleft()
                if isinstance(item, Turn):
                    self._chars -= _chars(item)
            if isinstance(item, Waiter):
                item.resolve(True)
            else:
                self._pass_on(item)
            del item

    def _pass_on(self, turn: Turn) -> None:
        try:
            short = summarised(turn, self._half_bytes)
            if isinstance(short, Withheld):
                self.counts["withheld"] += 1
                _log.info("a turn was kept from the memory providers: it seems to hold a credential")
            elif isinstance(short, Blank):
                self.counts["blank"] += 1
            else:
                self._providers.put(short)
                self.counts["handed_on"] += 1
        except Exception:  # noqa: BLE001 boundary: what a host hands in costs its own turn, never the next one
            self.counts["failed"] += 1
            _log.warning("a turn could not be handed to the memory providers")


def _held(turn: Turn) -> Turn:
    """The turn as it waits: no longer than what is looked at, whatever was handed in."""
    prompts = turn.prompt if isinstance(turn.prompt, tuple | list) else (turn.prompt,)
    prompt = tuple(one[:INSPECTED_CHARS] for one in prompts if isinstance(one, str))
    answer = turn.answer[:INSPECTED_CHARS] if isinstance(turn.answer, str) else None
    return replace(turn, prompt=prompt, answer=answer)


def _chars(turn: Turn) -> int:
    return sum(len(one) for one in turn.prompt) + len(turn.answer or "")
