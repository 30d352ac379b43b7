"""The table of 229 rows: which there are, which do not apply and why, and which run on fewer than all runtimes.

A row's own words are the names of its tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCKS = {"OTP": 93, "DYN": 41, "SUP": 16, "TSK": 15, "GEN": 10, "PRT": 7, "REG": 8, "THR": 39}
"""Erlang's supervisor; Elixir's DynamicSupervisor, Supervisor, Task.Supervisor, GenServer, PartitionSupervisor and
Registry; what a runtime of threads has to prove in addition."""

_UPGRADE = "Python has no code upgrade of a running process"
_PARTITION = "there is no partition supervisor; PRT-02 has the routing by key"

NOT_APPLICABLE = {
    **{f"OTP-{number}": _UPGRADE for number in (64, 65, 66, 67, 68, 69, 70, 83, 84, 85, 86)},
    "OTP-74": "there is no callback module to introspect; the repr of a ref names the class (THR-33)",
    "OTP-89": "reports go to Python's logging, which formats them; that they hold no payload is THR-36",
    "OTP-90": "reports go to Python's logging, which formats them; that they hold no payload is THR-36",
    "DYN-07": "threads have no spawn options; their names are THR-33",
    "DYN-08": "there is no initial-call metadata to inspect",
    "DYN-09": _UPGRADE,
    "DYN-11": "there is no legacy form of a spec",
    "SUP-04": "there is one form of a spec",
    "SUP-06": "a registry belongs to one process; there are no global names",
    "SUP-11": "there is no legacy form of a spec",
    "TSK-02": "threads have no spawn options",
    "TSK-15": "there is no task stream; bounded fan-out is the business of whoever starts the jobs",
    "GEN-08": "there are no other nodes to call",
    "PRT-01": _PARTITION,
    "PRT-03": _PARTITION,
    "PRT-04": _PARTITION,
    "PRT-05": _PARTITION,
    "PRT-06": _PARTITION,
    "PRT-07": _PARTITION,
    "REG-08": "the registry is a dict; there is no match language over it",
}

LIMITED = {
    "OTP-73": "the row names the simulator",
    "OTP-77": "the row names the simulator",
    "OTP-88": "the row names the simulator",
    "THR-01": "a race of threads: an interleaving checker and a storm; the simulator has one thread",
    "THR-21": "about the exit of a process with real threads",
    "THR-35": "about real threads and the interpreter lock",
    "THR-37": "about the suite itself",
    "THR-39": "about the seeds of the simulator",
    "LOOP-01": "about a real event loop and its heartbeat",
}

EXTRA = {"LOOP-01": "a coroutine that blocks the loop"}
"""Rows beyond the 229."""


def every_row() -> list[str]:
    """The ids in the order of the table, the extra ones last."""
    rows = [f"{block}-{number:02}" for block, count in BLOCKS.items() for number in range(1, count + 1)]
    return rows + list(EXTRA)


def load() -> list[Callable[..., Any]]:
    """Every test function of this folder."""
    tests = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.supervision.conformance.{path.stem}")
        tests += [value for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
    return tests
