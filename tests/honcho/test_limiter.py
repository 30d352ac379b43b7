"""The gate in front of the network: who goes first, how many at once, how many a second, and who is dropped."""

from __future__ import annotations

import asyncio
import random

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.limiter import OLDEST_EVERY, Limiter
from honcho_actors.honcho.outcomes import FailureKind, Ok, Priority
from tests.support.calls import client, endpoint, failure, read_context, within
from tests.support.stub_honcho import Said, StubHoncho


def soon(seconds: float = 30.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def held(limiter: Limiter, count: int) -> None:
    for _ in range(count):
        assert await limiter.acquire(Priority.COLD, soon())


async def queue(
    limiter: Limiter, order: list[str], name: str, priority: Priority, deadline: float
) -> asyncio.Task[None]:
    async def wait() -> None:
        if await limiter.acquire(priority, deadline):
            order.append(name)
            limiter.release()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def test_cold_waiters_go_first_and_the_earlier_deadline_inside_one_priority() -> None:
    limiter = Limiter(concurrency=1)
    await held(limiter, 1)
    order: list[str] = []
    tasks = [
        await queue(limiter, order, "delivery", Priority.DELIVERY, soon(5)),
        await queue(limiter, order, "refresh", Priority.REFRESH, soon(5)),
        await queue(limiter, order, "cold late", Priority.COLD, soon(9)),
        await queue(limiter, order, "cold early", Priority.COLD, soon(3)),
        await queue(limiter, order, "background", Priority.BACKGROUND, soon(1)),
    ]
    limiter.release()
    await asyncio.gather(*tasks)
    assert order == ["cold early", "cold late", "refresh", "delivery", "background"]
    assert (limiter.busy, limiter.waiting) == (0, 0)


async def test_among_cold_calls_goes_first_whoever_is_waited_for_least_long_whatever_the_calls_own_deadline() -> None:
    limiter = Limiter(concurrency=1)
    await held(limiter, 1)
    order: list[str] = []

    async def wait(name: str, deadline: float, due: float | None) -> None:
        if await limiter.acquire(Priority.COLD, deadline, due):
            order.append(name)
            limiter.release()

    calls = (("patient", soon(20), soon(9)), ("hurried", soon(30), soon(3)), ("nobody waits", soon(15), None))
    tasks = [asyncio.create_task(wait(*call)) for call in calls]
    await asyncio.sleep(0)
    limiter.release()
    await asyncio.gather(*tasks)
    assert order == ["hurried", "patient", "nobody waits"]


async def test_nobody_starves_behind_a_stream_of_cold_calls() -> None:
    limiter = Limiter(concurrency=1)
    await held(limiter, 1)
    order: list[str] = []
    tasks = [await queue(limiter, order, "delivery", Priority.DELIVERY, soon())]
    tasks += [await queue(limiter, order, "cold", Priority.COLD, soon()) for _ in range(3 * OLDEST_EVERY)]
    limiter.release()
    await asyncio.gather(*tasks)
    assert order.index("delivery") < OLDEST_EVERY


async def test_whoever_has_waited_longest_keeps_their_turn_while_the_rate_holds_everybody_up() -> None:
    limiter = Limiter(concurrency=1, per_second=OLDEST_EVERY)
    await held(limiter, 1)
    order: list[str] = []
    tasks = [await queue(limiter, order, "before", Priority.COLD, soon()) for _ in range(OLDEST_EVERY - 1)]
    limiter.release()
    await asyncio.gather(*tasks)  # the burst is spent, and the next turn is that of the oldest
    oldest = await queue(limiter, order, "oldest", Priority.BACKGROUND, soon())
    tasks = [await queue(limiter, order, "cold", Priority.COLD, soon()) for _ in range(8)]
    await oldest
    assert order[OLDEST_EVERY - 1] == "oldest"
    limiter.close()
    await asyncio.gather(*tasks)


async def test_what_is_past_its_deadline_is_dropped_when_its_turn_comes() -> None:
    limiter = Limiter(concurrency=1)
    assert not await limiter.acquire(Priority.COLD, soon(-1))
    await held(limiter, 1)
    late = asyncio.create_task(limiter.acquire(Priority.COLD, soon(0.02)))
    fresh = asyncio.create_task(limiter.acquire(Priority.BACKGROUND, soon()))
    await asyncio.sleep(0.05)
    limiter.release()
    assert await late is False
    assert await fresh is True
    assert limiter.dropped == 2
    limiter.release()


async def test_an_expired_call_never_reaches_the_server() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=0.3)) as stub, client(stub.url) as honcho:
        honcho.limiter.concurrency = 1
        first = asyncio.create_task(read_context(honcho, within(5)))
        await asyncio.sleep(0.05)
        late = failure(await read_context(honcho, within(0.1)))
        assert (late.kind, late.bytes_sent) == (FailureKind.TIMED_OUT, False)
        assert "in the queue" in late.detail
        assert (await first).ok
        await asyncio.sleep(0.05)
        assert len(stub.seen) == 1


async def test_a_full_queue_turns_calls_away_at_once() -> None:
    limiter = Limiter(concurrency=1, max_waiting=2)
    await held(limiter, 1)
    waiting = [asyncio.create_task(limiter.acquire(Priority.COLD, soon())) for _ in range(2)]
    await asyncio.sleep(0)
    assert await limiter.acquire(Priority.COLD, soon()) is False
    limiter.close()
    assert await asyncio.gather(*waiting) == [False, False]


async def test_cancelled_waiters_and_winners_lose_no_slot_in_any_order() -> None:
    dice = random.Random(3)
    limiter = Limiter(concurrency=4)

    async def work() -> None:
        if await limiter.acquire(dice.choice(list(Priority)), soon(dice.choice((0.001, 5)))):
            try:
                await asyncio.sleep(0)
            finally:
                limiter.release()

    tasks = [asyncio.create_task(work()) for _ in range(3_000)]
    while any(not task.done() for task in tasks):
        for task in dice.sample(tasks, 100):
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (limiter.busy, limiter.waiting) == (0, 0)
    await held(limiter, 4)


async def test_what_was_cancelled_does_not_pile_up_in_the_queue() -> None:
    limiter = Limiter(concurrency=1)
    await held(limiter, 1)
    for _ in range(2_000):
        task = asyncio.create_task(limiter.acquire(Priority.COLD, soon()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert limiter.waiting == 0
    assert len(limiter._heap) + len(limiter._by_age) < 300


async def test_the_rate_is_kept_and_the_queue_goes_on_by_itself() -> None:
    limiter = Limiter(concurrency=100, per_second=50)
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def one() -> float:
        assert await limiter.acquire(Priority.REFRESH, soon())
        limiter.release()
        return loop.time() - started

    times = await asyncio.gather(*(one() for _ in range(70)))
    assert sum(moment < 0.1 for moment in times) <= 60, "the burst is one second's worth"
    assert 0.35 < max(times) < 20


async def test_a_slot_that_is_held_for_ever_holds_up_nobody_past_the_deadline() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=30)) as stub, client(stub.url) as honcho:
        honcho.limiter.concurrency = 2
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcomes = await asyncio.gather(*(read_context(honcho, within(0.3)) for _ in range(50)))
        assert {failure(outcome).kind for outcome in outcomes} == {FailureKind.TIMED_OUT}
        assert loop.time() - started < 20
        assert (honcho.limiter.busy, honcho.limiter.waiting) == (0, 0)


async def test_other_limits_hold_from_now_on_for_who_waits_and_for_who_comes() -> None:
    limiter = Limiter(concurrency=1)
    await held(limiter, 1)
    order: list[str] = []
    tasks = [await queue(limiter, order, name, Priority.COLD, soon()) for name in ("first", "second")]
    assert limiter.waiting == 2
    limiter.change(2, None)
    await asyncio.gather(*tasks)
    assert (order, limiter.busy) == (["first", "second"], 1)
    await held(limiter, 1)
    limiter.change(1, None)
    later = await queue(limiter, order, "later", Priority.COLD, soon())
    limiter.release()
    await asyncio.sleep(0)
    assert (limiter.busy, limiter.waiting) == (1, 1), "what is on its way goes on, and the lower limit holds after it"
    limiter.release()
    await later
    assert (limiter.busy, limiter.waiting) == (0, 0)


async def test_another_server_begins_with_breakers_that_know_nothing_of_the_first() -> None:
    async with StubHoncho(lambda seen: Said({}, 500)) as bad, StubHoncho(lambda seen: Said({})) as good:
        urls = [bad.url]
        async with HonchoClient(lambda: endpoint(urls[0])) as honcho:
            for _ in range(6):
                last = failure(await read_context(honcho))
            assert last.kind is FailureKind.BREAKER_OPEN
            urls[0] = good.url
            assert isinstance(await read_context(honcho), Ok)
            urls[0] = bad.url
            assert failure(await read_context(honcho)).kind is not FailureKind.BREAKER_OPEN
