"""A read side that runs for real: a scripted Honcho on a real socket, the real client, the real tree.

`Remote` is what the server knows and how it behaves; a test changes it while things run. `World` is a runtime with the
read side in it. Time is real unless a ManualClock is given.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import parse_endpoint
from honcho_actors.metrics import Meters
from honcho_actors.model import Context, SessionKey, TurnRequest
from honcho_actors.sessions import Sessions
from honcho_actors.sessions.budget import utf8_thirds
from honcho_actors.settings import Settings, SettingsCell
from supervision import Clock, Strategy, Supervisor, ThreadRuntime
from tests.support.stub_honcho import Answer, Said, Seen, StubHoncho


@dataclass
class Asked:
    """One request: which operation, of whom, with what."""

    op: str
    peer: str
    session: str
    query: dict[str, str]
    body: Any = None
    at: float = field(default_factory=time.monotonic)


@dataclass
class Remote:
    """What the server knows, and how it behaves."""

    persons: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    summaries: dict[str, str] = field(default_factory=dict)
    answer: Callable[[str], str | None] = lambda query: "About: " + query[-60:]
    delays: dict[str, float] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    closed: dict[str, threading.Event] = field(default_factory=dict)
    """Operations that wait until their event is set."""
    misnamed: str = ""
    """Whom every reply says that it is about, instead of whom was asked about."""
    asked: list[Asked] = field(default_factory=list)

    def count(self, op: str) -> int:
        """How often an operation was asked for."""
        return sum(1 for one in self.asked if one.op == op)

    def last(self, op: str) -> Asked:
        """The newest request of an operation."""
        return [one for one in self.asked if one.op == op][-1]

    async def __call__(self, seen: Seen) -> Answer:
        parts = [unquote(part) for part in seen.path.split("/") if part]
        query = {name: values[0] for name, values in parse_qs(seen.query).items()}
        body = seen.json() if seen.body else None
        kind, name, tail = parts[3], parts[4], parts[5]
        if kind == "sessions":
            op = "session_context" if tail == "context" else "summaries"
            peer, session = query.get("peer_target", ""), name
        else:
            op = "peer_context" if tail == "context" else "chat"
            peer, session = name, ""
        self.asked.append(Asked(op, peer, session, query, body))
        gate = self.closed.get(op)
        while gate is not None and not gate.is_set():  # noqa: ASYNC110 (a thread sets it)
            await asyncio.sleep(0.002)
        delay = self.delays.get(op, 0.0)
        if delay:
            await asyncio.sleep(delay)
        status = self.statuses.get(op)
        if status is not None:
            return Said({"detail": "as the test wishes"}, status)
        return self._reply(op, peer, session, query, body, parts[2])

    def _reply(self, op: str, peer: str, session: str, query: dict[str, str], body: Any, workspace: str) -> Said:
        if op == "chat":
            return Said({"content": self.answer(body["query"])})
        if op == "summaries":
            text = self.summaries.get(session)
            return Said(
                {"id": self.misnamed or session, "short_summary": text and {"content": text}, "long_summary": None}
            )
        if peer not in self.persons:
            return Said({"detail": f"Peer {peer} not found in workspace {workspace}"}, 404)
        representation, card = self.persons[peer]
        if op == "peer_context":
            about = self.misnamed or peer
            return Said({"peer_id": about, "target_id": about, "representation": representation, "peer_card": card})
        text = self.summaries.get(session) if int(query["tokens"]) > 0 and query["summary"] == "true" else None
        return Said(
            {
                "id": self.misnamed or session,
                "messages": [],
                "summary": text and {"content": text},
                "peer_representation": representation,
                "peer_card": card,
            }
        )


class Server:
    """A `Remote` on a socket, on a thread of its own: it outlives the worlds that read it. Use with `with`."""

    def __init__(self, remote: Remote | None = None) -> None:
        self.remote = remote or Remote({"ann": ("Ann grows tomatoes.", ["Name: Ann"])})
        self.url = ""

    def __enter__(self) -> Server:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self.remote.closed.values():
            gate.set()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with StubHoncho(self.remote) as stub:
            self.url = stub.url
            self._ready.set()
            await self._stop.wait()


class World:
    """A runtime with the read side, and the server that it reads (its own, or `server`). Use with `with`."""

    def __init__(
        self,
        remote: Remote | None = None,
        *,
        server: Server | None = None,
        clock: Clock | None = None,
        established: Callable[[SessionKey], bool] = lambda session: False,
        counter: Callable[[str], int] = utf8_thirds,
        heartbeat: float = 2.0,
        **settings: Any,
    ) -> None:
        self._own = None if server is not None else Server(remote)
        self.server = server or self._own
        assert self.server is not None
        self.remote = self.server.remote
        self._clock = clock
        self._established = established
        self._counter = counter
        self._heartbeat = heartbeat
        self._settings = settings

    def __enter__(self) -> World:
        assert self.server is not None
        if self._own is not None:
            self._own.__enter__()
        values = {"base_url": self.server.url, "first_turn_wait": 20.0, **self._settings}
        self.cell = SettingsCell(Settings(**values))
        self.meters = Meters()
        self.runtime = ThreadRuntime(clock=self._clock, name="test", heartbeat=self._heartbeat)
        self._clients: dict[asyncio.AbstractEventLoop, HonchoClient] = {}
        self.sessions = Sessions(
            self.cell,
            self.meters,
            self._client,
            clock=self.runtime.clock,
            is_established=self._established,
            counter=self._counter,
            jitter=lambda: 0.5,
        )
        self.root = Supervisor.start(self.runtime, self.sessions.child_specs(), strategy=Strategy.REST_FOR_ONE)
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self.remote.closed.values():
            gate.set()
        self.sessions.close()
        self.runtime.close(30.0)
        if self._own is not None:
            self._own.__exit__()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def turn(self, query: Any = "what about the garden?", key: str = "s1", user: str = "ann", **more: Any) -> Context:
        """One turn, served; then what it started has been started."""
        budget = more.pop("budget", None)
        context = self.sessions.serve(TurnRequest(session_key=key, user=user, query=query, **more), budget)
        self.settle()
        return context

    def settle(self) -> None:
        """Returns when the manager has read everything that it was told until now."""
        manager = self.sessions.table.manager
        if manager is not None and manager.is_alive():
            manager.ask(None, timeout=30)

    def quiet(self, seconds: float = 30.0) -> None:
        """Returns when no refresh runs."""

        def idle() -> bool:
            self.settle()
            return self.gauge("refresh_in_progress") == 0

        until(idle, seconds)

    def workers(self) -> list[Any]:
        """The workers that run now."""
        refresh = self.runtime.registry.whereis("honcho.refresh")
        return [] if refresh is None else [one.ref for one in refresh.which_children() if one.ref is not None]

    def until_gauge(self, name: str, value: float, **labels: str) -> None:
        """Returns when a metric has this value and the manager has read everything."""

        def holds() -> bool:
            self.settle()
            return self.gauge(name, **labels) == value

        until(holds)

    @property
    def manager(self) -> Any:
        """The manager's ref now."""
        manager = self.sessions.table.manager
        assert manager is not None
        return manager

    def gauge(self, name: str, **labels: str) -> float:
        """The value of a metric now."""
        value = self.meters.registry.get_sample_value("honcho_actors_" + name, labels)
        assert value is not None, name
        return value

    # -- private -------------------------------------------------------------------------------------------------------

    def _client(self, server: str) -> HonchoClient | None:
        if self.cell.current.server_id != server:
            return None
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            endpoint = parse_endpoint(self.cell.current.base_url, None)
            client = self._clients[loop] = HonchoClient(endpoint)
            self.runtime.loop.at_close(client.aclose)
        return client


def until(true: Callable[[], object], seconds: float = 30.0) -> bool:
    """True as soon as something holds; fails when it does not within the time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.002)
    return True
