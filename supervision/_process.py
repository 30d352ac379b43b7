"""Pykka's private names, all of them, in one module. `tests/supervision/test_private_names.py` fails when Pykka
changes one.

What is here is the seam between Pykka's actors and ours: the base class that runtimes drive, the ref, and the reply.
Our actors are real `pykka.Actor`s (`ask`, `tell`, `stop`, proxies work), and stay out of Pykka's process-wide
`ActorRegistry`: nobody else's `stop_all()` ends ours, and none of ours ends anybody else's.

Private names used: `Actor._actor_ref`, `_create_actor_inbox`, `_create_future`, `_start_actor_loop`,
`_handle_receive`; `ActorRef._actor_weakref`; `Future._get_hook`, `_get_hook_result`; `pykka._envelope.Envelope`;
`pykka.messages._ActorStop`; `pykka._introspection.get_attr_directly`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import pykka
from pykka import messages
from pykka._envelope import Envelope
from pykka._introspection import get_attr_directly
from pykka.messages import _ActorStop

from supervision._asyncio import running_loop
from supervision.clock import Clock
from supervision.errors import CallingSelf, CallTimeout, NoProc, Overloaded, WouldBlockLoop, harmless
from supervision.life import Life
from supervision.oneshot import OneShot
from supervision.reasons import Normal, Reason

if TYPE_CHECKING:
    from supervision.host import Host
    from supervision.monitor import MonitorRef
    from supervision.timers import Token

__all__ = ["SPECIAL", "Process", "Ref", "Reply", "started"]

A = TypeVar("A", bound="Process")
T = TypeVar("T")

_clock = Clock()


class Reply(OneShot, pykka.Future[T], Generic[T]):
    """The write-once reply to one ask. A second completion is dropped; each reader's timeout is its own.

    `get` blocks a thread; `await` suspends a task and lets the loop run on. Derived futures (`map`, `filter`, `join`,
    `reduce`) run their function in whoever reads, without holding a lock.
    """

    _get_hook: Any = None
    clock: Clock = _clock

    def __init__(self) -> None:
        OneShot.__init__(self)

    def succeed(self, value: Any) -> bool:
        """Complete with a value; True when this was the first completion."""
        return self.settle((True, value))

    def fail(self, error: BaseException) -> bool:
        """Complete with an error; True when this was the first completion."""
        return self.settle((False, error))

    def get(self, *, timeout: float | None = None) -> Any:
        """The value, or the error raised. `CallTimeout` after `timeout` seconds, `WouldBlockLoop` where a loop would
        stand.
        """
        if not self.settled:
            hook = self._get_hook
            if hook is not None:
                try:
                    self.succeed(hook(timeout))
                except (CallTimeout, WouldBlockLoop):  # this reader's own trouble, and nobody else's
                    raise
                except Exception as error:  # noqa: BLE001 - boundary: the function of a derived future failed: that is its result.
                    self.fail(error)
            else:
                if running_loop() is not None:
                    raise WouldBlockLoop(
                        "a blocking get() on a thread that runs an event loop; await the reply instead"
                    )
                clock = self.clock
                if not clock.block(self, None if timeout is None else clock.now() + timeout):
                    raise CallTimeout(f"no reply within {timeout} seconds")
        good, value = self._outcome
        if good:
            return value
        raise value

    def set(self, value: Any = None) -> None:
        self.settle((True, value))

    def set_exception(self, exc_info: Any = None) -> None:
        error = (exc_info or sys.exc_info())[1]
        self.settle((False, error if error is not None else RuntimeError("set_exception() outside an except block")))

    def set_get_hook(self, func: Callable[[float | None], Any]) -> None:
        self._get_hook = func

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.settled and self._get_hook is not None:
            # Whoever derived it said nothing of loops: its function may block, so it gets a thread.
            threading.Thread(target=self._derive, name="derived-reply", daemon=True).start()
        yield from self.wait_on_loop()
        good, value = self._outcome
        if good:
            return value
        raise value

    __iter__ = __await__

    def _derive(self) -> None:
        try:
            self.get()
        except BaseException as error:  # noqa: BLE001 - boundary: the reader gets it; this thread is nobody's.
            self.fail(harmless(error, "the function of a derived reply raised"))


def _standing_for(future: pykka.Future[Any]) -> Reply[Any]:
    reply: Reply[Any] = Reply()

    def pass_on() -> None:
        good, value = reply._outcome
        if good:
            future.set(value)
        else:
            future.set_exception((type(value), value, value.__traceback__))

    reply.subscribe(pass_on)
    return reply


class _Inbox:
    """Pykka's inbox protocol over a life."""

    __slots__ = ("_life",)

    def __init__(self, life: Life) -> None:
        self._life = life

    def put(self, envelope: Envelope[Any], /) -> None:
        reply = envelope.reply_to
        if reply is not None and type(reply) is not Reply:  # a future of Pykka's own: it gets what ours gets
            reply = _standing_for(reply)
        self._life.put(envelope.message, reply)

    def get(self) -> Envelope[Any]:
        raise TypeError("only the actor itself reads its mailbox")

    def empty(self) -> bool:
        return self._life.depth() == 0


class _Stopped:
    """Pykka's stop event over a life."""

    __slots__ = ("_life",)

    def __init__(self, life: Life) -> None:
        self._life = life

    def is_set(self) -> bool:
        return self._life.closed

    def set(self) -> None:
        self._life.ask_stop(Normal())

    def wait(self, timeout: float | None = None) -> bool:
        done: Reply[None] = Reply()
        if self._life.watch(done, lambda reason: done.succeed(None)):
            return done.block(timeout)
        return True


if TYPE_CHECKING:
    # Pykka's hooks have other signatures (`on_stop(self)`, `on_start(self) -> None`), and users override ours.
    _Actor = object

    class _ActorRef(Generic[A]):
        actor_class: type[A]

        def proxy(self) -> Any:
            """Pykka's proxy: attributes and methods of the actor, each access a message."""
else:
    _Actor = pykka.Actor
    _ActorRef = pykka.ActorRef


class Ref(_ActorRef[A]):
    """A handle to one actor, valid in any thread, for one life: a restarted child has another ref."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.actor_class = cast("type[A]", life.actor_class)
        self._actor_weakref: Any = _nobody

    @property
    def actor_urn(self) -> str:
        return f"urn:actor:{self.life.label}"

    @property
    def actor_inbox(self) -> _Inbox:
        return _Inbox(self.life)

    @property
    def actor_stopped(self) -> _Stopped:
        return _Stopped(self.life)

    def __repr__(self) -> str:
        return f"<{self.actor_class.__name__} {self.life.label}>"

    __str__ = __repr__

    @property
    def label(self) -> str:
        """`tree/child#generation`."""
        return self.life.label

    @property
    def generation(self) -> int:
        """Which start this is, counted over the whole runtime."""
        return self.life.generation

    @property
    def info(self) -> Any:
        """What `on_start` gave to `started(info)`."""
        return self.life.info

    @property
    def exit_reason(self) -> Reason | None:
        """Why it ended; None while it lives."""
        return self.life.reason

    def is_alive(self) -> bool:
        """Whether it still accepts messages."""
        return not self.life.closed

    def tell(self, message: Any) -> None:
        """Send without waiting. Raises `NoProc` or `Overloaded`; never blocks."""
        self.life.put(message)

    def cast(self, message: Any) -> bool:
        """Send without waiting and without raising; False when it was not accepted."""
        try:
            self.life.put(message)
        except (NoProc, Overloaded):
            return False
        return True

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Send and wait for the reply: a value, or the error that the actor raised.

        Raises `NoProc` when the actor has ended or ends before it answers, `CallTimeout` after `timeout` seconds,
        `Overloaded`, `CallingSelf` in the actor itself and `WouldBlockLoop` on a thread that runs an event loop. With
        `block=False` it returns the `Reply`, which every one of these errors except the last two reaches.
        """
        life = self.life
        reply: Reply[Any] = Reply()
        reply.clock = life.host.clock
        if not block:
            try:
                life.put(message, reply)
            except (NoProc, Overloaded) as error:
                reply.fail(error)
            return reply
        if running_loop() is not None:
            raise WouldBlockLoop("a blocking ask on a thread that runs an event loop; use `await ref.aask(...)`")
        if life.on_own_thread():
            raise CallingSelf(f"{life.label} asked itself")
        life.put(message, reply)
        return reply.get(timeout=timeout)

    async def aask(self, message: Any, *, timeout: float | None = None) -> Any:
        """`ask` for coroutines, on any event loop. A cancelled caller cancels nobody else."""
        life = self.life
        if life.on_own_thread():
            raise CallingSelf(f"{life.label} asked itself")
        reply: Reply[Any] = Reply()
        life.put(message, reply)
        if timeout is None or reply.settled:
            return await reply
        try:
            async with asyncio.timeout(timeout):
                return await reply
        except TimeoutError:
            if reply.settled:  # with a TimeoutError of the actor's own, or in the very moment
                return reply.get()
            raise CallTimeout(f"no reply within {timeout} seconds") from None

    def stop(
        self,
        reason: Reason | None = None,
        *,
        block: bool = True,
        timeout: float | None = None,
        drain: bool = False,
    ) -> Any:
        """Ask the actor to end, ahead of what is in its mailbox (`drain`: behind it), and wait until it has.

        True when it ended, False when it had ended before. After `timeout` seconds `CallTimeout`: it is still asked
        to end.
        """
        life = self.life
        done: Reply[bool] = Reply()
        done.clock = life.host.clock
        if block and running_loop() is not None:
            raise WouldBlockLoop("a blocking stop on a thread that runs an event loop; use `await ref.astop()`")
        if block and life.on_own_thread():
            raise CallingSelf(f"{life.label} waits for its own end; use `self.stop()`")
        if life.watch(done, lambda _: done.succeed(True)):
            why = Normal() if reason is None else reason
            if drain:
                life.put_system(_Drained(why), None)  # if it is ending already, `done` hears of it
            else:
                life.ask_stop(why)
        else:
            done.succeed(False)
        if not block:
            return done
        try:
            return done.get(timeout=timeout)
        except CallTimeout:
            life.unwatch(done)  # who looks again and again leaves nothing behind
            raise

    async def astop(self, reason: Reason | None = None, *, timeout: float | None = None, drain: bool = False) -> bool:
        """`stop` for coroutines."""
        if self.life.on_own_thread():
            raise CallingSelf(f"{self.life.label} waits for its own end; use `self.stop()`")
        done: Reply[bool] = self.stop(reason=reason, block=False, drain=drain)
        try:
            async with asyncio.timeout(timeout):
                return bool(await done)
        except TimeoutError:
            self.life.unwatch(done)
            raise CallTimeout(f"not ended within {timeout} seconds") from None

    def kill(self) -> bool:
        """End it without asking: a task is cancelled, a thread abandoned. True when it lived. Never blocks."""
        return self.life.kill()


def _nobody() -> None:
    return None


class _Drained:
    """Stop when you get here."""

    __slots__ = ("reason",)

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


class started:  # noqa: N801 - reads as a verb: `return started(info)`
    """Returned by `on_start`: the actor runs, and `info` is for whoever started it (`ref.info`)."""

    __slots__ = ("info",)

    def __init__(self, info: object = None) -> None:
        self.info = info


_birth = threading.local()


class Process(_Actor):
    """What thread actors and task actors have in common. Subclass `ThreadActor` or `TaskActor`."""

    mailbox_limit: ClassVar[float] = 10_000
    """Messages that may wait; the sender of one more gets `Overloaded`."""
    expected_errors: ClassVar[tuple[type[BaseException], ...]] = ()
    """Errors that a caller may provoke: the asker gets them and the actor lives on. Any other error ends the actor."""
    start_timeout: ClassVar[float] = 5.0
    """Seconds that `on_start` may take."""

    _life: Life
    _actor_ref: Ref[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        life: Life | None = getattr(_birth, "life", None)
        if life is not None and life.actor_class is cls:
            _birth.life = None
            self._life = life
            self._actor_ref = life.ref
            life.ref._actor_weakref = weakref.ref(self)
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Arguments come from whoever starts the actor. A subclass need not call this one."""

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> Any:
        """Start outside any tree, on the default runtime of the process; returns the ref when `on_start` is through."""
        from supervision.runtime import default_runtime

        return default_runtime().spawn(cls, *args, **kwargs)

    @classmethod
    def create(cls, life: Life, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Construct the actor of `life`, on the thread or loop where it will live."""
        _birth.life = life
        try:
            return cls(*args, **kwargs)
        finally:
            _birth.life = None

    # --- for use inside the actor

    @property
    def runtime(self) -> Host:
        """The runtime it lives in."""
        return self._life.host

    @property
    def actor_ref(self) -> Ref[Any]:
        """Its own ref."""
        return cast("Ref[Any]", self._life.ref)

    @property
    def actor_urn(self) -> str:
        return f"urn:actor:{self._life.label}"

    @property
    def actor_inbox(self) -> _Inbox:
        return _Inbox(self._life)

    @property
    def actor_stopped(self) -> _Stopped:
        return _Stopped(self._life)

    @property
    def clock(self) -> Clock:
        """The runtime's clock."""
        return self._life.host.clock

    @property
    def generation(self) -> int:
        """Which start this is."""
        return self._life.generation

    @property
    def label(self) -> str:
        """`tree/child#generation`."""
        return self._life.label

    @property
    def fenced(self) -> bool:
        """True when the actor has been given up: what it still computes is nobody's, and must not be published."""
        return self._life.reason is not None or self._life.abandoned

    def monitor(self, ref: Any) -> MonitorRef:
        """Get a `Down` as a message when the actor behind `ref` ends."""
        from supervision.monitor import monitor

        return monitor(ref, self.actor_ref)

    def demonitor(self, token: MonitorRef) -> None:
        """End a monitor; a `Down` of it that lies unread is dropped."""
        token.cancel()

    def send_after(self, delay: float, message: object) -> Token:
        """Get `message` after `delay` seconds."""
        return self._life.host.timers.send_after(delay, self.actor_ref, message)

    def cancel_timer(self, token: Token) -> bool:
        """Take a timer back; a message of it that lies unread is dropped."""
        return token.cancel()

    def stop(self, reason: Reason | None = None) -> None:
        """End after the current message, whatever waits."""
        self._life.ask_stop(Normal() if reason is None else reason)

    # --- hooks

    def on_start(self) -> Any:
        """Runs first. Return None or `started(info)`; IGNORE to say that there is nothing to run. Raising is a failed
        start.
        """

    def on_receive(self, message: Any) -> Any:
        """Runs for each message; what it returns is the reply to an ask."""

    def on_stop(self, reason: Reason) -> Any:
        """Runs last, whatever the end, but not after a kill or a failed start. It may return another reason."""

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Runs after a hook or a handler raised what was not expected, before `on_stop`."""

    # --- Pykka's seam, which the runtimes do without

    @staticmethod
    def _create_actor_inbox() -> Any:
        raise TypeError("the mailbox comes with the actor's life")

    @staticmethod
    def _create_future() -> Reply[Any]:
        return Reply()

    def _start_actor_loop(self) -> None:
        raise TypeError("actors are started by a runtime")

    def _handle_receive(self, message: Any) -> Any:
        special = SPECIAL.get(type(message))
        return self.on_receive(message) if special is None else special(self, message)


def _stop_here(actor: Process, message: Any) -> None:
    actor._life.ask_stop(message.reason if isinstance(message, _Drained) else Normal())


def _proxy_call(actor: Process, message: messages.ProxyCall) -> Any:
    return get_attr_directly(actor, message.attr_path)(*message.args, **message.kwargs)


def _proxy_get(actor: Process, message: messages.ProxyGetAttr) -> Any:
    return get_attr_directly(actor, message.attr_path)


def _proxy_set(actor: Process, message: messages.ProxySetAttr) -> None:
    parent = get_attr_directly(actor, message.attr_path[:-1]) if len(message.attr_path) > 1 else actor
    setattr(parent, message.attr_path[-1], message.value)


SPECIAL: dict[type[Any], Callable[[Any, Any], Any]] = {
    _ActorStop: _stop_here,
    _Drained: _stop_here,
    messages.ProxyCall: _proxy_call,
    messages.ProxyGetAttr: _proxy_get,
    messages.ProxySetAttr: _proxy_set,
}
"""Messages that Pykka and this package handle themselves, by exact type."""
