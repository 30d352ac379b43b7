"""Every adapter that the suite runs for, by name. A driver's module, and with it a framework that takes seconds to
load, is imported when a test of it runs."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Final

import pytest

from tests.integrations.driving import Driver

TABLE: Final = {
    "raw:RAW": (
        "openai-chat",
        "openai-chat-async",
        "openai-responses",
        "openai-responses-async",
        "anthropic",
        "anthropic-async",
    ),
    "proxying:PROXY": ("proxy-chat", "proxy-responses", "proxy-messages"),
    "agent_framework_driver:AGENT_FRAMEWORK": ("agent-framework",),
    "agents_driver:AGENTS": ("agents", "agents-sync"),
    "langchain_driver:LANGCHAIN": ("langchain", "langchain-async"),
    "pydantic_driver:PYDANTIC": ("pydantic-ai", "pydantic-ai-sync"),
}
"""Module and list, each with the names of its drivers in their order."""


class Named:
    """A driver, by its name until it is used."""

    def __init__(self, name: str, place: str, number: int) -> None:
        self.name = name
        self._place = place
        self._number = number
        self.is_loaded = False

    @cached_property
    def driver(self) -> Driver:
        """The driver itself."""
        module, attribute = self._place.split(":")
        found: Driver = getattr(import_module(f"tests.integrations.{module}"), attribute)[self._number]
        assert found.name == self.name, (found.name, self.name)
        self.is_loaded = True
        return found

    def driver_or_skip(self) -> Driver:
        """The driver; where its framework is not installed the test is skipped."""
        try:
            return self.driver
        except ImportError as error:
            if error.name is None or error.name.startswith(("honcho_actors", "tests")):
                raise
            pytest.skip(f"{error.name} is not installed here")


DRIVERS: Final = [Named(name, place, number) for place, names in TABLE.items() for number, name in enumerate(names)]
