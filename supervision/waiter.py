"""A reply that always comes.

A `Waiter` is resolved once: with a result, by the end of an actor that it is bound to, or at its own deadline,
whichever is first. Any number of threads and event loops may read it; a reader that gives up takes nothing from the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from supervision._asyncio import running_loop
from supervision.clock import Clock
from supervision.errors import CallTimeout, WouldBlockLoop
from supervision.fence import fence
from supervision.oneshot import OneShot

if TYPE_CHECKING:
    from supervision.monitor import Down, MonitorRef
    from supervision.timers import Timers, Token

__all__ = ["Waiter"]

_clock = Clock()

T = TypeVar("T")


class Waiter(OneShot, Generic[T]):
    """Resolve-once reply.

    `deadline` is absolute on `clock`; when it passes, the waiter resolves to `on_deadline` with the cause "deadline".
    A reader notices that by itself; pass `timers` to have it noticed while nobody reads.
    """

    __slots__ = ("_clock", "_monitors", "_on_deadline", "_token", "deadline")

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        deadline: float | None = None,
        on_deadline: T | None = None,
        timers: Timers | None = None,
    ) -> None:
        super().__init__()
        self._clock = clock if clock is not None else (timers.clock if timers is not None else _clock)
        self._on_deadline = on_deadline
        self._monitors: tuple[MonitorRef, ...] = ()
        self._token: Token | None = None
        self.deadline = deadline
        if timers is not None and deadline is not None:
            self._token = timers.call_after(deadline - self._clock.now(), self.expire)
            if self.settled:
                self._token.cancel()

    def __repr__(self) -> str:
        return f"<Waiter {self.cause or 'pending'}>"

    @property
    def cause(self) -> str:
        """Why it was resolved: "result", "down", "deadline", or the word given to `resolve`; empty while it is not."""
        return cast(str, self._outcome[1]) if self.settled else ""

    def resolve(self, value: T, cause: str = "result") -> bool:
        """Take `value` if nothing was taken before; True when this call won. From any thread; never blocks, never
        raises.

        What an abandoned actor resolves is dropped.
        """
        if fence.active and fence.refuses():
            return False
        return self._resolve(value, cause)

    def _resolve(self, value: T | None, cause: str) -> bool:
        if not self.settle((value, cause)):
            return False
        if self._token is not None:
            self._token.cancel()
        for monitor in self._monitors:
            monitor.cancel()
        return True

    def bind(self, ref: Any, on_down: Callable[[Down], T]) -> Waiter[T]:
        """Resolve to `on_down(down)` with the cause "down" when the actor behind `ref` ends; at once if it has. Should
        it raise: to `on_deadline`, since nobody waits for ever. Chains.
        """
        from supervision.monitor import monitor

        def down(message: Down) -> None:
            value = self._on_deadline
            try:
                value = on_down(message)
            finally:
                self._resolve(value, "down")

        token = monitor(ref, down)
        with self._lock:
            self._monitors = (*self._monitors, token)
        if self.settled:
            token.cancel()
        return self

    def expire(self) -> bool:
        """Resolve as at its deadline, now. True when this call won."""
        return self._resolve(self._on_deadline, "deadline")

    @property
    def resolved(self) -> bool:
        """Whether it is resolved; a deadline that has passed counts, and is taken by this look."""
        if not self.settled and self.deadline is not None and self._clock.now() >= self.deadline:
            self.expire()
        return self.settled

    @property
    def value(self) -> T:
        """The value; LookupError while there is none."""
        if not self.resolved:
            raise LookupError("the waiter is not resolved")
        return cast(T, self._outcome[0])

    def add_done_callback(self, callback: Callable[[Waiter[T]], object]) -> None:
        """Have `callback(self)` called once, by whoever resolves, or here and now if that has happened. Keep it
        short.
        """
        self.subscribe(lambda: callback(self))

    def result(self, deadline: float | None = None) -> T:
        """Wait on this thread until it is resolved, at most until `deadline` (absolute, the reader's own:
        `CallTimeout`).

        Raises `WouldBlockLoop` on a thread that runs an event loop, unless it is resolved already.
        """
        if not self.resolved:
            if running_loop() is not None:
                raise WouldBlockLoop("await the waiter instead of calling result()")
            until = self.deadline if deadline is None else deadline
            if self.deadline is not None and until is not None and self.deadline < until:
                until = self.deadline
            while not self._clock.block(self, until):
                if self.resolved:
                    break
                if deadline is not None and self._clock.now() >= deadline:
                    raise CallTimeout("not resolved by the reader's deadline")
        return cast(T, self._outcome[0])

    def __await__(self) -> Generator[Any, None, T]:
        if not self.resolved:
            alarm = None if self.deadline is None else self._clock.alarm(self.deadline, self.expire)
            try:
                yield from self.wait_on_loop()
            finally:
                if alarm is not None:
                    alarm()
        return cast(T, self._outcome[0])
