"""Asking the running process: found through the state directory, read over its loopback endpoint with its token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from honcho_actors.ops.endpoint import find

WITHIN: Final = 3.0


@dataclass(frozen=True, slots=True)
class Attached:
    """A process that said where it listens."""

    url: str
    token: str
    pid: int

    def get(self, path: str, **query: str) -> Any:
        """The JSON of one page. Raises `Unreachable` with one sentence."""
        try:
            reply = httpx.get(
                self.url + path,
                params=query,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=WITHIN,
                trust_env=False,
            )
            reply.raise_for_status()
            return reply.json()
        except httpx.HTTPStatusError as error:
            raise Unreachable(
                f"process {self.pid} refused to answer ({error.response.status_code}); another one may have its port"
            ) from None
        except (httpx.HTTPError, ValueError):
            raise Unreachable(f"process {self.pid} does not answer; it may have ended without a goodbye") from None


class Unreachable(RuntimeError):
    """No running process can be asked; the text is one sentence."""


def attach(state_dir: Path) -> Attached:
    """The process that runs on this state directory. Raises `Unreachable`."""
    found = find(state_dir)
    if found is None:
        raise Unreachable(f"no process runs on the state directory {state_dir}")
    return Attached(*found)
