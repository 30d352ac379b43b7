"""Commands for people: `honcho-actors` and `python -m honcho_actors.cli`.

Every command prints what it found on stdout (`--json`: one JSON value), errors on stderr in one sentence, and ends with
0 fine, 1 the thing asked about is not fine, 2 usage or set-up, 3 the running process cannot be reached; never with a
traceback. Nothing outside this room prints. What stands here may use every other room and be imported by none.
"""

from __future__ import annotations

import sys

NEEDED = {"typer": "cli", "rich": "cli"}


def main() -> None:
    """The console command. A missing extra is one sentence and exit 2."""
    from honcho_actors.cli import quick

    plan = quick.planned(sys.argv[1:])
    if plan is not None:
        from honcho_actors.cli import out

        sys.exit(out.ended(plan))
    try:
        from honcho_actors.cli.app import run
    except ModuleNotFoundError as error:
        extra = NEEDED.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        sys.stderr.write(
            f"honcho-actors: this command needs the extra `{extra}`: pip install 'honcho-actors[{extra}]'\n"
        )
        sys.exit(2)
    sys.exit(run())
