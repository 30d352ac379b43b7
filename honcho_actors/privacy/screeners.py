"""Further opinions for the egress gate, by name: each is united with the project's own rules and can only withhold
more.

A screener that an operator configured and that can't be loaded is not left out: in its place stands one that refuses
everything, so that the gate is closed until the configuration is mended.
"""

from __future__ import annotations

import importlib
from typing import Final, NoReturn

from honcho_actors.privacy.egress import Screener

NAMES: Final = ("redact-secret",)
"""What can be configured; `redact-secret` comes with the extra `screen`."""


class ScreenerMissing(RuntimeError):
    """The configured screener is unknown or not installed. Holds its name and no text."""


def load(name: str) -> Screener:
    """The screener of that name, ready to use; one that always fails when it is unknown or can't be imported."""
    if name == "redact-secret":
        try:
            return _redact_secret()
        except Exception:  # noqa: BLE001 boundary: a configured screener that can't be loaded withholds everything
            return _missing(name)
    return _missing(name)


def _redact_secret() -> Screener:
    scan = importlib.import_module("redact_secret").scan
    scan("warm")

    def screener(text: str, /) -> bool:
        return bool(scan(text))

    return screener


def _missing(name: str) -> Screener:
    def screener(text: str, /) -> NoReturn:
        raise ScreenerMissing(name)

    return screener
