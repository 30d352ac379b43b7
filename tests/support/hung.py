"""A server that takes every connection and never says a word."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def hung() -> Iterator[str]:
    """Its URL, for as long as this lasts."""
    taken: list[socket.socket] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        listening.settimeout(0.05)

        def accept() -> None:
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    taken.append(listening.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            done.set()
            thread.join()
            for one in taken:
                one.close()
