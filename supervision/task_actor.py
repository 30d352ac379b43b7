"""Actors whose body is a coroutine on an event loop: a few KB each, and they can really be killed.

The hooks may be coroutines or plain functions. One message at a time; a kill is a cancellation, which closes sockets.
A hook that blocks the thread blocks the loop: every actor on it, until the loop is given up.
"""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any, ClassVar

from supervision._process import SPECIAL, Process, Reply
from supervision.birth import Birth, Handshake
from supervision.endings import crash, failed, hook_failed
from supervision.life import TaskLife
from supervision.reasons import Crashed, Normal, Reason
from supervision.thread_actor import settle_start

__all__ = ["TaskActor", "run_task"]

BURST = 64
"""Messages handled in a row before the loop's other work gets its turn."""


class TaskActor(Process):
    """An actor that handles one message at a time in a task of its own."""

    life_kind: ClassVar[str] = "task"


async def run_task(life: TaskLife, birth: Birth, handshake: Handshake) -> None:
    """The whole life of a task actor: one try, one finally."""
    reason: Reason = Normal()
    life.task = asyncio.current_task()
    try:
        actor = await _begin(life, birth, handshake)
        del birth, handshake
        if isinstance(actor, Process):
            reason = await _loop(actor, life)
            reason = await _end(actor, life, reason)
        else:
            reason = actor
    except BaseException as error:  # noqa: BLE001 - boundary: whatever it is, it ends this actor only, and everybody is told.
        if life.doomed is None:
            reason = crash(None, life, error)
    finally:
        life.finish(reason)
        life.task_ended()


async def _begin(life: TaskLife, birth: Birth, handshake: Handshake) -> Process | Reason:
    try:
        actor: Process = birth.create(life)
        life.turn_began = None if life.watchdog is None else life.host.clock.now()
        outcome: Any = actor.on_start()
        if type(outcome) is CoroutineType:
            outcome = await outcome
        life.turn_began = None
    except BaseException as error:  # noqa: BLE001 - boundary: a start that fails in any way is a failed start and nothing more.
        if life.doomed is not None:
            return life.doomed
        return crash(None, life, error)
    return settle_start(actor, life, outcome, handshake)


async def _loop(actor: Process, life: TaskLife) -> Reason:
    box = life.box
    gate = life.gate
    assert gate is not None
    burst = life.host.burst
    left = burst
    while True:
        if life.stopping is not None or life.closed:
            return life.stopping or Normal()
        if not box:
            life.idle = True
            if not box and life.stopping is None and not life.closed:
                await gate
                left = burst
            life.idle = False
            continue
        if left == 0:
            left = burst
            place = life.place
            if place is not None:
                place.fire(gate)
                await gate
            continue
        left -= 1
        try:
            message, reply = item = box.popleft()
        except IndexError:  # emptied by whoever closed it
            continue
        if reply is not None:
            if type(reply) is Reply:
                life.current = reply
                if life.closed:
                    life.refuse(item)
                    return Normal()
            elif reply.cancelled:  # the guard of a `Down` or of a timer that was taken back
                continue
            else:
                reply = None
        if life.watchdog is not None:
            life.turn_began = life.host.clock.now()
        try:
            special = SPECIAL.get(type(message))
            result = actor.on_receive(message) if special is None else special(actor, message)
            if type(result) is CoroutineType:
                result = await result
        except BaseException as error:  # noqa: BLE001 - boundary: an error of a handler never leaves its actor, and its asker is answered.
            if life.doomed is not None:
                return life.doomed
            reason = failed(actor, life, error, reply)
            if reason is not None:
                return reason
        else:
            if reply is not None:
                reply.settle((True, result))
        finally:
            life.turn_began = None
            life.current = None
        del item, message
        result = reply = None


async def _end(actor: Process, life: TaskLife, reason: Reason) -> Reason:
    life.close()
    if life.doomed is not None:
        return reason
    life.turn_began = None if life.watchdog is None else life.host.clock.now()
    try:
        other = actor.on_stop(reason)
        if type(other) is CoroutineType:
            other = await other
    except BaseException as error:  # noqa: BLE001 - boundary: no hook keeps an actor from ending.
        if life.doomed is not None and isinstance(error, asyncio.CancelledError):
            return reason
        hook_failed(life, "on_stop", error)
        return reason if isinstance(reason, Crashed) else Crashed(error)
    finally:
        life.turn_began = None
    return other if isinstance(other, Reason) else reason
