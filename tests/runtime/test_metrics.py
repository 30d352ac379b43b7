"""Meters: closed labels, zero from the start, one bad collector, one registry for two (field cases 101 to 106)."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from honcho_actors.metrics import Meters
from honcho_actors.model import Reason, SkipReason, State
from honcho_actors.ops.exposition import text

DOCUMENTED = [
    "turns_total",
    "context_wait_seconds",
    "context_age_seconds",
    "cold_waiters",
    "waiters_resolved_total",
    "sessions",
    "cache_bytes",
    "session_evictions_total",
    "refresh_total",
    "refresh_duration_seconds",
    "refresh_in_progress",
    "requests_total",
    "request_duration_seconds",
    "breaker_state",
    "outbox_pending",
    "outbox_oldest_age_seconds",
    "outbox_bytes",
    "captures_total",
    "deliveries_total",
    "last_delivery_timestamp_seconds",
    "reconciliations_total",
    "egress_withheld_total",
    "tool_calls_total",
    "dialectic_calls_total",
    "config_problems",
    "supervisor_children",
    "supervisor_restarts_total",
    "actors_abandoned",
    "late_results_total",
]


def scraped(meters: Meters) -> str:
    return text(meters.collectors, meters.scrape_failures).decode()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_metric_is_there_from_the_start(name: str) -> None:
    assert re.search(rf"^honcho_actors_{name}(_bucket|_count|{{| )", scraped(Meters()), re.MULTILINE), name


def test_106_every_known_label_value_is_present_with_zero_right_after_the_start() -> None:
    seen = scraped(Meters())
    for reason in Reason:
        assert f'honcho_actors_turns_total{{outcome="{reason}",path="warm"}} 0.0' in seen
    for state in State:
        assert f'honcho_actors_context_wait_seconds_count{{path="{state}"}} 0.0' in seen
    for skipped in SkipReason:
        assert f'honcho_actors_captures_total{{outcome="{skipped}"}} 0.0' in seen
    assert not [line for line in seen.splitlines() if not line.startswith("#") and not line.endswith(" 0.0")]


def test_101_no_text_ever_becomes_a_label() -> None:
    meters = Meters()
    before = scraped(meters).count("\n")
    for number in range(500):
        meters.refresh.labels(f"layer-{number}", f"error text {number}").inc()
        meters.requests.labels("session_context", f"/v3/{number}").inc()
        meters.turns.labels("warm", f"telegram:{number}\ud800").inc()
    seen = scraped(meters)
    assert seen.count("\n") - before <= 6
    assert 'honcho_actors_refresh_total{layer="other",outcome="other"} 500.0' in seen
    assert "error text" not in seen


def test_101_a_missing_or_spare_label_value_is_counted_as_other_and_raises_nothing() -> None:
    meters = Meters()
    meters.turns.labels("warm").inc()
    meters.turns.labels().inc()
    meters.turns.labels("warm", "hit", "more").inc()
    assert 'honcho_actors_turns_total{outcome="other",path="warm"} 1.0' in scraped(meters)


def test_102_one_collector_that_fails_takes_its_own_family_away_and_is_counted() -> None:
    class Broken:
        def collect(self) -> Iterable[Metric]:
            raise RuntimeError("dictionary changed size during iteration")

    meters = Meters()
    seen = text([Broken(), *meters.collectors], meters.scrape_failures).decode()
    assert "honcho_actors_turns_total" in seen
    assert "honcho_actors_scrape_failures_total 1.0" in text(meters.collectors).decode()


def test_105_two_runtimes_on_one_registry_share_their_meters_and_counters_go_on() -> None:
    registry = CollectorRegistry()
    first = Meters.on(registry)
    first.turn("warm", "hit", 0.0, 1.0)
    again = Meters.on(registry)
    again.turn("warm", "hit", 0.0, 1.0)
    assert again is first
    assert registry.get_sample_value("honcho_actors_turns_total", {"path": "warm", "outcome": "hit"}) == 2.0
    assert Meters.on(None) is not Meters.on(None)


def test_a_scrape_is_what_the_prometheus_parser_reads() -> None:
    families = {family.name for family in text_string_to_metric_families(scraped(Meters()))}
    assert len(families) >= len(DOCUMENTED)


def test_recording_a_turn_counts_it_measures_its_wait_and_its_age() -> None:
    meters = Meters()
    meters.turn(State.COLD, Reason.FILLED, 0.2, None)
    meters.turn(State.WARM, Reason.HIT, 0.0, 12.0)
    value = meters.registry.get_sample_value
    assert value("honcho_actors_turns_total", {"path": "cold", "outcome": "filled"}) == 1.0
    assert value("honcho_actors_context_wait_seconds_sum", {"path": "cold"}) == 0.2
    assert value("honcho_actors_context_age_seconds_count") == 1.0
