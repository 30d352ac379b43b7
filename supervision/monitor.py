"""Learning of an end, exactly once.

A monitor is one-way: the watched actor does not know of it. Whatever the end is (its own, a crash, a kill, never
having lived), there is one `Down`, and it comes after everything that the actor sent before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from supervision.reasons import NoProcess, Reason

if TYPE_CHECKING:
    from supervision._process import Ref
    from supervision.life import Life
    from supervision.registry import NameRef

__all__ = ["Down", "MonitorRef", "demonitor", "monitor"]


class MonitorRef:
    """One monitor. Give it to `demonitor` to end it."""

    __slots__ = ("__weakref__", "_life", "cancelled", "ref")

    def __init__(self, ref: Any, life: Life) -> None:
        self.ref = ref
        self._life = life
        self.cancelled = False

    def __repr__(self) -> str:
        return f"<monitor of {self.ref}>"

    def cancel(self) -> None:
        """No `Down` from now on, not even one that lies unread in a mailbox."""
        self.cancelled = True
        self._life.unwatch(self)


@dataclass(frozen=True, slots=True)
class Down:
    """The actor behind `ref` has ended because of `reason`."""

    ref: Any
    reason: Reason
    monitor: MonitorRef | None = field(default=None, compare=False, repr=False)


def monitor(ref: Ref[Any] | NameRef, watcher: Ref[Any] | NameRef | Callable[[Down], object]) -> MonitorRef:
    """Tell `watcher` of the end of the actor behind `ref`: a ref gets the `Down` as a message, a function gets it as
    argument.

    Of an actor that has ended already, the `Down` comes at once, with `NoProcess`. A function runs on whatever thread
    ends the actor: it must be short, and must not block.
    """
    life: Life = ref.life
    ref = life.ref  # a name stands for who has it now
    token = MonitorRef(ref, life)
    if callable(watcher):
        deliver: Callable[[Down], object] = watcher
    else:
        deliver = _to_mailbox(watcher.life, token)

    def ended(reason: Reason) -> None:
        if not token.cancelled:
            deliver(Down(ref, reason, token))

    if not life.watch(token, ended):
        ended(NoProcess())
    return token


def demonitor(token: MonitorRef) -> None:
    """End a monitor: afterwards no `Down` of it arrives, not even one that was on its way."""
    token.cancel()


def _to_mailbox(life: Life, token: MonitorRef) -> Callable[[Down], object]:
    return lambda down: life.put_system(down, token)
