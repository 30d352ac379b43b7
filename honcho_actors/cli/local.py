"""`local`: the embedded Honcho-compatible server in the foreground."""

from __future__ import annotations

import tempfile
from pathlib import Path

from honcho_actors.cli import out


def local(*, port: int, data: Path | None, delay: float, as_json: bool) -> int:
    """Serves until SIGTERM or SIGINT; 2 when the port or the directory cannot be used."""
    try:
        from honcho_actors.local.__main__ import main
    except ModuleNotFoundError as error:
        out.usage(f"the embedded server needs the extra `local` ({error.name}): pip install 'honcho-actors[local]'")
    if data is not None:
        return main(_arguments(data, port, delay, as_json))
    with tempfile.TemporaryDirectory(prefix="honcho-actors-local-") as folder:
        if not as_json:
            out.say("its data is temporary and goes with it; --data DIR keeps it")
        return main(_arguments(Path(folder), port, delay, as_json))


def _arguments(data: Path, port: int, delay: float, as_json: bool) -> list[str]:
    return ["--port", str(port), "--data", str(data), "--delay", repr(delay), *(["--json"] if as_json else [])]
