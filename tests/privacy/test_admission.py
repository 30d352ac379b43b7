"""Admission: who may read, use tools and be captured; how a host selects (B9, seed 001)."""

from __future__ import annotations

from typing import Any

import pytest

from honcho_actors.model import Reason, SkipReason, Turn, TurnRequest
from honcho_actors.privacy.admission import may_capture, may_read, may_use_tools, selected
from honcho_actors.settings import Settings


def settings(**fields: Any) -> Settings:
    return Settings(base_url="http://127.0.0.1:9", **fields)


@pytest.mark.parametrize(
    ("request_fields", "configured", "reason"),
    [
        ({}, settings(), None),
        ({}, settings(enabled=False), Reason.DISABLED),
        ({}, Settings(), Reason.NOT_CONFIGURED),
        ({}, settings(recall_mode="tools"), Reason.TOOLS_MODE),
        ({"scope": "subagent"}, settings(), Reason.SUBAGENT),
        ({"scope": "subagent"}, settings(inject_in_subagents=True), None),
        ({"scope": "anything"}, settings(), Reason.SUBAGENT),
        ({"audience": "shared"}, settings(), Reason.SHARED_AUDIENCE),
        ({"audience": "unheard of"}, settings(), Reason.SHARED_AUDIENCE),
        ({"automated": True}, settings(), None),
    ],
)
def test_who_may_read(request_fields: dict[str, Any], configured: Settings, reason: Reason | None) -> None:
    assert may_read(TurnRequest("s", **request_fields), configured) == reason


def test_a_subagent_has_no_memory_tools_even_where_it_is_injected_into() -> None:
    configured = settings(inject_in_subagents=True)
    assert may_use_tools(TurnRequest("s", scope="subagent"), configured) == Reason.SUBAGENT
    assert may_use_tools(TurnRequest("s"), configured) is None
    assert may_use_tools(TurnRequest("s", audience="shared"), configured) == Reason.SHARED_AUDIENCE


@pytest.mark.parametrize(
    ("fields", "configured", "opted_out", "reason"),
    [
        ({}, settings(), False, None),
        ({}, settings(), True, SkipReason.OPTED_OUT),
        ({}, settings(enabled=False), False, SkipReason.DISABLED),
        ({}, settings(save_messages=False), False, SkipReason.READ_ONLY),
        ({"scope": "subagent"}, settings(), False, SkipReason.SUBAGENT),
        ({"interactive": False}, settings(), False, SkipReason.NOT_INTERACTIVE),
        ({"ephemeral": True}, settings(), False, SkipReason.EPHEMERAL),
        ({"synthetic": True}, settings(), False, SkipReason.SYNTHETIC),
        ({"ephemeral": "no"}, settings(), False, SkipReason.EPHEMERAL),
        ({"audience": "shared"}, settings(), False, None),
    ],
)
def test_what_may_be_captured(
    fields: dict[str, Any], configured: Settings, opted_out: bool, reason: SkipReason | None
) -> None:
    assert may_capture(Turn("s", prompt="hi", **fields), configured, opted_out=opted_out) == reason


@pytest.mark.parametrize(
    ("selection", "by_default", "expected"),
    [
        (None, True, True),
        (None, False, False),
        (["memory"], False, True),
        (["other"], True, False),
        ([], True, False),
        ({"add": ["memory"]}, False, True),
        ({"remove": ["memory"]}, True, False),
        ({"remove": ["memory"]}, False, False),
        ({"remove": ["other"]}, True, True),
        ({"add": ["memory"], "remove": ["memory"]}, True, False),
        ({}, True, True),
        ("memory", True, False),
        ({"add": "memory"}, True, False),
        ({"remove": 7}, True, False),
    ],
)
def test_a_hosts_selection_by_exact_list_or_by_edits_of_its_default(
    selection: Any, by_default: bool, expected: bool
) -> None:
    assert selected(selection, "memory", host_default=by_default) is expected
