"""Spans and exemplars: there when the host traces, with nothing of anybody in them; nothing loaded when it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from honcho_actors import tracing

WORDS = "a clinker dinghy from 1963"

PROGRAM = """
import json, pathlib, sys
traced, url, folder = sys.argv[1] == "traced", sys.argv[2], pathlib.Path(sys.argv[3])
if traced:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.model import ReceiptState
from honcho_actors.ops import exposition
settings = Settings(base_url=url, workspace=sys.argv[1], state_dir=folder / "s", cache_dir=folder / "c")
with Memory.start(settings) as memory:
    asked = TurnRequest(session_key="kitchen", user="ines", query="what do you know of %s?")
    served = memory.context(asked, 20.0)
    memory.capture(Turn("kitchen", "ines", "%s", "nice")).wait(ReceiptState.DELIVERED, 20.0)
    meters = memory.meters
    shown = exposition.text(meters.collectors, meters.scrape_failures, openmetrics=True).decode()
if traced:
    nowhere = Settings(base_url="http://127.0.0.1:9", state_dir=folder / "n", cache_dir=folder / "m")
    with Memory.start(nowhere) as memory:
        memory.context(asked, 20.0)
        memory.close(0.5)
found = {
    "reason": served.reason,
    "loaded": sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry"),
    "exemplars": [line for line in shown.splitlines() if "trace_id" in line],
    "spans": [],
}
if traced:
    for span in kept.get_finished_spans():
        found["spans"].append(
            {"name": span.name, "attributes": dict(span.attributes), "failed": not span.status.is_unset,
             "events": len(span.events), "trace_id": f"{span.context.trace_id:032x}"}
        )
print(json.dumps(found))
"""


def run(how: str, url: str, folder: Path) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM % (WORDS, WORDS), how, url, str(folder)],
        capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def test_a_host_that_traces_gets_a_span_for_each_read_and_each_delivery_and_exemplars_that_lead_to_them(
    server: str, tmp_path: Path
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    found = run("traced", server, tmp_path)
    failed = [span for span in found["spans"] if span["failed"]]
    spans = {span["name"]: span for span in found["spans"] if not span["failed"]}
    assert {"honcho.refresh", "honcho.delivery"} <= set(spans)
    assert {span["attributes"]["honcho.outcome"] for span in failed} <= {"failed", "breaker_open", "timed_out"}
    assert "honcho.refresh" in {span["name"] for span in failed}
    assert spans["honcho.refresh"]["attributes"] == {"honcho.layer": "base", "honcho.outcome": "nothing_known"}
    assert spans["honcho.delivery"]["attributes"] == {
        "honcho.messages": 2, "honcho.resent": False, "honcho.outcome": "delivered",
    }  # fmt: skip
    assert all(span["events"] == 0 for span in found["spans"]), "an error's words would be an event"
    shown = json.dumps(found["spans"])
    for hidden in (WORDS, "ines", "kitchen"):
        assert hidden not in shown
    lines = "\n".join(found["exemplars"])
    assert spans["honcho.refresh"]["trace_id"] in lines
    assert spans["honcho.delivery"]["trace_id"] in lines
    assert "honcho_actors_refresh_duration_seconds_bucket" in lines
    assert "honcho_actors_request_duration_seconds_bucket" in lines


def test_a_host_that_does_not_trace_has_nothing_loaded_and_nothing_in_its_metrics(server: str, tmp_path: Path) -> None:
    found = run("untraced", server, tmp_path)
    assert (found["loaded"], found["exemplars"], found["reason"]) == ([], [], "nothing_known")


@pytest.mark.parametrize("breaks", ["get_tracer", "start", "exit"])
def test_a_tracer_that_fails_costs_its_span_and_not_the_work(monkeypatch: pytest.MonkeyPatch, breaks: str) -> None:
    class Odd:
        def start_as_current_span(self, *args: object, **more: object) -> Odd:
            if breaks == "start":
                raise RuntimeError("no")
            return self

        def __enter__(self) -> Odd:
            return self

        def __exit__(self, *_: object) -> None:
            raise RuntimeError("no")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no")

    def get_tracer(name: str) -> Odd:
        if breaks == "get_tracer":
            raise RuntimeError("no")
        return Odd()

    api = ModuleType(tracing.API)
    api.get_tracer = get_tracer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, tracing.API, api)
    with tracing.span("refresh", layer="base") as traced:
        traced.ended("ok", failed=True)
        assert traced.exemplar is None
    assert tracing.exemplar() is None


def test_work_that_is_cancelled_or_raises_goes_on_raising() -> None:
    with pytest.raises(KeyError), tracing.span("refresh"):
        raise KeyError("x")
