"""Event loops as a place for task actors: started when first needed, watched by their heartbeat, replaced when they
hang.

A loop that does not answer its heartbeat is blocked by something that will not stop for anybody. Its actors' askers
are answered, its thread is abandoned and counted, and whoever is started next gets a new loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from _thread import get_ident
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from supervision._asyncio import Gate, WakefulLoop, start_task
from supervision._process import Reply
from supervision.birth import Birth, Handshake
from supervision.errors import NoProc, harmless
from supervision.fence import fence
from supervision.life import TaskLife
from supervision.logged import unsaid
from supervision.observer import LateResult, LoopAbandoned
from supervision.oneshot import OneShot
from supervision.reasons import Killed
from supervision.task_actor import run_task

if TYPE_CHECKING:
    from supervision.host import Host

__all__ = ["LoopPlace", "LoopRuntime"]

_log = logging.getLogger("supervision")

BEATS = 4
"""Heartbeats in a row that may stay unanswered. Beats are counted, not seconds, so that a suspended machine hurts
nobody.
"""
CLOSE_SECONDS = 1.0
"""What the tasks on a loop get to end when it is stopped."""


class LoopPlace:
    """One event loop on one daemon thread."""

    def __init__(self, owner: LoopRuntime, number: int) -> None:
        self.label = f"{owner.name}-loop#{number}"
        self.loop: asyncio.BaseEventLoop = WakefulLoop()
        self.loop.set_exception_handler(_exception_handler)
        self.lives: dict[TaskLife, None] = {}
        self.dead = False
        self.ended = OneShot()
        self.gone = OneShot()
        """Nothing that waits here gets its answer from here any more: the loop has ended, or was given up."""
        self.ident: int | None = None
        self.missed = 0
        self._halted = False
        self._owner = owner
        self._nobodys = Context()  # a sender's context is not to be copied for every message: the task has its own
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._main, name=self.label, daemon=True)
        self._thread.start()

    def call(self, callback: Callable[..., object], *args: Any) -> bool:
        """Run on the loop's thread, soon; False when the loop is gone."""
        try:
            if get_ident() == self.ident:
                self.loop.call_soon(callback, *args)
            else:
                self.loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return False
        return True

    def fire(self, gate: Gate) -> None:
        try:
            if get_ident() == self.ident:
                self.loop.call_soon(gate.fire, context=self._nobodys)
            else:
                self.loop.call_soon_threadsafe(gate.fire, context=self._nobodys)
        except RuntimeError:  # the loop is gone, and has ended all of its lives
            pass

    def cancel(self, life: TaskLife) -> bool:
        return not self.dead and self.call(_cancel, life)

    def left(self, life: TaskLife) -> None:
        """A life that was here is over."""
        self.lives.pop(life, None)

    def boot(self, life: TaskLife, birth: Birth, handshake: Handshake) -> bool:
        """Start a task for `life`."""
        life.place = self
        self.lives[life] = None
        return not self.dead and self.call(self._boot, life, birth, handshake)

    def beat(self) -> bool:
        """One heartbeat; False when too many in a row were not answered."""
        if self.missed >= BEATS:
            return False
        self.missed += 1
        self.call(self._answer)
        return True

    def abandon(self) -> None:
        """Give the loop up: its actors end now, for everybody but themselves."""
        host = self._owner.host
        with self._lock:
            if self.ended.settled or self in host.given_up:
                return
            self.dead = True
            host.given_up.add(self)
            if self.ident is not None:
                fence.shut_thread(self.ident, lambda: host.report(LateResult(self.label)))
        lives = list(self.lives)
        host.report(LoopAbandoned(self.label, len(lives)))
        host.abandoned(self)
        for life in lives:
            life.finish(Killed("loop blocked"))
        self.gone.settle(None)
        self.call(self._halt)

    def stop(self) -> None:
        """Ask the loop to end; `ended` tells when it has."""
        self.dead = True
        self.call(self._halt)

    def _halt(self) -> None:
        """Ends `run_forever`, once: a second request would stop the winding up that the first one led to."""
        if not self._halted:
            self._halted = True
            self.loop.stop()

    def _answer(self) -> None:
        self.missed = 0

    def _boot(self, life: TaskLife, birth: Birth, handshake: Handshake) -> None:
        if life.closed:
            life.finish(Killed())
            return
        life.gate = Gate(self.loop)
        task = start_task(self.loop, run_task(life, birth, handshake), birth.context)
        if not task.done():
            life.task = task

    def _main(self) -> None:
        self.ident = get_ident()
        loop = self.loop
        try:
            self._run_forever()
            self._run_until_wound_up()
        except BaseException:  # noqa: BLE001 - boundary: a loop ends with its actors told, whatever ended it.
            _log.error("%s failed", self.label, exc_info=unsaid())
        finally:
            self.dead = True
            for life in list(self.lives):
                life.finish(Killed("loop ended"))
            loop.close()
            with self._lock:
                self.ended.settle(None)
                fence.open_thread(self.ident)
            self.gone.settle(None)
            self._owner.host.abandoned_ended(self)

    def _run_forever(self) -> None:
        while not self._halted:  # a task may raise in the very pass in which the loop is stopped
            try:
                self.loop.run_forever()
            except BaseException:  # noqa: BLE001 - boundary: a SystemExit in one task ends neither the loop nor its neighbours
                _log.error("a task on %s raised what stops a loop", self.label, exc_info=unsaid())

    def _run_until_wound_up(self) -> None:
        winding = self.loop.create_task(self._wind_up())
        while not winding.done():
            try:
                self.loop.run_until_complete(winding)
            except BaseException:  # noqa: BLE001 - boundary: what one task raises at its end keeps no other from ending
                _log.error("a task on %s raised what stops a loop", self.label, exc_info=unsaid())

    async def _wind_up(self) -> None:
        hooks = self._owner.take_close_hooks(self.loop)
        for hook in hooks:
            try:
                await asyncio.wait_for(hook(), CLOSE_SECONDS)
            except BaseException:  # noqa: BLE001 - boundary: one failing close hook never keeps the loop from ending.
                _log.error("a close hook of %s failed", self.label, exc_info=unsaid())
        for life in list(self.lives):  # their cancellation is an end that was brought about, not a crash of theirs
            life.kill(Killed("loop ended"))
        me = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not me]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)
        for _ in range(3):  # what they have aborted is closed by the loop's next passes
            await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.loop.shutdown_asyncgens(), CLOSE_SECONDS)


class LoopRuntime:
    """The loop of a runtime. `ThreadRuntime.loop` is one; it holds one `LoopPlace` at a time."""

    def __init__(self, host: Host, name: str, place: Callable[[LoopRuntime, int], LoopPlace] = LoopPlace) -> None:
        self.host = host
        self.name = name
        self.replaced = 0
        """Loops that were given up and replaced."""
        self._make = place
        self._place: LoopPlace | None = None
        self._number = 0
        self._lock = threading.Lock()
        self._hooks: dict[asyncio.AbstractEventLoop, list[Callable[[], Coroutine[Any, Any, object]]]] = {}

    @property
    def place(self) -> LoopPlace:
        """The loop's thread; started now if there is none."""
        place = self._place
        if place is None or place.dead:
            with self._lock:
                place = self._place
                if place is None or place.dead:
                    if self.host.closing:
                        raise NoProc(f"the runtime {self.host.name!r} is closed")
                    self._number += 1
                    place = self._place = self._make(self, self._number)
                    self.host.loop_started()
        return place

    @property
    def running(self) -> LoopPlace | None:
        """The loop's thread, if there is one."""
        place = self._place
        return None if place is None or place.dead else place

    @property
    def asyncio_loop(self) -> asyncio.AbstractEventLoop:
        """The asyncio loop that the next task actor gets. It changes when a blocked loop is replaced."""
        return self.place.loop

    def call_soon(self, callback: Callable[..., object], *args: Any) -> bool:
        """Run `callback(*args)` on the loop. From any thread."""
        return self.place.call(callback, *args)

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Reply[Any]:
        """Run a coroutine on the loop; its result or error is the reply: `NoProc` when the loop ends or is given up."""
        place = self.place
        reply: Reply[Any] = Reply()
        reply.clock = self.host.clock

        def begin() -> None:
            task = place.loop.create_task(coroutine)
            task.add_done_callback(lambda done: _to_reply(done, reply))

        def gone() -> None:
            reply.fail(NoProc("the loop has ended"))

        place.gone.subscribe(gone)
        reply.subscribe(lambda: place.gone.unsubscribe(gone))
        if not place.call(begin):
            coroutine.close()
            reply.fail(NoProc("the loop has ended"))
        return reply

    def at_close(self, hook: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """On the loop's own thread: have `hook()` awaited before this loop is closed."""
        self._hooks.setdefault(asyncio.get_running_loop(), []).append(hook)

    def take_close_hooks(self, loop: asyncio.AbstractEventLoop) -> list[Callable[[], Coroutine[Any, Any, object]]]:
        """The close hooks of a loop, newest first."""
        return self._hooks.pop(loop, [])[::-1]

    def boot(self, life: TaskLife, birth: Birth, handshake: Handshake) -> None:
        """Start a task actor on the present loop."""
        if not self.place.boot(life, birth, handshake) and not self.place.boot(life, birth, handshake):
            raise NoProc("the loop has ended")

    def beat(self) -> None:
        """One heartbeat of the present loop; a loop that does not answer is given up."""
        place = self.running
        if place is not None and not place.beat():
            self.replaced += 1
            place.abandon()

    def stop(self, timeout: float) -> bool:
        """End the loop; True when it ended in time. One that does not is given up."""
        with self._lock:  # one that is being started is waited for; the host is closing, and starts no other
            place = self._place
        if place is None:
            return True
        place.stop()
        if not place.ended.block(timeout):
            place.abandon()
            return False
        return True

    def forget(self) -> None:
        """In a forked child: the thread is not here."""
        self._lock = threading.Lock()
        place, self._place = self._place, None
        if place is not None:
            place.dead = True
            place.ended.settle(None)
            place.gone.settle(None)


def _cancel(life: TaskLife) -> None:
    task = life.task
    if task is not None:
        task.cancel()


def _to_reply(task: asyncio.Task[Any], reply: Reply[Any]) -> None:
    if task.cancelled():
        reply.fail(NoProc("the coroutine was cancelled"))
    elif (error := task.exception()) is not None:
        reply.fail(harmless(error, "the coroutine raised"))
    else:
        reply.succeed(task.result())


def _exception_handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    _log.error("on an event loop: %s", context.get("message"), exc_info=unsaid(error))
