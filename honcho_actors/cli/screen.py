"""How the demo is shown: one row a turn as it happens, phases between them, and figures at the end.

On a terminal the rows are a live table; into a file or a pipe they are plain lines. With `--json` nothing of this is
shown and every event becomes part of one JSON value.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

COLUMNS = ("turn", "conversation", "path", "reason", "waited ms", "age s", "block tokens", "said")
_WIDTHS = (4, 14, 9, 14, 9, 6, 12, 44)
_LEAST = (4, 12, 8, 13, 6, 5, 6, 10)
"""Columns of a terminal; what is said takes what is left."""
_COLOURS = {"warm": "green", "restored": "cyan", "cold": "yellow", "off": "red"}
ROWS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One served turn."""

    turn: int
    conversation: str
    path: str
    reason: str
    waited_ms: float
    age: float | None
    block_tokens: int
    said: str
    captured: str

    def cells(self) -> tuple[str, ...]:
        age = "-" if self.age is None else f"{self.age:.1f}"
        return (
            str(self.turn),
            _cut(self.conversation, 14),
            self.path,
            self.reason,
            f"{self.waited_ms:.1f}",
            age,
            str(self.block_tokens),
            _cut(self.said, 44),
        )


def _cut(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


class Screen:
    """Shows as it goes; keeps everything for the JSON form."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(quiet=quiet, highlight=False, soft_wrap=True)
        self._rows: list[Row] = []
        self._shown: list[Row] = []
        self._live: Live | None = None
        self._headed = False
        self.rows = self._rows
        self.phases: list[str] = []

    def note(self, text: str) -> None:
        """A line of explanation."""
        self.pause()
        self._console.print(Text(text))

    def phase(self, name: str, text: str) -> None:
        """A new part of the story."""
        self.pause()
        self.phases.append(name)
        self._console.print()
        self._console.print(Text(f"== {text}", style="bold"))
        self._headed = False

    def row(self, row: Row) -> None:
        """A turn was served."""
        self._rows.append(row)
        self._shown.append(row)
        if not self._console.is_terminal:
            if not self._headed:
                head = "  ".join(name.ljust(width) for name, width in zip(COLUMNS, _WIDTHS, strict=True))
                self._console.print(Text(head.rstrip()))
                self._headed = True
            line = "  ".join(cell.ljust(width) for cell, width in zip(row.cells(), _WIDTHS, strict=True))
            self._console.print(Text(line.rstrip()))
            return
        if self._live is None:
            self._live = Live(self._table(), console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def pause(self) -> None:
        """Ends the live table where it stands: text may follow."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._shown.clear()

    def figures(self, title: str, pairs: list[tuple[str, str]]) -> None:
        """The summary."""
        self.pause()
        self._console.print()
        self._console.print(Text(title, style="bold"))
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            self._console.print(Text(f"  {name.ljust(width)}  {value}"))

    def as_list(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self._rows]

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, expand=False, padding=(0, 1))
        for name, least in zip(COLUMNS, _LEAST, strict=True):
            right = name in ("turn", "waited ms", "age s", "block tokens")
            table.add_column(
                name.replace(" ", "\n"),
                justify="right" if right else "left",
                no_wrap=True,
                min_width=least,
                overflow="ellipsis",
            )
        for row in self._shown[-ROWS_SHOWN:]:
            cells: list[str | Text] = list(row.cells())
            cells[2] = Text(row.path, style=_COLOURS.get(row.path, ""))
            table.add_row(*cells)
        return table
