"""Every page names what there is: commands with their options, make's targets, variables, files, modules, names."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from honcho_actors import Memory
from honcho_actors.cli import mcp, proxy
from honcho_actors.cli.app import app
from honcho_actors.settings import DEFINITIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
_PARTS = sorted(one.name for one in (ROOT / "honcho_actors").iterdir() if one.is_dir() and one.name[0] != "_")
ROOMS = "|".join(("tests", "docs", "supervision", "benchmarks", "honcho_actors", *_PARTS))
ELSEWHERE = frozenset({"pytest", "venv", "pip", "src.deriver"})
"""Modules that are not ours: the last is the real Honcho's."""


@cache
def code(page: Path) -> tuple[str, ...]:
    """What a page shows as code: its blocks, and the pieces in its sentences."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return (*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)))


@cache
def commands() -> Any:
    return typer.main.get_command(app)


def called(page: Path) -> Iterator[list[str]]:
    """The words of every call of our command."""
    for piece in code(page):
        for line in re.findall(r"\bhoncho-actors (?!\|)([^\n|#&;>]*)", re.sub(r"\\\n\s*", "", piece)):
            words = re.findall(r"[\w./:@=-]+", line)
            if words and re.fullmatch(r"[a-z-]+", words[0]):
                yield words


def misnamed(words: list[str]) -> str | None:
    command = commands()
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if command is commands():
        return None if rest[0].startswith("-") or rest == ["honcho"] else f"no command {rest[0]}"
    known = {one for each in command.params for one in (*each.opts, *each.secondary_opts)} | {"--help"}
    wrong = [one for one in (word.split("=")[0] for word in rest) if one.startswith("--") and one not in known]
    return f"{words[0]} takes no {wrong[0]}" if wrong else None


def test_a_wrong_word_is_seen() -> None:
    assert sum(len(list(called(page))) for page in PAGES) > 30
    for words in (["sing"], ["import", "--loud"], ["outbox", "show", "ab", "--revealed"]):
        assert misnamed(words) is not None
    for words in (["import", "a.zip", "--user", "ada"], ["outbox", "export", "--reveal"], ["--help"]):
        assert misnamed(words) is None


def test_every_command_and_every_option_of_it_exists() -> None:
    for page in PAGES:
        assert [wrong for words in called(page) if (wrong := misnamed(words))] == [], page.name


def test_every_target_of_make_exists() -> None:
    for page in PAGES:
        targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        named = {
            name
            for piece in code(page)
            for name in re.findall(r"^(?:\w+=\S+ )*make ([a-z][\w-]*)", piece, re.MULTILINE)
        }
        assert named - targets == set(), page.name


def test_every_variable_of_ours_is_a_setting_or_a_commands_token() -> None:
    for page in PAGES:
        named = set(re.findall(r"HONCHO_ACTORS_[A-Z_]*[A-Z]\b", page.read_text("utf-8"))) - {"HONCHO_ACTORS_NAME"}
        known = {f"HONCHO_ACTORS_{name.upper()}" for name in DEFINITIONS} | {proxy.TOKEN_VARIABLE, mcp.TOKEN_VARIABLE}
        assert named - known == set(), page.name


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", page.read_text("utf-8")):
            assert "://" in link or (page.parent / link).exists(), link


def test_every_file_and_every_module_exists() -> None:
    for page in PAGES:
        places = (ROOT, ROOT / "honcho_actors", ROOT / "docs", page.parent)
        for piece in code(page):
            for path in re.findall(rf"(?<![\w./-])(?:{ROOMS})/[\w/-]+(?:\.\w+)*", piece):
                stem, _, last = path.rpartition(".")
                ours = any((place / path).exists() for place in places)
                value = stem and last.isidentifier() and (ROOT / "honcho_actors" / f"{stem}.py").exists()
                assert ours or (
                    value and hasattr(importlib.import_module(f"honcho_actors.{stem.replace('/', '.')}"), last)
                ), path
            for module in re.findall(r"python -m ([\w.]+)", piece):
                at = ROOT / module.replace(".", "/")
                assert module in ELSEWHERE or at.with_suffix(".py").exists() or (at / "__main__.py").exists(), module


def test_every_dotted_name_and_every_call_of_memory_exists() -> None:
    for page in PAGES:
        for piece in code(page):
            for name in re.findall(r"^((?:honcho_actors|supervision)(?:\.\w+)+)$", piece):
                assert _there(name) or f"the log `{name}`" in page.read_text("utf-8"), name
            for name in re.findall(r"\b[Mm]emory\.([a-z]\w*)\(", piece):
                assert hasattr(Memory, name), name


def test_every_extra_and_everything_imported_exists() -> None:
    for page in PAGES:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        for piece in code(page):
            for named in re.findall(r"honcho-actors\[([\w,-]+)\]", piece):
                assert set(named.split(",")) <= set(extras), named
            if page.parent.name == "integrations":  # they need the frameworks, and are run by their own tests
                continue
            for module, names in re.findall(
                r"^\s*from ((?:honcho_actors|supervision)[\w.]*) import ([\w, ]+)", piece, re.MULTILINE
            ):
                assert [one for one in re.split(r",\s*", names.strip()) if not _there(f"{module}.{one}")] == [], module


def _there(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for one in parts[count:]:
            found = getattr(found, one, None)
        return found is not None
    return False
