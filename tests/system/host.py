"""A host process with a runtime in it, which does what it is told, faults of its inside among them.

One JSON object a line on stdin, one answer a line on stdout. Settings come from the environment, as for `serve`. What
can be done from outside (a server that fails, a full disk, a mistyped setting) is done from outside; here is what a
process does to itself: an actor that dies, one that hangs, a collector that fails.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.runtime.io import preload
from supervision import Ref, SupervisorRef, ThreadActor


class Hanging(ThreadActor):
    """Hangs in its message until it is let go."""

    def __init__(self, begun: threading.Event, let_go: threading.Event) -> None:
        super().__init__()
        self._begun = begun
        self._let_go = let_go

    def on_receive(self, message: object) -> None:
        self._begun.set()
        self._let_go.wait()


class Broken:
    """A host's collector that fails."""

    def collect(self) -> Iterable[Metric]:
        raise RuntimeError("as the test wishes")


class Host:
    """The runtime, and what can be done in it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._let_go = threading.Event()
        self._broken: Any = Broken()

    def turns(self, asked: Mapping[str, Any]) -> Any:
        """Turns of conversations `PREFIX0`, ...; with `capture`, what was said is handed over, too."""
        found: dict[str, int] = {}
        for number in range(asked["count"]):
            key, user = _whose(asked, number)
            request = TurnRequest(session_key=key, user=user, query="where were we, then?")
            context = self._memory.context(request, asked.get("budget", 0.0))
            found[context.reason] = found.get(context.reason, 0) + 1
        if asked.get("capture"):
            self.capture(asked)
        return found

    def capture(self, asked: Mapping[str, Any]) -> Any:
        """Hands over one turn of each conversation; gives how many are pending, skipped, ... at once."""
        found: dict[str, int] = {}
        for number in range(asked["count"]):
            key, user = _whose(asked, number)
            said = Turn(
                session_key=key,
                user=user,
                prompt=asked.get("text", "The tomatoes are ripe."),
                answer="Then it is time.",
            )
            receipt = self._memory.capture(said)
            found[receipt.state] = found.get(receipt.state, 0) + 1
        return found

    def kill(self, asked: Mapping[str, Any]) -> Any:
        """Kills a child of the tree by its id, if it lives."""
        for name, ref in self._children():
            if name == asked["child"] and ref is not None and ref.is_alive():
                ref.kill()
                return True
        return False

    def hang(self, asked: Mapping[str, Any]) -> Any:
        """Leaves an actor behind that cannot be stopped, until `let_go`."""
        assert self._memory._tree is not None
        begun = threading.Event()
        ref = self._memory._tree.runtime.spawn(Hanging, begun, self._let_go)
        ref.tell(None)
        assert begun.wait(20.0)
        ref.kill()
        return True

    def let_go(self, asked: Mapping[str, Any]) -> Any:
        self._let_go.set()
        return True

    def spoil(self, asked: Mapping[str, Any]) -> Any:
        """A collector that fails comes, and with `mend` goes."""
        collectors: list[Any] = self._memory.meters.collectors
        if asked.get("mend"):
            collectors.remove(self._broken)
        else:
            collectors.append(self._broken)
        return True

    def status(self, asked: Mapping[str, Any]) -> Any:
        return self._memory.status().as_dict()

    def _children(self) -> Iterator[tuple[str, Ref[Any] | None]]:
        assert self._memory._tree is not None
        todo = [self._memory._tree._root]
        while todo:
            supervisor = todo.pop()
            if supervisor is None or not supervisor.is_alive():
                continue
            for child in supervisor.which_children():
                if isinstance(child.ref, SupervisorRef):
                    todo.append(child.ref)
                else:
                    yield str(child.id), child.ref


def _whose(asked: Mapping[str, Any], number: int) -> tuple[str, str]:
    """The conversation of this number, and its person: one of `persons` by turns, else one of its own."""
    persons = asked.get("persons") or [f"{asked['prefix']}.{number}"]
    return f"{asked['prefix']}{number}", persons[number % len(persons)]


def main() -> None:
    preload()
    with Memory.start(Settings.load(require_user=True)) as memory:
        host = Host(memory)
        can: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            name: getattr(host, name) for name in ("turns", "capture", "kill", "hang", "let_go", "spoil", "status")
        }
        _say(memory.status().as_dict()["endpoints"])
        for line in sys.stdin:
            asked = json.loads(line)
            _say(can[asked.pop("do")](asked))


def _say(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
