"""The proxy on a thread of its own."""

from __future__ import annotations

from honcho_actors import Memory
from honcho_actors.integrations.proxy import Naming, Upstream
from honcho_actors.integrations.proxy.serving import running


class Running:
    """`with Running(memory, upstream_url) as proxy`: `proxy.root`, `proxy.url` (with `/v1`), `proxy.upstream`."""

    def __init__(self, memory: Memory, upstream: str, naming: Naming | None = None) -> None:
        self.upstream = Upstream(upstream)
        self._running = running(memory, self.upstream, naming or Naming())

    def __enter__(self) -> Running:
        self.root = self._running.__enter__()
        self.url = self.root + "/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)
