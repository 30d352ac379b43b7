"""The shell around the pure core: carries out its effects on the control thread, and never blocks.

A supervisor is a `Life` like any actor's (it can be monitored, stopped, killed, and be a child of another
supervisor), but it has no thread: what reaches it is posted to the control thread, stepped, and done. Its state is
published; reading it asks nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from supervision import core
from supervision import events as ev
from supervision._process import Reply
from supervision.birth import Birth, Handshake
from supervision.errors import NoProc
from supervision.host import Host
from supervision.life import Life
from supervision.observer import SupervisorReport
from supervision.reasons import Crashed, Killed, Reason, Shutdown
from supervision.spec import IGNORE, TreeSpec
from supervision.spec_errors import BadReturn, TooManyAbandoned

__all__ = ["SupervisorLife", "launch_supervisor"]

_log = logging.getLogger("supervision")

_LEVELS = {
    ev.Happening.STARTED: logging.DEBUG,
    ev.Happening.RESTARTED: logging.INFO,
    ev.Happening.START_FAILED: logging.WARNING,
    ev.Happening.EXITED: logging.INFO,
    ev.Happening.STOPPED: logging.WARNING,
    ev.Happening.ABANDONED: logging.WARNING,
    ev.Happening.GAVE_UP: logging.ERROR,
    ev.Happening.AUTO_SHUTDOWN: logging.INFO,
}


_OF_NO_PLACE = (ev.Happening.START_FAILED, ev.Happening.GAVE_UP)


class SupervisorLife(Life):
    """One life of one supervisor."""

    __slots__ = ("children", "handshake", "path", "state", "timers")

    def __init__(self, host: Host, actor_class: type[Any], path: str, label: str, generation: int) -> None:
        super().__init__(host, actor_class, float("inf"), label, generation)
        self.path = path
        self.state: core.State | None = None
        self.handshake: Handshake | None = None
        self.children: dict[int, tuple[int, Life]] = {}
        self.timers: dict[ev.Token, Any] = {}

    # --- as a life

    def put(self, message: Any, reply: Any = None) -> None:
        if self.closed:
            raise NoProc(f"{self.label} has ended")
        raise TypeError("a supervisor is not talked to by messages; use the methods of its ref")

    def put_system(self, message: Any, guard: Any) -> None:
        pass

    def wake(self) -> None:
        if not self.host.post(self.handle, ev.Stop(self.stopping or Shutdown())):
            self.finish(self.stopping or Shutdown())

    def drain(self, mine: Any = None) -> bool:
        return False

    def kill(self, reason: Reason | None = None) -> bool:
        """End it and everything below at once."""
        if self.reason is not None:
            return False
        if self.state is None:
            return self.finish(reason or Killed())
        if not self.host.post(self.handle, ev.Kill()):
            return self.finish(reason or Killed())
        return True

    def request(self, make: Callable[[Any], ev.Event], reply: Reply[Any]) -> None:
        """Post a request; its reply is settled whatever becomes of the supervisor."""
        if not self.watch(reply, lambda reason: reply.fail(NoProc(f"{self.label} has ended"))):
            reply.fail(NoProc(f"{self.label} has ended"))
            return
        reply.subscribe(lambda: self.unwatch(reply))
        if not self.host.post(self.handle, make(reply)):
            reply.fail(NoProc(f"{self.label} has ended"))

    # --- the step

    def boot(self, tree: TreeSpec, handshake: Handshake) -> None:
        """First step, on the control thread."""
        if self.reason is not None:
            return
        self.handshake = handshake
        self.state = core.new(tree)
        if self.stopping is not None:
            self.handle(ev.Stop(self.stopping))
        else:
            self.handle(ev.Boot())

    def handle(self, event: ev.Event) -> None:
        """One event: step, publish, carry out. On the control thread only."""
        if self.state is None:
            return
        state, effects = core.step(self.state, event)
        for effect in effects:  # whoever sees the new state finds it reported
            if type(effect) is ev.Report:
                self.tell_observer(effect)
        self.state = state
        for effect in effects:
            if type(effect) is not ev.Report:
                _CARRY_OUT[type(effect)](self, effect)

    def spawn(self, effect: ev.Spawn) -> None:
        spec = effect.spec
        path = f"{self.path}/{spec.id}"
        context = getattr(effect.starter, "context", None)
        label = f"{path}#{effect.generation}"
        birth = Birth(
            spec.actor_class,
            effect.args,
            spec.kwargs,
            label=label,
            name=spec.name,
            watchdog=spec.watchdog,
            context=None if context is None else context.copy(),
        )
        seq, generation = effect.seq, effect.generation
        try:
            if spec.kind == "supervisor":
                handshake = launch_supervisor(self.host, birth, path, spec.tree)
            else:
                handshake = self.host.launch(birth)
        except Exception as error:  # noqa: BLE001 - boundary: every start has an answer, whatever the class is like
            self.host.post(self.child_ended, ev.StartFailed(seq, generation, error))
            return
        life = handshake.life
        self.children[seq] = (generation, life)
        post, handle, clock = self.host.post, self.handle, self.host.clock

        def ended(reason: Reason) -> None:
            post(self.child_ended, ev.Exited(seq, generation, reason, clock.now()))

        def answered() -> None:
            kind, value = handshake.outcome
            if kind == "started":
                post(handle, ev.Started(seq, generation, life.ref, value))
                if not life.watch(ended, ended):
                    ended(life.reason or Killed())
            elif kind == "ignored":
                post(self.child_ended, ev.Ignored(seq, generation))
            else:
                fatal = isinstance(value, TooManyAbandoned)
                post(self.child_ended, ev.StartFailed(seq, generation, value, fatal))

        handshake.subscribe(answered)

    def child_ended(self, event: ev.Exited | ev.Ignored | ev.StartFailed) -> None:
        """A child is gone."""
        known = self.children.get(event.seq)
        if known is not None and known[0] == event.generation:
            del self.children[event.seq]
        self.handle(event)

    def ask_child(self, effect: ev.AskStop) -> None:
        life = self._child(effect)
        if life is not None:
            life.ask_stop(Shutdown())

    def abandon_child(self, effect: ev.Abandon) -> None:
        life = self._child(effect)
        if life is not None:
            life.kill()

    def _child(self, effect: ev.AskStop | ev.Abandon) -> Life | None:
        known = self.children.get(effect.seq)
        return known[1] if known is not None and known[0] == effect.generation else None

    def arm(self, effect: ev.Arm) -> None:
        token = effect.token

        def expired() -> None:
            self.timers.pop(token, None)
            self.handle(ev.Expired(token))

        self.timers[token] = self.host.timers.call_after(effect.seconds, expired)

    def disarm(self, effect: ev.Disarm) -> None:
        timer = self.timers.pop(effect.token, None)
        if timer is not None:
            timer.cancel()

    def try_again(self, effect: ev.TryAgain) -> None:
        self.host.post(lambda: self.handle(ev.Retry(effect.seq, effect.generation, self.host.clock.now())))

    def ready(self, effect: ev.Ready) -> None:
        if self.handshake is not None:
            self.handshake.started(None)
            self.handshake = None

    def exit(self, effect: ev.Exit) -> None:
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()
        if self.handshake is not None:
            handshake, self.handshake = self.handshake, None
            if effect.error is not None:
                handshake.failed(effect.error, effect.reason)
        self.finish(effect.reason)

    def tell_observer(self, effect: ev.Report) -> None:
        level = _LEVELS[effect.what]
        if effect.what is ev.Happening.EXITED and effect.reason is not None and effect.reason.quiet:
            level = logging.DEBUG
        if self.host.closing and (effect.what in _OF_NO_PLACE or isinstance(effect.reason, Killed)):
            level = logging.DEBUG  # nobody is started any more, and who is left is killed, as was asked for
        if _log.isEnabledFor(level):
            why = "" if effect.reason is None else f": {_words(effect.reason)}"
            _log.log(level, "%s/%s#%d %s%s", self.path, effect.child_id, effect.generation, effect.what, why)
        self.host.report(SupervisorReport(self.label, effect))


def _words(reason: Reason) -> str:
    """A reason for a log line: its kind and the class of an error, never what the error or the detail says."""
    if isinstance(reason, Crashed):
        return f"Crashed({type(reason.error).__name__})"
    return type(reason).__name__


_CARRY_OUT: dict[type[Any], Callable[[SupervisorLife, Any], object]] = {
    ev.Spawn: SupervisorLife.spawn,
    ev.AskStop: SupervisorLife.ask_child,
    ev.Abandon: SupervisorLife.abandon_child,
    ev.Arm: SupervisorLife.arm,
    ev.Disarm: SupervisorLife.disarm,
    ev.TryAgain: SupervisorLife.try_again,
    ev.Reply: lambda self, effect: effect.to.succeed(effect.value),
    ev.Refuse: lambda self, effect: effect.to.fail(effect.error),
    ev.Ready: SupervisorLife.ready,
    ev.Exit: SupervisorLife.exit,
}


def launch_supervisor(host: Host, birth: Birth, path: str, tree: TreeSpec | None) -> Handshake:
    """Begin to start a supervisor: its children from `tree`, or from what its class's `init` returns. Never blocks.

    An `init` is somebody's code: it runs on a thread of its own, and a start time-out applies to it as to any child.
    """
    from supervision.face import SupervisorRef

    life = SupervisorLife(host, birth.actor_class, path, birth.label, host.next_generation())
    life.ref = SupervisorRef(life)
    handshake = Handshake(life)
    try:
        host.lives[life] = None  # before anybody can find it by its name, and end it
        if host.closing:  # looked at last: who closes says so first, and then ends whoever is there
            raise NoProc(f"the runtime {host.name!r} is closed")
        if birth.name is not None:
            host.registry.register(birth.name, life.ref)
        if tree is not None:
            if not host.post(life.boot, tree, handshake):
                raise NoProc(f"the runtime {host.name!r} is closed")
        else:
            host.aside(lambda: _init(host, life, birth, handshake), f"{birth.label}-init")
    except Exception as error:  # noqa: BLE001 - boundary: whatever keeps a supervisor from starting is the result of the handshake.
        handshake.failed(error, Killed(type(error).__name__))
    return handshake


def _init(host: Host, life: SupervisorLife, birth: Birth, handshake: Handshake) -> None:
    try:
        tree = birth.actor_class.init(*birth.args, **birth.kwargs)
        if tree is IGNORE:
            handshake.ignored(Shutdown())
            return
        if not isinstance(tree, TreeSpec):
            raise BadReturn(f"{birth.actor_class.__name__}.init", tree)
    except BaseException as error:  # noqa: BLE001 - boundary: an `init` that fails in any way is a failed start and nothing more.
        life.finish(Crashed(error))
        return
    if not host.post(life.boot, tree, handshake):
        life.finish(Killed("runtime closed"))
