"""The alert rules and their runbooks, as they lie in the package. Text in, text out: nothing here parses YAML."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

RUNBOOKS: Final = "docs/runbooks/"
"""Where the rules say that the runbooks are; their address is put in its place when the rules are printed."""

_ALERT: Final = re.compile(
    r"^ +- alert: (\w+)$(.*?)runbook_url: docs/runbooks/([a-z-]+\.md)$", re.MULTILINE | re.DOTALL
)


@cache
def _source() -> str:
    return resources.files("honcho_actors.ops").joinpath("alerts.yml").read_text(encoding="utf-8")


def text(runbooks: str = RUNBOOKS) -> str:
    """The rules as a file for Prometheus, its runbooks at `runbooks` (an address that ends where a file name goes)."""
    return _source().replace(f"runbook_url: {RUNBOOKS}", f"runbook_url: {runbooks}")


@cache
def _files() -> dict[str, str]:
    return {name: file for name, _, file in _ALERT.findall(_source())}


def names() -> tuple[str, ...]:
    """Every alert, in the order of the rules."""
    return tuple(_files())


def runbook_file(name: str) -> str | None:
    """The file of an alert's runbook; `name` may leave `HonchoActors` out."""
    return _files().get(name) or _files().get(f"HonchoActors{name}")


def runbook(name: str) -> str | None:
    """What to do about an alert, as Markdown; None for one that is not there."""
    file = runbook_file(name)
    return None if file is None else _folder().joinpath(file).read_text(encoding="utf-8")


def _folder() -> Traversable:
    """In the installed package; in a checkout they stand where people read them."""
    packaged = resources.files("honcho_actors.ops").joinpath("runbooks")
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "docs" / "runbooks"
