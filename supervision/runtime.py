"""The runtime of real life: one control thread, one lazily started event loop, and a thread for each thread actor."""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextvars import Context
from typing import Any, Self

from supervision import process_end
from supervision._asyncio import running_loop
from supervision.birth import Birth, Handshake
from supervision.clock import Clock
from supervision.control import Control
from supervision.errors import CallingSelf, WouldBlockLoop
from supervision.host import KILL_GRACE, MAX_ABANDONED, Host
from supervision.life import Life, TaskLife, ThreadLife
from supervision.loop import LoopRuntime
from supervision.observer import Observer
from supervision.oneshot import OneShot
from supervision.reasons import Killed
from supervision.thread_actor import run_thread

__all__ = ["ThreadRuntime", "default_runtime"]

HEARTBEAT = 2.0
"""Seconds without an answer after which an event loop is given up."""
CLOSE_TIMEOUT = 5.0
"""Seconds that `close` gives everything together."""


class ThreadRuntime(Host):
    """Actors on threads and on one event loop.

    `observer` hears what happens; `clock` drives timers and deadlines (the heartbeat of the loop is real, since it
    watches a real thread). At most `max_abandoned` hung actors are carried; beyond that nothing more is started and
    supervisors give up.
    """

    def __init__(
        self,
        observer: Observer | None = None,
        clock: Clock | None = None,
        name: str = "supervision",
        *,
        heartbeat: float = HEARTBEAT,
        max_abandoned: int = MAX_ABANDONED,
        kill_grace: float = KILL_GRACE,
    ) -> None:
        super().__init__(observer, max_abandoned, kill_grace)
        self.name = name
        self.clock = Clock() if clock is None else clock
        self._control = Control(self.clock, name)
        self.timers = self._control.timers
        self.loop = LoopRuntime(self, name)
        self._heartbeat = heartbeat
        self._control.start()
        process_end.remember(self)

    def __repr__(self) -> str:
        return f"<ThreadRuntime {self.name!r}: {len(self.lives)} actors>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def post(self, call: Any, *args: Any) -> bool:
        return self._control.post(call, *args)

    def not_here(self) -> None:
        if self._control.here():
            raise CallingSelf("a blocking call on the control thread would wait for itself")

    def loop_started(self) -> None:
        self._control.pulse(self._heartbeat / 4, self.loop.beat)

    def bring_up(self, life: Life, birth: Birth, handshake: Handshake) -> None:
        if isinstance(life, TaskLife):
            self.loop.boot(life, birth, handshake)
            return
        assert isinstance(life, ThreadLife)
        context = Context() if birth.context is None else birth.context
        threading.Thread(
            target=context.run, args=(run_thread, life, birth, handshake), name=life.label, daemon=True
        ).start()

    def aside(self, call: Callable[[], object], name: str) -> None:
        threading.Thread(target=call, name=name, daemon=True).start()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """End everything: trees, then actors outside of trees, then the loop, then the control thread.

        True when all of it went by itself within `timeout` seconds; what did not is killed and left to end on its
        own. Idempotent.
        """
        self.not_here()
        if running_loop() is not None:
            raise WouldBlockLoop("a blocking close on a thread that runs an event loop; use `await runtime.aclose()`")
        real = Clock()
        deadline = real.now() + timeout
        self.closing = True
        gently = self._stop_everything(timeout, real)
        self._control.pulse(0.0, None)
        gently = self.loop.stop(max(0.25, deadline - real.now())) and gently
        gently = self._control.stop(1.0) and gently
        for life in list(self.lives):  # whoever waited for the control thread waits for nobody now
            life.finish(Killed("runtime closed"))
        process_end.forget(self)
        return gently

    async def aclose(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """`close` for coroutines; on the runtime's own loop too, which then ends under the caller."""
        done: OneShot = OneShot()
        result: list[bool] = []

        def close() -> None:
            try:
                result.append(self.close(timeout))
            finally:
                done.settle(None)

        threading.Thread(target=close, name=f"{self.name}-close", daemon=True).start()
        await _Waiting(done)
        return bool(result and result[0])

    def stop_loop(self, timeout: float) -> None:
        """At exit: end the event loop, before the interpreter takes its thread away."""
        self.loop.stop(timeout)

    def unlock(self) -> None:
        """In a forked child: whoever held a lock of ours is not here to give it back."""
        global _default_lock
        _default_lock = threading.Lock()
        self.registry.unlock()
        self.timers.unlock()
        for life in list(self.lives):
            life.lock = allocate_lock()

    def forked(self) -> None:
        """In a forked child: none of the threads is here, so every actor has ended."""
        self.closing = True
        self._control.forget()
        self.loop.forget()
        process_end.end_lives(self)


class _Waiting:
    def __init__(self, outcome: OneShot) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        return self._outcome.wait_on_loop()


_default: ThreadRuntime | None = None
_default_lock = threading.Lock()


def default_runtime() -> ThreadRuntime:
    """The runtime of actors that are started outside of any; made when first needed, anew in a forked child."""
    global _default
    with _default_lock:
        if _default is None or _default.closing:
            _default = ThreadRuntime(name="default")
        return _default
