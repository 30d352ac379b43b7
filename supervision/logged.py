"""Errors in log lines: of what kind and where they were raised, never what they say.

An error's text may hold what somebody wrote, a name, a key; a log goes further than any of them was meant to. Frames
hold lines of code, which say nothing of anybody.
"""

from __future__ import annotations

import sys

__all__ = ["unsaid"]

_WITHHELD = "(what it says is not logged)"
_LONGEST = 6
"""Causes of causes that are shown."""


def unsaid(error: BaseException | None = None) -> BaseException | None:
    """Stands for an error as `exc_info` of a log call: its class by name, its frames, its causes, and none of its
    words. Without one, the error that is being handled. Any thread."""
    return _unsaid(sys.exc_info()[1] if error is None else error, _LONGEST)


def _unsaid(error: BaseException | None, left: int) -> BaseException | None:
    if error is None or left == 0:
        return None
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    stand_in: BaseException = type(kind.__name__, (Exception,), names)(_WITHHELD)
    stand_in.__traceback__ = error.__traceback__
    shown = error.__cause__ if error.__cause__ is not None or error.__suppress_context__ else error.__context__
    if error.__cause__ is not None:
        stand_in.__cause__ = _unsaid(shown, left - 1)
    else:
        stand_in.__context__ = _unsaid(shown, left - 1)
    return stand_in
