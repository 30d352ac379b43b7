"""Carries out what the health machine decides: publishes the causes, says each change once, and tells the host.

Promises: a look waits for no actor and touches no network; what is published is one plain attribute; a host's callback
runs on a thread of its own, in order, and can neither hold up nor hurt anything here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from honcho_actors.metrics import Meters
from honcho_actors.model import Cause
from honcho_actors.runtime.health import Change, Health, Limits, Signs, step
from supervision.logged import unsaid

MOST_UNTOLD: Final = 64
"""Changes that may wait for a callback that is slow; older ones are dropped, the newest is always told."""

_log = logging.getLogger("honcho_actors.health")


@dataclass(frozen=True, slots=True)
class HealthChange:
    """What a host is told: how memory is now, and what has just changed.

    `causes` are all that hold now, gravest first, `sentence` says them for people; `began` and `ended` are the change.
    `degraded` is False when nothing holds any more: memory has recovered.
    """

    degraded: bool
    causes: tuple[Cause, ...]
    sentence: str
    began: tuple[Cause, ...]
    ended: tuple[Cause, ...]


Callback = Callable[[HealthChange], object]


class Telling:
    """One for each runtime. Every method may be called from any thread."""

    def __init__(
        self,
        signs: Callable[[], Signs],
        publish: Callable[[tuple[Cause, ...]], None],
        meters: Meters,
        now: Callable[[], float],
        limits: Limits | None = None,
    ) -> None:
        """`signs` reads what is published elsewhere; `publish` puts the causes where turns find them."""
        self._signs = signs
        self._publish = publish
        self._meters = meters
        self._now = now
        self._limits = limits or Limits()
        self._lock = threading.RLock()  # a signal's handler may ask, or close, in the middle of a look
        self._callbacks: list[Callback] = []
        self._untold: deque[HealthChange] = deque(maxlen=MOST_UNTOLD)
        self._failed: deque[Callback] = deque(maxlen=MOST_UNTOLD)
        self._teller: threading.Thread | None = None
        self._closed = False
        self.health = Health()
        """The state as of the last look."""

    def look(self) -> Health:
        """Reads the signs, takes a step, carries out what has changed."""
        with self._lock:
            if self._closed:
                return self.health
            before = self.health
            health, changes = step(before, self._signs(), self._now(), self._limits)
            self.health = health
            if health.causes != before.causes:
                self._publish(health.causes)
            for change in changes:
                self._meters.degraded.labels(change.trouble.cause).set(1.0 if change.began else 0.0)
                _say(change)
            if changes:
                self._tell(health, changes)
            return health

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """`callback(change)` is called at each change from now on; what is returned takes it back.

        It runs on a daemon thread of ours, `honcho-health`, that lives only while there is something to tell: never on
        the caller's thread, an event loop or the control thread. Calls come one at a time and in order. A callback may
        block, at its own cost; one that raises is kept, and warned of once.
        """
        with self._lock:
            self._callbacks.append(callback)

        def take_back() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return take_back

    def close(self) -> None:
        """No further change is looked for; what was seen is still told."""
        with self._lock:
            self._closed = True
            for cause in self.health.causes:
                self._meters.degraded.labels(cause).set(0.0)

    def left_behind(self) -> None:
        """In a forked child: whoever held the lock stayed with the parent. Takes none."""
        self._lock = threading.RLock()
        self._closed, self._teller = True, None
        self._callbacks.clear()
        self._untold.clear()

    def _tell(self, health: Health, changes: tuple[Change, ...]) -> None:
        """Under the lock."""
        if not self._callbacks:
            return
        began = tuple(change.trouble.cause for change in changes if change.began)
        ended = tuple(change.trouble.cause for change in changes if not change.began)
        self._untold.append(HealthChange(bool(health.troubles), health.causes, health.sentence, began, ended))
        if self._teller is None:
            self._teller = threading.Thread(target=self._run, name="honcho-health", daemon=True)
            self._teller.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._untold:
                    self._teller = None
                    return
                change = self._untold.popleft()
                callbacks = tuple(self._callbacks)
            for callback in callbacks:
                try:
                    callback(change)
                except Exception:  # noqa: BLE001 - boundary: a host's callback never costs us the next one
                    level = logging.DEBUG if callback in self._failed else logging.WARNING
                    self._failed.append(callback)
                    text = "a callback for the health failed"
                    _log.log(level, text, exc_info=unsaid(), extra={"event": "callback_failed"})


_SAID_ELSEWHERE: Final = frozenset({Cause.STORE, Cause.GIVEN_UP})
"""The outbox and the supervisors warn of these themselves, with more to say."""


def _say(change: Change) -> None:
    """One line each way. Both are warnings: whoever saw the one is to see the other."""
    cause, text = change.trouble.cause, change.trouble.text
    if change.began:
        level = logging.INFO if cause in _SAID_ELSEWHERE else logging.WARNING
        _log.log(level, "memory is degraded: %s; %s", text, change.trouble.fix, extra=_extra(cause, True, 0.0))
    else:
        _log.warning(
            "memory has recovered from %s after %.0f s", cause, change.lasted, extra=_extra(cause, False, change.lasted)
        )


def _extra(cause: Cause, degraded: bool, lasted: float) -> Mapping[str, Any]:
    return {"event": "degraded" if degraded else "recovered", "cause": cause.value, "lasted": lasted}


def shown(health: Health, now: float, wall: float) -> Mapping[str, Any]:
    """The state for `status`: JSON-able, times as Unix seconds. `now` and `wall` are of one moment."""
    return {
        "since": None if health.since is None else wall - (now - health.since),
        "causes": [
            {"cause": one.cause.value, "text": one.text, "fix": one.fix, "since": wall - (now - one.since)}
            for one in health.troubles
        ],
    }
