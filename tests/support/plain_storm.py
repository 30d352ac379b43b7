"""The storm on the pool of httpx, in a process of its own because it leaks. Prints how many of 20 calls work then.

Whether a cancellation costs a slot depends on the moment, so the storm comes again, at most ten times, until one has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import httpx

from tests.support.storm import storm
from tests.support.stub_honcho import Said, StubHoncho


async def served_after(count: int) -> int:
    async with StubHoncho(lambda seen: Said({}, delay=0.01)) as stub:
        limits = httpx.Limits(max_connections=32, max_keepalive_connections=32)
        plain = httpx.AsyncClient(limits=limits, timeout=None, trust_env=False)

        async def start(seconds: float) -> None:
            async with asyncio.timeout(seconds):
                await plain.get(stub.url)

        served = 20
        for seed in range(11, 21):
            stub.script = lambda seen: Said({}, delay=0.01)
            await storm(start, count, seed=seed, at_once=50)
            stub.script = lambda seen: Said({})
            served = 0
            for _ in range(20):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await plain.get(stub.url)
                    served += 1
            if served < 20:
                break
        return served


if __name__ == "__main__":
    print(asyncio.new_event_loop().run_until_complete(served_after(int(sys.argv[1]))), flush=True)
    os._exit(0)  # what the pool has lost cannot be cleaned up
