"""Short hands for tests that use the client."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint, parse_endpoint
from honcho_actors.honcho.outcomes import Call, Failure, Ok, Outcome, Priority
from honcho_actors.honcho.reading import SessionContext
from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Screened

T = TypeVar("T")


def within(seconds: float = 20.0, priority: Priority = Priority.COLD) -> Call:
    """A call that ends so many seconds from now."""
    return Call(asyncio.get_running_loop().time() + seconds, priority)


def text(value: str) -> Screened:
    screened = egress.screen(value, 1_000_000)
    assert screened is not None
    return screened


def endpoint(url: str, key: str | None = None) -> Endpoint:
    parsed = parse_endpoint(url, key)
    assert isinstance(parsed, Endpoint), parsed
    return parsed


def client(url: str, key: str | None = None) -> HonchoClient:
    return HonchoClient(endpoint(url, key))


def value(outcome: Outcome[T]) -> T:
    assert isinstance(outcome, Ok), outcome
    return outcome.value


def failure(outcome: Outcome[T]) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


async def read_context(honcho: HonchoClient, call: Call | None = None) -> Outcome[SessionContext]:
    """The base read of a turn."""
    return await honcho.session_context(
        "w", "s", peer_target="user", max_conclusions=10, tokens=0, summary=False, call=call or within()
    )


__all__ = ["BadEndpoint", "client", "endpoint", "failure", "read_context", "text", "value", "within"]
