"""The private names of Pykka and of asyncio that this package uses: this file fails, loudly, when one of them changes.

Pykka's are used in `supervision/_process.py` alone, asyncio's in `supervision/_asyncio.py` alone.
"""

from __future__ import annotations

import ast
import asyncio
import contextvars
import inspect
from asyncio import events
from pathlib import Path
from typing import Any

import pykka
import pytest
from pykka import _envelope, _introspection, messages

import supervision
from supervision._asyncio import Gate, VirtualLoop, WakefulLoop, start_task

ROOT = Path(supervision.__file__).parent


# --- Pykka


def test_the_actor_hooks_that_runtimes_implement_are_there() -> None:
    for name in ("_create_actor_inbox", "_create_future"):
        assert isinstance(inspect.getattr_static(pykka.Actor, name), staticmethod), name
        assert list(inspect.signature(getattr(pykka.Actor, name)).parameters) == []
    assert pykka.Actor.__abstractmethods__ == {"_create_actor_inbox", "_create_future", "_start_actor_loop"}
    assert list(inspect.signature(pykka.Actor._start_actor_loop).parameters) == ["self"]
    assert list(inspect.signature(pykka.Actor._handle_receive).parameters) == ["self", "message"]
    source = inspect.getsource(pykka.Actor)
    assert "self._actor_ref = ActorRef(self)" in source
    assert "return self._actor_ref" in source


def test_the_hooks_of_an_actor_have_the_names_and_arguments_that_we_call() -> None:
    assert list(inspect.signature(pykka.Actor.on_start).parameters) == ["self"]
    assert list(inspect.signature(pykka.Actor.on_receive).parameters) == ["self", "message"]
    assert list(inspect.signature(pykka.Actor.on_failure).parameters) == [
        "self",
        "exception_type",
        "exception_value",
        "traceback",
    ]


def test_a_ref_holds_what_a_proxy_needs() -> None:
    source = inspect.getsource(pykka.ActorRef.__init__)
    for name in ("_actor_weakref", "actor_class", "actor_urn", "actor_inbox", "actor_stopped"):
        assert f"self.{name} = " in source, name
    assert "actor_ref._actor_weakref()" in inspect.getsource(pykka.ActorProxy)
    assert list(inspect.signature(pykka.ActorRef.ask).parameters) == ["self", "message", "block", "timeout"]
    assert list(inspect.signature(pykka.ActorRef.stop).parameters) == ["self", "block", "timeout"]


def test_an_envelope_is_a_message_and_a_reply() -> None:
    envelope: Any = _envelope.Envelope("message", reply_to=None)
    assert (envelope.message, envelope.reply_to) == ("message", None)
    assert _envelope.Envelope.__slots__ == ["message", "reply_to"]


def test_the_special_messages_are_what_we_dispatch_on() -> None:
    assert messages._ActorStop() == ()
    assert messages.ProxyCall._fields == ("attr_path", "args", "kwargs")
    assert messages.ProxyGetAttr._fields == ("attr_path",)
    assert messages.ProxySetAttr._fields == ("attr_path", "value")
    handled = inspect.getsource(pykka.Actor._handle_receive)
    assert handled.count("isinstance(message, messages.") == 4, "Pykka handles another special message"
    assert list(inspect.signature(_introspection.get_attr_directly).parameters) == ["root", "attr_path"]


def test_a_future_keeps_its_hook_under_the_name_that_we_override() -> None:
    future: Any = pykka.Future()
    assert vars(future) == {"_get_hook": None, "_get_hook_result": future._get_hook_result}
    future.set_get_hook(len)
    assert future._get_hook is len
    source = inspect.getsource(pykka.Future)
    for derived in ("filter", "join", "map", "reduce"):
        assert f"def {derived}(" in source
    assert source.count("set_get_hook(") >= 5


def test_pykkas_registry_is_entered_by_start_alone() -> None:
    """Our actors never call `Actor.start`, so that they are in no process-wide list."""
    assert "ActorRegistry.register" in inspect.getsource(pykka.Actor.start)
    before = pykka.ActorRegistry.get_all()
    ref = supervision.default_runtime().spawn(supervision.ThreadActor)
    assert pykka.ActorRegistry.get_all() == before
    ref.stop()
    supervision.default_runtime().close()


# --- asyncio


def test_the_running_loop_can_be_read_and_set() -> None:
    loop = VirtualLoop()
    assert events._get_running_loop() is None
    events._set_running_loop(loop)
    try:
        assert events._get_running_loop() is loop
        assert asyncio.get_running_loop() is loop
    finally:
        events._set_running_loop(None)
        loop.close()


def test_a_task_waits_at_a_gate_and_goes_on_in_the_call_that_fires_it() -> None:
    seen: list[str] = []

    async def main() -> None:
        gate = Gate(asyncio.get_running_loop())

        async def worker() -> None:
            for _ in range(2):
                await gate
                seen.append(asyncio.current_task().get_name())  # type: ignore[union-attr]

        task = asyncio.create_task(worker(), name="the worker")
        await asyncio.sleep(0)
        assert not gate.done()
        fired: list[int] = []

        def fire() -> None:
            gate.fire()
            fired.append(len(seen))

        for expected in (1, 2):
            asyncio.get_running_loop().call_soon(fire)
            await asyncio.sleep(0)
            assert fired[-1] == expected
        await task

    asyncio.run(main())
    assert seen == ["the worker", "the worker"]


def test_a_task_at_a_gate_can_be_cancelled_and_the_gate_used_again() -> None:
    async def main() -> str:
        gate = Gate(asyncio.get_running_loop())

        async def worker() -> str:
            try:
                await gate
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()  # type: ignore[union-attr]
            await gate
            return "went on"

        task = asyncio.create_task(worker())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(gate.fire)
        return await task

    assert asyncio.run(main()) == "went on"


def test_a_task_takes_its_first_step_at_once_in_its_own_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    seen: list[Any] = []

    async def worker() -> None:
        seen.append((variable.get(), asyncio.current_task() is not None))
        await asyncio.sleep(0)
        seen.append(variable.get())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def begin() -> None:
            task = start_task(loop, worker(), context)
            assert seen == [("inside", True)], "the first step was not taken here"
            task.add_done_callback(lambda task: done.set_result(task))

        loop.call_soon(begin)
        await done

    asyncio.run(main())
    assert seen == [("inside", True), "inside"]
    assert "call_soon" not in vars(asyncio.new_event_loop)


def test_a_task_whose_first_step_is_its_last_is_done() -> None:
    async def worker() -> None:
        """Nothing to wait for."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made: list[asyncio.Task[None]] = []
        loop.call_soon(lambda: made.append(start_task(loop, worker(), None)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert made[0].done()

    asyncio.run(main())


def test_a_wakeful_loop_reads_its_wake_up_bytes_by_the_names_that_we_override() -> None:
    loop = WakefulLoop()
    try:
        for name in ("_write_to_self", "_read_from_self"):
            assert hasattr(asyncio.SelectorEventLoop, name)
            assert name in vars(WakefulLoop)
        assert loop._ssock.fileno() >= 0  # type: ignore[attr-defined]
        for _ in range(100):
            loop._write_to_self()
        loop._read_from_self()
        with pytest.raises(BlockingIOError):
            loop._ssock.recv(1)  # type: ignore[attr-defined]
        loop._write_to_self()
        assert loop._ssock.recv(10) == b"\0"  # type: ignore[attr-defined]
    finally:
        loop.close()


def test_a_virtual_loop_runs_callbacks_and_timers_in_virtual_time() -> None:
    loop = VirtualLoop(start=10.0)
    order: list[Any] = []
    loop.call_later(5, order.append, "timer")
    loop.call_later(3, order.append, "never").cancel()
    loop.call_soon(order.append, "soon")
    loop.call_soon_threadsafe(order.append, "from outside")
    assert loop.step()
    assert loop.step()
    assert not loop.step()
    assert order == ["soon", "from outside"]
    assert not loop.skip(14.0)
    assert loop.skip(20.0)
    assert loop.time() == 15.0
    assert loop.step()
    assert order == ["soon", "from outside", "timer"]
    loop.close()


def test_timeouts_and_sleeps_of_asyncio_work_in_virtual_time() -> None:
    loop = VirtualLoop()

    async def main() -> str:
        try:
            async with asyncio.timeout(30):
                await asyncio.sleep(3600)
        except TimeoutError:
            return f"timed out at {loop.time()}"
        return "slept"

    task = loop.create_task(main())
    while not task.done():
        assert loop.step() or loop.skip(float("inf"))
    assert task.result() == "timed out at 30.0"
    loop.close()


# --- each in one module


OWNED = {"pykka": ("pykka", "messages"), "asyncio": ("asyncio", "events")}


def _private(path: Path, package: str) -> list[str]:
    tree = ast.parse(path.read_text())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            parts = [*(node.module or "").split(".")[1:], *(alias.name for alias in node.names)]
            found += [f"{node.module}.{part}" for part in parts if part.startswith("_")]
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            value = node.value
            if isinstance(value, ast.Name) and value.id in OWNED[package]:
                found.append(f"{value.id}.{node.attr}")
    return found


@pytest.mark.parametrize(("package", "module"), [("pykka", "_process.py"), ("asyncio", "_asyncio.py")])
def test_private_names_are_used_in_one_module_only(package: str, module: str) -> None:
    users = {path.name for path in ROOT.rglob("*.py") if _private(path, package)}
    assert users == {module}
