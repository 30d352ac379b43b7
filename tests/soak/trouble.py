"""What befalls the runtime in a soak, seeded, and counted where it really happened.

Two kinds: what networks do stands in a fault proxy in front of the server (see `honcho_actors/local/faultproxy.py`),
which counts for itself; what befalls a process is done here, one thing after another, at evenly spread moments.
"""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time
from collections import Counter
from typing import Any, Final

from honcho_actors import Memory
from honcho_actors.honcho import resolver
from honcho_actors.sessions.facade import MANAGER
from supervision import SupervisionError

NAME: Final = "honcho.test"
"""The server's name: its look-ups go through `Names`."""

HELD: Final = 0.45
"""Longest that the proxy holds a request before it forwards it: well below the settle time."""
FRESH_FOR: Final = 0.3
"""Seconds for which an answer of the resolver is used in a soak: it is asked often, so that it fails often."""
BLOCKED: Final = 4.0
"""Seconds that a loop is blocked: longer than its heartbeats allow."""

NETWORK: Final = {
    "refuse": ("refuse",),
    "hang": ("hang",),
    "drip": ("drip",),
    "5xx": ("status", "commit_then_status"),
    "garbage": ("garbage", "noise"),
    "late": ("late_reply", "late_commit"),
    "cut": ("cut", "cut_request", "commit_then_drop"),
}
"""Faults of the network as they are reported, and what the proxy calls them."""
INSIDE: Final = ("resolver", "worker", "manager", "write side", "loop")
"""Faults of the process: names that do not resolve or hang; deaths; a blocked event loop."""
ALL: Final = (*NETWORK, *INSIDE)


def weather() -> list[dict[str, Any]]:
    """Something is wrong with about a third of all requests, whatever they ask for."""
    return [
        {"fault": "refuse", "chance": 0.04},
        {"fault": "hang", "chance": 0.03},
        {"fault": "drip", "chance": 0.03, "interval": 0.02},
        {"fault": "status", "chance": 0.03, "status": 503, "headers": {"retry-after": "0"}},
        {"fault": "status", "chance": 0.02, "status": 500},
        {"fault": "commit_then_status", "chance": 0.02, "status": 502},
        {"fault": "garbage", "chance": 0.03},
        {"fault": "noise", "chance": 0.02},
        {"fault": "late_reply", "chance": 0.03, "delay": 0.1, "delay_max": 2.0},
        {"fault": "late_commit", "chance": 0.03, "delay": 0.05, "delay_max": HELD},
        {"fault": "cut", "chance": 0.02},
        {"fault": "cut_request", "chance": 0.01},
        {"fault": "commit_then_drop", "chance": 0.02},
    ]


class Names:
    """Instead of the system's look-up, for the time of a soak: a third of the answers fail or come late."""

    def __init__(self, seed: int, fired: Counter[str]) -> None:
        self._dice = random.Random(seed)
        self._fired = fired
        self._real = socket.getaddrinfo
        self._fresh_for = resolver.FRESH_FOR
        self.honest = False

    def __enter__(self) -> Names:
        socket.getaddrinfo = self._look_up
        resolver.FRESH_FOR = FRESH_FOR
        return self

    def __exit__(self, *_: object) -> None:
        socket.getaddrinfo = self._real
        resolver.FRESH_FOR = self._fresh_for

    def _look_up(self, host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != NAME:
            return self._real(host, port, *more, **named)
        roll = self._dice.random()
        if not self.honest and roll < 0.35:
            self._fired["resolver"] += 1
            if roll < 0.2:
                raise socket.gaierror(socket.EAI_AGAIN, "no answer, try again")
            time.sleep(2.0)
        return self._real("127.0.0.1", port, *more, **named)


class Trouble:
    """The faults of the process: each kind at least `least` times in `seconds`, and a quarter more; and so on until the
    end."""

    def __init__(self, memory: Memory, seed: int, seconds: float, least: int, fired: Counter[str]) -> None:
        assert memory._tree is not None
        self._memory = memory
        self._tree = memory._tree
        self._dice = random.Random(seed)
        self._seconds = seconds
        self._times = least + max(1, least // 4)
        self._fired = fired
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._make, name="trouble")
        self.errors: list[str] = []

    def __enter__(self) -> Trouble:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """No more of it; what is blocked goes on."""
        self._done.set()
        self._thread.join()

    def _make(self) -> None:
        """A step is long enough that the root of the tree, which bears three restarts in five seconds, bears it."""
        begun = time.monotonic()
        kinds = [self._kill_manager, self._kill_write_side, self._block_loop] * self._times
        step = self._seconds * 0.92 / len(kinds)
        for number, fault in enumerate(itertools.cycle(kinds)):
            at = begun + step * (number + 0.3 * self._dice.random())
            while (left := at - time.monotonic()) > 0:
                if self._done.wait(min(left, 0.4)):
                    return
                self._kill_worker()
            try:
                fault()
            except (SupervisionError, LookupError) as error:  # what was to be killed was not there in this moment
                self.errors.append(f"{fault.__name__}: {type(error).__name__}")

    def _kill_worker(self) -> None:
        for name in ("honcho.refresh", "honcho.delivery"):
            supervisor = self._tree.runtime.registry.whereis(name)
            if supervisor is None:
                continue
            try:
                refs = [child.ref for child in supervisor.which_children() if child.ref is not None]
            except SupervisionError:
                continue
            if refs and self._dice.choice(refs).kill():
                self._fired["worker"] += 1

    def _kill_manager(self) -> None:
        manager = self._until(lambda: self._tree.runtime.registry.whereis(MANAGER))
        if manager.kill():
            self._fired["manager"] += 1

    def _kill_write_side(self) -> None:
        """The supervisor of the write side, or the writer alone."""
        side = self._until(lambda: self._tree._root.which_child("write_side").ref)  # type: ignore[union-attr]
        if self._dice.random() < 0.5:
            side = next(child.ref for child in side.which_children() if child.id == "outbox_writer")
        if side is not None and side.kill():
            self._fired["write side"] += 1

    def _block_loop(self) -> None:
        """Counted when the loop has been given up for it."""
        runtime = self._tree.runtime
        before = runtime.loop.replaced
        runtime.loop.call_soon(self._done.wait, BLOCKED)
        self._until(lambda: runtime.loop.replaced > before or None, 30.0)
        self._fired["loop"] += 1

    def _until(self, found: Any, seconds: float = 10.0) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._done.is_set():
            try:
                value = found()
            except SupervisionError:
                value = None
            if value is not None:
                return value
            time.sleep(0.05)
        raise LookupError("it was not there in time")
