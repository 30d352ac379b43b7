"""Closing, and what is asked of a runtime that is closed; what a program's mistake is answered with."""

from __future__ import annotations

import asyncio
import threading
import time
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
