"""How a running process is found: a private file in its state directory, with its address and the token it wants.

Light on purpose: a command reads it before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Final

FILE_NAME: Final = "admin.json"


def announce(state_dir: Path, url: str, token: str) -> Path:
    """Writes the file, readable by its owner alone. Raises OSError."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = state_dir / FILE_NAME
    partial = state_dir / f".{FILE_NAME}.{os.getpid()}"
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump({"url": url, "token": token, "pid": os.getpid(), "started": time.time()}, stream)
    partial.replace(path)
    return path


def withdraw(path: Path, token: str) -> None:
    """Takes the file away, unless another process has announced itself there since."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads(path.read_text()).get("token") == token:
            path.unlink()


def stands(state_dir: Path) -> bool:
    """Whether somebody who may still live is announced there: a second process may have come, and have gone again."""
    found = find(state_dir)
    if found is None:
        return False
    try:
        os.kill(found[2], 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it lives, and is somebody else's
    return True


def find(state_dir: Path) -> tuple[str, str, int] | None:
    """(url, token, pid) of the process that runs on this state directory; None when none has said so."""
    try:
        content = json.loads((state_dir / FILE_NAME).read_text())
        return str(content["url"]), str(content["token"]), int(content["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
