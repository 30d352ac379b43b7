"""A cancellation storm: calls ended at random moments of their life, in every way in which a call is ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

WAYS = ("before it starts", "in a few steps", "in flight", "twice", "by a timeout", "by its own deadline", "at the end")

Start = Callable[[float], Awaitable[Any]]
"""Starts one call that is given so many seconds."""


async def storm(start: Start, count: int, seed: int, at_once: int = 200) -> dict[str, int]:
    """Ends `count` calls early (or as they end by themselves). Gives how many were ended in which way."""
    dice = random.Random(seed)
    ways = dict.fromkeys(WAYS, 0)
    for _ in range(0, count, at_once):
        wave = [asyncio.ensure_future(_one(start, dice, ways)) for _ in range(at_once)]
        await asyncio.gather(*wave, return_exceptions=True)
    return ways


async def _one(start: Start, dice: random.Random, ways: dict[str, int]) -> None:
    way = dice.choice(WAYS)
    ways[way] += 1
    if way == "by its own deadline":
        await start(dice.uniform(0.0001, 0.05))
        return
    if way == "by a timeout":
        try:
            async with asyncio.timeout(dice.uniform(0.0001, 0.05)):
                await start(30.0)
        except TimeoutError:
            pass
        return
    task = asyncio.ensure_future(start(30.0))
    if way == "in a few steps":
        for _ in range(dice.randrange(1, 8)):
            await asyncio.sleep(0)
    elif way != "before it starts":
        # the server answers after 0 to 20 ms: "at the end" falls around the moment of the reply and of giving back
        await asyncio.sleep(dice.uniform(0.001, 0.03) if way != "at the end" else dice.uniform(0.0, 0.022))
    task.cancel()
    if way == "twice":
        for _ in range(dice.randrange(0, 3)):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
