"""Closing, and what is asked of a runtime that is closed; what a program's mistake is answered with."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.model import Reason
from tests.life.conftest import Environment
from tests.runtime.conftest import MakeMemory
from tests.support.lateness import Lateness
from tests.support.memory_world import until


class TestMistakes:
    """A wish that cannot be kept is not to look as if it were: mistakes of the program raise, and nothing hangs."""

    @pytest.mark.parametrize("key", [None, 7, b"one", ["one"]], ids=str)
    @pytest.mark.parametrize("call", ["opt_out", "opt_in"])
    def test_a_conversation_that_is_no_text_is_a_TypeError(self, make: MakeMemory, call: str, key: Any) -> None:
        memory = make(tree=False)
        with pytest.raises(TypeError, match="session_key must be the key of a conversation"):
            getattr(memory, call)(key)

    def test_a_blank_conversation_is_a_ValueError_and_a_fork_says_which_end(self, make: MakeMemory) -> None:
        memory = make(tree=False)
        for blank in ("", "  \n"):
            with pytest.raises(ValueError, match="session_key is blank"):
                memory.opt_out(blank)
        with pytest.raises(TypeError, match="parent must be"):
            memory.fork(None, "two")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="child is blank"):
            memory.fork("one", " ")
        with pytest.raises(TypeError, match="at must be a turn's id"):
            memory.fork("one", "two", 7)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("timeout", "error"),
        [("x", TypeError), (None, TypeError), (True, TypeError), (float("nan"), ValueError)],
        ids=str,
    )
    def test_a_timeout_that_is_no_number_raises_and_closes_nothing(
        self, make: MakeMemory, timeout: Any, error: type[Exception]
    ) -> None:
        memory = make()
        with pytest.raises(error, match="timeout must be a number of seconds"):
            memory.flush(timeout)
        with pytest.raises(error, match="timeout must be a number of seconds"):
            memory.close(timeout)
        with pytest.raises(error, match="timeout must be a number of seconds"):
            asyncio.run(memory.aclose(timeout))
        with pytest.raises(error, match="timeout must be a number of seconds"):
            asyncio.run(memory.aflush(timeout))
        assert memory.status().state != "closed"

    @pytest.mark.parametrize("timeout", [-1, -float("inf"), 0])
    def test_a_timeout_that_is_over_is_no_mistake(self, make: MakeMemory, timeout: float) -> None:
        memory = make("http://127.0.0.1:9")
        memory.capture(Turn("one", "ann", "hello", None)).wait("accepted", 20.0)
        assert memory.flush(timeout) is False
        memory.close(timeout)
        assert memory.status().state == "closed"


class TestClosed:
    def test_a_flush_afterwards_says_how_it_was_left(self, make: MakeMemory, server: str, tmp_path: Path) -> None:
        delivered = make(server, workspace="left")
        left = make("http://127.0.0.1:9", workspace="left", state_dir=tmp_path / "other")
        delivered.capture(Turn("one", "ann", "hello", None))
        assert left.capture(Turn("two", "ann", "hello", None)).wait("accepted", 20.0) == "accepted"
        assert delivered.flush(20.0)
        assert delivered.close(20.0) is True
        left.close(1.5)
        assert (delivered.flush(0.0), left.flush(0.0)) == (True, False)

    def test_a_second_caller_does_not_wait_longer_than_it_said(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)
        memory.capture(Turn("one", "ann", "hello", None)).wait("accepted", 20.0)
        first = threading.Thread(target=memory.close, args=(4.0,))
        first.start()
        until(lambda: memory._closing.locked(), 20.0)
        with Lateness() as control:
            begun = time.monotonic()
            assert memory.close(0.2) is False
            ended = time.monotonic()
            assert ended - begun < 0.2 + 1.0 + 0.3 + 2 * control.worst(begun, ended)
        assert first.is_alive()
        first.join(30.0)
        assert memory.close(0.2) in (True, False)
        assert memory.context(TurnRequest(session_key="one", user="ann")).reason is Reason.CLOSED

    def test_a_runtime_that_was_never_started_closes_the_same_way(self, environment: Environment) -> None:
        memory = Memory.start(tree=False)
        closers = [threading.Thread(target=memory.close) for _ in range(5)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(20.0)
        assert (memory.close(), memory.status().state) == (True, "closed")

    def test_a_close_inside_a_loop_may_be_the_sync_one(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)

        async def leave() -> bool:
            await memory.acapture(Turn("one", "ann", "hello", None))
            memory.close(1.5)
            return memory.status().state == "closed"

        assert asyncio.run(leave())


class TestFromOddPlaces:
    """A signal's handler, a finalizer or a companion closes in the middle of whatever their thread was doing."""

    def test_from_inside_a_close_it_is_answered_at_once_and_that_one_goes_on(self, make: MakeMemory) -> None:
        memory = make()
        inner: list[bool] = []
        memory.companion("host", lambda one: _Companion(lambda: inner.append(one.close(300.0))))
        assert memory.close(20.0) is True
        assert inner == [False]

    def test_on_the_thread_that_everything_waits_for_it_is_done_by_another(self, make: MakeMemory) -> None:
        memory = make()
        answers: list[bool] = []
        answered = threading.Event()

        def finalizer() -> None:
            answers.append(memory.close(20.0))
            answered.set()

        memory._tree.runtime.timers.call_after(0.0, finalizer)  # type: ignore[union-attr]
        assert answered.wait(20.0)
        assert answers == [False]
        until(lambda: memory.status().state == "closed", 20.0)
        assert memory.close(20.0) is True

    def test_in_the_middle_of_a_look_at_the_health(self, make: MakeMemory) -> None:
        memory = make()
        telling = memory._tree.telling  # type: ignore[union-attr]
        signs, telling._signs = telling._signs, lambda: (memory.close(20.0), signs())[1]
        looks = threading.Thread(target=memory.status, daemon=True)
        looks.start()
        looks.join(20.0)
        assert not looks.is_alive()
        assert memory.status().state == "closed"

    def test_while_a_side_is_being_started_again_it_does_not_wait_for_that(self, make: MakeMemory) -> None:
        memory = make()
        with memory._tree._lock:  # type: ignore[union-attr]
            closes = threading.Thread(target=memory.close, args=(0.5,), daemon=True)
            closes.start()
            closes.join(20.0)
            assert not closes.is_alive()

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_whatever_a_companion_throws_whoever_awaits_the_close_is_answered(self, make: MakeMemory) -> None:
        memory = make()

        def leaves() -> None:
            raise SystemExit(3)

        companion = memory.companion("host", lambda _: _Companion(leaves))
        assert asyncio.run(asyncio.wait_for(memory.aclose(5.0), 20.0)) is False
        companion.close = lambda: None
        assert memory.close(20.0) is True


class _Companion:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close
