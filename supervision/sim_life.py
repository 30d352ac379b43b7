"""A thread actor without a thread: one message a step, at the simulator's choice.

If the actor blocks for what does not come, it is *hung*: it takes no more messages, its asker stays unanswered, and
it can be abandoned, as a thread that hangs.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any

from supervision._process import Process
from supervision.birth import Birth, Handshake
from supervision.errors import Stuck
from supervision.host import Host
from supervision.life import ThreadLife
from supervision.reasons import Normal, Reason
from supervision.thread_actor import begin, end, turn

if TYPE_CHECKING:
    from supervision.simulator import Simulator

__all__ = ["SimLife"]


class SimLife(ThreadLife):
    """A thread actor without a thread."""

    __slots__ = ("actor", "birth", "box", "context", "handshake", "hung", "scheduled")

    host: Simulator

    def __init__(self, host: Host, actor_class: type[Any], limit: float, label: str, generation: int) -> None:
        super().__init__(host, actor_class, limit, label, generation)
        self.box: deque[tuple[Any, Any]] = deque()
        self.queue = _Box(self)  # type: ignore[assignment]
        self.birth: Birth | None = None
        self.handshake: Handshake | None = None
        self.actor: Process | None = None
        self.hung = False
        self.scheduled = False
        self.context = Context()

    def wake(self) -> None:
        if not self.scheduled and not self.ended:
            self.scheduled = True
            self.host.schedule(self)

    def put_system(self, message: Any, guard: Any) -> None:
        if not self.closed:
            self.box.append((message, guard))
            self.wake()

    def drain(self, mine: Any = None) -> bool:
        found = False
        while self.box:
            item = self.box.popleft()
            found = found or item is mine
            self.refuse(item)
        self.wake()
        return found

    def depth(self) -> int:
        return len(self.box)

    def on_own_thread(self) -> bool:
        return self.host.current is self

    def step(self) -> None:
        """One message, or the beginning, or the end, in the context that the actor was started with."""
        self.context.run(self._step)

    def _step(self) -> None:
        self.scheduled = False
        if self.ended or self.hung:
            return
        before, self.host.current = self.host.current, self
        began, reply = self.host.clock.now(), None
        self.busy = True
        try:
            with self.host.virtual.outside():
                if self.birth is not None and self.handshake is not None:
                    birth, handshake = self.birth, self.handshake
                    self.birth = self.handshake = None
                    born = begin(self, birth, handshake) if not self.closed else Normal()
                    if not isinstance(born, Process):
                        self._over(born)
                        return
                    self.actor = born
                elif self.stopping is None and not self.closed and self.box:
                    item = self.box.popleft()
                    reply = item[1]
                    assert self.actor is not None
                    reason = turn(self.actor, self, item)
                    if reason is not None:
                        self._end(reason)
                        return
                if self.stopping is not None or self.closed:
                    self._end(self.stopping or Normal())
                elif self.box:
                    self.wake()
        except Stuck:
            self.hung = True
            self.current = reply if hasattr(reply, "fail") else None
            self.turn_began = began if self.watchdog is not None else None
        finally:
            self.busy = self.hung
            self.host.current = before

    def _end(self, reason: Reason) -> None:
        actor, self.actor = self.actor, None
        self._over(reason if actor is None else end(actor, self, reason))

    def _over(self, reason: Reason) -> None:
        self.finish(reason)
        self.thread_ended()


class _Box:
    """What `ThreadLife.put` uses of a queue."""

    __slots__ = ("_life",)

    def __init__(self, life: SimLife) -> None:
        self._life = life

    def qsize(self) -> int:
        return len(self._life.box)

    def put(self, item: tuple[Any, Any]) -> None:
        self._life.box.append(item)
        self._life.wake()
