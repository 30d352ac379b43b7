"""Asking the running process: found through the state directory, read over its loopback endpoint with its token."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from honcho_actors.ops.announcement import find

WITHIN: Final = 5.0
"""Seconds that a running process gets for an answer: one that is hogged needs more than one that is idle."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A process that said where it listens."""

    url: str
    token: str
    pid: int

    def get(self, path: str, **query: str) -> Any:
        """The JSON of one page. Raises `Unreachable` with one sentence."""
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=WITHIN)
        try:
            target = path + ("?" + urlencode(query) if query else "")
            connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
            reply = connection.getresponse()
            content = reply.read()
            if reply.status != 200:
                raise Unreachable(
                    f"process {self.pid} refused to answer ({reply.status}); another one may have its port"
                )
            return json.loads(content)
        except (OSError, HTTPException, ValueError):
            raise Unreachable(f"process {self.pid} does not answer; it may have ended without a goodbye") from None
        finally:
            connection.close()


class Unreachable(RuntimeError):
    """No running process can be asked; the text is one sentence."""


def attach(state_dir: Path) -> Attached:
    """The process that runs on this state directory. Raises `Unreachable`."""
    found = find(state_dir)
    if found is None:
        raise Unreachable(f"no process runs on the state directory {state_dir}")
    return Attached(*found)
