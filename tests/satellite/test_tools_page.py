"""docs/tools.md says what the code does: schemas, examples of each kind, the calls of its first page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from honcho_actors import Memory
from honcho_actors.satellite.tools import ToolError
from tests.support.tools_page import EXAMPLES, OUTCOMES, PAGE, READ_ONLY, Server, between, made
from tests.support.tools_rig import ALIASES, FIVE, Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(Server()) as running:
        yield running


def test_schemas_and_examples_are_those_of_the_code() -> None:
    # When this differs: `python -m tests.support.tools_page` writes the section anew.
    assert between(PAGE.read_text()) == made()


def test_each_tool_shows_an_answer_of_each_kind() -> None:
    usual = set(OUTCOMES) - {READ_ONLY}
    for name in FIVE:
        kinds = {one.kind for one in EXAMPLES[name]}
        assert kinds - {READ_ONLY} == usual
        assert (READ_ONLY in kinds) == (name in ("honcho_profile", "honcho_conclude"))


def test_the_page_names_every_tool_and_every_error() -> None:
    page = PAGE.read_text()
    for name in (*FIVE, *ALIASES):
        assert f"| `{name}` |" in page
    for error in ToolError:
        assert f"`{error}`" in page, error


def test_the_calls_of_the_page_work(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONCHO_URL", stub.url)
    monkeypatch.setenv("HONCHO_ACTORS_ADMIN_PORT", "off")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[:1]
    names: dict[str, Any] = {}
    exec(compile(block, "docs/tools.md", "exec"), names)
    assert [one["function"]["name"] for one in names["shown"]] == list(FIVE)
    assert names["result"].error is None
    assert "dinghy" in names["result"].text
    assert isinstance(names["memory"], Memory)


def test_the_calls_of_the_page_on_providers_work(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONCHO_URL", stub.url)
    monkeypatch.setenv("HONCHO_ACTORS_ADMIN_PORT", "off")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.with_name("providers.md").read_text(), re.S)[:1]
    names: dict[str, Any] = {}
    exec(compile(block, "docs/providers.md", "exec"), names)
    assert [one.name for one in names["found"].outcomes] == ["honcho"]
    assert [one["name"] for one in names["schemas"]] == list(FIVE)
    assert "dinghy" in names["answer"]
    assert names["ingest"].status()["handed_on"] == 1
