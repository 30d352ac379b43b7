"""The file template, the schema and the page say what the definition says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from honcho_actors.settings import DEFINITIONS, Settings, Sources
from honcho_actors.settings.document import json_schema, markdown, toml_template

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "settings.md"


def test_the_page_holds_the_table_that_the_definition_gives() -> None:
    assert PAGE.read_text().endswith(markdown())


def test_the_template_changes_nothing_and_names_every_setting(tmp_path: Path) -> None:
    (tmp_path / "honcho-actors.toml").write_text(toml_template())
    untouched = Settings.load(Sources({}, tmp_path / "elsewhere", tmp_path, tmp_path))
    assert (untouched, untouched.problems) == (Settings(), ())
    assert tomllib.loads(toml_template()) == {}


def test_the_template_with_every_line_in_force_gives_the_defaults(tmp_path: Path) -> None:
    lines = [line[2:] if line.startswith("# ") and " = " in line else "" for line in toml_template().splitlines()]
    (tmp_path / "honcho-actors.toml").write_text("\n".join(lines))
    taken = Settings.load(Sources({}, tmp_path / "elsewhere", tmp_path, tmp_path))
    assert (taken, taken.problems) == (Settings(), ())


def test_the_schema_has_every_setting_and_is_json() -> None:
    schema = json.loads(json.dumps(json_schema(), default=str))
    assert set(schema["properties"]) == set(DEFINITIONS)
    assert schema["properties"]["context_cadence"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000_000,
        "description": DEFINITIONS["context_cadence"].doc,
        "default": 1,
    }
