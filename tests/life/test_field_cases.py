"""Field cases of groups D (34, 35, 37) and N (123 to 127) through `Memory`; 122 is in `test_forks`.

The same cases have tests of their own in the rooms that keep the promises (`tests/capture`, `tests/privacy`); here they
are asked of the whole.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory, Turn, TurnRequest
from honcho_actors.model import Reason
from tests.runtime.conftest import MakeMemory
from tests.support.capture_rig import said, texts, turn
from tests.support.lateness import Lateness
from tests.support.memory_world import Server, until
from tests.support.shared_faults import Faults

SLACK = 0.5
"""Seconds beyond a timeout that the cases allow."""


def ask(memory: Memory, key: str = "one", budget: float = 20.0) -> Any:
    return memory.context(TurnRequest(session_key=key, user="ann", query="where were we with it?"), budget)


def within(seconds: float, work: Callable[[], object]) -> None:
    """Holds `work` to its time, beside how late plain waits were at the same time (it waits more than once)."""
    with Lateness() as control:
        begun = time.monotonic()
        work()
        ended = time.monotonic()
        assert ended - begun <= seconds + 2 * control.worst(begun, ended)


def test_case_34_the_waits_of_a_stop_do_not_add_up(make: MakeMemory, faults: Faults, server: str) -> None:
    faults.plan([{"fault": "hang", "on": ["add_messages"]}])
    memory = make(faults.url, workspace="case-34")
    for session in range(10):
        for number in range(5):
            last = memory.capture(turn(number, f"s{session}", user="ann"))
    assert last.wait("accepted", 20.0) == "accepted"
    until(lambda: faults.requests().get("add_messages", 0) == 10, 20.0)
    within(3.0 + SLACK, lambda: memory.close(3.0))
    assert memory.flush(1.0) is False
    faults.plan([])
    again = make(faults.url, workspace="case-34")
    assert again.flush(40.0)
    for session in range(10):
        assert texts(server, f"s{session}", "case-34") == said(*range(5))


def test_case_35_work_during_and_after_a_stop_is_answered_and_a_new_start_works(make: MakeMemory, server: str) -> None:
    memory = make(server, workspace="case-35")
    tool = memory.tools()[0]
    request = TurnRequest(session_key="one", user="ann", query="where were we with it?")
    assert ask(memory).reason is Reason.NOTHING_KNOWN
    done = threading.Event()
    receipts: list[Any] = []
    raised: list[str] = []
    numbers = itertools.count()

    def work() -> None:
        try:
            while not done.is_set():
                receipts.append(memory.capture(Turn("one", "ann", f"thing {next(numbers)}", None)))
                memory.context(request, 0.05)
                assert tool.call({}, request).text
                time.sleep(0.002)
        except Exception as error:
            raised.append(repr(error))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    time.sleep(0.1)
    memory.close(3.0)
    threads = set(threading.enumerate())
    before = len(receipts)
    until(lambda: len(receipts) > before + 20, 20.0)
    done.set()
    for worker in workers:
        worker.join(20.0)
    assert raised == []
    assert {one.wait("accepted", 30.0) for one in receipts} <= {"skipped", "accepted", "delivered"}
    assert {one.reason for one in receipts if one.state == "skipped"} == {"closed"}
    assert ask(memory).reason is Reason.CLOSED
    assert set(threading.enumerate()) <= threads
    again = make(server, workspace="case-35")
    assert again.flush(20.0)
    kept = sum(one.state != "skipped" for one in receipts)
    found = texts(server, "one", "case-35")
    assert (len(found), len(set(found))) == (kept, kept)
    assert again.capture(Turn("one", "ann", "afterwards", None)).wait("delivered", 20.0) == "delivered"


def test_case_37_a_full_queue_and_a_stuck_consumer_do_not_keep_a_stop_waiting(
    make: MakeMemory, hung: str, tmp_path: Path
) -> None:
    memory = make(hung, workspace="case-37")
    assert memory.capture(Turn("one", "ann", "first", None)).wait("accepted", 20.0) == "accepted"
    blocker = sqlite3.connect(tmp_path / "state" / "outbox.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        full = (memory.capture(Turn("one", "ann", "and more", None)).reason == "overloaded" for _ in range(20_000))
        assert any(full)
        within(2.0 + SLACK, lambda: memory.close(2.0))
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert memory.status().state == "closed"


NAME = re.compile(r"[A-Za-z0-9_-]{1,100}(\.[a-z]+(-[a-z]+)?)*")
"""As the case has it, and with a second ending what stands beside a database (`outbox.db-wal`, `outbox.db.lock`)."""


def test_case_123_what_lies_on_disk_is_never_named_by_a_key(make: MakeMemory, server: str, tmp_path: Path) -> None:
    memory = make(server, workspace="case-123", admin_port=0)
    keys = ["telegram:123", "CON", "a/../../b", "x.", "y" * 300, "Ä", "nul\0", "../../../escaped"]
    for key in keys:
        memory.context(TurnRequest(session_key=key, user=key, query="where were we?"), 1.0)
        memory.capture(Turn(key, key, "hello", "you"))
    assert memory.flush(40.0)
    until(lambda: (tmp_path / "cache" / "cache.db").exists(), 20.0)
    found = [path for room in ("state", "cache") for path in (tmp_path / room).rglob("*")]
    assert len(found) > 4
    assert [path.name for path in found if not NAME.fullmatch(path.name)] == []
    assert {path.name for path in tmp_path.iterdir()} <= {"state", "cache", "home"}


class TestSignals:
    """Case 124."""

    def test_case_124_it_starts_on_any_thread_and_no_handler_is_touched(self, make: MakeMemory, hung: str) -> None:
        before = {number: signal.getsignal(number) for number in signal.valid_signals()}
        made: list[Memory] = []
        thread = threading.Thread(target=lambda: made.append(make(hung)))
        thread.start()
        thread.join(20.0)
        ask(made[0], budget=0.1)
        made[0].close(1.5)
        assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before

    def test_case_124_a_handler_of_the_hosts_is_called_in_the_middle_of_a_cold_wait(
        self, make: MakeMemory, hung: str
    ) -> None:
        heard: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        try:
            memory = make(hung)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            found = ask(memory, budget=1.0)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert (heard, found.reason) == ([signal.SIGTERM], Reason.DEADLINE)

    def test_case_124_ctrl_c_in_a_cold_wait_reaches_the_host(self, make: MakeMemory, hung: str) -> None:
        memory = make(hung)
        sent: list[float] = []

        def interrupt() -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        with Lateness() as control:
            threading.Timer(0.2, interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                ask(memory, budget=30.0)
            ended = time.monotonic()
            assert ended - sent[0] < 0.5 + 2 * control.worst(sent[0], ended)
        until(lambda: memory.meters.registry.get_sample_value("honcho_actors_cold_waiters") == 0.0, 20.0)
        assert ask(memory, budget=0.2).reason in (Reason.DEADLINE, Reason.LOADING)


LOUD = """
import logging, sys, warnings
from pathlib import Path
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
warnings.simplefilter("always")
from honcho_actors import Memory, Settings, Turn, TurnRequest
folder = Path(sys.argv[1])
with Memory.start(Settings(base_url="http://127.0.0.1:9", state_dir=folder / "s", cache_dir=folder / "c")) as memory:
    for number in range(8):
        memory.context(TurnRequest(session_key=f"talk-{number}", user="ann", query="where were we?"), 1.0)
    memory.capture(Turn("one", "ann", "hello", "you")).wait("accepted", 20.0)
    memory.search("hello", key="one")
    memory.tools()[0].call({}, TurnRequest(session_key="one", user="ann"))
    memory.status()
    memory.close(1.5)
print("mine", end="")
"""


def test_case_125_stdout_is_the_hosts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOUD, str(tmp_path)], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "mine"), done.stderr


def test_case_125_the_command_line_says_one_json_value_and_nothing_else(tmp_path: Path) -> None:
    odd = tmp_path / "Gedächtnis 记忆"
    done = subprocess.run(
        [sys.executable, "-m", "honcho_actors.cli", "status", "--json", "--state-dir", str(odd)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 3
    assert json.loads(done.stdout)["running"] is False
    assert "Traceback" not in done.stderr


ODD = """
import json, os, sys
if "deleted" in sys.argv[1:]:
    os.mkdir("gone"); os.chdir("gone"); os.rmdir(os.path.join("..", "gone"))
from honcho_actors import Memory, Turn, TurnRequest
with Memory.start() as memory:
    state = memory.capture(Turn("one", "ann", "hello", "you")).wait("accepted", 20.0)
    context = memory.context(TurnRequest(session_key="one", user="ann", cwd=".", query="where were we?"), 0.5)
    status = memory.status()
    json.dumps(status.as_dict())
    print(json.dumps([state, status.state, status.health]))
    memory.close(1.5)
"""


class TestOddEnvironments:
    """Case 126."""

    @staticmethod
    def run(folder: Path, *words: str, **environ: str) -> list[str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV") if name in os.environ}
        paths = os.pathsep.join(path for path in sys.path if path)
        # -P, as an installed program has it: where "" stands in `sys.path`, CPython 3.13.0 by itself fails in a
        # directory that is gone, at every attribute that a module has not (SystemError).
        done = subprocess.run(
            [sys.executable, "-P", "-c", ODD, *words],
            env={**kept, "PYTHONPATH": paths, "HONCHO_URL": "http://127.0.0.1:9", **environ},
            cwd=folder,
            capture_output=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return list(json.loads(done.stdout))

    def test_case_126_a_state_directory_with_a_space_and_cjk_behind_a_link_in_the_c_locale(
        self, tmp_path: Path
    ) -> None:
        real = tmp_path / "my 记忆"
        real.mkdir()
        (tmp_path / "link").symlink_to(real)
        said = self.run(
            tmp_path, HOME=str(tmp_path), LANG="C", LC_ALL="C", HONCHO_ACTORS_STATE_DIR=str(tmp_path / "link" / "state")
        )
        assert said[:2] == ["accepted", "ready"]
        assert (real / "state" / "outbox.db").exists()

    def test_case_126_a_working_directory_that_was_deleted(self, tmp_path: Path) -> None:
        said = self.run(
            tmp_path,
            "deleted",
            HOME=str(tmp_path),
            HONCHO_ACTORS_SESSION_STRATEGY="directory",
            XDG_STATE_HOME="relative",
        )
        assert said[:2] == ["accepted", "ready"]

    def test_case_126_no_home_boots_or_says_one_clear_thing(self, tmp_path: Path) -> None:
        """Without HOME the user's home comes from the system's table of users; a home that cannot be written is the
        same to us. Reading goes on, writing says why it does not."""
        (tmp_path / "file").write_text("")
        said = self.run(tmp_path, HOME=str(tmp_path / "file" / "home"))
        assert said[:2] == ["skipped", "degraded"]
        assert said[2]
        bare = self.run(tmp_path, XDG_STATE_HOME=str(tmp_path / "s"), XDG_CACHE_HOME=str(tmp_path / "c"))
        assert bare[:2] == ["accepted", "ready"]


SUSPENDED = """
import json, sys, time
from pathlib import Path
from honcho_actors import Memory, Settings, TurnRequest
folder = Path(sys.argv[1])
memory = Memory.start(Settings(base_url=sys.argv[2], state_dir=folder / "s", cache_dir=folder / "c"))
def ask(key, user, budget):
    return memory.context(TurnRequest(session_key=key, user=user, query="where were we with it?"), budget)
for number in range(20):
    ask(f"talk-{number}", f"person-{number}", 20.0)
print(json.dumps("warm"), flush=True)
sys.stdin.readline()
begun = time.monotonic()
found = ask("cold", "ann", 1.0)
print(json.dumps([found.reason, time.monotonic() - begun]), flush=True)
sys.stdin.readline()
memory.close(2.0)
"""


def test_case_127_a_suspended_process_answers_what_is_overdue_at_once_and_makes_no_burst(
    readable: Callable[..., Server], tmp_path: Path
) -> None:
    people = readable(ann=("Ann sails.", []), **{f"person-{n}": (f"Number {n}.", []) for n in range(20)})
    remote = people.remote
    process = subprocess.Popen(
        [sys.executable, "-c", SUSPENDED, str(tmp_path), people.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline()) == "warm"
        until(lambda: remote.count("session_context") == 20 and remote.count("chat") == 20, 20.0)
        remote.closed["session_context"] = threading.Event()
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: remote.count("session_context") == 21, 20.0)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        resumed = time.monotonic()
        with Lateness() as control:
            process.send_signal(signal.SIGCONT)
            reason, took = json.loads(process.stdout.readline())
            answered = time.monotonic()
            assert reason == "deadline"
            assert took > 1.9
            assert answered - resumed < 1.2 + 3 * control.worst(resumed, answered), "it waited on"
        asked = len(remote.asked)
        time.sleep(0.7)
        assert len(remote.asked) <= asked + 1, "one refresh, not a burst"
        assert remote.count("session_context") <= 22
    finally:
        remote.closed.get("session_context", threading.Event()).set()
        process.stdin.close()
        process.stdout.close()
        assert process.wait(20) == 0
