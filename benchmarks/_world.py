"""What `benchmarks.turns` stands on: servers as processes, runtimes filled through the snapshot path, percentiles."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from honcho_actors.local.process import start
from honcho_actors.model import State, TurnRequest
from honcho_actors.privacy import identity
from honcho_actors.runtime import Memory
from honcho_actors.sessions.block import Limits, Recalled, made_with, stable
from honcho_actors.sessions.messages import PersonSnapshot, SessionSnapshot
from honcho_actors.sessions.shelf import made_of
from honcho_actors.sessions.snapshots import SnapshotFile
from honcho_actors.sessions.table import KNOWN, Person, flat
from honcho_actors.settings import Settings

NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there: turns that are served from snapshots must not need anybody."""
REPRESENTATION = "## Explicit Observations\n\n" + "\n".join(
    ["[2026-03-02 10:00:00] she restores a clinker dinghy of 1963"] * 34
)
"""Two kilobytes, as a person of some months has."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


class Pauses:
    """The collector's pauses while it is open: `longest_ms`."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._begun = 0.0

    def __enter__(self) -> Pauses:
        gc.callbacks.append(self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._begun = time.perf_counter()
        else:
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - self._begun) * 1000)


@contextlib.contextmanager
def local_server(delay: float) -> Iterator[str]:
    """The embedded server, answering after `delay` seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, start(Path(folder), delay=delay) as running:
        yield running.url


@contextlib.contextmanager
def proxied(upstream: str, rules: list[dict[str, Any]]) -> Iterator[str]:
    """A way to `upstream` that does to requests what `rules` say."""
    command = [sys.executable, "-m", "honcho_actors.local.faultproxy", "--upstream", upstream]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        body = json.dumps({"seed": 0, "rules": rules}).encode()
        request = urllib.request.Request(ready["admin"] + "/plan", data=body, method="PUT")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(request, timeout=10).close()
        yield str(ready["url"])
    finally:
        process.terminate()
        process.communicate(timeout=10)


@contextlib.contextmanager
def running(url: str, **changed: Any) -> Iterator[Memory]:
    """A runtime of its own state, metrics on, loaded and ready."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        given = {"state_dir": f"{folder}/state", "cache_dir": f"{folder}/cache", "admin_port": None, **changed}
        memory = Memory.start(Settings(base_url=url, **given))
        try:
            time.sleep(0.2)  # the runtime has loaded what a first request needs
            yield memory
        finally:
            memory.close(2.0)


@contextlib.contextmanager
def filled(sessions: int, url: str = NOWHERE, **changed: Any) -> Iterator[Memory]:
    """A runtime that has restored so many conversations, limits raised by settings, with nothing due."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        settings = Settings(
            base_url=url,
            state_dir=Path(folder) / "state",
            cache_dir=Path(folder) / "cache",
            admin_port=None,
            max_sessions=sessions + 1000,
            max_cache_bytes=1 << 38,
            context_cadence=1_000_000,
            dialectic_cadence=1_000_000,
            representation_ttl=1_000_000.0,
            idle_ttl=1_000_000.0,
            **changed,
        )
        write_snapshots(settings, sessions)
        memory = Memory.start(settings)
        try:
            _wait(memory, lambda: memory.status().sessions["snapshots"] != "loading", 120.0)
            _warm(memory, sessions)
            yield memory
        finally:
            memory.close(2.0)


def request(number: int, query: str = "where were we with the boat and its ribs?", each: int = 4) -> TurnRequest:
    """A turn of conversation `number`; every person has `each` of them."""
    return TurnRequest(session_key=f"talk-{number}", user=f"person-{number // each}", query=query)


def write_snapshots(settings: Settings, sessions: int, *, each: int = 4, rendered: bool = False) -> None:
    """Leaves so many conversations in the cache, as an earlier process would; `rendered`: with their finished texts, as
    it really does."""
    now = time.time()
    limits = Limits(settings.context_tokens, settings.dialectic_max_chars)
    card, how = ("name: Ines",), made_with(limits) if rendered else ""
    text = stable(Recalled(REPRESENTATION, card), limits) if rendered else ""
    told = stable(Recalled(REPRESENTATION, card, "They spoke of rib 0."), limits) if rendered else ""
    known: Person = (REPRESENTATION, card, now, KNOWN, (text, "", now, 0, 0.0, 0, settings.epoch, KNOWN))
    of_them = made_of(known, limits) if rendered else ""
    people, talks = {}, []
    for number in range(sessions):
        who = identity.resolve(request(number, each=each), settings)
        assert isinstance(who, identity.Identity)
        key = flat(who.session)
        whole = told.replace("rib 0.", f"rib {number}.")
        talks.append(SessionSnapshot(key, f"They spoke of rib {number}.", now, whole, of_them))
        person = (key[0], key[1], key[2], key[4], key[4])
        people[person] = PersonSnapshot(person, REPRESENTATION, card, now, now, text, how)
    file = SnapshotFile(settings.cache_dir)
    for begin in range(0, len(talks), 5_000):
        file.save(list(people.values())[begin : begin + 5_000], talks[begin : begin + 5_000])
    file.close()


def _warm(memory: Memory, sessions: int) -> None:
    """One turn each for a sample, so that what is due at a first turn is not due later; then quiet."""
    for number in range(min(sessions, 2_000)):
        found = memory.context(request(number))
        assert found.state in (State.WARM, State.RESTORED), (number, found.state, found.reason)
    _wait(memory, lambda: memory.status().sessions["uncounted_turns"] == 0, 10.0)
    time.sleep(0.3)


def _wait(memory: Memory, done: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"not reached within {seconds} s: {memory.status().sessions}")
        time.sleep(0.01)


def until(memory: Memory, done: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits until the runtime says so. Raises TimeoutError."""
    _wait(memory, done, seconds)
