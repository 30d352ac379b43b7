"""How a host selects this extension for a conversation (seed 001, its residual removed)."""

from __future__ import annotations

from typing import Any

import pytest

from honcho_actors.privacy.selection import selected


@pytest.mark.parametrize(
    ("selection", "by_default", "expected"),
    [
        (None, True, True),
        (None, False, False),
        (["memory"], False, True),
        (["other"], True, False),
        ([], True, False),
        (("memory", 7), False, True),
        ({"add": ["memory"]}, False, True),
        ({"remove": ["memory"]}, True, False),
        ({"remove": ["memory"]}, False, False),
        ({"remove": ["other"]}, True, True),
        ({"add": ["memory"], "remove": ["memory"]}, True, False),
        ({}, True, True),
        ("memory", True, False),
        (7, True, False),
        ({"add": "memory"}, True, False),
        ({"remove": 7}, True, False),
    ],
)
def test_a_selection_is_an_exact_list_or_edits_of_the_hosts_default(
    selection: Any, by_default: bool, expected: bool
) -> None:
    assert selected(selection, "memory", host_default=by_default) is expected


def test_an_opt_out_after_a_yes_holds_at_the_next_question() -> None:
    selection = ["memory"]
    assert selected(selection, "memory", host_default=True)
    selection[:] = ["other"]
    assert not selected(selection, "memory", host_default=True)
