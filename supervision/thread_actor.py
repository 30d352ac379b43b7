"""Actors with a thread of their own, for state and for blocking work.

A thread can't be killed: `kill` abandons it. Give every blocking call a time-out of its own, so that abandoned
threads end.
"""

from __future__ import annotations

from typing import Any, ClassVar

from supervision._process import SPECIAL, Process, Reply, started
from supervision.birth import Birth, Handshake
from supervision.endings import crash, failed, hook_failed
from supervision.life import WAKE, Life, ThreadLife
from supervision.reasons import Crashed, Normal, Reason
from supervision.spec import IGNORE

__all__ = ["ThreadActor", "run_thread"]


class ThreadActor(Process):
    """An actor that handles one message at a time on its own daemon thread. All hooks run there, `__init__` too."""

    use_daemon_thread: ClassVar[bool] = True
    life_kind: ClassVar[str] = "thread"


def run_thread(life: ThreadLife, birth: Birth, handshake: Handshake) -> None:
    """The whole life of a thread actor: one try, one finally."""
    reason: Reason = Normal()
    try:
        if life.thread_began():
            actor = begin(life, birth, handshake)
            del birth, handshake
            if isinstance(actor, Process):
                reason = _loop(actor, life)
                reason = end(actor, life, reason)
            else:
                reason = actor
    except BaseException as error:  # noqa: BLE001 - boundary: whatever it is, it ends this actor only, and everybody is told.
        reason = crash(None, life, error)
    finally:
        life.finish(reason)
        life.thread_ended()


def begin(life: Life, birth: Birth, handshake: Handshake) -> Process | Reason:
    """Construct and start. The result is the actor, or the reason for which there is none."""
    try:
        actor: Process = birth.create(life)
        _turn_begins(life)
        outcome = actor.on_start()
        life.turn_began = None
    except BaseException as error:  # noqa: BLE001 - boundary: a start that fails in any way is a failed start and nothing more.
        return crash(None, life, error)
    return settle_start(actor, life, outcome, handshake)


def settle_start(actor: Process, life: Life, outcome: Any, handshake: Handshake) -> Process | Reason:
    """What the result of `on_start` means."""
    if outcome is IGNORE:
        handshake.ignored(Normal())
        return Normal()
    if outcome is not None and not isinstance(outcome, started):
        error = TypeError(f"on_start returned a {type(outcome).__name__}; wanted None, started(info) or IGNORE")
        return Crashed(error)
    if not handshake.started(None if outcome is None else outcome.info):
        return Normal()  # somebody gave the start up meanwhile: the end is theirs to tell
    return actor


def _loop(actor: Process, life: ThreadLife) -> Reason:
    get = life.queue.get
    while True:
        life.busy = False
        item = get()
        life.busy = True
        if life.stopping is not None or life.closed:
            if item is not WAKE:
                life.refuse(item)
            return life.stopping or Normal()
        if item is WAKE:
            continue
        reason = turn(actor, life, item)
        del item
        if reason is not None:
            return reason


def turn(actor: Process, life: Life, item: tuple[Any, Any]) -> Reason | None:
    """Handle one message. The result is the reason to end, or None to live on."""
    message, reply = item
    if reply is not None:
        if type(reply) is Reply:
            life.current = reply
            if life.closed:  # killed between taking the message and saying so
                life.refuse(item)
                return Normal()
        elif reply.cancelled:  # the guard of a `Down` or of a timer that was taken back
            return None
        else:
            reply = None
    if life.watchdog is not None:
        _turn_begins(life)
    try:
        special = SPECIAL.get(type(message))
        result = actor.on_receive(message) if special is None else special(actor, message)
    except BaseException as error:  # noqa: BLE001 - boundary: an error of a handler never leaves its actor, and its asker is answered.
        return failed(actor, life, error, reply)
    finally:
        life.turn_began = None
        life.current = None
    if reply is not None:
        reply.settle((True, result))
    return life.stopping


def end(actor: Process, life: Life, reason: Reason) -> Reason:
    """Accept nothing more, then run `on_stop`, unless the actor was given up."""
    life.close()
    if life.reason is not None:
        return reason
    _turn_begins(life)
    try:
        other = actor.on_stop(reason)
    except BaseException as error:  # noqa: BLE001 - boundary: no hook keeps an actor from ending.
        hook_failed(life, "on_stop", error)
        return reason if isinstance(reason, Crashed) else Crashed(error)
    finally:
        life.turn_began = None
    return other if isinstance(other, Reason) else reason


def _turn_begins(life: Life) -> None:
    if life.watchdog is not None:
        life.turn_began = life.host.clock.now()
