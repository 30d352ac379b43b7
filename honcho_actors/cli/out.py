"""How a command speaks and ends: the exit codes, one sentence on stderr, JSON or text on stdout."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

FINE: Final = 0
NOT_FINE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130


class Stop(Exception):
    """Ends the command with a sentence on stderr and an exit code."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        super().__init__(sentence)
        self.code = code


def usage(sentence: str) -> NoReturn:
    raise Stop(sentence, USAGE)


def emit_json(value: Any) -> None:
    sys.stdout.write(_json(value, 2 if sys.stdout.isatty() else None) + "\n")
    sys.stdout.flush()


def emit_line(value: Any) -> None:
    """One value of a stream: always one line."""
    sys.stdout.write(_json(value, None) + "\n")
    sys.stdout.flush()


def _json(value: Any, indent: int | None) -> str:
    """As it is where stdout can say it, else in escapes: a narrow terminal or half a character is no reason to fail."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeError:
        text = json.dumps(value, default=str, indent=indent)
    return text


def say(text: str = "") -> None:
    """A line of a command's answer."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def piece(text: str) -> None:
    """A part of a line, as it comes."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


@contextmanager
def working(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Says on a terminal what is being waited for and for how long, and takes it away again. Nothing in a pipe, in a
    file or with `quiet`: stdout stays what was asked for."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def complain(text: str) -> None:
    sys.stderr.write(f"honcho-actors: {text}\n")


def ended(run: Callable[[], object]) -> int:
    """Runs a command; gives the exit code. No exception of ours or of a library leaves as a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this: what is said goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is replaced, never raised for
            stream.reconfigure(errors="replace")
    try:
        code = run()
    except Stop as stop:
        if str(stop):
            complain(str(stop))
        return stop.code
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return stdout_went_away()
    except Exception as error:  # noqa: BLE001 - boundary: a command ends in a sentence, never in a traceback
        explained = getattr(error, "format_message", None)  # what the parser of the command line raises
        if explained is not None:
            complain(f"{explained()} (honcho-actors --help)")
            return USAGE
        if type(error).__name__ == "Abort":
            complain("interrupted")
            return INTERRUPTED
        complain(f"this went wrong inside the command: {type(error).__name__}: {error}")
        return NOT_FINE
    return code if isinstance(code, int) else FINE


def stdout_went_away() -> int:
    """The reader of a pipe has gone (`| head`): end quietly, and keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NOT_FINE
