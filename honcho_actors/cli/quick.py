"""`status` without the command tree: the library that parses command lines costs more than the whole answer.

Only the plain spellings are taken here; help, completion, abbreviations and mistakes go to the command tree, which says
the same in every other respect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

MOST_SECONDS: Final = 600.0


def planned(arguments: Sequence[str]) -> Callable[[], int] | None:
    """What to run for this command line; None when the command tree has to read it."""
    if arguments[:1] != ["status"] or "_HONCHO_ACTORS_COMPLETE" in os.environ:
        return None
    given: dict[str, Any] = {"state_dir": None, "timeout": None, "as_json": False}
    rest = list(arguments[1:])
    while rest:
        option = rest.pop(0)
        if option == "--json":
            given["as_json"] = True
        elif option == "--state-dir" and rest and not rest[0].startswith("-"):
            given["state_dir"] = Path(rest.pop(0))
        elif option == "--timeout" and rest and (seconds := _seconds(rest.pop(0))) is not None:
            given["timeout"] = seconds
        else:
            return None

    def run() -> int:
        from honcho_actors.cli.status import status

        return status(**given)

    return run


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.1 <= value <= MOST_SECONDS else None
