"""One fault proxy for many tests: started once for each upstream; every test sees only its own counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.faults import FaultProxyProcess

_running: dict[str, FaultProxyProcess] = {}


class Faults:
    """As `FaultProxyProcess`, but for `report`, which counts from the beginning of this test on."""

    def __init__(self, proxy: FaultProxyProcess) -> None:
        self._proxy = proxy
        self._before: dict[str, int] = dict(proxy.report()["requests"])
        self.url = proxy.url
        self.plan, self.up, self.down, self.drop = proxy.plan, proxy.up, proxy.down, proxy.drop

    def requests(self) -> dict[str, int]:
        """How often each operation came; one that did not come is absent."""
        now: dict[str, int] = self._proxy.report()["requests"]
        found = {name: count - self._before.get(name, 0) for name, count in now.items()}
        return {name: count for name, count in found.items() if count}


@contextlib.contextmanager
def faults(upstream: str, rules: Sequence[dict[str, Any]] = ()) -> Iterator[Faults]:
    """The proxy in front of this server, with this plan; without any plan, and up, when the test is over."""
    proxy = _running.get(upstream)
    if proxy is None:
        proxy = _running[upstream] = FaultProxyProcess(upstream).__enter__()
    one = Faults(proxy)
    proxy.plan(rules)
    try:
        yield one
    finally:
        proxy.plan([])
        proxy.up()


def end(upstream: str) -> None:
    """Ends the proxy in front of this server, if one was started."""
    proxy = _running.pop(upstream, None)
    if proxy is not None:
        proxy.__exit__()
