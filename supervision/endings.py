"""What an error means for the actor that raised it, the same for threads and tasks.

An error is expected (declared by the class: the asker gets it, the actor lives on) or it is a crash, whether it came
of an ask or of a tell, whatever its class: `SystemExit` ends this actor and nobody else.
"""

from __future__ import annotations

import logging
from typing import Any

from supervision._process import Process
from supervision.errors import Stuck, harmless
from supervision.life import Life
from supervision.logged import unsaid
from supervision.observer import ActorCrashed, HookFailed
from supervision.reasons import Crashed, Reason

__all__ = ["crash", "failed", "hook_failed", "strip"]

_log = logging.getLogger("supervision")


def failed(actor: Process, life: Life, error: BaseException, reply: Any) -> Reason | None:
    """A handler raised. Answers the asker; the result is the reason to end, or None to live on."""
    if isinstance(error, Stuck):
        raise error
    if isinstance(error, actor.expected_errors):
        if reply is not None:
            reply.fail(error)
        return None
    reason = crash(actor, life, error)
    if reply is not None:
        reply.fail(harmless(error, f"{life.label} crashed with"))
    return reason


def crash(actor: Process | None, life: Life, error: BaseException) -> Crashed:
    """Log and report once, run `on_failure`, and let go of the frames."""
    if isinstance(error, Stuck):
        raise error
    if not life.abandoned:
        _log.error("%s crashed: %s", life.label, type(error).__name__, exc_info=unsaid(error))
        life.host.report(ActorCrashed(life.label, type(error).__name__))
    if actor is not None:
        try:
            actor.on_failure(type(error), error, error.__traceback__)
        except BaseException as other:  # noqa: BLE001 - boundary: no hook keeps an actor from ending.
            hook_failed(life, "on_failure", other)
    strip(error)
    return Crashed(error)


def hook_failed(life: Life, hook: str, error: BaseException) -> None:
    """Log and report a hook that cannot change what happens."""
    if isinstance(error, Stuck):
        raise error
    _log.error("%s of %s raised %s", hook, life.label, type(error).__name__, exc_info=unsaid(error))
    life.host.report(HookFailed(life.label, hook, type(error).__name__))
    strip(error)


def strip(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and of what led to it: they have been logged, and keep every local alive."""
    for _ in range(16):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
