"""What a shell is offered where a value is wanted: taken from the running process, quickly, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

MOST: int = 200


def sessions(incomplete: str) -> Iterator[str]:
    """Keys of conversations that the running process keeps ready. Never raises: a completion that fails is none."""
    try:
        from honcho_actors.cli.attach import attach
        from honcho_actors.settings import Settings

        rows = attach(Settings.load().state_dir).get("/sessions", limit=str(MOST))
        yield from sorted({str(row["key"]) for row in rows if str(row["key"]).startswith(incomplete)})
    except Exception:  # noqa: BLE001 - boundary: a shell's completion never shows a fault of ours
        return
