"""Exit and fork: a process ends at once in every state, and a forked child is told that nobody is there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

PRELUDE = """
import asyncio, os, sys, threading, time
from supervision import *

class T(ThreadActor):
    def on_receive(self, message): return message() if callable(message) else message

class L(TaskActor):
    async def on_receive(self, message):
        result = message() if callable(message) else message
        return await result if asyncio.iscoroutine(result) else result

rt = ThreadRuntime()
"""

STATES = {
    "nothing was started": "",
    "idle actors": "rt.spawn(T); rt.spawn(L)",
    "a tree": """
        dyn = DynamicSupervisor.start(rt)
        Supervisor.start(rt, [ChildSpec('a', T), ChildSpec('b', L)], strategy=Strategy.ONE_FOR_ALL)
        for n in range(20): dyn.start_child(ChildSpec(n, L))
    """,
    "a hung thread": "rt.spawn(T).tell(lambda: time.sleep(600)); time.sleep(0.05)",
    "an abandoned thread": "r = rt.spawn(T); r.tell(lambda: time.sleep(600)); time.sleep(0.05); r.kill()",
    "a task in the middle": "rt.spawn(L).tell(lambda: asyncio.sleep(600)); time.sleep(0.05)",
    "a blocked loop": "rt.spawn(L).tell(lambda: time.sleep(600)); time.sleep(0.05)",
    "a busy loop": """
        def again():
            rt.loop.asyncio_loop.call_soon(again)
        rt.spawn(L); rt.loop.call_soon(again)
    """,
    "timers": """
        for n in range(100): rt.timers.call_after(n / 100, lambda: None)
        rt.timers.call_every(0.001, lambda: None)
    """,
    "a crashing child": """
        class Bad(L):
            async def on_start(self): raise ValueError
        try:
            Supervisor.start(rt, [ChildSpec('bad', Bad)], strategy=Strategy.ONE_FOR_ONE)
        except StartError: pass
    """,
    "closed": "rt.spawn(L); rt.spawn(T); assert rt.close()",
    "asks in flight": """
        r = rt.spawn(L); t = rt.spawn(T)
        def hammer():
            while True: t.ask(1); r.ask(1)
        for _ in range(4): threading.Thread(target=hammer, daemon=True).start()
        time.sleep(0.05)
    """,
}


def run(body: str, *, seconds: float = 50.0) -> tuple[int, float, str]:
    began = time.monotonic()
    code = PRELUDE + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, time.monotonic() - began, done.stdout + done.stderr


@pytest.mark.parametrize("state", STATES)
def test_a_process_exits_at_once_with_code_0_in_the_state(state: str) -> None:
    rounds = int(os.environ.get("EXIT_ROUNDS", "1"))
    for _ in range(rounds):
        code, seconds, output = run(STATES[state])
        assert code == 0, output
        assert "Fatal" not in output
        if state == "a tree":
            assert output == "", "what ends with the process is not started again, and no supervisor gives up over it"
        assert seconds < 10.0, f"{seconds} s, of which a quiet machine needs one to start"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_NoProc_and_can_have_a_runtime_of_its_own() -> None:
    code, _, output = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        t, l = rt.spawn(T), rt.spawn(L)
        tree = Supervisor.start(rt, [ChildSpec('a', T)], strategy=Strategy.ONE_FOR_ONE)
        default = T.start()
        w = Waiter().bind(t, lambda down: type(down.reason).__name__)
        pid = os.fork()
        if pid == 0:
            said = []
            for call in (lambda: t.ask(1), lambda: t.tell(1), lambda: l.ask(1), lambda: l.tell(1),
                         lambda: tree.which_children(), lambda: tree.start_child(ChildSpec('b', T)),
                         lambda: rt.spawn(T), lambda: default.ask(1)):
                try:
                    call(); said.append("answered")
                except NoProc: said.append("NoProc")
                except StartError as error: said.append(type(error.__cause__).__name__)
            said.append(w.result())
            said.append(str(T.start().ask("fresh")))
            with ThreadRuntime() as own: said.append(own.spawn(L).ask("own"))
            print(" ".join(said), flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status == 0
        assert t.ask("parent") == "parent" and l.ask("parent") == "parent" and default.ask(1) == 1
        print("the parent lives on")
        """
    )
    assert code == 0, output
    assert " ".join(["NoProc"] * 8) + " Killed fresh own" in output
    assert "the parent lives on" in output


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_is_held_up_by_no_lock_and_no_fence_of_threads_that_stayed_in_the_parent() -> None:
    code, _, output = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        t = rt.spawn(T)
        rt.registry.register("name", t)
        for _ in range(4):  # the numbers of such threads are given again in the child
            hung = rt.spawn(T)
            entered = threading.Event()
            hung.tell(lambda: entered.set() or time.sleep(600))
            entered.wait(); hung.kill()
        holds, forked = threading.Event(), threading.Event()
        def hold():  # as a thread that lost the processor in the middle of it
            with rt.registry._lock, rt.timers._lock, rt.loop._lock, supervision.runtime._default_lock:
                with supervision.fence.fence._lock, t.life.lock:
                    holds.set(); forked.wait()
        import supervision.runtime
        threading.Thread(target=hold, daemon=True).start()
        holds.wait()
        pid = os.fork()
        if pid == 0:
            import signal
            signal.alarm(30)
            said = [str(t.is_alive()), str(rt.registry.whereis("name")), T.start().ask("default")]
            rt.timers.call_after(1, print).cancel()
            with ThreadRuntime() as own:
                sink = own.spawn(T)
                asked = [own.spawn(T).ask(lambda: sink.ask("heard")) for _ in range(8)]
            print(" ".join(said), set(asked), flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        forked.set()
        assert status == 0, status
        assert t.ask("parent") == "parent"
        """
    )
    assert code == 0, output
    assert "False None default {'heard'}" in output


def test_a_hosts_own_actors_and_a_second_runtime_live_through_every_ending_of_ours() -> None:
    code, _, output = run(
        """
        import pykka
        class Host(pykka.ThreadingActor):
            use_daemon_thread = True
            def on_receive(self, message): return message
        host = Host.start()
        second = ThreadRuntime()
        other = second.spawn(T); task = second.spawn(L)
        def leave(): raise SystemExit
        for cls in (T, L):
            try: rt.spawn(cls).ask(leave)
            except NoProc: pass
        rt.spawn(L).kill(); rt.spawn(T).kill()
        rt.close()
        assert host.ask(1) == 1 and other.ask(2) == 2 and task.ask(3) == 3
        pykka.ActorRegistry.stop_all()
        assert other.ask(2) == 2 and task.ask(3) == 3
        print("alive")
        """
    )
    assert code == 0, output
    assert "alive" in output
