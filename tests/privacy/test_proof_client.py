"""The egress proof of the client: every operation, every field, credentials made at run time, bytes that a socket
received.

The first test finds the operations and their parameters by itself, so that a new one is walked on the day it is
added. For each parameter, one call is made in which that parameter holds a credential and all others are ordinary;
what a server on loopback received, heads and bodies, holds none of them. The second shows that the walk can fail: the
same server does receive ordinary words of every operation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from honcho_actors.honcho.client import HonchoClient, Observation, OutMessage
from honcho_actors.honcho.endpoint import Endpoint, parse_endpoint
from honcho_actors.honcho.outcomes import Call, Priority
from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Screened
from tests.privacy.canaries import Canaries

NOT_OPERATIONS = {"aclose"}
SCREENED_LISTS = {"contents", "lines"}
IDS = {
    "workspace",
    "session",
    "peer",
    "session_id",
    "target",
    "peer_target",
    "peer_perspective",
    "observer",
    "observed",
}


class Recorder:
    """A server that keeps every byte it receives and answers every request with an empty object."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Recorder:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.received += head
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                self.received += await reader.readexactly(length)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


def operations() -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(HonchoClient, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in NOT_OPERATIONS
    }


def call() -> Call:
    return Call(asyncio.get_running_loop().time() + 5.0, Priority.COLD)


def passed(text: str) -> Screened:
    screened = egress.screen(text, 1000)
    assert screened is not None, text
    return screened


def ordinary(name: str, mark: str) -> Any:
    """An ordinary value for a parameter, holding `mark` where it is text."""
    values: dict[str, Any] = {
        "call": call(),
        "query": passed(f"{mark} what do you know"),
        "contents": [passed(f"{mark} likes tea")],
        "lines": [passed(f"{mark} likes tea")],
        "messages": [OutMessage("ana", passed(f"{mark} hello"), {"note": f"{mark} note"}, datetime.now(UTC))],
        "peers": {"ana": Observation(True, True)},
        "observation": Observation(True, False),
        "filters": {"metadata": {"note": f"{mark} note"}},
        "configuration": {"summary": {"enabled": True}, "note": f"{mark} note"},
        "conclusion": f"{mark}-id",
        "level": "low",
        "summary": True,
        "include_most_frequent": False,
        "reverse": False,
    }
    if name in values:
        return values[name]
    return mark if name in IDS else 3


def loaded(name: str, canaries: Canaries) -> Iterator[Any]:
    """Values of a parameter that hold a credential, in each way in which one can be put there."""
    secret = canaries.give
    screened = [egress.screen(f"remember {secret()}", 1000), egress.screen(secret(), 1000)]
    assert screened == [None, None]
    if name in SCREENED_LISTS:
        yield [text for text in screened if text is not None] or [passed("nothing left")]
    elif name == "query":
        yield next((text for text in screened if text is not None), passed("nothing left"))
    elif name == "messages":
        plain = passed("hello")
        yield [OutMessage("ana", plain, {"note": f"remember {secret()}"}, datetime.now(UTC))]
        yield [OutMessage("ana", plain, {f"{secret()}": "x"}, datetime.now(UTC))]
        yield [OutMessage("ana", plain, {"deep": {"er": [{"note": secret()}]}}, datetime.now(UTC))]
        yield [OutMessage(secret("github"), plain, {}, datetime.now(UTC))]
    elif name == "peers":
        yield {secret("github"): Observation(True, True)}
    elif name == "filters":
        yield {"metadata": {"note": secret()}}
        yield {secret(): "x"}
        yield {"AND": [{"metadata": {"note": {"contains": [secret()]}}}]}
    elif name == "configuration":
        yield {"note": secret(), "deep": {"er": {"note": f"the key is {secret()}"}}}
        yield {secret(): True}
    elif name in IDS | {"conclusion", "level"}:
        for kind in ("github", "honcho", "openai", "aws_id", "stripe", "huggingface", "notion"):
            yield secret(kind)
    elif name not in ("call", "observation"):
        yield secret()


@pytest.fixture(autouse=True)
def every_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


async def perform(client: HonchoClient, name: str, arguments: dict[str, Any]) -> object:
    """One operation; a value of a wrong type may be refused by raising, before anything is sent."""
    try:
        return await getattr(client, name)(**arguments)
    except (TypeError, ValueError, AttributeError) as error:
        return error


async def test_no_credential_in_any_field_of_any_operation_reaches_the_wire(caplog: pytest.LogCaptureFixture) -> None:
    canaries = Canaries()
    outcomes: list[object] = []
    async with Recorder() as server:
        endpoint = parse_endpoint(server.url, None)
        assert isinstance(endpoint, Endpoint)
        async with HonchoClient(endpoint) as client:
            for operation, signature in operations().items():
                fields = [name for name in signature.parameters if name != "self"]
                for field in fields:
                    for value in loaded(field, canaries):
                        arguments = {name: ordinary(name, "plain") for name in fields}
                        outcomes.append(await perform(client, operation, {**arguments, field: value}))
    assert len(canaries.given) > 300
    assert canaries.found_in(bytes(server.received)) == []
    assert canaries.found_in(caplog.text) == []
    assert canaries.found_in(repr(outcomes)) == []


async def test_ordinary_words_of_every_operation_do_reach_the_wire() -> None:
    async with Recorder() as server:
        endpoint = parse_endpoint(server.url, None)
        assert isinstance(endpoint, Endpoint)
        async with HonchoClient(endpoint) as client:
            for number, (operation, signature) in enumerate(operations().items()):
                if operation == "health":
                    continue
                mark = f"mark{number:03}x"
                arguments = {name: ordinary(name, mark) for name in signature.parameters if name != "self"}
                await perform(client, operation, arguments)
                assert mark.encode() in server.received, operation


async def test_a_server_that_echoes_what_it_was_given_puts_it_into_no_outcome_and_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Upstream errors: a body that repeats credentials, as a validation error does (contract 1)."""
    canaries = Canaries()
    echo = f'{{"detail": "bad input {canaries.give()} with {canaries.give()}"}}'.encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 422 X\r\ncontent-type: application/json\r\nconnection: close\r\n")
        writer.write(f"content-length: {len(echo)}\r\n\r\n".encode() + echo)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = parse_endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
        assert isinstance(endpoint, Endpoint)
        async with HonchoClient(endpoint) as client:
            outcome = await client.chat("w", "ana", passed("hello"), call=call())
    assert canaries.found_in(repr(outcome)) == []
    assert canaries.found_in(caplog.text) == []
