"""Memory inside the clients of openai and anthropic: one generator made both, so one adapter serves both.

`remembering` gives a client of the same class, with the same connections, whose model calls carry memory and are
captured: `create`, `parse`, `stream`, raw responses, sync, async, streamed, through tool loops. The call that all of
them come down to is `client.post`, which is public; that is the one place that is changed. The client that was given
stays as it is.

A call belongs to whoever `talking` names, else to the request that the client was bound to, else to nobody; then it
goes out untouched.
"""

from __future__ import annotations

import logging
import types
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from honcho_actors.integrations.protocols import Protocol, Reader, Words, by_path
from honcho_actors.integrations.turns import OpenTurn, Turns
from honcho_actors.integrations.who import current
from honcho_actors.model import TurnRequest

C = TypeVar("C")

log = logging.getLogger("honcho_actors.integrations")

_TAP: Final = "_honcho_tap"


@dataclass(frozen=True, slots=True)
class Step:
    """One model call of somebody's turn: what it says, and in which protocol."""

    request: TurnRequest
    protocol: Protocol
    words: Words


class Held:
    """What a client that remembers holds: the turns, and whom it is bound to."""

    __slots__ = ("request", "turns")

    def __init__(self, turns: Turns, request: TurnRequest | None) -> None:
        self.turns = turns
        self.request = request

    def step(self, path: str, body: Any) -> Step | None:
        """What a call is, or None where there is nothing for memory to do."""
        request = current(self.request)
        protocol = by_path(path)
        if request is None or protocol is None or not isinstance(body, Mapping):
            return None
        try:
            words = protocol.heard(body)
        except Exception as error:  # noqa: BLE001 - boundary: a call never fails because of memory
            log.warning("a request was passed on without memory: %s", type(error).__name__)
            return None
        return None if words is None else Step(request, protocol, words)


def with_memory(step: Step, turn: OpenTurn, body: Any) -> Any:
    """The body with both blocks in their places."""
    try:
        said, _, first = step.words
        return step.protocol.placed(body, turn.system, turn.beside(said, first))
    except Exception as error:  # noqa: BLE001 - boundary: a call never fails because of memory
        log.warning("a request was passed on without memory: %s", type(error).__name__)
        return body


class Tap:
    """Reads along while a stream passes, and ends the turn once."""

    __slots__ = ("_reader", "_turn")

    def __init__(self, turn: OpenTurn, reader: Reader) -> None:
        self._turn = turn
        self._reader = reader

    def feed(self, event: Any) -> None:
        """One event has passed."""
        try:
            self._reader.feed(event)
        except Exception:  # noqa: BLE001 - boundary: a stream never breaks because of memory
            self._reader.failed = True

    def ended(self) -> None:
        """The stream came to its end."""
        text, goes_on = self._reader.reply()
        if not goes_on:
            self._turn.finish(text)

    def closed(self) -> None:
        """Nothing more is read. What the model had said to its end is an answer; half of one is none."""
        if self._reader.complete:
            self.ended()
        else:
            self._turn.finish(None)


def taken(step: Step, turn: OpenTurn, earlier: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """What the client calls with the parsed reply: reads the answer, or sits beside the stream."""

    def take(parsed: Any) -> Any:
        value = parsed if earlier is None else earlier(parsed)
        try:
            response = getattr(value, "response", None)
            if response is not None and hasattr(type(value), _TAP):
                tap = Tap(turn, step.protocol.reader())
                setattr(value, _TAP, tap)
                _watch(response, tap)
            else:
                text, goes_on = step.protocol.answer(value)
                if not goes_on:
                    turn.finish(text)
        except Exception as error:  # noqa: BLE001 - boundary: a reply never gets lost because of memory
            log.warning("an answer could not be read: %s", type(error).__name__)
        return value

    return take


def _watch(response: Any, tap: Tap) -> None:
    """Whoever closes the response of a stream, on whatever way, ends the turn."""
    weak = weakref.ref(response)
    close, aclose = type(response).close, type(response).aclose

    def closing() -> None:
        tap.closed()
        if (held := weak()) is not None:
            close(held)

    async def aclosing() -> None:
        tap.closed()
        if (held := weak()) is not None:
            await aclose(held)

    response.close, response.aclose = closing, aclosing


def _options(step: Step, turn: OpenTurn, more: dict[str, Any]) -> dict[str, Any]:
    options = dict(more.get("options") or {})
    earlier = options.get("post_parser")
    options["post_parser"] = taken(step, turn, earlier if callable(earlier) else None)
    return {**more, "options": options}


def remembering(client: C, turns: Turns, request: TurnRequest | None, *, is_async: bool) -> C:
    """A copy of the client that remembers, and whose copies do."""
    copied: C = cast(Any, client).copy()
    return _equipped(copied, Held(turns, request), is_async)


def _equipped(client: C, held: Held, is_async: bool) -> C:
    """Gives this one client our `post`, and a `copy` that does the same. Its class stays what it was: the clients ask
    for it when they look for credentials."""
    own: Any = client
    for name in ("post", "copy", "with_options"):
        vars(own).pop(name, None)
    plain_copy = own.copy

    def copy(*args: Any, **changed: Any) -> Any:
        return _equipped(plain_copy(*args, **changed), held, is_async)

    own.post = _apost(held, own.post) if is_async else _post(held, own.post)
    own.copy = own.with_options = copy
    return client


def _post(held: Held, plain: Callable[..., Any]) -> Callable[..., Any]:
    def post(path: str, *, body: Any = None, stream_cls: Any = None, **more: Any) -> Any:
        step = held.step(path, body)
        if step is None:
            return plain(path, body=body, stream_cls=stream_cls, **more)
        said, since, first = step.words
        turn = held.turns.meet(step.request, said, since, first=first)
        if not turn.known:
            return plain(path, body=body, stream_cls=stream_cls, **more)
        try:
            more = _options(step, turn, more)
            return plain(path, body=with_memory(step, turn, body), stream_cls=_tapped(stream_cls), **more)
        except BaseException:
            turn.finish(None)
            raise

    return post


def _apost(held: Held, plain: Callable[..., Any]) -> Callable[..., Any]:
    async def post(path: str, *, body: Any = None, stream_cls: Any = None, **more: Any) -> Any:
        step = held.step(path, body)
        if step is None:
            return await plain(path, body=body, stream_cls=stream_cls, **more)
        said, since, first = step.words
        turn = await held.turns.ameet(step.request, said, since, first=first)
        if not turn.known:
            return await plain(path, body=body, stream_cls=stream_cls, **more)
        try:
            more = _options(step, turn, more)
            return await plain(path, body=with_memory(step, turn, body), stream_cls=_tapped(stream_cls), **more)
        except BaseException:
            turn.finish(None)
            raise

    return post


_streams: dict[Any, Any] = {}
"""The class of streams with a place for a tap, for each class of streams."""


def _tapped(stream_cls: Any) -> Any:
    """The class of streams with a place for a tap."""
    if stream_cls is None:
        return None
    found = _streams.get(stream_cls)
    if found is None:
        origin = getattr(stream_cls, "__origin__", stream_cls)
        is_async = hasattr(origin, "__aiter__")

        def fill(names: dict[str, Any]) -> None:
            names[_TAP] = None
            names["__stream__"] = _astream if is_async else _stream
            names["__module__"] = origin.__module__

        found = _streams[stream_cls] = types.new_class(origin.__name__, (stream_cls,), {}, fill)
    return found


def _stream(self: Any) -> Iterator[Any]:
    inner = super(type(self), self).__stream__()
    for event in inner:
        tap: Tap | None = getattr(self, _TAP)
        if tap is not None:
            tap.feed(event)
        yield event
    tap = getattr(self, _TAP)
    if tap is not None:
        tap.ended()


async def _astream(self: Any) -> AsyncIterator[Any]:
    inner = super(type(self), self).__stream__()
    async for event in inner:
        tap: Tap | None = getattr(self, _TAP)
        if tap is not None:
            tap.feed(event)
        yield event
    tap = getattr(self, _TAP)
    if tap is not None:
        tap.ended()
