"""Reads server-sent events along while their bytes pass: any pieces, any line ends (LF, CRLF, CR), bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""An event that is larger is not read; its bytes pass all the same."""


class Events:
    """The data of each event, as plain data; what is not JSON is left out."""

    __slots__ = ("_after_cr", "_data", "_held", "_held_bytes", "_size", "_skipping", "done")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """Pieces of a line that has not ended."""
        self._held_bytes = 0
        self._after_cr = False
        """The last byte was a CR, so that an LF that follows belongs to it."""
        self._data: list[bytes] = []
        self._size = 0
        self._skipping = False
        self.done = False
        """The stream said `[DONE]`."""

    def feed(self, piece: bytes) -> Iterator[Any]:
        """The events that this piece completes."""
        if self._after_cr or b"\r" in piece:
            piece = self._with_lf(piece)
        if b"\n" not in piece:
            self._hold(piece)
            return
        whole = b"".join([*self._held, piece])
        *lines, rest = whole.split(b"\n")
        self._held, self._held_bytes = [], 0
        self._hold(rest)
        for line in lines:
            if line:
                self._take(line)
            elif (event := self._event()) is not None:
                yield event

    def end(self) -> Iterator[Any]:
        """The event that the end of the stream completes, where no blank line did: what passed is read. (A browser
        drops it; a caller who reads line by line does not.) For a stream that came to its end, not for one that was
        cut."""
        if self._held:
            self._take(b"".join(self._held))
            self._held, self._held_bytes = [], 0
        if (event := self._event()) is not None:
            yield event

    def _with_lf(self, piece: bytes) -> bytes:
        """The piece with LF at the end of each line."""
        if not piece:
            return piece
        made = piece[1:] if self._after_cr and piece[0] == 10 else piece
        self._after_cr = piece[-1] == 13
        return made.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        self._held_bytes += len(piece)
        if self._held_bytes > MAX_EVENT_BYTES:
            self._held, self._skipping = [], True
        elif piece:
            self._held.append(piece)

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        self._size += len(line)
        if self._size > MAX_EVENT_BYTES:
            self._skipping = True
        else:
            self._data.append(line[5:].strip())

    def _event(self) -> Any:
        data, skipped = b"\n".join(self._data), self._skipping
        self._data, self._size, self._skipping = [], 0, False
        if skipped or not data:
            return None
        if data == b"[DONE]":
            self.done = True
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
