"""A process that is forked while memory runs: field case 122, and what the child is told of what it was left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.life.exits import LOOKS_WRONG
from tests.support.capture_rig import texts

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork on this system")

PRELUDE = """
import json, os, random, sys, threading, time, warnings
from pathlib import Path
from honcho_actors import Memory, Settings, Turn, TurnRequest
warnings.simplefilter("ignore", DeprecationWarning)
folder, url = Path(sys.argv[1]), sys.argv[2]

def start(name="own", **more):
    where = {"state_dir": folder / name, "cache_dir": folder / (name + "-cache"), "settle_time": 0.5}
    return Memory.start(Settings(base_url=url, workspace="forks", **where, **more))

def ask(memory, key="one", budget=20.0):
    return memory.context(TurnRequest(session_key=key, user="ann", query="where were we with it?"), budget)

def forked(work, seconds=30.0):
    "The exit code of a child that did `work`; None when it had to be killed."
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work() or 0
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None
"""


def run(program: str, folder: Path, url: str) -> str:
    """What the program said; it may say nothing on stderr that looks like a fault."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, str(folder), url],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not LOOKS_WRONG.search(done.stderr), done.stderr
    return done.stdout.strip()


UNDER_LOAD = """
memory = start("parent")
done = threading.Event()
said = []

def talk(number):
    told = 0
    while not done.is_set():
        ask(memory, f"talk-{number}", 0.05)
        if told < 100:
            said.append(memory.capture(Turn(f"talk-{number}", "ann", f"thing {told} of {number}", None)))
            told += 1
        memory.status()
        memory.search("thing", key="one")
        time.sleep(0.001)

def lives_on_what_it_was_left():
    assert ask(memory).reason == "closed"
    assert ask(memory, budget=0.0).reason == "closed"
    receipt = memory.capture(Turn("child", "eve", "never to be seen", "you"))
    assert (receipt.state, receipt.reason) == ("skipped", "closed")
    assert memory.flush(1.0) is False
    assert memory.search("thing", key="one") == ()
    assert memory.forget("ann").done is False
    memory.opt_out("one"); memory.fork("one", "two"); memory.refresh(TurnRequest("one", user="ann")); memory.reload()
    status = memory.status()
    assert status.state == "closed" and "forked" in status.health and status.pid == os.getpid()
    assert memory.close(1.0) is True

def has_its_own():
    with start("child-%d" % os.getpid()) as own:
        assert ask(own, "own").reason != "worker_died"
        receipt = own.capture(Turn("child-%d" % os.getpid(), "eve", "from a child", None))
        assert receipt.wait("delivered", 20.0) == "delivered", receipt
    lives_on_what_it_was_left()

talkers = [threading.Thread(target=talk, args=(n,), daemon=True) for n in range(4)]
for talker in talkers: talker.start()
codes = []
for number in range(100):
    codes.append(forked(has_its_own if number % 33 == 10 else lives_on_what_it_was_left))
    time.sleep(random.random() * 0.004)
done.set()
for talker in talkers: talker.join(20.0)
assert codes == [0] * 100, codes
receipts = [one.wait("delivered", 40.0) for one in said]
assert set(receipts) == {"delivered"}, set(receipts)
print(len(said), memory.status().state, memory.close(5.0))
"""


@pytest.mark.timeout(120)
def test_case_122_a_hundred_forks_under_load_hang_nobody_and_what_each_side_said_arrives_once(
    server: str, tmp_path: Path
) -> None:
    count, state, closed = run(UNDER_LOAD, tmp_path, server).split()
    assert (state, closed) == ("ready", "True")
    found = {number: texts(server, f"talk-{number}", "forks") for number in range(4)}
    assert sum(map(len, found.values())) == int(count)
    for number, told in found.items():
        assert told == [f"thing {one} of {number}" for one in range(len(told))]
    children = [path.name for path in tmp_path.iterdir() if path.name.startswith("child-") and "cache" not in path.name]
    assert len(children) == 3
    for child in children:
        assert texts(server, child, "forks") == ["from a child"]


HALF_A_LIBRARY = """
import importlib.util

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "httpx._client":
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            def slowly(module):
                imports.set()
                time.sleep(1.0)
                load(module)
            spec.loader.exec_module = slowly
            return spec

imports = threading.Event()
sys.meta_path.insert(0, Slow())
memory = start("parent")
assert imports.wait(20.0)

def has_its_own():
    with start("child") as own:
        found = ask(own, "own")
        print(found.state, found.reason, flush=True)

print(forked(has_its_own), ask(memory).state)
memory.close(5.0)
"""


def test_a_fork_in_the_middle_of_the_import_of_the_http_library_waits_for_it(server: str, tmp_path: Path) -> None:
    child, parent = run(HALF_A_LIBRARY, tmp_path, server).splitlines()
    assert child in ("cold nothing_known", "cold filled")
    assert parent in ("0 cold", "0 warm")


IN_A_CLOSE = """
memory = start("parent")
memory.capture(Turn("one", "ann", "hello", "you")).wait("accepted", 20.0)
closer = threading.Thread(target=memory.close, args=(2.0,))
closer.start()
time.sleep(0.3)

def closes():
    assert memory.close(0.5) is True
    assert memory.status().state == "closed"

print(forked(closes))
closer.join()
"""


def test_a_fork_while_another_thread_closes_leaves_the_child_able_to_close(hung: str, tmp_path: Path) -> None:
    assert run(IN_A_CLOSE, tmp_path, hung) == "0"


BY_THE_BOOK = """
memory = start("parent", admin_port=0)
memory.capture(Turn("one", "ann", "hello", "you")).wait("delivered", 20.0)
before = {str(path.relative_to(folder)) for path in folder.rglob("*")}
child = os.fork()
if child == 0:
    own = start("child")
    own.close(2.0)
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
after = {str(path.relative_to(folder)) for path in folder.rglob("*")}
assert before <= after, before - after
receipt = memory.capture(Turn("one", "ann", "and on", "we go"))
print(code, receipt.wait("delivered", 20.0), ask(memory).state, memory.close(5.0))
"""


def test_a_child_that_ends_like_a_program_takes_nothing_of_its_parent_along(server: str, tmp_path: Path) -> None:
    """`sys.exit`, so with exit handlers and finalisers: files, locks and sockets of the parent stay."""
    code, delivered, state, closed = run(BY_THE_BOOK, tmp_path, server).split()
    assert (code, delivered, closed) == ("0", "delivered", "True")
    assert state in ("cold", "warm")
