"""One HTTP/1.1 connection: one request after the other over a stream, the protocol by h11.

h11 decides what is HTTP and what is not; this only moves bytes between it and the stream. httpcore's own connection
does the same for three times the price: locks, traces and time-outs that nothing here needs, because a connection
belongs to one call at a time and a call has one total deadline, kept outside. Errors are httpcore's, as the stream's
are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

import h11
import httpcore

from honcho_actors.honcho.stream import Stream

Headers = Sequence[tuple[bytes, bytes]]

READ_BYTES: Final = 64 * 1024
MAX_HEAD_BYTES: Final = 100 * 1024
"""A head, or a line of a chunked body, that is longer is no HTTP."""


class Http1:
    """`head`, `content`, `reply`, then `body` to its end, then `done`. Whatever ends that early aborts the stream."""

    __slots__ = ("_h11", "_stream", "idle")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.idle = True
        """Ready for the next request, as far as the protocol goes."""

    async def head(self, method: str, target: bytes, headers: Headers) -> bool:
        """Sends a request's head. False: the peer has hung up. It may have said why, so the reply is read all the
        same."""
        self.idle = False
        try:
            data = self._h11.send(h11.Request(method=method, target=target, headers=list(headers)))
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error
        return await self._write(data)

    async def content(self, content: bytes) -> None:
        """Sends the body, b"" for none, as far as the peer takes it."""
        data = self._h11.send(h11.Data(data=content)) if content else None
        await self._write((data or b"") + (self._h11.send(h11.EndOfMessage()) or b""))

    async def reply(self) -> tuple[int, Headers]:
        """The reply's status and headers."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response) or (
                isinstance(event, h11.InformationalResponse) and event.status_code == 101
            ):
                return event.status_code, event.headers.raw_items()

    async def body(self) -> AsyncIterator[bytes]:
        """The reply's body, piece by piece."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                return

    def done(self) -> bool:
        """The exchange is over; True when the connection may serve another."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self.idle = True
        return self.idle

    async def _write(self, data: bytes | None) -> bool:
        try:
            await self._stream.write(data or b"")
        except httpcore.WriteError:
            return False
        return True

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise httpcore.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return cast("h11.Event | type[h11.PAUSED]", event)
            data = await self._stream.read(READ_BYTES)
            if not data and self._h11.their_state is h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("Server disconnected without sending a response.")
            self._h11.receive_data(data)
