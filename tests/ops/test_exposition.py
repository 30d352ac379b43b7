"""The scrape's text: what the library's own writer would say, quicker, and with exemplars when asked for."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Info
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from honcho_actors.metrics import Meters
from honcho_actors.ops.exposition import Page, wants_openmetrics


def by_the_library(meters: Meters, openmetrics: bool) -> str:
    class Kept:
        def collect(self) -> Iterable[Metric]:
            for collector in meters.collectors:
                for metric in collector.collect():
                    metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
                    yield metric

    kept: Any = Kept()
    writer: Any = generate_openmetrics if openmetrics else generate_latest
    return bytes(writer(kept)).decode()


def stir(meters: Meters, dice: random.Random) -> None:
    for labels in meters.turns:
        meters.turns.labels(*labels).inc(dice.choice([0, 1, 0.1, 1e9, 123_456_789, 2.5e-7]))
    for labels in meters.requests:
        meters.requests.labels(*labels).inc(dice.random() * 1e7)
    for labels in meters.context_wait:
        meters.context_wait.labels(*labels).observe(dice.choice([0.0, 0.0005, 0.3, 4.0, 70.0]))
    meters.context_age.observe(dice.random() * 1e6)
    meters.last_delivery.set(dice.choice([0.0, 1.79e9, float("inf"), float("nan"), -3.0]))
    meters.outbox_pending.set(dice.randrange(10_000))


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_scrape_is_byte_for_byte_what_the_library_would_write_again_and_again(openmetrics: bool) -> None:
    meters, dice = Meters(), random.Random(5)
    page = Page(meters.collectors)
    for _ in range(4):
        assert page.text(openmetrics=openmetrics).decode() == by_the_library(meters, openmetrics)
        stir(meters, dice)


def test_a_series_that_comes_later_is_in_the_next_scrape() -> None:
    meters = Meters()
    page = Page(meters.collectors)
    page.text()
    meters.turns.labels("warm", "a reason that nobody listed").inc()
    assert b'honcho_actors_turns_total{outcome="other",path="warm"} 1.0' in page.text()


def test_a_collector_of_the_host_is_written_by_the_library_and_one_that_fails_leaves_its_own_family_out() -> None:
    class Broken:
        def collect(self) -> Iterable[Metric]:
            raise RuntimeError("changed during iteration")

    meters = Meters()
    host = Info("host", "of the host", registry=CollectorRegistry())
    host.info({"name": 'a "quoted" \\ name\n'})
    page = Page([Broken(), host, *meters.collectors], meters.scrape_failures)
    readers: Any = ((False, read_text), (True, read_openmetrics))
    for openmetrics, read in readers:
        text = page.text(openmetrics=openmetrics).decode()
        families = {family.name: family for family in read(text)}
        sample = next(one for family in families.values() for one in family.samples if one.name == "host_info")
        assert sample.labels == {"name": 'a "quoted" \\ name\n'}
        assert "honcho_actors_turns" in families or "honcho_actors_turns_total" in families
    assert meters.registry.get_sample_value("honcho_actors_scrape_failures_total") == 2.0


def test_an_exemplar_is_shown_to_who_asks_for_openmetrics_and_to_nobody_else() -> None:
    meters = Meters()
    meters.refresh_duration.labels("base").observe(0.2, {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"})
    page = Page(meters.collectors)
    assert b"trace_id" not in page.text()
    reader: Any = read_openmetrics
    families = {one.name: one for one in reader(page.text(openmetrics=True).decode())}
    found = [one.exemplar for one in families["honcho_actors_refresh_duration_seconds"].samples if one.exemplar]
    assert [(one.labels["trace_id"], one.value) for one in found] == [("4bf92f3577b34da6a3ce929d0e0e4736", 0.2)]


def test_prometheus_s_own_accept_header_gets_openmetrics_and_a_plain_one_gets_text() -> None:
    assert wants_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert not wants_openmetrics("text/plain;version=0.0.4")
    assert not wants_openmetrics("")
