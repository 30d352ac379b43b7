"""The meters that every room records to: all names, closed labels, zero from the start, own registry.

A family's label values are listed here and nowhere else; a value that is not listed is counted as `other`, so that no
session, peer, address or error text can ever become a label. Children are bound when a `Meters` is made: recording is
one dictionary look-up and one small lock of the metric itself. Exposition (the scrape port) belongs to `ops`. Any
thread may record; nothing here blocks, logs or raises.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from honcho_actors.model import Cause, Reason, SkipReason, State

PREFIX: Final = "honcho_actors_"
OTHER: Final = "other"

PATHS: Final = tuple(State)
LAYERS: Final = ("base", "person", "summary", "self", "dialectic")
OPERATIONS: Final = (
    "session_context", "peer_context", "summaries", "chat", "ensure_workspace", "ensure_peer", "ensure_session",
    "set_member", "get_member", "add_messages", "list_messages", "session_search", "peer_search", "workspace_search",
    "get_card", "put_card", "create_conclusions", "list_conclusions", "query_conclusions", "delete_conclusion",
    "list_sessions", "list_peers", "queue_status", "health",
)  # fmt: skip
CODES: Final = (
    "2xx", "3xx", "401", "403", "404", "409", "422", "429", "4xx", "5xx", "not_configured", "bad_reply", "transport",
    "timed_out", "unknown_outcome", "rate_limited", "breaker_open", "refused", "cancelled",
)  # fmt: skip
ENDPOINTS: Final = ("read", "chat", "write", "search")
CAUSES: Final = (
    "result", "deadline", "worker_down", "manager_down", "loop_down", "evicted", "shutdown", "cancelled", "overloaded",
)  # fmt: skip
EVICTIONS: Final = ("idle", "entries", "bytes", "forgotten", "settings")
REFRESH_OUTCOMES: Final = (
    "ok", "nothing_known", "failed", "timed_out", "unauthorized", "breaker_open", "rate_limited", "not_configured",
    "withheld", "budget", "worker_died", "cancelled",
)  # fmt: skip
CAPTURES: Final = ("accepted", "duplicate", *SkipReason)
DELIVERIES: Final = ("delivered", "retried", "unknown", "set_aside", "expired", "fenced", "skipped")
RECONCILIATIONS: Final = ("found", "partial", "absent", "failed")
FIELDS: Final = ("query", "prompt", "answer", "conclusion", "card", "search", "metadata")
TOOLS: Final = ("honcho_search", "honcho_context", "honcho_profile", "honcho_reasoning", "honcho_conclude")
TOOL_OUTCOMES: Final = ("ok", "nothing_found", "failed", "refused", "withheld", "read_only")
TRIGGERS: Final = ("turn", "cold", "tool", "prewarm", "refresh")
SUPERVISORS: Final = ("root", "read_side", "write_side", "refresh", "delivery", "io")
CHILD_STATES: Final = ("running", "starting", "restarting", "given_up", "stopping")
DEGRADED_CAUSES: Final = tuple(Cause)
LATE_KINDS: Final = ("refresh", "delivery", "reply", "timer", "request")

_WAITS: Final = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
_AGES: Final = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)
_DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

M = TypeVar("M", bound=MetricWrapperBase)


class Family(Generic[M]):
    """One metric with closed labels. `labels(...)` gives the bound child; an unknown value counts as `other`."""

    def __init__(self, metric: M, allowed: Sequence[Sequence[str]]) -> None:
        self._children: dict[tuple[str, ...], M] = {}
        self._allowed: tuple[frozenset[str], ...] = tuple(frozenset(str(word) for word in words) for words in allowed)
        self._metric = metric
        for values in itertools.product(*((*words, OTHER) for words in allowed)):
            key = tuple(map(str, values))
            if OTHER not in key or len(key) == 1:
                self._children[key] = metric.labels(*key)

    def labels(self, *values: str) -> M:
        """The child for these values, in the order in which the labels are declared."""
        child = self._children.get(values)
        return child if child is not None else self._closed(values)

    def _closed(self, values: tuple[str, ...]) -> M:
        """A first use of `other`: at most one more child for each label position."""
        key = tuple(
            str(value) if str(value) in allowed else OTHER
            for value, allowed in itertools.zip_longest(values[: len(self._allowed)], self._allowed, fillvalue=OTHER)
            if isinstance(allowed, frozenset)
        )
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._metric.labels(*key)
        return child

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(tuple(self._children))


class Runs:
    """When each kind of background work last ended, and what last went wrong with it: for `status`. Any thread."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str, float | None]] = {}

    def ended(self, work: str, error: str = "") -> None:
        """`work` has ended now; `error` is a word of a closed set, "" when all was well."""
        now = time.time()
        before = self._seen.get(work, (now, "", None))
        self._seen[work] = (now, error, now) if error else (now, before[1], before[2])

    def shown(self) -> dict[str, dict[str, float | str | None]]:
        """By kind of work: `last_run`, `last_error` (None: never), `last_error_at`; times as Unix seconds."""
        return {
            work: {"last_run": ran, "last_error": error or None, "last_error_at": at}
            for work, (ran, error, at) in sorted(self._seen.copy().items())
        }


class Meters:
    """Every metric of a runtime. Two runtimes on one registry share one `Meters` (see `on`)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self.runs = Runs()
        self.collectors: list[MetricWrapperBase] = []
        """Every metric of ours, in the order of declaration; what a scrape shows."""

        def kept(metric: M) -> M:
            self.collectors.append(metric)
            return metric

        def counter(name: str, doc: str, **labels: Sequence[str]) -> Family[Counter]:
            metric = kept(Counter(PREFIX + name, doc, tuple(labels), registry=self.registry))
            return Family(metric, list(labels.values()))

        def gauge(name: str, doc: str) -> Gauge:
            return kept(Gauge(PREFIX + name, doc, registry=self.registry))

        def gauges(name: str, doc: str, **labels: Sequence[str]) -> Family[Gauge]:
            metric = kept(Gauge(PREFIX + name, doc, tuple(labels), registry=self.registry))
            return Family(metric, list(labels.values()))

        def timing(name: str, doc: str, buckets: Sequence[float], **labels: Sequence[str]) -> Family[Histogram]:
            metric = kept(Histogram(PREFIX + name, doc, tuple(labels), registry=self.registry, buckets=buckets))
            return Family(metric, list(labels.values()))

        self.turns = counter("turns_total", "Turns served, by path and reason", path=PATHS, outcome=tuple(Reason))
        self.context_wait = timing("context_wait_seconds", "How long a turn waited for memory", _WAITS, path=PATHS)
        self.context_age = kept(
            Histogram(PREFIX + "context_age_seconds", "Age of the served block", registry=self.registry, buckets=_AGES)
        )
        self.cold_waiters = gauge("cold_waiters", "Turns that wait for a base layer now")
        self.waiters_resolved = counter("waiters_resolved_total", "Waiters answered, by cause", cause=CAUSES)
        self.sessions = gauge("sessions", "Conversations kept ready")
        self.cache_bytes = gauge("cache_bytes", "Bytes of the blocks kept ready")
        self.session_evictions = counter("session_evictions_total", "Conversations dropped", reason=EVICTIONS)
        self.refresh = counter("refresh_total", "Refreshes ended", layer=LAYERS, outcome=REFRESH_OUTCOMES)
        self.refresh_duration = timing("refresh_duration_seconds", "Time of a refresh", _DURATIONS, layer=LAYERS)
        self.refresh_in_progress = gauge("refresh_in_progress", "Refreshes that run now")
        self.requests = counter("requests_total", "Requests to Honcho", op=OPERATIONS, code=CODES)
        self.request_duration = timing("request_duration_seconds", "Time of a request", _DURATIONS, op=OPERATIONS)
        self.breaker_state = gauges("breaker_state", "0 closed, 1 half open, 2 open", endpoint=ENDPOINTS)
        self.outbox_pending = gauge("outbox_pending", "Accepted turns that are not delivered")
        self.outbox_oldest_age = gauge("outbox_oldest_age_seconds", "Age of the oldest undelivered turn")
        self.outbox_bytes = gauge("outbox_bytes", "Size of the outbox")
        self.outbox_set_aside = gauge("outbox_set_aside", "Messages that the server refused for good and that are kept")
        self.state_free_bytes = gauge("state_free_bytes", "Room left on the disk of the state directory")
        self.captures = counter("captures_total", "Turns handed over, by what became of them", outcome=CAPTURES)
        self.deliveries = counter("deliveries_total", "Deliveries ended", outcome=DELIVERIES)
        self.last_delivery = gauge("last_delivery_timestamp_seconds", "Wall clock of the last delivery, 0 before it")
        self.reconciliations = counter(
            "reconciliations_total", "Unknown outcomes, by what the server had", outcome=RECONCILIATIONS
        )
        self.egress_withheld = counter("egress_withheld_total", "Texts withheld, by where", field=FIELDS)
        self.tool_calls = counter("tool_calls_total", "Tool calls", tool=TOOLS, outcome=TOOL_OUTCOMES)
        self.dialectic_calls = counter("dialectic_calls_total", "Dialectic questions (billed)", trigger=TRIGGERS)
        self.config_problems = gauge("config_problems", "Settings that were not taken")
        self.supervisor_children = gauges(
            "supervisor_children", "Children of a supervisor", supervisor=SUPERVISORS, state=CHILD_STATES
        )
        self.supervisor_restarts = counter("supervisor_restarts_total", "Restarts", supervisor=SUPERVISORS)
        self.actors_abandoned = gauge("actors_abandoned", "Actors that could not be stopped and were left behind")
        self.degraded = gauges("degraded", "1 while memory is degraded for this cause", cause=DEGRADED_CAUSES)
        self.scrape_failures = kept(
            Counter(PREFIX + "scrape_failures_total", "Families that a scrape left out", registry=self.registry)
        )
        self.late_results = counter(
            "late_results_total", "Results that came too late and were dropped", kind=LATE_KINDS
        )

    @classmethod
    def on(cls, registry: CollectorRegistry | None) -> Meters:
        """The meters of this registry, made once: a runtime that is started again goes on counting where it was."""
        if registry is None:
            return cls()
        found = _SHARED.get(registry)
        if found is None:
            found = _SHARED[registry] = cls(registry)
        return found

    def turn(self, path: str, outcome: str, waited: float, age: float | None) -> None:
        """One served turn; called by the manager from the turn's message, never by the turn."""
        self.turns.labels(path, outcome).inc()
        self.context_wait.labels(path).observe(waited)
        if age is not None:
            self.context_age.observe(age)


_SHARED: weakref.WeakKeyDictionary[CollectorRegistry, Meters] = weakref.WeakKeyDictionary()
