"""The text of a runtime's meters, for Prometheus. A collector that fails takes its own family away, no more.

The label sets are closed, so almost every line of a scrape is the line of the scrape before: a `Page` keeps, for every
series, the text before its value and the last line, and a scrape reads numbers. It waits for no actor; all it takes is
the small lock of each number. What it does not know (a host's own collector) goes through the library's writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OPENMETRICS: Final = OPENMETRICS_LATEST
_ZERO: Final = "0.0\n"
_go: Final[Callable[[float], str]] = floatToGoString
_openmetrics: Final[Callable[[Any], bytes]] = generate_openmetrics


class Collector(Protocol):
    def collect(self) -> Iterable[Metric]: ...


def wants_openmetrics(accept: str) -> bool:
    """Whether this Accept header asks for OpenMetrics, which alone carries exemplars."""
    return "application/openmetrics-text" in accept


class Page:
    """Renders these collectors again and again. One thread at a time (the loop that serves the scrape)."""

    def __init__(self, collectors: Iterable[Collector], failures: Counter | None = None) -> None:
        self._collectors = collectors
        self._failures = failures
        self._families: dict[tuple[int, bool], _Family] = {}

    def text(self, *, openmetrics: bool = False) -> bytes:
        """Everything that the collectors hold now. Never raises for a collector, waits for no actor."""
        parts: list[str] = []
        for collector in self._collectors:
            try:
                parts.append(self._family(collector, openmetrics))
            except Exception:  # noqa: BLE001 - boundary: one bad collector never takes the other families away
                if self._failures is not None:
                    self._failures.inc()
        if openmetrics:
            parts.append("# EOF\n")
        return "".join(parts).encode("utf-8", "backslashreplace")

    def _family(self, collector: Collector, openmetrics: bool) -> str:
        if type(collector) not in _SUFFIXED:
            return _by_the_library(collector, openmetrics)
        assert isinstance(collector, MetricWrapperBase)
        kept = self._families.get((id(collector), openmetrics))
        children = _children(collector)
        if kept is None or kept.metric is not collector or kept.children != len(children):
            kept = self._families[id(collector), openmetrics] = _Family(collector, children, openmetrics)
        return kept.text()


def text(collectors: Iterable[Collector], failures: Counter | None = None, *, openmetrics: bool = False) -> bytes:
    """One scrape of these collectors."""
    return Page(collectors, failures).text(openmetrics=openmetrics)


_SUFFIXED: Final[dict[type[Any], str]] = {Counter: "_total", Gauge: "", Histogram: "_bucket"}
"""The library's own kinds, whose numbers are read in place; anything else is collected."""


def _children(metric: MetricWrapperBase) -> list[tuple[tuple[str, ...], Any]]:
    """The series of a metric, by label values. The library's private table: `collect()`, its public face, makes five
    objects for every line of every scrape."""
    if not metric._labelnames:
        return [((), metric)]
    with metric._lock:
        return [(tuple(values), child) for values, child in metric._metrics.items()]


class _Line:
    """One number: how it is read, the text before it, and the line as it was last."""

    __slots__ = ("before", "exemplar", "line", "read", "value")

    def __init__(self, read: Callable[[], float], before: str, exemplar: Callable[[], Exemplar | None] | None) -> None:
        self.read = read
        self.before = before
        self.exemplar = exemplar
        self.value = 0.0
        self.line = before + _ZERO

    def renew(self, value: float) -> None:
        self.value = value
        self.line = f"{self.before}{_go(value)}\n"


class _Family:
    """One metric of the library, prepared: a list of lines for each child, in the library's order."""

    def __init__(
        self, metric: MetricWrapperBase, children: list[tuple[tuple[str, ...], Any]], openmetrics: bool
    ) -> None:
        self.metric = metric
        self.children = len(children)
        kind, name = str(metric._type), metric._name
        shown = name + "_total" if kind == "counter" and not openmetrics else name
        documented = metric._documentation.replace("\\", r"\\").replace("\n", r"\n")
        self._head = f"# HELP {shown} {documented}\n# TYPE {shown} {kind}\n"
        self._is_histogram = isinstance(metric, Histogram)
        self._with_exemplars = openmetrics and kind != "gauge"
        self._series = [_lines(metric, values, child) for values, child in children]

    def text(self) -> str:
        found = [self._head]
        for lines in self._series:
            total = 0.0
            for line in lines:
                value = line.read()
                if self._is_histogram:
                    if value is _TOTAL:
                        value = total
                    elif line.exemplar is not None:  # a bucket: the library keeps them apart, and shows them added up
                        value = total = total + value
                if value != line.value:
                    line.renew(value)
                if self._with_exemplars and line.exemplar is not None:
                    found.append(_with_exemplar(line.line, line.exemplar()))
                else:
                    found.append(line.line)
        return "".join(found)


_TOTAL: Final = float("nan")
"""Stands for the sum of the buckets before it."""


def _lines(metric: MetricWrapperBase, values: tuple[str, ...], child: Any) -> list[_Line]:
    name, labels = metric._name, tuple(zip(metric._labelnames, values, strict=True))
    if not isinstance(metric, Histogram):
        value = child._value
        exemplar = value.get_exemplar if isinstance(metric, Counter) else None
        return [_Line(value.get, _before(name + _SUFFIXED[type(metric)], labels), exemplar)]
    return [
        *(
            _Line(bucket.get, _before(f"{name}_bucket", (*labels, ("le", _go(bound)))), bucket.get_exemplar)
            for bound, bucket in zip(child._upper_bounds, child._buckets, strict=True)
        ),
        _Line(lambda: _TOTAL, _before(f"{name}_count", labels), None),
        _Line(child._sum.get, _before(f"{name}_sum", labels), None),
    ]


def _before(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    inner = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels))
    return f"{name}{{{inner}}} " if inner else f"{name} "


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _with_exemplar(line: str, exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return line
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(exemplar.labels.items()))
    when = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f"{line[:-1]} # {{{labels}}} {_go(exemplar.value)}{when}\n"


class _Collected:
    """Families that are already collected, in the shape that the library's writer takes."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _by_the_library(collector: Collector, openmetrics: bool) -> str:
    collected: Any = _Collected([_without_created(metric) for metric in collector.collect()])
    if openmetrics:
        return str(_openmetrics(collected).decode("utf-8")).removesuffix("# EOF\n")
    return generate_latest(collected).decode("utf-8")


def _without_created(metric: Metric) -> Metric:
    """Drops the creation times, which double a scrape and say no more than the process's own start time."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
