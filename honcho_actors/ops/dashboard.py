"""The Grafana dashboard, and the configuration of Prometheus that feeds it.

A dashboard is data: `_ROWS` says which figures stand where and what they are, and the rest makes Grafana's JSON of it.
Everything is chosen by `$job` and `$instance`; the data source is a variable, the uid is fixed, so that a newer
version replaces an older one in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

UID: Final = "honcho-actors"
WIDTH: Final = 24
"""Columns of Grafana's grid."""

_RATE: Final = "[$__rate_interval]"
_HERE: Final = 'job=~"$job",instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` are pairs of PromQL and legend; `@` in PromQL stands for the chosen job and instance."""

    title: str
    says: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    width: int = 8
    kind: Literal["timeseries", "stat"] = "timeseries"
    stacked: bool = False
    thresholds: tuple[tuple[str, float | None], ...] = (("green", None),)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{one.strip()}}}}}" for one in by.split(","))


def _rate(metric: str, by: str, labels: str = "") -> tuple[str, str]:
    inner = "@" + (f",{labels}" if labels else "")
    legend = _legend(by)
    return f"sum by ({by}) (rate(honcho_actors_{metric}{{{inner}}}{_RATE}))", legend


def _gauge(metric: str, by: str = "instance") -> tuple[str, str]:
    legend = _legend(by)
    return f"sum by ({by}) (honcho_actors_{metric}{{@}})", legend


def _quantiles(metric: str, by: str = "", labels: str = "") -> tuple[tuple[str, str], ...]:
    group = "le" + (f", {by}" if by else "")
    inner = "@" + (f",{labels}" if labels else "")
    name = f"{{{{{by}}}}} " if by else ""
    return tuple(
        (
            f"histogram_quantile({level}, sum by ({group}) (rate(honcho_actors_{metric}_bucket{{{inner}}}{_RATE})))",
            f"{name}p{level * 100:.0f}",
        )
        for level in (0.5, 0.95, 0.99)
    )


_OK_OR_RED: Final = (("green", None), ("red", 1.0))
_WITH: Final = 'outcome=~"hit|filled"'
_FAILED: Final = 'outcome=~"deadline|breaker_open|unauthorized|server_error|worker_died|overloaded|given_up"'

_ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "At a glance",
        (
            Panel(
                "Degraded", "Causes in force now; none is well.", "short",
                (("sum by (cause) (honcho_actors_degraded{@}) > 0 or vector(0)", "{{cause}}"),), 4, "stat",
                thresholds=_OK_OR_RED,
            ),
            Panel(
                "Turns with memory", "Share of all turns.", "percentunit",
                ((f"sum(rate(honcho_actors_turns_total{{@,{_WITH}}}{_RATE}))"
                  f" / sum(rate(honcho_actors_turns_total{{@}}{_RATE}))", ""),), 4, "stat",
            ),
            Panel("To be delivered", "Turns in the outbox.", "short",
                  (("sum(honcho_actors_outbox_pending{@})", ""),), 4, "stat"),
            Panel("Oldest", "Age of the oldest undelivered turn.", "s",
                  (("max(honcho_actors_outbox_oldest_age_seconds{@})", ""),), 4, "stat",
                  thresholds=(("green", None), ("orange", 300.0), ("red", 900.0))),
            Panel("Last delivery", "How long ago the server took something.", "s",
                  (("time() - max(honcho_actors_last_delivery_timestamp_seconds{@} > 0)", ""),), 4, "stat"),
            Panel("Settings not taken", "`honcho-actors settings` tells which.", "short",
                  (("sum(honcho_actors_config_problems{@})", ""),), 4, "stat",
                  thresholds=(("green", None), ("orange", 1.0))),
        ),
    ),
    (
        "Turns",
        (
            Panel("Turns by path", "Warm turns wait for nothing; cold ones are first turns.", "reqps",
                  (_rate("turns_total", "path"),), stacked=True),
            Panel("Turns that something failed", "The others without memory are as they should be.", "reqps",
                  (_rate("turns_total", "outcome", _FAILED),), stacked=True),
            Panel("Turns by outcome", "Why a block is what it is.", "reqps", (_rate("turns_total", "outcome"),)),
            Panel("Wait of cold turns", "What a first turn waited for memory.", "s",
                  _quantiles("context_wait_seconds", labels='path="cold"')),
            Panel("Age of served blocks", "How old what was served is.", "s", _quantiles("context_age_seconds")),
            Panel("Turns that wait now", "For a base layer.", "short", (_gauge("cold_waiters"),)),
            Panel("Waiters answered", "By what answered them.", "reqps", (_rate("waiters_resolved_total", "cause"),)),
            Panel("Conversations ready", "Beside max_sessions.", "short", (_gauge("sessions"),)),
            Panel("Bytes of blocks", "Beside max_cache_bytes.", "bytes", (_gauge("cache_bytes"),)),
        ),
    ),
    (
        "Reading from Honcho",
        (
            Panel("Refreshes", "By layer and how they ended.", "reqps", (_rate("refresh_total", "layer, outcome"),)),
            Panel("Time of a refresh", "", "s", _quantiles("refresh_duration_seconds", "layer")),
            Panel("Refreshes that run now", "", "short", (_gauge("refresh_in_progress"),)),
            Panel("Requests", "By operation and code.", "reqps", (_rate("requests_total", "op, code"),)),
            Panel("Time of a request", "", "s", _quantiles("request_duration_seconds", "op")),
            Panel("Breakers", "0 closed, 1 half open, 2 open.", "short",
                  (("max by (instance, endpoint) (honcho_actors_breaker_state{@})", "{{instance}} {{endpoint}}"),)),
            Panel("Billed questions an hour", "By what asked them.", "short",
                  (("sum by (trigger) (increase(honcho_actors_dialectic_calls_total{@}[1h]))", "{{trigger}}"),),
                  stacked=True),
            Panel("Conversations dropped", "From memory; the server keeps them.", "reqps",
                  (_rate("session_evictions_total", "reason"),)),
            Panel("Results that came too late", "And were dropped.", "reqps", (_rate("late_results_total", "kind"),)),
        ),
    ),
    (
        "Writing to Honcho",
        (
            Panel("Turns handed over", "By what became of them.", "reqps", (_rate("captures_total", "outcome"),)),
            Panel("Deliveries", "By how they ended.", "reqps", (_rate("deliveries_total", "outcome"),)),
            Panel("Unknown outcomes", "By what the server was found to have.", "reqps",
                  (_rate("reconciliations_total", "outcome"),)),
            Panel("Undelivered turns", "", "short", (_gauge("outbox_pending"),)),
            Panel("Age of the oldest", "", "s", (_gauge("outbox_oldest_age_seconds"),)),
            Panel("Messages set aside", "Refused for good, kept; `honcho-actors outbox` shows them.", "short",
                  (_gauge("outbox_set_aside"),)),
            Panel("Size of the outbox", "", "bytes", (_gauge("outbox_bytes"),)),
            Panel("Room on its disk", "", "bytes", (_gauge("state_free_bytes"),)),
        ),
    ),
    (
        "Models and privacy",
        (
            Panel("Tool calls", "By tool and what they said.", "reqps",
                  (_rate("tool_calls_total", "tool, outcome"),), 12),
            Panel("Texts withheld", "By where; a burst means that somebody pastes credentials.", "reqps",
                  (_rate("egress_withheld_total", "field"),), 12),
        ),
    ),
    (
        "Actors",
        (
            Panel("Children", "Of each supervisor, by state.", "short",
                  (_gauge("supervisor_children", "supervisor, state"),)),
            Panel("Restarts", "", "short",
                  (("sum by (supervisor) (increase(honcho_actors_supervisor_restarts_total{@}[10m]))",
                    "{{supervisor}}"),)),
            Panel("Left behind", "Actors that hang and could not be stopped.", "short",
                  (_gauge("actors_abandoned"),), 4),
            Panel("Scrapes with gaps", "", "short",
                  (("sum by (instance) (increase(honcho_actors_scrape_failures_total{@}[10m]))", "{{instance}}"),), 4),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS:
        panels.append(
            {"type": "row", "title": title, "id": len(panels) + 1, "collapsed": False, "panels": [],
             "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": top}}
        )  # fmt: skip
        top += 1
        left = height = 0
        for one in row:
            if left + one.width > WIDTH:
                left, top = 0, top + height
            height = 4 if one.kind == "stat" else 8
            panels.append(_panel(one, len(panels) + 1, {"h": height, "w": one.width, "x": left, "y": top}))
            left += one.width
        top += height
    return {
        "uid": UID,
        "title": "honcho-actors",
        "description": "A memory runtime over Honcho: what turns get, what is delivered, how its actors are.",
        "tags": ["honcho-actors", "memory"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": panels,
    }


def queries() -> list[str]:
    """Every PromQL expression of the dashboard, with its variables."""
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def scrape_configuration(target: str) -> str:
    """A whole prometheus.yml: this process every 15 seconds, and `alerts.yml` beside it."""
    return (
        "global:\n  scrape_interval: 15s\n  evaluation_interval: 15s\n"
        "rule_files:\n  - alerts.yml\n"
        "scrape_configs:\n  - job_name: honcho-actors\n    static_configs:\n"
        f"      - targets: ['{target}']\n"
    )


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps = [{"color": color, "value": value} for color, value in panel.thresholds]
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}, "min": 0}
    options: dict[str, Any]
    if panel.kind == "stat":
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
        }  # fmt: skip
    else:
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 25 if panel.stacked else 8, "stacking": stacking}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(65 + place), "expr": query.replace("@", _HERE), "legendFormat": legend,
             "datasource": {"type": "prometheus", "uid": "${datasource}"}}
            for place, (query, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip


def _variables() -> list[dict[str, Any]]:
    def label(name: str, query: str) -> dict[str, Any]:
        return {
            "name": name, "type": "query", "label": name, "query": {"query": query, "refId": name}, "definition": query,
            "datasource": {"type": "prometheus", "uid": "${datasource}"}, "refresh": 2, "sort": 1, "multi": True,
            "includeAll": True, "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        }  # fmt: skip

    return [
        {"name": "datasource", "type": "datasource", "label": "data source", "query": "prometheus", "refresh": 1},
        label("job", "label_values(honcho_actors_config_problems, job)"),
        label("instance", 'label_values(honcho_actors_config_problems{job=~"$job"}, instance)'),
    ]
