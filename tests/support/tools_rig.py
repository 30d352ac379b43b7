"""What the tests of the tools stand on: a scripted Honcho on a thread of its own, and how a runtime is asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from honcho_actors import Memory, Settings, TurnRequest
from honcho_actors.satellite.tools import Tool, ToolResult
from tests.support.stub_honcho import Answer, Script, Seen, StubHoncho

FIVE = ("honcho_search", "honcho_context", "honcho_profile", "honcho_conclude", "honcho_reasoning")
ALIASES = ("memory_query", "honcho_chat", "honcho_remember")
GOOD: dict[str, dict[str, Any]] = {
    "honcho_search": {"query": "the boat"},
    "honcho_context": {},
    "honcho_profile": {},
    "honcho_conclude": {"query": "the boat"},
    "honcho_reasoning": {"query": "what about the boat?"},
    "memory_query": {"query": "what about the boat?"},
    "honcho_chat": {"query": "what about the boat?"},
    "honcho_remember": {"content": "Ines restores boats."},
}


def secret() -> str:
    """What looks like a credential, made at run time."""
    return "sk-" + "a1B2c3D4e5F6g7H8" * 2


class Stub:
    """A scripted server. `seen` is what came, `script` may be changed while it runs. Use with `with`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.url = ""

    def __enter__(self) -> Stub:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def ops(self) -> list[str]:
        """What was asked, each as method and the end of its path."""
        return [f"{one.method} {one.path.split('/workspaces/w/', 1)[-1]}" for one in self.seen]

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()

        def answer(seen: Seen) -> Any:
            self.seen.append(seen)
            return self.script(seen)

        async with StubHoncho(answer) as stub:
            self.url = stub.url
            self._ready.set()
            await self._stop.wait()


@contextmanager
def runtime(folder: Path, base_url: str | None, **changed: Any) -> Iterator[Memory]:
    """A runtime without network doors, its state in `folder`."""
    given = {"workspace": "w", "admin_port": None, "settle_time": 0.2, "first_turn_wait": 20.0, **changed}
    memory = Memory.start(Settings(base_url=base_url, state_dir=folder / "state", cache_dir=folder / "cache", **given))
    try:
        yield memory
    finally:
        memory.close(10.0)


def tool(memory: Memory, name: str) -> Tool:
    """The tool of that name."""
    return next(one for one in memory.tools() if one.name == name)


def use(
    memory: Memory, name: str, args: Any = None, user: str | None = "ines", key: str | None = "s", **more: Any
) -> ToolResult:
    """One call in a conversation."""
    return tool(memory, name).call(args, TurnRequest(session_key=key, user=user, **more))


def counted(memory: Memory, name: str, outcome: str) -> float:
    """How often a tool ended so."""
    value = memory.meters.registry.get_sample_value(
        "honcho_actors_tool_calls_total", {"tool": name, "outcome": outcome}
    )
    assert value is not None
    return value


__all__ = ["ALIASES", "FIVE", "GOOD", "Answer", "Stub", "counted", "runtime", "secret", "tool", "use"]
