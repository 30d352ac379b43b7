"""The ten LoCoMo conversations as JSON Lines: first speaker user, second assistant, image captions left out."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any


def locomo(archive: Path) -> dict[str, list[dict[str, str]]]:
    """Name -> lines of role, content, time. Utterances of one session are half a minute apart."""
    with zipfile.ZipFile(archive) as opened:
        names = sorted(name for name in opened.namelist() if name.endswith(".json"))
        return {Path(name).stem: _lines(json.loads(opened.read(name))) for name in names}


def _lines(talk: dict[str, Any]) -> list[dict[str, str]]:
    lines: list[dict[str, str]] = []
    number = 1
    while f"session_{number}" in talk:
        at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for said in talk[f"session_{number}"]:
            role = "user" if said["speaker"] == talk["speaker_a"] else "assistant"
            lines.append({"role": role, "content": said["text"], "time": at.isoformat()})
            at += timedelta(seconds=30)
        number += 1
    return lines


def write(lines: list[dict[str, str]], path: Path) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
