"""Being told to end: SIGTERM and SIGINT reach a command that waits, at whatever moment they come."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def told_to_end(tell: Callable[[], object]) -> Iterator[None]:
    """While it holds, each SIGTERM and SIGINT calls `tell()`, on a thread of its own. Main thread only.

    A handler in Python would not do: it runs when the main thread takes its next step, and a signal that comes after
    the last step before a wait, or that the system gives to another thread, would be heard when that wait ends.
    """
    heard, noted = socket.socketpair()
    noted.setblocking(False)

    def listen() -> None:
        while number := heard.recv(1):
            if number[0] in ENDING:
                tell()

    listener = threading.Thread(target=listen, name="honcho-signals", daemon=True)
    before = signal.set_wakeup_fd(noted.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in ENDING}
    listener.start()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        noted.close()
        listener.join()
        heard.close()
