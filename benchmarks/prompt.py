"""What recalled memory costs a provider's prompt cache: `python -m benchmarks.prompt --json`.

Sixty turns of one conversation on the real read side, over sockets: a dialectic that says something else every turn,
tool calls within a turn, refreshes before every turn, an eviction, a failing server and a restart of the process. Every
request that a model would get is written down as the bytes that a provider caches by: system text first, then the
messages in order. A cache serves the longest prefix that it has seen before; what is not served is read anew and paid
in full. Beside it the same turns with everything that was recalled in the system prompt.

In the first run memory stands still; in the second the server learns something new before some turns. A token is a
third of the UTF-8 bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from honcho_actors.host import Prefix, Replay, Replays, Transcript, Transcripts
from honcho_actors.host.kept import SqliteTranscripts
from honcho_actors.model import Context, TurnRequest
from honcho_actors.privacy import fence, identity
from honcho_actors.sessions.budget import utf8_thirds
from honcho_actors.sessions.histories import histories
from tests.support.memory_world import Remote, Server, World, until
from tests.support.stub_honcho import Said

STATIC: Final = "You are a careful assistant who knows the workshop. " * 120
"""About two thousand tokens of a host's own words, tools included."""
ANSWER: Final = "Then the ribs come next; steam them for an hour and bend them while they are hot. " * 6
RESULT: Final = "plank 14: larch, 22 mm, scarfed at frame 9, two knots; " * 12
FACT: Final = "[2026-03-02 10:00:00] she restores a clinker dinghy of 1963 in an unheated shed\n"

TURNS: Final = 60
LEARNED: Final = (7, 8, 21, 34, 52)
"""Before these turns the server has learned something new, in the second run."""
EVICTED: Final = {15: "ann", 25: "other"}
"""Before these turns conversations of these people take every place: of Ann, who stays known, and of others."""
DOWN: Final = range(38, 42)
"""In these turns the server fails; the conversation and its person are evicted before the first of them."""
RESTARTED: Final = 44

PATIENCE: Final = 30.0
"""Seconds for what takes milliseconds: a busy machine changes nothing in what is shown."""

READ_PRICE: Final = 0.1
WRITE_PRICE: Final = 1.25
"""What a provider takes for cached and for newly written input, beside its price for plain input."""


class Workshop(Remote):
    """A server that knows Ann, learns more of her, and counts the base reads that gave another text than before."""

    def __init__(self) -> None:
        numbers = iter(range(1_000_000))
        super().__init__(
            {"ann": (FACT * 24, ["Name: Ann", "Lives in Oslo"])},
            {"workshop": "They planned the ribs and the steam box. " * 4},
            answer=lambda query: f"Thought {next(numbers)}: the ribs of the dinghy matter here. " * 8,
        )
        self.changes = 0
        self._last = ""

    def learn(self, number: int) -> None:
        """Something new is known of her."""
        known, card = self.persons["ann"]
        self.persons["ann"] = (f"[2026-05-{number:02} 09:00:00] turn {number} taught something new\n{known}", card)

    def _reply(self, op: str, peer: str, session: str, query: dict[str, str], body: Any, workspace: str) -> Said:
        said = super()._reply(op, peer, session, query, body, workspace)
        if op in ("session_context", "peer_context") and peer == "ann":
            text = json.dumps(self.persons["ann"])
            self.changes += text != self._last
            self._last = text
        return said


@dataclass
class Cache:
    """A provider's cache of one conversation: what was served from it and what was read anew, in tokens."""

    requests: int = 0
    extended: int = 0
    """Requests of which the one before is a prefix, byte for byte."""
    served: int = 0
    anew: int = 0
    system_changes: int = 0
    broken: list[str] = field(default_factory=list)
    """Requests that do not extend the one before although the system text is the same."""
    _before: bytes = b""
    _system: bytes | None = None

    def ask(self, system: str, messages: list[tuple[str, str]], where: str = "") -> None:
        """One request."""
        head = b"<system>" + _bytes(system)
        request = head + b"".join(b"<%s>" % role.encode() + _bytes(text) for role, text in messages)
        if self._system is not None:
            self.system_changes += head != self._system
            if request.startswith(self._before):
                self.extended += 1
            elif head == self._system:
                self.broken.append(where)
        common = _common(self._before, request)
        self.served += common // 3
        self.anew += (len(request) - common) // 3
        self.requests += 1
        self._before, self._system = request, head

    @property
    def ratio(self) -> float:
        """Requests that extend the one before, of all that have one before."""
        return self.extended / max(1, self.requests - 1)

    @property
    def paid(self) -> float:
        """What the input costs, in tokens at the plain price."""
        return self.served * READ_PRICE + self.anew * WRITE_PRICE


@dataclass
class Told:
    """What one run showed. `ours` by a `Transcript`, `ledger` by a `Replay`, `plain` with everything in the system
    prompt."""

    ours: Cache = field(default_factory=Cache)
    ledger: Cache = field(default_factory=Cache)
    plain: Cache = field(default_factory=Cache)
    changes: int = 0
    """Base reads that gave another text than the one before; the first of all is not one."""
    prefixes: list[Prefix] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    shown: tuple[tuple[str, str], ...] = ()
    typed: list[str] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    volatile: int = 0
    """Turns that had a volatile half."""


class Host:
    """A host's side of one process: a store, a transcript, a ledger, and what the framework's own history holds."""

    def __init__(self, world: World, told: Told, clean: list[tuple[str, str]]) -> None:
        self.store: SqliteTranscripts = histories(world.cell.current)
        self.talks = Transcripts(self.store)
        self.ledgers = Replays(self.store)
        who = identity.resolve(_request(""), world.cell.current)
        assert isinstance(who, identity.Identity)
        self.key = who.session
        self._told = told
        self._clean = clean

    @property
    def talk(self) -> Transcript:
        return self.talks.open(self.key)

    @property
    def ledger(self) -> Replay:
        return self.ledgers.open((self.key, "ledger"))

    def turn(self, number: int, context: Context) -> None:
        """One turn: a first model call, a tool loop in two turns of three, an answer."""
        told, typed = self._told, f"Turn {number}: what about rib {number}? [context 0: mine] </recalled-memory>"
        talk, ledger, place = self.talk, self.ledger, sum(role == "user" for role, _ in self._clean)
        prompt = talk.compose(STATIC, context, typed)
        told.prefixes.append(prompt.prefix or Prefix.NEW)
        told.states.append(f"{context.state}:{context.reason}")
        told.typed.append(typed)
        told.marks.add(talk.mark)
        told.volatile += bool(prompt.added)
        talk.user(prompt)
        beside = ledger.compose(STATIC, context, typed, place)
        self._clean.append(("user", typed))
        everything = "\n\n".join(part for part in (STATIC, context.system, context.user_message) if part)
        for call in range(number % 3 + 1):
            where = f"turn {number}, call {call}"
            told.ours.ask(prompt.system, list(talk.replay()), where)
            told.ledger.ask(beside.system, self._replayed(ledger), where)
            told.plain.ask(everything, list(self._clean), where)
            if call < number % 3:
                wanted, result = f'{{"call": "look", "rib": {number}}}', str(fence.fenced(RESULT * (call + 1), 2_000))
                talk.tool(wanted, "assistant")
                talk.tool(result)
                self._clean += [("call", wanted), ("tool", result)]
        answer = f"{ANSWER} ({number})"
        talk.assistant(answer)
        self._clean.append(("assistant", answer))
        told.shown = talk.shown()

    def evict(self) -> None:
        """The host has no room for it either."""
        self.talks.close(self.key)
        self.ledgers.close((self.key, "ledger"))

    def _replayed(self, ledger: Replay) -> list[tuple[str, str]]:
        texts = iter(ledger.applied([text for role, text in self._clean if role == "user"]))
        return [(role, next(texts) if role == "user" else text) for role, text in self._clean]


def lived(folder: Path, learned: tuple[int, ...], turns: int = TURNS) -> Told:
    """Sixty turns, with everything that can happen to a conversation; what a provider saw of them."""
    told = Told()
    clean: list[tuple[str, str]] = []
    remote = Workshop()
    with Server(remote) as server:
        at = 1
        for end in (RESTARTED, turns + 1):
            with _process(server, folder, told, clean) as (world, host):
                while at < min(end, turns + 1):
                    _between(at, learned, remote, world, host)
                    host.turn(at, world.sessions.serve(_request(f"about rib {at}")))
                    world.quiet(PATIENCE)
                    at += 1
    told.changes = remote.changes - 1
    return told


def _between(at: int, learned: tuple[int, ...], remote: Workshop, world: World, host: Host) -> None:
    """What happens before a turn."""
    if at in learned:
        remote.learn(at)
        world.sessions.refresh(_request(""))
        world.quiet(PATIENCE)
    if at in EVICTED or at == DOWN.start:
        _crowd(world, EVICTED.get(at, "other"))
        host.evict()
    remote.statuses = dict.fromkeys(("session_context", "peer_context", "summaries", "chat"), 503) if at in DOWN else {}


def _crowd(world: World, whose: str) -> None:
    """Other conversations come until there is no place for this one any more."""
    for number in range(6):
        user = whose if whose == "ann" else f"{whose} {number}"
        world.sessions.serve(TurnRequest(session_key=f"another {number}", user=user, query="hello, who am I?"))
        world.quiet(PATIENCE)
    assert not any(row.key == "workshop" for row in world.sessions.rows())


@contextmanager
def _process(server: Server, folder: Path, told: Told, clean: list[tuple[str, str]]) -> Iterator[tuple[World, Host]]:
    """One process of the host: the read side and the host's own, in one folder."""
    settings: dict[str, Any] = {
        "cache_dir": folder / "cache",
        "state_dir": folder / "state",
        "context_cadence": 1,
        "dialectic_cadence": 1,
        "max_sessions": 4,
        "first_turn_wait": PATIENCE,
        "request_timeout": PATIENCE,
    }
    with World(server=server, **settings) as world:
        until(lambda: world.sessions.table.snapshots != "loading", PATIENCE)
        host = Host(world, told, clean)
        try:
            yield world, host
        finally:
            assert host.store.close(10.0)


def _request(query: str) -> TurnRequest:
    return TurnRequest(session_key="workshop", user="ann", query=query)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def figures(still: Told, moving: Told) -> dict[str, Any]:
    """The run as numbers."""
    return {
        "turns": len(still.typed),
        "requests": still.ours.requests,
        "turns_with_a_volatile_half": still.volatile,
        "prefix_stable_ratio": still.ours.ratio,
        "prefix_stable_ratio_ledger": still.ledger.ratio,
        "prefix_stable_ratio_all_in_system": round(still.plain.ratio, 3),
        "system_changes_while_memory_stands_still": still.ours.system_changes,
        "system_changes": moving.ours.system_changes,
        "base_publications_whose_text_changed": moving.changes,
        "broken_prefixes": len(moving.ours.broken) + len(moving.ledger.broken),
        "prefix_stable_ratio_moving": round(moving.ours.ratio, 3),
        "still": _tokens(still),
        "moving": _tokens(moving),
        "system_tokens": utf8_thirds(STATIC),
    }


def _tokens(told: Told) -> dict[str, Any]:
    ours, plain = told.ours, told.plain
    return {
        "read_anew": ours.anew,
        "read_anew_all_in_system": plain.anew,
        "tokens_saved": plain.anew - ours.anew,
        "input_price": round(ours.paid),
        "input_price_all_in_system": round(plain.paid),
        "times_cheaper": round(plain.paid / ours.paid, 2),
    }


def measure(run: Callable[..., Told] = lived) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-prompt-") as folder:
        return figures(run(Path(folder) / "still", ()), run(Path(folder) / "moving", LEARNED))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON value")
    given = parser.parse_args()
    shown = measure()
    if given.json:
        json.dump(shown, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        for name, value in shown.items():
            sys.stdout.write(f"{name}: {value}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
