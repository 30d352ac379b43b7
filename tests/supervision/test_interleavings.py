"""The few places where threads meet, in every order that one or two preemptions allow (`INTERLEAVE_MORE=1`: one
more).

Mailbox (put and close), exit cell (end and watch), reply (complete, read, give up), waiter (resolve, bind, expire),
the wake-up of a parked task. Each check also runs against a version with the promise broken on purpose, to show that
the checker sees it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import supervision.fence
import supervision.life
import supervision.oneshot
from supervision import Killed, ManualClock, NoProc, Normal, Shutdown, Waiter, monitor
from supervision._asyncio import WakefulLoop
from supervision._process import Ref, Reply
from supervision.birth import Birth, Handshake
from supervision.fence import Fence
from supervision.life import TaskLife, ThreadLife
from supervision.oneshot import OneShot
from supervision.task_actor import TaskActor, _loop
from supervision.thread_actor import run_thread
from supervision.timers import Timers
from tests.supervision.support.interleave import BadOrder, Interleavings, StepQueue, step_locks
from tests.supervision.test_holes import OnThread, _Quiet, new_life

LIFE = ("supervision/life.py",)
MORE = int(os.environ.get("INTERLEAVE_MORE", "0"))


@pytest.fixture(autouse=True)
def locks() -> Iterator[None]:
    with step_locks([supervision.life, supervision.oneshot, supervision.fence]):
        yield


class OnLoop(TaskActor):
    def on_receive(self, message: Any) -> Any:
        return message


# --- mailbox


def test_a_message_is_taken_or_refused_when_put_and_close_race() -> None:
    def build() -> Any:
        life = new_life()
        heard: list[str] = []

        def tell() -> None:
            try:
                life.put("hello")
                heard.append("accepted")
            except NoProc:
                heard.append("refused")

        def check() -> None:
            left = [item for item in _rest(life) if item[0] == "hello"]
            assert len(heard) == 1
            assert not left, "a message lies in a mailbox that nobody reads"

        return [tell, lambda: life.finish(Normal())], check

    assert Interleavings(*LIFE, preemptions=2 + MORE).explore(build) > 8


def test_two_askers_and_a_close_leave_nobody_without_an_answer() -> None:
    def build() -> Any:
        life = new_life()
        replies: list[Reply[Any]] = []

        def ask() -> None:
            replies.append(Ref(life).ask("hello", block=False))

        def check() -> None:
            assert len(replies) == 2
            assert all(reply.settled for reply in replies)

        return [ask, ask, lambda: life.finish(Normal())], check

    assert Interleavings(*LIFE, preemptions=1 + MORE).explore(build) > 8


def test_the_checker_sees_a_mailbox_that_looks_before_it_puts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: ThreadLife, message: Any, reply: Any = None) -> None:
        if self.closed:
            raise NoProc("closed")
        _between(self)
        self.queue.put((message, reply))

    monkeypatch.setattr(ThreadLife, "put", put)

    def build() -> Any:
        life = new_life()
        replies: list[Reply[Any]] = []

        def check() -> None:
            assert replies[0].settled

        return [lambda: replies.append(Ref(life).ask(1, block=False)), lambda: life.finish(Normal())], check

    with pytest.raises(BadOrder):
        Interleavings(*LIFE, "test_interleavings.py", preemptions=1 + MORE).explore(build)


def _between(_: object) -> None:
    """A line at which another thread may come in."""


# --- a kill against the turn of a thread


def test_an_asker_is_answered_once_when_a_kill_meets_its_turn() -> None:
    def build() -> Any:
        life = new_life()
        life.queue = StepQueue()  # type: ignore[assignment]
        handshake = Handshake(life)
        reply: Reply[Any] = Ref(life).ask("hello", block=False)
        settled: list[Any] = []
        downs: list[Any] = []
        reply.subscribe(lambda: settled.append(reply._outcome))
        monitor(life.ref, downs.append)

        def check() -> None:
            assert len(settled) == 1, "not exactly one answer"
            assert [down.reason for down in downs] == [Killed()]

        return [lambda: run_thread(life, Birth(OnThread), handshake), life.kill], check

    assert Interleavings(*LIFE, preemptions=1 + MORE).explore(build) > 8


# --- exit cell


@pytest.mark.parametrize("ends", [1, 2])
def test_a_watcher_hears_once_or_is_told_that_it_is_too_late(ends: int) -> None:
    def build() -> Any:
        life = new_life()
        heard: list[Any] = []

        def check() -> None:
            assert len(heard) == 1, f"{len(heard)} Downs"
            assert life.reason in (Normal(), Shutdown())

        workers = [
            lambda: monitor(life.ref, heard.append),
            lambda: life.finish(Normal()),
            lambda: life.finish(Shutdown()),
        ]
        return workers[: ends + 1], check

    preemptions = 1 if ends == 2 else 2 + MORE
    assert Interleavings("supervision/life.py", "supervision/monitor.py", preemptions=preemptions).explore(build) > 8


# --- reply


def test_a_reply_is_completed_once_and_every_reader_gets_the_same() -> None:
    def build() -> Any:
        reply: Reply[Any] = Reply()
        won: list[bool] = []
        read: list[Any] = []

        def check() -> None:
            assert sorted(won) == [False, True]
            assert read[0] == reply.get()

        workers = [
            lambda: won.append(reply.succeed("one")),
            lambda: won.append(reply.succeed("two")),
            lambda: read.append(reply.get()),
        ]
        return workers, check

    assert Interleavings("supervision/oneshot.py", preemptions=1 + MORE).explore(build) > 8


def test_a_reader_whose_time_is_up_still_takes_a_reply_that_is_there() -> None:
    def build() -> Any:
        outcome = OneShot()
        seen: list[bool] = []

        def check() -> None:
            assert len(seen) == 1
            assert outcome._callbacks is None

        return [lambda: outcome.settle(1), lambda: seen.append(outcome.block(5.0))], check

    assert Interleavings("supervision/oneshot.py", preemptions=1 + MORE).explore(build) > 8


# --- waiter


def test_a_waiter_is_resolved_once_by_result_down_or_deadline() -> None:
    def build() -> Any:
        life = new_life()
        waiter: Waiter[str] = Waiter(on_deadline="too late")
        called: list[str] = []
        won: list[bool] = []
        waiter.add_done_callback(lambda done: called.append(done.value))

        def check() -> None:
            assert len(called) == 1
            assert waiter.cause in ("result", "deadline", "down")
            assert not life.watchers

        workers = [
            lambda: waiter.bind(life.ref, lambda down: "down"),
            lambda: won.append(waiter.resolve("result")),
            lambda: won.append(waiter.expire()),
        ]
        return workers, check

    assert Interleavings("supervision/waiter.py", preemptions=1 + MORE).explore(build) > 8


def test_a_waiter_that_is_bound_while_the_actor_ends_is_resolved() -> None:
    def build() -> Any:
        life = new_life()
        waiter: Waiter[str] = Waiter()

        def check() -> None:
            assert waiter.resolved
            assert waiter.value == "down"

        return [lambda: waiter.bind(life.ref, lambda down: "down"), lambda: life.finish(Normal())], check

    assert Interleavings("supervision/waiter.py", "supervision/life.py", preemptions=1 + MORE).explore(build) > 8


# --- fence


def test_a_fence_stays_shut_for_one_while_it_is_opened_for_another() -> None:
    def build() -> Any:
        fence = Fence()
        fence.shut_thread(1, list)

        def check() -> None:
            assert fence.active, "what the abandoned sends is no longer refused"

        return [lambda: fence.shut_thread(2, list), lambda: fence.open_thread(1)], check

    assert Interleavings("supervision/fence.py", preemptions=1, opcodes=True).explore(build) > 8


# --- timer


def test_a_timer_that_is_taken_back_while_it_is_due_fires_or_says_that_it_never_will() -> None:
    def build() -> Any:
        timers = Timers(ManualClock(), lambda: None)
        fired: list[str] = []
        taken: list[bool] = []
        token = timers.call_after(0, lambda: fired.append("fired"))

        def check() -> None:
            assert len(taken) == 1
            assert taken[0] is not bool(fired), "it was taken back, and fired"

        return [timers.run_due, lambda: taken.append(token.cancel())], check

    assert Interleavings("supervision/timers.py", preemptions=2 + MORE).explore(build) > 8


# --- the wake-up of a task


class _Gate:
    def __await__(self) -> Iterator[Any]:
        yield self


def task_life() -> tuple[TaskLife, list[Any]]:
    """A task's life without a loop, and the list of the times that it was fired."""
    life = TaskLife(_Quiet(), OnLoop, 100, "task#1", 1)  # type: ignore[arg-type]
    life.host.burst = 64
    life.ref = Ref(life)
    fired: list[Any] = []
    life.gate = _Gate()  # type: ignore[assignment]
    life.place = SimpleNamespace(fire=fired.append, cancel=lambda life: False, left=lambda life: None)
    return life, fired


def test_a_task_that_parks_while_a_message_comes_is_woken() -> None:
    def build() -> Any:
        life, fired = task_life()
        loop = _loop(OnLoop.create(life, (), {}), life)

        def check() -> None:
            assert not life.box or fired, "a message lies in the mailbox of a task that sleeps"
            loop.close()

        return [lambda: loop.send(None), lambda: life.put("hello")], check

    assert Interleavings("supervision/life.py", "supervision/task_actor.py", preemptions=2 + MORE).explore(build) > 8


def test_a_task_that_parks_while_it_is_asked_to_stop_is_woken() -> None:
    def build() -> Any:
        life, fired = task_life()
        loop = _loop(OnLoop.create(life, (), {}), life)
        parked: list[bool] = []

        def run() -> None:
            try:
                loop.send(None)
                parked.append(True)
            except StopIteration:
                parked.append(False)

        def check() -> None:
            assert not parked[0] or fired
            loop.close()

        return [run, lambda: life.ask_stop(Normal())], check

    assert Interleavings("supervision/life.py", "supervision/task_actor.py", preemptions=2 + MORE).explore(build) > 8


# --- the wake-up of a loop


class _Pipe:
    """Both ends of a self-pipe."""

    def __init__(self) -> None:
        self.held = 0

    def send(self, data: bytes) -> None:
        self.held += len(data)

    def recv(self, size: int) -> bytes:
        if not self.held:
            raise BlockingIOError
        took, self.held = min(size, self.held), 0
        return bytes(took)


class _Forgetful(WakefulLoop):
    """Says that the byte is read before it reads it."""

    def _read_from_self(self) -> None:
        self._woken = False
        _between(self)
        self._ssock.recv(4096)  # type: ignore[attr-defined]


def _a_loop_and_two_callers(kind: type[WakefulLoop]) -> Any:
    loop: Any = object.__new__(kind)
    loop._ssock = loop._csock = pipe = _Pipe()
    loop._debug = False
    loop._closed = True  # it was never opened: nothing to warn of
    ready: list[str] = ["first"]
    loop._write_to_self()

    def call(name: str) -> None:
        ready.append(name)
        loop._write_to_self()

    def one_pass() -> None:
        loop._read_from_self()
        _between(loop)
        ready.clear()

    def check() -> None:
        assert not ready or pipe.held, "the loop sleeps on a call"

    return [one_pass, lambda: call("second"), lambda: call("third")], check


def test_a_loop_never_sleeps_on_a_call_that_came_while_it_read_its_wake_up() -> None:
    files = ("supervision/_asyncio.py", "test_interleavings.py")
    assert Interleavings(*files, preemptions=2).explore(lambda: _a_loop_and_two_callers(WakefulLoop)) > 8
    with pytest.raises(BadOrder, match="sleeps on a call"):
        Interleavings(*files, preemptions=2).explore(lambda: _a_loop_and_two_callers(_Forgetful))


def _rest(life: ThreadLife) -> list[tuple[Any, Any]]:
    items = []
    while life.queue.qsize():
        items.append(life.queue.get_nowait())
    return items
