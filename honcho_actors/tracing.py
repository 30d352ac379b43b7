"""Spans of what runs in the background, for a host that traces: the reading of memory and its delivery.

Only OpenTelemetry's API is used, and only when the host itself has loaded it: nothing is imported here, so a program
that does not trace pays a look into one dictionary for each background job, and a warm turn nothing at all. What a
span says is from closed sets and counts; no name, no text, no error's words. A tracer that fails costs its span.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Final, Self

API: Final = "opentelemetry.trace"
NAME: Final = "honcho_actors"


class Span:
    """`with span(...) as it:` around the work; `it.ended(word, failed)` says how it went. One task."""

    __slots__ = ("_attributes", "_context", "_name", "_span")

    def __init__(self, name: str, attributes: dict[str, str | int | bool]) -> None:
        self._name = name
        self._attributes = attributes
        self._context: Any = None
        self._span: Any = None

    def __enter__(self) -> Self:
        api = sys.modules.get(API)
        make = getattr(api, "get_tracer", None)
        if make is None:
            return self
        try:
            self._context = make(NAME).start_as_current_span(
                self._name, attributes=self._attributes, record_exception=False, set_status_on_exception=False
            )
            self._span = self._context.__enter__()
        except Exception:  # noqa: BLE001 - boundary: a tracer that fails costs its span, never the work
            self._context = self._span = None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._context is None:
            return
        try:
            self._context.__exit__(kind, error, at)
        except Exception:  # noqa: BLE001 - boundary: as above
            return

    def ended(self, outcome: str, *, failed: bool = False) -> None:
        """Says how it went, in a word of a closed set."""
        if self._span is None:
            return
        try:
            self._span.set_attribute("honcho.outcome", outcome)
            if failed:
                api = sys.modules[API]
                self._span.set_status(api.Status(api.StatusCode.ERROR))
        except Exception:  # noqa: BLE001 - boundary: as above
            return

    @property
    def exemplar(self) -> dict[str, str] | None:
        """What a metric's sample carries so that its trace is found; None where nothing is traced or sampled."""
        return None if self._span is None else _exemplar(self._span)


def span(name: str, **attributes: str | int | bool) -> Span:
    """A span `honcho.<name>`; its attributes are named `honcho.<...>`."""
    return Span(f"honcho.{name}", {f"honcho.{key}": value for key, value in attributes.items()})


def exemplar() -> dict[str, str] | None:
    """The exemplar of whatever span runs here now."""
    now = getattr(sys.modules.get(API), "get_current_span", None)
    return None if now is None else _exemplar(now())


def _exemplar(span: Any) -> dict[str, str] | None:
    try:
        context = span.get_span_context()
        if not context.is_valid or not context.trace_flags.sampled:
            return None
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
    except Exception:  # noqa: BLE001 - boundary: as above
        return None
