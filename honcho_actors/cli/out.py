"""How a command speaks and ends: the exit codes, one sentence on stderr, JSON or text on stdout."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final, NoReturn

FINE: Final = 0
NOT_FINE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3


class Stop(Exception):
    """Ends the command with a sentence on stderr and an exit code."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        super().__init__(sentence)
        self.code = code


def usage(sentence: str) -> NoReturn:
    raise Stop(sentence, USAGE)


def emit_json(value: Any) -> None:
    sys.stdout.write(
        json.dumps(value, ensure_ascii=False, default=str, indent=2 if sys.stdout.isatty() else None) + "\n"
    )
    sys.stdout.flush()


def emit_line(value: Any) -> None:
    """One value of a stream: always one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def say(text: str = "") -> None:
    """A line of a command's answer. A character that the terminal cannot show is replaced, never raised for."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write("honcho-actors: " + text.encode(encoding, "replace").decode(encoding) + "\n")


def stdout_went_away() -> int:
    """The reader of a pipe has gone (`| head`): end quietly, and keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NOT_FINE
