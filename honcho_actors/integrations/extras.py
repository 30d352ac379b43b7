"""A missing extra names the command that installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingExtra(ImportError):
    """An adapter's framework is not installed; the text says how to install it."""


def needed(module: str, *, extra: str) -> Any:
    """The module of a framework. Raises `MissingExtra` where it is not installed; an error inside it stays its own."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingExtra(f"this needs `{module}`: pip install 'honcho-actors[{extra}]'", name=module) from None
