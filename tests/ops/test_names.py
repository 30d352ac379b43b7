"""Rules, dashboard, runbooks and docs name what there is, all of it, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from honcho_actors.metrics import PREFIX, Meters
from honcho_actors.model import Cause
from honcho_actors.ops import dashboard, rules
from honcho_actors.settings import DEFINITIONS

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text()
RUNBOOKS = ROOT / "docs" / "runbooks"


@cache
def families() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Metric as Prometheus knows it -> (kind, labels)."""
    found = {}
    for metric in Meters().collectors:
        kind = str(metric._type)
        found[metric._name + ("_total" if kind == "counter" else "")] = kind, tuple(metric._labelnames)
    return found


@cache
def label_values() -> dict[str, set[str]]:
    """Every value of every label, over all metrics."""
    found: dict[str, set[str]] = {}
    for metric in Meters().collectors:
        for family in metric.collect():
            for sample in family.samples:
                for name, value in sample.labels.items():
                    found.setdefault(name, set()).add(value)
    return found


def named(texts: Iterable[str]) -> set[str]:
    """Every metric of ours that these texts name, a histogram's parts as the histogram."""
    histograms = {name for name, (kind, _) in families().items() if kind == "histogram"}
    found = set()
    for text in texts:
        for name in re.findall(rf"\b{PREFIX}[a-z_]+\b", text):
            whole = re.sub(r"_(bucket|count|sum)$", "", name)
            found.add(whole if whole in histograms else name)
    return found


@cache
def expressions() -> list[str]:
    """Every PromQL expression of the rules and of the dashboard."""
    from_rules = re.findall(r"expr: (?:\|\n)?(.*?)\n +(?:for|labels):", rules.text(), re.DOTALL)
    assert len(from_rules) == len(rules.names())
    return [*from_rules, *dashboard.queries()]


def test_every_metric_that_a_rule_names_exists() -> None:
    assert named([rules.text()]) <= set(families())


def test_the_dashboard_shows_every_metric_and_names_no_other() -> None:
    assert named(dashboard.queries()) | {f"{PREFIX}config_problems"} == set(families())


def test_the_docs_list_every_metric_with_its_kind_and_labels_and_no_other() -> None:
    rows = re.findall(rf"^\| `({PREFIX}\w+)` \| (\w+) \| (.*?) \|", OPERATING, re.MULTILINE)
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert listed == families()
    others = [path.read_text() for path in (ROOT / "docs").rglob("*.md")] + [(ROOT / "README.md").read_text()]
    assert named(others) <= set(families())


@pytest.mark.parametrize("expression", expressions(), ids=[str(number) for number in range(len(expressions()))])
def test_every_label_and_value_that_an_expression_asks_for_exists(expression: str) -> None:
    own = {"job", "instance"}
    values = label_values()
    for name, inner in re.findall(rf"\b({PREFIX}\w+)\{{([^}}]*)\}}", expression):
        metric = re.sub(r"_(bucket|count|sum)$", "", name)
        labels = set(families()[metric if metric in families() else name][1])
        for label, operator, value in re.findall(r"(\w+)(=~|!=|=|!~)\"([^\"]*)\"", inner):
            assert label in labels | own, (name, label)
            if label not in own:
                assert set(value.split("|")) <= values[label], (name, label, operator, value)
    for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
        known = {label for metric in named([expression]) for label in families()[metric][1]} | own | {"le"}
        assert {one.strip() for one in grouping.split(",")} <= known


@pytest.mark.parametrize("alert", rules.names())
def test_every_alert_has_a_runbook_that_says_what_it_means_where_to_look_and_what_to_do(alert: str) -> None:
    text = rules.runbook(alert)
    assert text is not None
    assert text.startswith(f"# {alert}\n")
    for part in ("**What it means.**", "**What people notice.**", "## Look", "## Do"):
        assert part in text
    assert f"runbooks/{rules.runbook_file(alert)}" in OPERATING
    assert rules.runbook(alert.removeprefix("HonchoActors")) == text


def test_every_runbook_belongs_to_an_alert_and_every_link_in_one_leads_somewhere() -> None:
    there = {path.name for path in RUNBOOKS.glob("*.md")}
    assert there == {rules.runbook_file(alert) for alert in rules.names()}
    for path in RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([a-z-]+\.md)\)", path.read_text()):
            assert link in there, (path.name, link)


def test_the_runbook_of_degraded_names_every_cause() -> None:
    text = rules.runbook("Degraded")
    assert text is not None
    assert [str(cause) for cause in Cause if f"`{cause}`" not in text] == []


def test_runbooks_and_docs_name_settings_and_commands_that_exist() -> None:
    from honcho_actors.cli.app import app

    commands = {str(one.name or one.callback.__name__) for one in app.registered_commands if one.callback is not None}
    commands |= {str(one.name) for one in app.registered_groups}
    pages = [*RUNBOOKS.glob("*.md"), ROOT / "docs" / "operating.md", ROOT / "docs" / "deploy.md"]
    for page in pages:
        text = page.read_text()
        for command in re.findall(r"honcho-actors ([a-z]+)\b", text):
            if command != "honcho":
                assert command in commands, (page.name, command)
        for variable in re.findall(r"HONCHO_ACTORS_([A-Z_]+)", text):
            assert variable.lower() in DEFINITIONS, (page.name, variable)


def test_an_unknown_runbook_is_none_and_the_runbooks_address_can_be_anywhere() -> None:
    assert rules.runbook("NoSuchThing") is None
    there = rules.text("https://wiki.example.org/memory/")
    assert "runbook_url: https://wiki.example.org/memory/outbox-stuck.md" in there
    assert "docs/runbooks" not in there


def test_the_dashboard_is_what_grafana_imports() -> None:
    made = json.loads(json.dumps(dashboard.dashboard()))
    assert (made["uid"], made["title"]) == ("honcho-actors", "honcho-actors")
    assert [one["name"] for one in made["templating"]["list"]] == ["datasource", "job", "instance"]
    panels = made["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for one in panels:
        place = one["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, one["title"]
        taken |= cells
        for target in one.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert 'job=~"$job",instance=~"$instance"' in target["expr"]


def test_the_configuration_for_prometheus_scrapes_the_target_and_reads_the_rules_beside_it() -> None:
    text = dashboard.scrape_configuration("10.0.0.7:9464")
    assert "- targets: ['10.0.0.7:9464']" in text
    assert "job_name: honcho-actors" in text, "the rules ask for this job"
    assert "- alerts.yml" in text
