"""What the status page shows: one JSON-able value, made of the status, the meters and the last hour.

It says in words what the counters mean, so that the page, which is a text with figures in it, needs to know nothing.
Reads what is published; waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import Gauge
from prometheus_client.metrics import MetricWrapperBase

from honcho_actors.metrics import Meters
from honcho_actors.model import Reason, State
from honcho_actors.ops.history import History

SESSIONS_SHOWN: Final = 50

WITH_MEMORY: Final = frozenset({Reason.HIT, Reason.FILLED})

WHY: Final[Mapping[str, str]] = {
    Reason.HIT: "a ready block was served",
    Reason.FILLED: "a first turn waited, and its block came in time",
    Reason.NOTHING_KNOWN: "the server knows nothing of this person yet",
    Reason.DEADLINE: "the wait was over before memory had been read",
    Reason.LOADING: "memory was being read, and the turn was not one that waits",
    Reason.NOT_CONFIGURED: "no server and no key is set",
    Reason.DISABLED: "memory is switched off",
    Reason.TOOLS_MODE: "recall_mode is tools: there are no blocks",
    Reason.SUBAGENT: "a subagent's turn (inject_in_subagents is off)",
    Reason.NO_IDENTITY: "the turn named nobody, and require_user is on",
    Reason.SHARED_AUDIENCE: "others would have read it",
    Reason.BREAKER_OPEN: "the server fails, and is left alone for a while",
    Reason.UNAUTHORIZED: "the server rejects the key",
    Reason.SERVER_ERROR: "the server refused, or gave no usable answer",
    Reason.WORKER_DIED: "what read memory died on the way",
    Reason.OVERLOADED: "too much was asked at once",
    Reason.EVENT_LOOP: "the sync call came from an event loop, and does not wait there",
    Reason.BUDGET: "context_tokens leaves no room for a block",
    Reason.GIVEN_UP: "the part that reads memory gave up; it is tried again",
    Reason.CLOSED: "the runtime was closed",
}
"""Every reason in words for people."""

TROUBLE: Final = frozenset(
    {
        Reason.DEADLINE, Reason.BREAKER_OPEN, Reason.UNAUTHORIZED, Reason.SERVER_ERROR, Reason.WORKER_DIED,
        Reason.OVERLOADED, Reason.GIVEN_UP,
    }
)  # fmt: skip
"""Reasons that somebody should do something about; the others are as they should be."""

_LEVELS: Final = ("closed", "half open", "open")


class Watch:
    """Keeps the last hour of these meters, and makes the overview. Used on the loop of the endpoint only."""

    def __init__(self, meters: Meters, clock: Callable[[], float] = time.monotonic) -> None:
        self._meters = meters
        self._clock = clock
        self._began = clock()
        self._history = History(self._began, self._counts())

    def look(self) -> None:
        """Takes the counters as they are now."""
        self._history.look(self._counts(), self._clock())

    def overview(
        self, status: Mapping[str, Any], sessions: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Everything that the page shows."""
        self.look()
        now = self._clock()
        moved = self._history.total(now)
        return {
            "now": time.time(),
            **{name: status.get(name) for name in ("state", "health", "pid", "version", "started_at", "uptime")},
            "degraded": status.get("degraded") or {"since": None, "causes": []},
            "problems": list(status.get("problems") or ()),
            "settings": {**(status.get("settings") or {}), **settings},
            "endpoints": status.get("endpoints") or {},
            "watched": min(3600.0, now - self._began),
            "turns": _turns(moved, self._history.minutes(now)),
            "waits": _waits(moved, self._bounds()),
            "sessions": {**(status.get("sessions") or {}), "rows": list(sessions)},
            "outbox": status.get("outbox") or {},
            "breakers": self._breakers(),
            "client": status.get("client") or {},
            "workers": status.get("workers") or {},
            "spend": self._spend(moved, settings.get("dialectic_per_hour")),
            "tree": self._tree(status.get("tree") or ()),
        }

    # -- private -------------------------------------------------------------------------------------------------------

    def _counts(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for name, family in (
            ("turns", self._meters.turns), ("spend", self._meters.dialectic_calls),
            ("restarts", self._meters.supervisor_restarts),
        ):  # fmt: skip
            for labels in family:
                found[name, *labels] = float(family.labels(*labels)._value.get())
        for labels in self._meters.context_wait:
            child = self._meters.context_wait.labels(*labels)
            for bound, bucket in zip(child._upper_bounds, child._buckets, strict=True):
                found["wait", *labels, str(bound)] = float(bucket.get())
        return found

    def _bounds(self) -> list[float]:
        child: MetricWrapperBase = self._meters.context_wait.labels(State.COLD)
        return [float(bound) for bound in child._upper_bounds]  # type: ignore[attr-defined]

    def _breakers(self) -> list[dict[str, Any]]:
        family = self._meters.breaker_state
        levels = [(labels[0], int(_value(family.labels(*labels)))) for labels in family if labels[0] != "other"]
        return [{"area": area, "state": _LEVELS[min(2, max(0, level))]} for area, level in levels]

    def _spend(self, moved: Mapping[tuple[str, ...], float], limit: Any) -> dict[str, Any]:
        by = {key[1]: value for key, value in moved.items() if key[0] == "spend"}
        return {"last_hour": sum(by.values()), "by_trigger": by, "limit_per_hour": limit}

    def _tree(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        family = self._meters.supervisor_restarts
        restarts = {labels[0]: _value(family.labels(*labels)) for labels in family}
        abandoned = int(_value(self._meters.actors_abandoned))
        shown = [{**row, "restarts": int(restarts.get(str(row["child"]), 0))} for row in rows]
        root = {
            "supervisor": "", "child": "root", "kind": "supervisor", "state": "running", "generation": 1, "count": 1,
            "restarts": int(restarts.get("root", 0)), "abandoned": abandoned,
        }  # fmt: skip
        return [root, *shown] if rows else []


def _value(gauge: Gauge | MetricWrapperBase) -> float:
    return float(gauge._value.get())  # type: ignore[union-attr]


def _turns(
    moved: Mapping[tuple[str, ...], float], minutes: Sequence[Mapping[tuple[str, ...], float]]
) -> dict[str, Any]:
    by_reason: dict[str, float] = {}
    by_path: dict[str, float] = {}
    for key, value in moved.items():
        if key[0] == "turns":
            by_path[key[1]] = by_path.get(key[1], 0.0) + value
            by_reason[key[2]] = by_reason.get(key[2], 0.0) + value
    rows = [
        {"reason": reason, "why": WHY.get(reason, "not one of the known reasons"), "count": count,
         "trouble": reason in TROUBLE}
        for reason, count in sorted(by_reason.items(), key=lambda pair: (-pair[1], pair[0]))
        if reason not in WITH_MEMORY
    ]  # fmt: skip
    total = sum(by_reason.values())
    return {
        "total": total,
        "with_memory": sum(count for reason, count in by_reason.items() if reason in WITH_MEMORY),
        "empty": rows,
        "by_path": by_path,
        "minutes": [_minute(moved) for moved in minutes],
    }


def _minute(moved: Mapping[tuple[str, ...], float]) -> list[float]:
    """Turns with memory, without it as it should be, and without it in trouble."""
    found = [0.0, 0.0, 0.0]
    for key, value in moved.items():
        if key[0] == "turns":
            found[0 if key[2] in WITH_MEMORY else 2 if key[2] in TROUBLE else 1] += value
    return found


def _waits(moved: Mapping[tuple[str, ...], float], bounds: Sequence[float]) -> dict[str, Any]:
    """How long cold turns waited, by bucket. Warm ones do not wait, and would hide the others."""
    cold = {key[2]: value for key, value in moved.items() if key[0] == "wait" and key[1] == State.COLD}
    rows = [{"up_to": None if bound == float("inf") else bound, "count": cold.get(str(bound), 0.0)} for bound in bounds]
    return {"path": "cold", "total": sum(cold.values()), "buckets": rows}
