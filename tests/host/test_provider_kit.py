"""The kit for providers' authors: it passes a provider that does as it should and names what another does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.host import provider_kit
from honcho_actors.host.providers import KEYED, Query
from honcho_actors.model import Document, Turn
from supervision import Waiter

TEXTS = ("it rains", "it snows", "the sun shines")


class Notes:
    """A provider that keeps notes in memory, written as its author would."""

    def __init__(self) -> None:
        self.told: list[Turn] = []

    def search(self, query: Query, deadline: float) -> list[Document]:
        if query.scope in KEYED and not (query.key or "").strip():
            return []
        if query.scope not in ("session", "agent", "workspace", "global", "all"):
            return []
        scope = "global" if query.scope == "all" else query.scope
        found = [Document(text, text, "kit", None, None, scope, query.key) for text in TEXTS]
        return found[: query.limit]

    def put(self, turn: Turn) -> None:
        self.told.append(turn)


@pytest.mark.parametrize("case", provider_kit.CASES, ids=str)
def test_a_provider_that_does_as_it_should_meets_every_case(case: provider_kit.Case) -> None:
    """The kit's cases assert; on the faulty providers below it is shown that each can fail."""
    case.run(Notes)


def test_the_kit_has_the_originals_sixteen_hostile_queries_and_a_long_one() -> None:
    assert len(provider_kit.HOSTILE) == 16
    assert len(provider_kit.LONG) == 12_000
    assert len({case.name for case in provider_kit.CASES}) == len(provider_kit.CASES)


def bad(**methods: Any) -> Callable[[], Any]:
    """A provider with a fault."""
    return type("Bad", (Notes,), methods)


def boom(*_: Any) -> Any:
    raise RuntimeError("it broke")


def odd(**changed: Any) -> Callable[..., Any]:
    given = {"peer": "kit", "session": None, "created_at": None, "scope": "session", "key": None, **changed}
    identity, text = given.pop("id", "1"), given.pop("text", "it rains")
    return lambda self, query, deadline: [Document(identity, text, **given)]


@pytest.mark.parametrize(
    ("make", "case"),
    [
        (bad(search=None), "hostile query 1"),
        (bad(search=lambda self, query, deadline: "rain"), "limits"),
        (bad(search=lambda self, query, deadline: None), "limits"),
        (bad(search=lambda self, query, deadline: [{"id": 1}]), "limits"),
        (bad(search=boom), "hostile query 1"),
        (bad(search=odd(id="")), "limits"),
        (bad(search=odd(text="  ")), "limits"),
        (bad(search=odd(scope="planet")), "limits"),
        (bad(search=odd(scope="global")), "limits"),
        (bad(search=odd(key="somebody else's")), "limits"),
        (bad(search=odd()), "scope session without a key"),
        (bad(search=odd()), "a blank key"),
        (bad(search=lambda self, query, deadline: Notes().search(Query("x", "global", limit=3), 0.0)), "limits"),
        (bad(put=boom), "puts"),
        (bad(put=boom), "fan-out through the registry"),
        (object, "has search and put"),
    ],
)
def test_a_provider_with_a_fault_does_not_meet_the_case(make: Callable[[], Any], case: str) -> None:
    report = provider_kit.run(make) if case == "fan-out through the registry" else None
    if report is not None:
        assert not report.ok
        assert case in dict(report.failures)
        return
    with pytest.raises(Exception):  # noqa: B017 (a case tells by raising, whatever the provider itself raises)
        next(one for one in provider_kit.CASES if one.name == case).run(make)


def test_a_waiter_that_never_comes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_kit, "WAIT", 0.01)
    monkeypatch.setattr(provider_kit, "GRACE", 0.05)
    never = bad(search=lambda self, query, deadline: Waiter())
    for name in ("limits", "no time left"):
        with pytest.raises(provider_kit.NotMet):
            next(one for one in provider_kit.CASES if one.name == name).run(never)


def test_from_the_command_line_it_says_what_is_not_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_providers_module.py").write_text(
        "from tests.host.test_provider_kit import Notes\n\n\nclass Broken(Notes):\n"
        "    def search(self, query, deadline):\n        return 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert provider_kit.main(["a_providers_module:Notes"]) == 0
    total = len(provider_kit.CASES)
    assert f"{total} of {total} cases met" in capsys.readouterr().out
    assert provider_kit.main(["a_providers_module:Broken"]) == 1
    assert "not met: limits" in capsys.readouterr().out
    for wrong in ([], ["a_providers_module"], ["a_providers_module:nobody"], ["no_such_module:x"]):
        assert provider_kit.main(wrong) == 2
    sys.modules.pop("a_providers_module", None)
