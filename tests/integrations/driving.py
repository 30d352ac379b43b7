"""What a driver is: one adapter, with a small program of its framework behind it, as the suite asks it to behave.

To add an adapter: subclass `Driver` and `Chat`, and put its name into `drivers.TABLE`. A behaviour that the
framework cannot have stands in `cannot`, under the name of its test, with the framework's own reason.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from tests.integrations.keeper import House
from tests.support.stub_model import Asked, Say, StubModel

T = TypeVar("T")

STATIC = "You are a gardener's assistant."
TOOL = "look_up"
FOUND = "It is in the shed."
SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}}

NO_CANCELLATION = (
    "a blocking call of this client has no cancellation: it ends with its answer, its error or its time-out"
)


def lacking(*, stream: str = "", leaving: str = "", cancel: str = "") -> dict[str, str]:
    """What a driver cannot that has no streams (`stream`), none that can be left in the middle (`leaving`), or no
    cancellation (`cancel`), each with the framework's own reason."""
    found = {
        "test_a_streamed_turn_arrives_whole_and_is_captured_once": stream,
        "test_a_stream_that_is_left_in_the_middle_has_no_answer": stream or leaving,
        "test_a_connection_that_breaks_in_the_middle_of_a_stream_leaves_no_answer": stream,
        "test_cancelled_while_memory_is_awaited": cancel,
        "test_cancelled_before_the_model_says_anything": cancel,
        "test_cancelled_in_the_middle_of_a_stream": cancel,
    }
    return {behaviour: reason for behaviour, reason in found.items() if reason}


class Chat:
    """One conversation in the framework, with its own history. Every method returns when the turn has ended."""

    def say(self, text: str) -> str:
        """A turn; gives the answer. Raises what the framework raises. The model may call the tool `look_up`, which
        gives FOUND."""
        raise NotImplementedError

    def stream(self, text: str) -> str:
        """A turn, streamed; gives what was streamed."""
        raise NotImplementedError

    def retry(self) -> str:
        """Asks again for the turn that failed, without a new message."""
        raise NotImplementedError

    def leave(self, text: str) -> None:
        """A streamed turn that the program leaves after the first piece."""
        raise NotImplementedError

    def cancel(self, text: str, when: Callable[[], bool], *, stream: bool = False) -> None:
        """A turn that is cancelled as soon as `when()` holds."""
        raise NotImplementedError

    def delegate(self, text: str) -> str:
        """A turn of a subagent of whoever is talking."""
        raise NotImplementedError

    def transcript(self) -> list[str]:
        """The user's messages as the framework keeps them."""
        raise NotImplementedError


class Driver:
    """One adapter."""

    name = ""
    cannot: Mapping[str, str] = {}

    @contextmanager
    def chat(self, house: House, model: StubModel, request: TurnRequest | None) -> Iterator[Chat]:
        """A conversation of the program's, for whoever `request` names; None: for nobody."""
        raise NotImplementedError

    def close(self) -> None:
        """After all tests: whatever the driver kept between them."""

    def system(self, asked: Asked) -> str:
        """The system text that the model got."""
        return asked.system

    def users(self, asked: Asked) -> list[str]:
        """The user's messages that the model got."""
        return asked.users

    def items(self, asked: Asked) -> list[Any]:
        """The conversation that the model got, message by message."""
        return asked.items


@contextmanager
def spoken_by(request: TurnRequest | None) -> Iterator[None]:
    """Inside `talking`, unless nobody is."""
    if request is None:
        yield
        return
    with talking(request):
        yield


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """A coroutine that awaits nothing, without any loop, as a plain program runs."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    raise AssertionError("a synchronous program awaited something")


async def cancelled(work: Coroutine[Any, Any, Any], when: Callable[[], bool]) -> None:
    """Starts the work, cancels it when the time has come, and sees that it is gone."""
    task = asyncio.ensure_future(work)
    end = time.monotonic() + 20
    while not when():
        assert not task.done(), task
        assert time.monotonic() < end
        await asyncio.sleep(0.005)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("the work ended by itself")


def with_a_tool(asked: Asked) -> Say:
    """Calls the tool once, and answers with what it found."""
    if FOUND in json.dumps(asked.items[-1]):
        return Say("The hose is in the shed.")
    return Say("Let me look.", call=(TOOL, {"what": "hose"}))


def ratio(driver: Driver, calls: list[Asked]) -> float:
    """The share of calls whose system text and messages are a prefix of the next call's, to the byte."""

    def whole(asked: Asked) -> list[Any]:
        return [driver.system(asked), *(json.dumps(one) for one in driver.items(asked))]

    pairs = list(pairwise([whole(one) for one in calls]))
    return sum(later[: len(earlier)] == earlier for earlier, later in pairs) / len(pairs)
