"""Name resolution on daemon threads of ours: a hung resolver holds up neither a call's deadline nor the exit of the
process.

`getaddrinfo` cannot be cancelled and the loop's own executor is joined at exit, so neither is used. One thread
answers; when it has been stuck for a while a second one is started and the first is left to itself. An old answer is
better than none: it is served when the resolver hangs or fails. Lives on one event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Address = tuple[socket.AddressFamily, tuple[Any, ...]]
Lookup = Callable[[str, int], Iterable[Address]]

FRESH_FOR = 30.0
"""Seconds for which an answer is used without asking again."""
STUCK_AFTER = 5.0
"""Seconds after which a thread that has not answered counts as stuck."""
MAX_THREADS = 3
STALE_WAIT = 1.0
"""Seconds that a call waits for a new answer while it holds an old one."""
MAX_NAMES = 64
LOOK_EVERY = 5.0
"""Seconds after which a thread that is asked nothing looks whether its loop is still there."""


class ResolveError(OSError):
    """The name cannot be resolved."""


def system_lookup(host: str, port: int) -> list[Address]:
    """What the machine's resolver says."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


class Resolver:
    """`await resolve(host, port)`. Starts no thread before the first name (addresses need none)."""

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._queue: SimpleQueue[tuple[str, int, asyncio.AbstractEventLoop] | None] = SimpleQueue()
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._asked_at: dict[tuple[str, int], float] = {}
        self._pending: dict[tuple[str, int], asyncio.Future[list[Address]]] = {}
        self._answers: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        self._worked: dict[tuple[str, int], Address] = {}

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Addresses to try, in order. Raises `ResolveError`; a cancelled caller leaves the question to the others."""
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        loop = asyncio.get_running_loop()
        key = (host, port)
        known = self._answers.get(key)
        if known is not None and loop.time() - known[0] < FRESH_FOR:
            return known[1]
        pending = self._ask(key, loop)
        try:
            if known is None:
                return await asyncio.shield(pending)
            return await asyncio.wait_for(asyncio.shield(pending), STALE_WAIT)
        except (ResolveError, TimeoutError):
            if known is None:
                raise
            return known[1]

    def worked(self, host: str, port: int, address: Address) -> None:
        """Puts an address first that could be connected to when the ones before it could not; in later answers too."""
        known = self._answers.get((host, port))
        if known is not None and address in known[1]:
            self._worked[host, port] = address
            self._answers[host, port] = (known[0], _led_by(address, known[1]))

    def close(self) -> None:
        """Ends the threads that answer; one that is stuck is a daemon and ends with the process. Whoever asks
        afterwards is refused."""
        if self._closed:
            return
        self._closed = True
        for _ in range(self._threads):
            self._queue.put(None)
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ResolveError("the client is closed"))
        self._pending.clear()
        self._asked_at.clear()

    def _ask(self, key: tuple[str, int], loop: asyncio.AbstractEventLoop) -> asyncio.Future[list[Address]]:
        if self._closed:
            raise ResolveError("the client is closed")
        self._loop = loop
        pending = self._pending.get(key)
        now = loop.time()
        stuck = pending is not None and now - self._asked_at[key] > STUCK_AFTER
        if pending is None or (stuck and self._threads < MAX_THREADS):
            if pending is None:
                pending = self._pending[key] = loop.create_future()
                pending.add_done_callback(_retrieved)
            self._asked_at[key] = now
            if self._threads == 0 or stuck or self._all_stuck(now):
                self._start_thread()
            self._queue.put((*key, loop))
        return pending

    def _all_stuck(self, now: float) -> bool:
        oldest = min((self._asked_at[key] for key in self._pending), default=now)
        return now - oldest > STUCK_AFTER and self._threads < MAX_THREADS

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._serve, name="honcho-resolver", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                job = self._queue.get(timeout=LOOK_EVERY)
            except Empty:
                if self._loop is not None and self._loop.is_closed():
                    return  # it was given up without a word: nobody asks any more
                continue
            if job is None:
                return
            host, port, loop = job
            answer: list[Address] | ResolveError
            try:
                answer = list(self._lookup(host, port)) or ResolveError(f"{host} has no address")
            except Exception as failed:  # noqa: BLE001 boundary: the thread never dies with a question open
                answer = ResolveError(f"cannot resolve {host}: {failed or type(failed).__name__}")
            try:
                loop.call_soon_threadsafe(self._answer, (host, port), answer)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

    def _answer(self, key: tuple[str, int], answer: list[Address] | ResolveError) -> None:
        pending = self._pending.pop(key, None)
        self._asked_at.pop(key, None)
        if isinstance(answer, list):
            if len(self._answers) >= MAX_NAMES and key not in self._answers:
                oldest = next(iter(self._answers))
                self._answers.pop(oldest)
                self._worked.pop(oldest, None)
            answer = _led_by(self._worked.get(key), answer)
            self._answers[key] = (asyncio.get_running_loop().time(), answer)
        if pending is None or pending.done():
            return
        if isinstance(answer, list):
            pending.set_result(answer)
        else:
            pending.set_exception(answer)


def _led_by(first: Address | None, addresses: list[Address]) -> list[Address]:
    if first not in addresses:
        return addresses
    return [first, *(other for other in addresses if other != first)]


def _retrieved(future: asyncio.Future[list[Address]]) -> None:
    if not future.cancelled():
        future.exception()


def _literal(host: str, port: int) -> Address | None:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return None
    if ip.version == 4:
        return socket.AF_INET, (host, port)
    return socket.AF_INET6, (host, port, 0, 0)


async def on_daemon_thread(work: Callable[[], T]) -> T:
    """Runs `work` on a thread of its own that nothing waits for at exit; what it raises is raised here as OSError."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, failed: OSError | None) -> None:
        if done.done():
            return
        if failed is not None:
            done.set_exception(failed)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: T | None = None
        failed: OSError | None = None
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 boundary: a thread of ours never dies with a question open
            failed = error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(settle, value, failed)
        except RuntimeError:
            return  # the loop is closed

    threading.Thread(target=run, name="honcho-once", daemon=True).start()
    return await done
