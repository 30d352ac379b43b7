"""The Prometheus text of a runtime's meters. A collector that fails takes its own family away, no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from prometheus_client import Counter
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Collector(Protocol):
    def collect(self) -> Iterable[Metric]: ...


class _Collected:
    """Families that are already collected, in the shape that the library's writer takes."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def text(collectors: Iterable[Collector], failures: Counter | None = None) -> bytes:
    """Everything that these collectors hold, in the text format. Never raises for a collector, waits for no actor."""
    metrics: list[Metric] = []
    for collector in collectors:
        try:
            metrics.extend(_without_created(metric) for metric in collector.collect())
        except Exception:  # noqa: BLE001 - boundary: one bad collector never takes the other families away
            if failures is not None:
                failures.inc()
    collected: Any = _Collected(metrics)
    return generate_latest(collected)


def _without_created(metric: Metric) -> Metric:
    """Drops the creation times, which double a scrape and say no more than the process's own start time."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
