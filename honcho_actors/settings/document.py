"""The one definition of the settings as a commented TOML file, a JSON Schema and a page of documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from honcho_actors.settings import DEFINITIONS, Definition
from honcho_actors.settings.sources import PREFIX, SHARED_NAMES, WORKING_DIRECTORY_MAY_NOT_SET

_GENERATED_DIRS: Final[Mapping[str, str]] = {
    "state_dir": "the user's state directory",
    "cache_dir": "the user's cache directory",
}


def toml_template() -> str:
    """A `honcho-actors.toml` that changes nothing: every setting with its meaning, commented out."""
    lines = ["# honcho-actors.toml: remove a leading # to set a value. Durations in seconds, sizes in bytes."]
    for one in DEFINITIONS.values():
        lines += ["", f"# {one.doc}; {one.kind.describe()}"]
        if one.name in WORKING_DIRECTORY_MAY_NOT_SET:
            lines.append("# (not taken from a file in the working directory)")
        lines.append(f"# {one.name} = {_toml(one)}")
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the TOML file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "honcho-actors.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            one.name: {**one.kind.schema(), "description": one.doc, **_default_of(one)} for one in DEFINITIONS.values()
        },
    }


def markdown() -> str:
    """The table of `docs/settings.md`."""
    rows = ["| setting | default | takes | meaning |", "|---|---|---|---|"]
    for one in DEFINITIONS.values():
        meaning = one.doc + (" (guards privacy)" if one.is_gate else "")
        shared = ", ".join(f"`{name}`" for name in SHARED_NAMES.get(one.name, ()))
        if shared:
            meaning += f"; also {shared}"
        rows.append(f"| `{one.name}` | {_shown(one)} | {one.kind.describe()} | {meaning} |")
    return "\n".join(rows) + f"\n\nEvery setting `name` is also the variable `{PREFIX}NAME`.\n"


def _default_of(one: Definition) -> dict[str, Any]:
    if one.name in _GENERATED_DIRS:
        return {}
    return {"default": dict(one.default) if isinstance(one.default, Mapping) else one.default}


def _shown(one: Definition) -> str:
    if one.name in _GENERATED_DIRS:
        return _GENERATED_DIRS[one.name]
    if one.default is None:
        return "unset"
    if isinstance(one.default, Mapping):
        return "none"
    return (
        f"`{str(one.default).lower() if isinstance(one.default, bool) else one.default}`"
        if one.default != ""
        else "none"
    )


def _toml(one: Definition) -> str:
    value = one.default
    if value is None:
        return '"off"' if one.name not in ("api_key", "base_url") else '""'
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path):
        return '""'
    return json.dumps(value)
