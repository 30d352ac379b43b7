"""A waiter is resolved once, for any number of readers on threads and loops."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from supervision import CallTimeout, ManualClock, NoProcess, ThreadActor, ThreadRuntime, Waiter, WouldBlockLoop
from tests.supervision.conftest import eventually


def test_threads_and_event_loops_read_the_same_value() -> None:
    waiter: Waiter[str] = Waiter()
    seen: list[str] = []

    async def read() -> None:
        seen.extend(await asyncio.gather(*(_await(waiter) for _ in range(5))))

    readers = [threading.Thread(target=lambda: seen.append(waiter.result())) for _ in range(5)]
    readers += [threading.Thread(target=lambda: asyncio.run(read())) for _ in range(3)]
    for reader in readers:
        reader.start()
    time.sleep(0.05)
    assert waiter.resolve("value")
    assert not waiter.resolve("other")
    for reader in readers:
        reader.join(30)
    assert seen == ["value"] * 20


async def _await(waiter: Waiter[Any]) -> Any:
    return await waiter


def test_a_cancelled_reader_cancels_nobody_else() -> None:
    async def main() -> None:
        waiter: Waiter[str] = Waiter()
        impatient, patient = asyncio.create_task(_await(waiter)), asyncio.create_task(_await(waiter))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        assert impatient.cancelled()
        assert not waiter.resolved
        waiter.resolve("value")
        assert await patient == "value"

    asyncio.run(main())


def test_a_loop_that_was_closed_under_its_reader_is_tolerated() -> None:
    waiter: Waiter[str] = Waiter()
    loop = asyncio.new_event_loop()
    reader = _await(waiter)
    task = loop.create_task(reader)
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    heard: list[str] = []
    waiter.add_done_callback(lambda done: heard.append(done.value))
    assert waiter.resolve("value")
    assert heard == ["value"]
    reader.close()


def test_its_own_deadline_resolves_it_for_every_kind_of_reader() -> None:
    def late() -> Waiter[str]:
        return Waiter(deadline=time.monotonic() + 0.05, on_deadline="late")

    assert late().result() == "late"
    assert asyncio.run(_await(late())) == "late"
    looked_at = late()
    eventually(lambda: looked_at.resolved)
    assert (looked_at.value, looked_at.cause) == ("late", "deadline")
    over: Waiter[str] = Waiter(deadline=time.monotonic() - 1, on_deadline="late")
    assert over.result() == "late"


def test_with_timers_it_is_resolved_while_nobody_reads(timed: ThreadRuntime, clock: ManualClock) -> None:
    heard: list[str] = []
    waiter = Waiter(timers=timed.timers, deadline=clock.now() + 10, on_deadline="late")
    waiter.add_done_callback(lambda done: heard.append(done.cause))
    clock.advance(9.9)
    assert heard == []
    clock.advance(0.1)
    assert heard == ["deadline"]
    early: Waiter[str] = Waiter(timers=timed.timers, deadline=clock.now() + 10)
    early.resolve("value")
    assert len(timed.timers) == 0


def test_a_readers_own_deadline_is_its_own() -> None:
    waiter: Waiter[str] = Waiter()
    with pytest.raises(CallTimeout):
        waiter.result(deadline=time.monotonic() + 0.02)
    with pytest.raises(CallTimeout):
        waiter.result(deadline=time.monotonic() - 1)
    assert not waiter.resolved
    assert waiter._callbacks == []
    waiter.resolve("value")
    assert waiter.result(deadline=time.monotonic() - 1) == "value"


def test_in_time_that_is_moved_by_hand_readers_wait_for_the_hand(clock: ManualClock) -> None:
    waiter: Waiter[str] = Waiter(clock=clock, deadline=clock.now() + 100, on_deadline="late")
    seen: list[Any] = []
    threads = [
        threading.Thread(target=lambda: seen.append(waiter.result())),
        threading.Thread(target=lambda: seen.append(asyncio.run(_await(waiter)))),
    ]
    for thread in threads:
        thread.start()
    clock.advance(99)
    time.sleep(0.02)
    assert seen == []
    clock.advance(1)
    for thread in threads:
        thread.join(30)
    assert seen == ["late", "late"]


def test_it_can_be_bound_to_many_and_lets_go_of_them_when_it_is_resolved(rt: ThreadRuntime) -> None:
    refs = [rt.spawn(ThreadActor) for _ in range(5)]
    waiter: Waiter[Any] = Waiter()
    for ref in refs:
        waiter.bind(ref, lambda down: down.ref)
    refs[3].stop()
    assert waiter.result() is refs[3]
    assert all(not ref.life.watchers for ref in refs)
    assert Waiter[Any]().bind(refs[3], lambda down: down.reason).value == NoProcess()


def test_what_goes_wrong_where_it_hears_of_an_end_resolves_it_too(
    rt: ThreadRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    ref = rt.spawn(ThreadActor)
    waiter: Waiter[str] = Waiter(on_deadline="nothing").bind(ref, lambda down: [""][1])
    ref.stop(timeout=30)
    assert (waiter.resolved, waiter.value, waiter.cause) == (True, "nothing", "down")
    assert "a watcher of an end failed" in caplog.text


def test_on_an_event_loop_only_a_resolved_one_can_be_read_without_await() -> None:
    async def main() -> None:
        waiter: Waiter[str] = Waiter()
        with pytest.raises(WouldBlockLoop):
            waiter.result()
        waiter.resolve("value")
        assert waiter.result() == "value"

    asyncio.run(main())


def test_a_callback_that_fails_keeps_no_reader_waiting(caplog: pytest.LogCaptureFixture) -> None:
    waiter: Waiter[str] = Waiter()
    heard: list[str] = []
    waiter.add_done_callback(lambda done: [][0])
    waiter.add_done_callback(lambda done: heard.append(done.value))
    assert waiter.resolve("value")
    assert heard == ["value"]
    assert "callback" in caplog.text


def test_the_value_of_a_pending_one_is_a_named_error() -> None:
    with pytest.raises(LookupError):
        _ = Waiter().value
    assert Waiter().cause == ""
    assert repr(Waiter()) == "<Waiter pending>"
