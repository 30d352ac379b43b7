"""What is needed to start one actor once, and the handshake that tells how it went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Literal

from supervision.life import Life
from supervision.oneshot import OneShot
from supervision.reasons import Crashed, Reason
from supervision.spec import IGNORE
from supervision.spec_errors import StartError

__all__ = ["Birth", "Handshake", "Outcome"]

Outcome = tuple[Literal["started", "ignored", "failed"], Any]


@dataclass(slots=True)
class Birth:
    """Class, arguments and circumstances of one start."""

    actor_class: type[Any]
    args: tuple[Any, ...] = field(default=(), repr=False)
    kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    label: str = ""
    generation: int = 0
    name: str | None = None
    watchdog: float | None = None
    context: Context | None = field(default=None, repr=False)

    def create(self, life: Life) -> Any:
        """Construct the actor, and let go of the arguments: a thread keeps what it was started with to its end."""
        args, kwargs = self.args, self.kwargs
        self.args, self.kwargs = (), {}
        return self.actor_class.create(life, args, kwargs)


class Handshake(OneShot):
    """Settled once: started (with the info), ignored, or failed (with the error)."""

    __slots__ = ("life",)

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life
        life.watch(self, self._ended)

    def _ended(self, reason: Reason) -> None:
        if isinstance(reason, Crashed):
            self.settle(("failed", reason.error))
            return
        text = f"{self.life.label} ended before it had started: {type(reason).__name__}"
        self.settle(("failed", StartError(text, reason=reason)))

    def started(self, info: Any) -> bool:
        """`on_start` is through. False when somebody has given the start up meanwhile."""
        self.life.info = info
        if not self.settle(("started", info)):
            return False
        self.life.unwatch(self)
        return True

    def ignored(self, reason: Reason) -> None:
        """`on_start` said that there is nothing to run: the life ends, then whoever started it is told."""
        self.life.unwatch(self)
        self.life.finish(reason)
        self.settle(("ignored", IGNORE))

    def failed(self, error: BaseException, reason: Reason) -> None:
        """The start failed: the life ends and frees its names, then whoever started it is told."""
        self.life.unwatch(self)
        self.life.finish(reason)
        self.settle(("failed", error))

    def give_up(self, error: BaseException) -> bool:
        """Whoever waits for the start waits no longer; the caller kills the life. True when it had not settled."""
        return self.settle(("failed", error))

    @property
    def outcome(self) -> Outcome:
        """How it went; only once settled."""
        result: Outcome = self._outcome
        return result


def finite(seconds: float) -> float | None:
    """Seconds for a wait: None where there is no limit."""
    return None if math.isinf(seconds) else seconds
