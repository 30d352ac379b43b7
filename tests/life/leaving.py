"""One process that uses memory and leaves in a named state: `python -m tests.life.leaving STATE FOLDER URL`.

It says on stdout, in JSON lines with moments of `time.monotonic()` (one clock for all processes of a machine), when
it begins to leave and what became of what it promised; `exits` starts it, judges, and counts. A state is a function
of this file; its docstring says what is promised there.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.model import Context, Reason
from tests.support.lateness import Lateness

CLOSE = 2.5
"""Seconds given to `close` wherever it is called."""

FOLDER, URL = Path(), ""


def say(**words: Any) -> None:
    """One JSON line, whole."""
    os.write(1, (json.dumps(words) + "\n").encode())


def leaves() -> None:
    """From here on the process is on its way out."""
    say(leaves=time.monotonic())


def started(**changed: Any) -> Memory:
    """A runtime in the middle of things: a turn on disk, another that waited for a moment and went without memory."""
    given = {"state_dir": FOLDER / "state", "cache_dir": FOLDER / "cache", "settle_time": 0.2, **changed}
    memory = Memory.start(Settings(base_url=URL, workspace="exits", **given))
    state = memory.capture(Turn("one", "ines", "hello", "you", turn_id="t1")).wait("accepted", 20.0)
    say(accepted=state in ("accepted", "delivered"))
    turn(memory, budget=0.15)
    return memory


def turn(memory: Memory, key: str = "one", budget: float = 30.0) -> Context:
    return memory.context(TurnRequest(session_key=key, user="ines", query="where were we?"), budget)


def close(memory: Memory, timeout: float = CLOSE, beside: Lateness | None = None) -> bool:
    """Closes, and says whether that kept its timeout, beside how late a plain wait was meanwhile."""
    with beside or Lateness() as control:
        begun = time.monotonic()
        ended = memory.close(timeout)
        took = time.monotonic() - begun
        late = control.worst(begun, begun + took)
    say(closed=ended, over=took - timeout, late=late, state=memory.status().state)
    return ended


def waiting(memory: Memory) -> threading.Thread:
    """A thread in the middle of a cold turn."""
    answered: list[Context] = []
    thread = threading.Thread(target=lambda: answered.append(turn(memory, "waits")), daemon=True)
    thread.start()
    while memory.meters.registry.get_sample_value("honcho_actors_cold_waiters") != 1.0:
        time.sleep(0.005)
    thread.answered = answered  # type: ignore[attr-defined]
    return thread


def block_loop(memory: Memory) -> None:
    """Something on the runtime's loop that never gives it back."""
    held = threading.Event()

    def hold() -> None:
        held.set()
        time.sleep(3600)

    memory._tree.runtime.loop.call_soon(hold)  # type: ignore[union-attr]
    held.wait(20.0)


def hang_names() -> None:
    """A resolver that never answers."""

    def never(*_: Any, **__: Any) -> Any:
        time.sleep(3600)

    socket.getaddrinfo = never


# -- close -------------------------------------------------------------------------------------------------------------


def close_delivers() -> None:
    """What was accepted is delivered before a close is over."""
    memory = started()
    leaves()
    close(memory, 30.0)  # the first delivery of a busy machine takes its time; a close ends when it has been made
    say(drained=memory.flush(0.0))


def close_stops_draining_a_second_before_its_end() -> None:
    """While it drains, turns are served; a second before its timeout it says that it is closed."""
    memory = started()
    closed_at: list[float] = []

    def watch() -> None:
        while memory.context(TurnRequest(session_key="one", user="ines"), 0.0).reason is not Reason.CLOSED:
            time.sleep(0.01)
        closed_at.append(time.monotonic())

    with Lateness() as control:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        leaves()
        begun = time.monotonic()
        close(memory)
        watcher.join(20.0)
        late = control.worst(begun, time.monotonic())
    say(over=closed_at[0] - begun - (CLOSE - 1.0), late=late + 0.05, drained_for=closed_at[0] - begun)


def close_from_another_thread() -> None:
    """Any thread may close."""
    memory = started()
    leaves()
    closer = threading.Thread(target=close, args=(memory,))
    closer.start()
    closer.join()


def close_again_and_again() -> None:
    """Closed twice, and from four threads at once: the same answer, the same time."""
    memory = started()
    leaves()
    closers = [threading.Thread(target=close, args=(memory,)) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    close(memory)


def close_answers_whoever_waits() -> None:
    """A turn that waits for memory is answered by a close."""
    memory = started()
    thread = waiting(memory)
    leaves()
    close(memory)
    thread.join(20.0)
    say(answered=[str(one.reason) for one in thread.answered])  # type: ignore[attr-defined]


def close_with_a_hung_resolver() -> None:
    """Name resolution that never comes back holds nothing up."""
    hang_names()
    memory = started()
    waiting(memory)
    leaves()
    close(memory)


def close_with_a_blocked_loop() -> None:
    """Nor does a loop that does not answer."""
    memory = started()
    waiting(memory)
    block_loop(memory)
    leaves()
    close(memory)


def close_in_atexit() -> None:
    """A host that closes in an exit handler of its own, registered before memory was started."""
    later: list[Memory] = []
    control = Lateness()
    atexit.register(lambda: close(later[0], beside=control))
    later.append(started())
    control.__enter__()
    leaves()


def close_inside_a_loop() -> None:
    """An async program: `aclose` inside `async with`, a task in the middle of a turn."""

    async def main() -> None:
        async with await asyncio.to_thread(started) as memory:
            talk = asyncio.create_task(memory.acontext(TurnRequest(session_key="waits", user="ines"), 30.0))
            await asyncio.sleep(0.05)
            leaves()
            begun = time.monotonic()
            await memory.aclose(CLOSE)
            say(over=time.monotonic() - begun - CLOSE)
        say(answered=[str((await talk).reason)])

    asyncio.run(main())


def close_after_everything_gave_up() -> None:
    """The tree has gone; what is left closes all the same."""
    memory = started()
    memory._tree._root.kill()  # type: ignore[union-attr]
    leaves()
    close(memory)


# -- the end of the interpreter, without a close -----------------------------------------------------------------------


def exit_in_the_middle_of_a_turn() -> None:
    """`main` ends while a daemon thread waits for memory."""
    waiting(started())
    leaves()


def exit_with_a_hung_resolver() -> None:
    """The same, with a name that never resolves."""
    hang_names()
    waiting(started())
    leaves()


def exit_with_a_blocked_loop() -> None:
    """The same, with a loop that never comes back."""
    memory = started()
    waiting(memory)
    block_loop(memory)
    leaves()


def exit_under_load() -> None:
    """The same, with threads that go on asking and capturing until the interpreter is gone."""
    memory = started()

    def hammer(number: int) -> None:
        while True:
            turn(memory, f"talk-{number}", 0.05)
            memory.capture(Turn(f"talk-{number}", "ines", "more", "and more"))

    for number in range(4):
        threading.Thread(target=hammer, args=(number,), daemon=True).start()
    time.sleep(0.3)
    leaves()


def exit_of_a_loop_without_close() -> None:
    """An async program that returns in the middle of a turn."""

    async def main() -> None:
        memory = await asyncio.to_thread(started)
        talk = asyncio.create_task(memory.acontext(TurnRequest(session_key="waits", user="ines"), 30.0))
        await asyncio.sleep(0.05)
        leaves()
        talk.cancel()

    asyncio.run(main())


# -- signals -----------------------------------------------------------------------------------------------------------


def sigterm_unhandled() -> None:
    """No handler of ours: the system ends the process. (The parent sends the signal and reads the outbox.)"""
    memory = started()
    waiting(memory)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    say(signal=signal.SIGTERM)
    time.sleep(3600)


def sigstop_and_sigcont() -> None:
    """Suspended in the middle of a turn: it is answered at once afterwards, and life goes on. (The parent sends.)"""
    memory = started()
    with Lateness() as control:
        thread = threading.Thread(target=lambda: turn(memory, "waits", 1.0), daemon=True)
        begun = time.monotonic()
        thread.start()
        say(suspend=1.5)
        thread.join(20.0)
        ended = time.monotonic()
        say(over=ended - begun - 1.0, late=control.worst(begun, ended))
    turn(memory, "afterwards", 0.2)
    leaves()
    close(memory)


# -- fork --------------------------------------------------------------------------------------------------------------


def forked(work: Callable[[], None]) -> int:
    """Runs `work` in a forked child, which leaves as a program does; its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60.0, exit=True)  # whoever hangs says where
        work()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_and_the_child_uses_what_it_was_left() -> None:
    """The child's copy answers at once that it is closed, and neither end disturbs the other."""
    memory = started()
    waiting(memory)

    def child() -> None:
        assert turn(memory, "child").reason is Reason.CLOSED
        assert memory.capture(Turn("child", "eve", "hello", "you")).reason == "closed"
        assert memory.flush(1.0) is False
        assert memory.status().state == "closed"
        assert memory.close(1.0) is True

    code = forked(child)
    say(child=code, parent=memory.capture(Turn("one", "ines", "and", "on")).wait("accepted", 20.0))
    leaves()
    close(memory)


def fork_and_the_child_starts_its_own() -> None:
    """Both have a runtime, on one state directory, and both leave."""
    memory = started()

    def child() -> None:
        own = started()
        say(closed=own.close(CLOSE), over=0.0, late=0.0, state=own.status().state)

    code = forked(child)
    say(child=code, parent=memory.capture(Turn("one", "ines", "and", "on")).wait("accepted", 20.0))
    leaves()
    close(memory)


def plain() -> None:
    """The control: a process of this size that never started memory, and leaves `CLOSE` seconds after it began to."""
    say(accepted=True)
    leaves()
    time.sleep(CLOSE)


PLAIN = "plain"
STATES: dict[str, Callable[[], None]] = {
    name: one
    for name, one in list(globals().items())
    if callable(one) and name.startswith(("close_", "exit_", "sigterm_", "sigstop_", "fork_"))
}

if __name__ == "__main__":
    # What asyncio's debug mode says of a busy machine says nothing of us; and a fork in the middle of a line on stderr
    # leaves the child a lock that nobody opens.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    FOLDER, URL = Path(sys.argv[2]), sys.argv[3]
    {**STATES, PLAIN: plain}[sys.argv[1]]()
