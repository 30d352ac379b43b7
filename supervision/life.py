"""The life of one actor as others see it: its mailbox, its end, and who wants to know of the end.

Promises, for every kind of actor:
- What was accepted is handled, or its asker is answered `NoProc`: there is no moment in between in which a message
  can be lost.
- Stop comes first: what lies in the mailbox does not delay it.
- The reason is written once; everybody who watches hears of it exactly once, after the mailbox was closed and emptied
  and after the names were freed.

The mailbox takes no lock. A sender puts first and looks afterwards whether the mailbox was closed meanwhile; whoever
finds it closed empties it. `closed` is set before the closer empties, so either the closer or the sender finds a
message that came late.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from supervision._asyncio import running_loop
from supervision.boundary import guarded
from supervision.errors import NoProc, Overloaded
from supervision.fence import fence
from supervision.observer import LateResult
from supervision.reasons import Killed, Reason

if TYPE_CHECKING:
    from supervision._asyncio import Gate
    from supervision.host import Host, Place

__all__ = ["WAKE", "Life", "TaskLife", "ThreadLife"]

WAKE: tuple[Any, Any] = (None, None)
"""Put into a mailbox to have its owner look up; recognised by identity."""


class Life:
    """Base of all lives. `label` is `tree/child#generation`."""

    __slots__ = (
        "__weakref__",
        "abandoned",
        "actor_class",
        "closed",
        "current",
        "doomed",
        "generation",
        "host",
        "info",
        "label",
        "limit",
        "lock",
        "names",
        "reason",
        "ref",
        "stopping",
        "turn_began",
        "watchdog",
        "watchers",
    )

    def __init__(self, host: Host, actor_class: type[Any], limit: float, label: str, generation: int) -> None:
        self.host = host
        self.actor_class = actor_class
        self.limit = limit
        self.label = label
        self.generation = generation
        self.lock = allocate_lock()
        self.ref: Any = None
        self.closed = False
        self.stopping: Reason | None = None
        self.reason: Reason | None = None
        self.current: Any = None
        self.names: tuple[str, ...] = ()
        self.watchers: dict[Hashable, Callable[[Reason], object]] | None = None
        self.watchdog: float | None = None
        self.turn_began: float | None = None
        self.abandoned = False
        self.doomed: Reason | None = None
        self.info: Any = None

    # --- mailbox

    def put(self, message: Any, reply: Any = None) -> None:
        """Accept a message, or raise `NoProc` or `Overloaded`. Never blocks. From any thread."""
        raise TypeError("a Life is either of a thread or of a task")

    def put_system(self, message: Any, guard: Any) -> None:
        """Accept what must not be refused (a `Down`, a timer) whatever the limit; dropped when `guard.cancelled` by
        then.
        """
        raise TypeError("a Life is either of a thread or of a task")

    def wake(self) -> None:
        """Have the owner look at `stopping` and `closed`."""
        raise TypeError("a Life is either of a thread or of a task")

    def drain(self, mine: Any = None) -> bool:
        """Refuse everything in the mailbox; True when `mine` was there. From any thread, any number of times."""
        raise TypeError("a Life is either of a thread or of a task")

    def refuse(self, item: tuple[Any, Any]) -> None:
        """Answer the asker of `item`, if there is one, that nobody is here."""
        reply = item[1]
        if hasattr(reply, "fail"):  # and is not the guard of a `Down` or of a timer
            reply.fail(NoProc(f"{self.label} ended before it handled the message"))

    def depth(self) -> int:
        """Messages that wait."""
        return 0

    def on_own_thread(self) -> bool:
        """True when the caller is the actor itself."""
        return False

    def check_fence(self, reply: Any) -> bool:
        """Called while somebody is abandoned: True when the sender is, so that its message is to be dropped."""
        if not fence.refuses():
            return False
        if reply is not None:
            raise NoProc("the sender was abandoned")
        return True

    def late(self) -> None:
        """This actor was given up, and something that it still did was dropped."""
        self.host.report(LateResult(self.label))

    # --- end

    def ask_stop(self, reason: Reason) -> bool:
        """Ask it to end, ahead of everything in its mailbox; the first reason stands. False when it has ended."""
        with self.lock:
            if self.reason is not None:
                return False
            first = self.stopping is None
            if first:
                self.stopping = reason
        if first:
            self.wake()
        return True

    def kill(self, reason: Reason | None = None) -> bool:
        """End it without asking. True when this call did it. O(1), from any thread."""
        return self.finish(Killed() if reason is None else reason)

    def finish(self, reason: Reason) -> bool:
        """Close, empty, answer, free the names, tell the watchers. True for the call whose reason stands."""
        self.close()
        with self.lock:
            if self.reason is not None:
                return False
            if self.doomed is not None:  # a kill has begun: the end that it brings about is its own
                reason = self.doomed
            self.reason = self.doomed = reason
            watchers = self.watchers
            self.watchers = None
            names = self.names
        for name in names:
            self.host.registry.release(name, self.ref)
        self.host.ended(self)
        if watchers:
            for callback in watchers.values():
                guarded("a watcher of an end", callback, reason)
        return True

    def close(self) -> None:
        """Accept nothing more, and answer everybody who waits for a reply."""
        self.closed = True
        self.drain()
        current = self.current
        if current is not None:
            current.fail(NoProc(f"{self.label} ended while it handled the message"))

    def watch(self, key: Hashable, callback: Callable[[Reason], object]) -> bool:
        """Have `callback(reason)` called once at the end; False when the end has been."""
        with self.lock:
            if self.reason is not None:
                return False
            if self.watchers is None:
                self.watchers = {}
            self.watchers[key] = callback
            return True

    def unwatch(self, key: Hashable) -> None:
        """Forget a watcher."""
        with self.lock:
            if self.watchers is not None:
                self.watchers.pop(key, None)

    def own_name(self, name: str) -> bool:
        """Note a registered name, to be freed at the end; False when the end has been."""
        with self.lock:
            if self.reason is not None:
                return False
            if name not in self.names:
                self.names = (*self.names, name)
            return True


class ThreadLife(Life):
    """The life of a thread actor. Its thread blocks on `queue`."""

    __slots__ = ("busy", "ended", "ident", "queue")

    def __init__(self, host: Host, actor_class: type[Any], limit: float, label: str, generation: int) -> None:
        super().__init__(host, actor_class, limit, label, generation)
        self.queue: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self.ident: int | None = None
        self.busy = False
        self.ended = False

    def put(self, message: Any, reply: Any = None) -> None:
        if self.closed:
            raise NoProc(f"{self.label} has ended")
        queue = self.queue
        if queue.qsize() >= self.limit:
            raise Overloaded(f"the mailbox of {self.label} is full")
        if fence.active and self.check_fence(reply):
            return
        item = (message, reply)
        queue.put(item)
        if self.closed and self.drain(item):
            raise NoProc(f"{self.label} has ended")

    def put_system(self, message: Any, guard: Any) -> None:
        if not self.closed:
            self.queue.put((message, guard))

    def wake(self) -> None:
        self.queue.put(WAKE)

    def drain(self, mine: Any = None) -> bool:
        found = False
        queue = self.queue
        try:
            while True:
                item = queue.get_nowait()
                if item is mine:
                    found = True
                self.refuse(item)
        except Empty:
            pass
        queue.put(WAKE)
        return found

    def depth(self) -> int:
        return self.queue.qsize()

    def on_own_thread(self) -> bool:
        return self.ident == get_ident()

    def kill(self, reason: Reason | None = None) -> bool:
        """Abandon: the thread can't be ended, but everything that others expect of it ends here. One that waits for a
        message ends by itself, and is not counted.
        """
        with self.lock:
            if self.reason is not None or self.doomed is not None:
                return False
            self.doomed = Killed() if reason is None else reason
        # In this order: the thread says that it is busy, and then looks whether it is closed.
        self.closed = True
        with self.lock:
            abandoned = self.abandoned = self.busy and not self.ended
            if abandoned and self.ident is not None:
                fence.shut_thread(self.ident, self.late)
            if abandoned:
                self.host.given_up.add(self)
        if abandoned:
            self.host.abandoned(self)
        return self.finish(self.doomed)

    def thread_began(self) -> bool:
        """First words of the thread; False when it was killed before it could say them."""
        with self.lock:
            self.ident = get_ident()
            self.busy = True
            return not self.closed

    def thread_ended(self) -> None:
        """Last words of the thread."""
        with self.lock:
            self.ended = True
            abandoned = self.abandoned
            if abandoned and self.ident is not None:
                fence.open_thread(self.ident)
            self.ident = None
        if abandoned:
            self.host.abandoned_ended(self)


class TaskLife(Life):
    """The life of a task actor. Its task waits at `gate`; `idle` is true while it does."""

    __slots__ = ("box", "gate", "grace", "idle", "place", "task")

    def __init__(self, host: Host, actor_class: type[Any], limit: float, label: str, generation: int) -> None:
        super().__init__(host, actor_class, limit, label, generation)
        self.box: deque[tuple[Any, Any]] = deque()
        self.idle = False
        self.gate: Gate | None = None
        self.task: asyncio.Task[Any] | None = None
        self.place: Place | None = None
        self.grace: Any = None

    def put(self, message: Any, reply: Any = None) -> None:
        if self.closed:
            raise NoProc(f"{self.label} has ended")
        box = self.box
        if len(box) >= self.limit:
            raise Overloaded(f"the mailbox of {self.label} is full")
        if fence.active and self.check_fence(reply):
            return
        item = (message, reply)
        box.append(item)
        if self.idle:
            self.wake()
        if self.closed and self.drain(item):
            raise NoProc(f"{self.label} has ended")

    def put_system(self, message: Any, guard: Any) -> None:
        if not self.closed:
            self.box.append((message, guard))
            self.wake()

    def wake(self) -> None:
        self.idle = False
        place, gate = self.place, self.gate
        if place is not None and gate is not None:
            place.fire(gate)

    def drain(self, mine: Any = None) -> bool:
        found = False
        box = self.box
        try:
            while True:
                item = box.popleft()
                if item is mine:
                    found = True
                self.refuse(item)
        except IndexError:
            return found

    def depth(self) -> int:
        return len(self.box)

    def on_own_thread(self) -> bool:
        task = self.task
        return task is not None and running_loop() is task.get_loop() and asyncio.current_task() is task

    def kill(self, reason: Reason | None = None) -> bool:
        """Cancel: askers are answered now, the end follows when the coroutine has ended, at the latest after
        `kill_grace`.
        """
        with self.lock:
            if self.reason is not None or self.doomed is not None:
                return False
            self.doomed = Killed() if reason is None else reason
        self.close()
        place = self.place
        if place is None or not place.cancel(self):
            return self.finish(self.doomed)
        self.grace = self.host.timers.call_after(self.host.kill_grace, self.fence_off)
        if self.reason is not None:
            self.grace.cancel()
        return True

    def finish(self, reason: Reason) -> bool:
        place = self.place
        if place is not None and self.reason is None:
            place.left(self)
        won = super().finish(reason)
        if won and self.grace is not None:
            self.grace.cancel()
        return won

    def fence_off(self) -> None:
        """The coroutine swallowed its cancellation: go on without it."""
        task = self.task
        with self.lock:
            if self.reason is not None:
                return
            self.abandoned = True
            self.host.given_up.add(self)
            if task is not None:
                fence.shut_task(task, self.late)
        self.host.abandoned(self)
        self.finish(self.doomed or Killed())

    def task_ended(self) -> None:
        """Last words of the task."""
        with self.lock:
            abandoned = self.abandoned
            self.abandoned = False
            if abandoned and self.task is not None:
                fence.open_task(self.task)
            self.task = None
            self.gate = None
        if abandoned:
            self.host.abandoned_ended(self)
