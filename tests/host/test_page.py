"""docs/prompt.md: its first program runs as it stands there, and its words are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from honcho_actors.host import Prefix
from honcho_actors.host.prompt import FOR_NOW
from tests.support.stub_honcho import Said
from tests.support.tools_rig import Stub, runtime

PAGE = Path(__file__).parents[2] / "docs" / "prompt.md"


def test_the_first_program_of_the_page_runs(tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    asked: list[str] = []

    def model(system: str, history: object, user: str) -> str:
        asked.append(user)
        return "We were at the ribs."

    with Stub(lambda seen: Said({"id": "x"})) as stub, runtime(tmp_path, stub.url) as memory:
        names: dict[str, Any] = {"memory": memory, "typed": "where were we?", "STATIC": "S", "model": model}
        names |= {"call": '{"call": 1}', "result": "found"}
        exec(compile(program, str(PAGE), "exec"), names)
        store, talk = names["store"], names["talk"]
        assert asked == ["where were we?"]
        assert talk.shown() == (("user", "where were we?"), ("assistant", "We were at the ribs."))
        assert [role for role, _ in talk.replay()] == ["user", "assistant", "tool", "assistant"]
        assert store.close(20.0)


def test_the_page_names_every_word_that_a_prompt_says_of_its_prefix_and_every_reason_that_holds() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {word for word in Prefix if f"`{word}`" not in page} == set()
    held = page.split("could not be had for now (")[1].split(")")[0]
    assert set(re.findall(r"`(\w+)`", held)) == {str(reason) for reason in FOR_NOW}
