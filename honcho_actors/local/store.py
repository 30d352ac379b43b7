"""Where every request meets SQLite: one thread that writes, two that read, and no statement on the event loop.

A write is one transaction: it happens whole, and is on disk before its answer is sent, or it does not happen. Readers
never wait for the writer.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from honcho_actors.local import schema

P = ParamSpec("P")
T = TypeVar("T")
READERS = 2


class Store:
    """Runs functions of a connection on the store's own threads. Made on the event loop that uses it."""

    def __init__(self, directory: Path) -> None:
        self._path = schema.prepare(directory)
        self._opened: list[sqlite3.Connection] = []
        self._opening = threading.Lock()
        self._own = threading.local()
        self._writing = ThreadPoolExecutor(1, "local-write")
        self._reading = ThreadPoolExecutor(READERS, "local-read")

    def _connection(self, *, durable: bool) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if found is None:
            found = schema.connect(self._path, durable=durable)
            self._own.connection = found
            with self._opening:
                self._opened.append(found)
        return found

    async def read(
        self, do: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def run() -> T:
            connection = self._connection(durable=False)
            connection.execute("BEGIN")
            try:
                return do(connection, *args, **kwargs)
            finally:
                connection.execute("COMMIT")

        return await asyncio.get_running_loop().run_in_executor(self._reading, run)

    async def write(
        self, do: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def run() -> T:
            connection = self._connection(durable=True)
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = do(connection, *args, **kwargs)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return result

        return await asyncio.get_running_loop().run_in_executor(self._writing, run)

    def close(self) -> None:
        """Ends the threads, then the connections. What was accepted is on disk already."""
        self._writing.shutdown(wait=True)
        self._reading.shutdown(wait=True)
        for connection in self._opened:
            connection.close()
