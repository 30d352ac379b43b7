"""The host's memory providers: whoever can be searched for what was said, and is told what is said now.

Promises: a search asks every provider of its scope at once, each under its own deadline, and returns at the last of
these at the latest; one provider's lateness, failure or bad answer costs the others nothing; every provider's own order
is kept in the merged one; a scope that needs a key and has none asks nobody. Registrations stand in this object and in
no actor, so nothing that restarts beneath forgets them, and no call of a provider runs where they are kept. What comes
back is neutralised and bounded, whoever gave it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, runtime_checkable

from honcho_actors.host.crew import Crew
from honcho_actors.host.fusion import fused
from honcho_actors.host.lane import Lane
from honcho_actors.host.members import placed, without
from honcho_actors.host.registry import OutcomeState, _await, _running_loop, _seconds, _wait
from honcho_actors.model import EMPTY, Document, Turn
from honcho_actors.privacy import fence
from honcho_actors.privacy.text import clip
from supervision import Clock, Waiter

SCOPES: Final = ("session", "workspace", "agent", "global")
"""Frozen. A search may also ask for `all`: every scope that a provider has."""
ALL: Final = "all"
KEYED: Final = frozenset({"session", "workspace", "agent"})
"""Scopes that are nothing without a key."""

DEFAULT_TIMEOUT: Final = 2.0
"""Seconds for a provider that does not say."""
DEFAULT_LIMIT: Final = 5
MOST_HITS: Final = 20
HIT_CHARS: Final = 2_000
LOOKED_CHARS: Final = 8 * HIT_CHARS
"""Of a longer hit the rest is not even looked at: somebody waits, perhaps on an event loop."""
SEARCHES: Final = 8
"""Searches of one provider that may be under way at a time; more are passed over."""
DRAIN_SECONDS: Final = 5.0

_log = logging.getLogger("honcho_actors.host")


@dataclass(frozen=True, slots=True)
class Query:
    """One search. `text` is not blank; `scope` is one of `SCOPES` or `all`; `key` is there where the scope needs one.
    `options` are the host's own; a provider ignores those that it does not know."""

    text: str
    scope: str = "session"
    key: str | None = None
    limit: int = DEFAULT_LIMIT
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


Hits = Sequence[Document]


@runtime_checkable
class MemoryProvider(Protocol):
    """Whoever remembers. May have `scopes`, `timeout` (seconds) and `inline` for attributes; a registration can say
    otherwise.

    `search` gives its hits, best first, or a `Waiter` that will hold them; `deadline` is absolute on the monotonic
    clock. It never widens the scope. `put` takes a bounded turn; what it returns is not looked at. An `inline` provider
    never blocks in either; any other is called on threads of the registry's.
    """

    def search(self, query: Query, deadline: float, /) -> Hits | Waiter[Any]: ...
    def put(self, turn: Turn, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """One provider's part in one search. `hits` were taken, `dropped` were no usable documents."""

    name: str
    state: OutcomeState
    hits: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The merged hits, best first, and what became of each provider that was asked."""

    documents: tuple[Document, ...] = ()
    outcomes: tuple[Asked, ...] = ()

    @property
    def text(self) -> str:
        """The hits for a prompt, inside the fence; "" when there are none."""
        rows = []
        for number, one in enumerate(self.documents, 1):
            when = "time unknown" if one.created_at is None else one.created_at.strftime("%Y-%m-%d %H:%M UTC")
            rows.append(f"{number}. {one.peer or 'somebody'} · {when}\n{one.text}")
        return fence.enclose("\n\n".join(rows))


NOTHING: Final = Found()


class _Registered:
    __slots__ = ("counts", "crew", "enabled", "inline", "lane", "name", "provider", "scopes", "timeout")

    def __init__(
        self, name: str, provider: MemoryProvider, scopes: frozenset[str], timeout: float, inline: bool, enabled: bool
    ) -> None:
        self.name = name
        self.provider = provider
        self.scopes = scopes
        self.timeout = timeout
        self.inline = inline
        self.enabled = enabled
        self.crew = Crew(f"memory-{name}", SEARCHES)
        self.lane = Lane(f"memory-{name}")
        self.counts: Counter[str] = Counter()

    def has(self, scope: str) -> bool:
        return self.enabled and (scope == ALL or scope in self.scopes)


class _Asking:
    """One provider in one search, while it runs."""

    __slots__ = ("answer", "deadline", "off_thread", "one", "state", "step")

    def __init__(self, one: _Registered, deadline: float) -> None:
        self.one = one
        self.deadline = deadline
        self.state = OutcomeState.OK
        self.step: Waiter[Any] | None = None
        self.off_thread = False
        self.answer: Any = None


class MemoryProviders:
    """Where providers register and a host searches. Any thread, any number of event loops. Times in seconds.

    `session_search` is the host's switch for searching what was said: False, a function that says False, or one that
    fails closes it, and nobody is asked.
    """

    def __init__(
        self,
        *,
        session_search: bool | Callable[[], bool] = True,
        default_limit: int = DEFAULT_LIMIT,
        max_hits: int = MOST_HITS,
        clock: Clock | None = None,
    ) -> None:
        self._gate = session_search
        self._default_limit = default_limit
        self._max_hits = max_hits
        self._clock = clock or Clock()
        self._members: tuple[_Registered, ...] = ()

    # -- registrations -------------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        provider: MemoryProvider,
        *,
        scopes: Iterable[str] | None = None,
        timeout: float | None = None,
        inline: bool | None = None,
        enabled: bool = True,
    ) -> None:
        """Adds a provider, or replaces the one of this name in its place. What is not said is asked of the provider's
        own attributes. Unknown scopes are left out; none is all of them; a timeout that is none is the default.
        ValueError for a blank name."""
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a provider needs a name")
        wished = getattr(provider, "scopes", SCOPES) if scopes is None else scopes
        known = frozenset(one for one in wished if one in SCOPES) or frozenset(SCOPES)
        seconds = _seconds(getattr(provider, "timeout", None) if timeout is None else timeout, DEFAULT_TIMEOUT)
        quick = getattr(provider, "inline", False) is True if inline is None else inline
        new = _Registered(name, provider, known, seconds, quick, enabled is True)
        self._members = placed(self._members, new)

    def unregister(self, name: str) -> None:
        """Takes a provider out; no error when there is none."""
        self._members = without(self._members, name)

    @property
    def names(self) -> tuple[str, ...]:
        """Who is registered, in order."""
        return tuple(one.name for one in self._members)

    def status(self) -> dict[str, dict[str, Any]]:
        """Each provider's registration and counts. JSON-able; no content and no secret."""
        return {
            one.name: {
                "enabled": one.enabled,
                "scopes": [scope for scope in SCOPES if scope in one.scopes],
                "timeout": one.timeout,
                "inline": one.inline,
                "kind": type(one.provider).__name__,
                "under_way": one.crew.working,
                "counts": dict(sorted(one.counts.copy().items())),
            }
            for one in self._members
        }

    # -- searching -----------------------------------------------------------------------------------------------------

    def search(
        self,
        text: object,
        scope: str = "session",
        key: str | None = None,
        limit: int | None = None,
        *,
        ceiling: float | None = None,
        options: Mapping[str, Any] = EMPTY,
    ) -> Found:
        """What the providers of a scope have, best first. Blocks until the last deadline at most; `ceiling` bounds
        each. On a thread that runs an event loop it waits for nobody."""
        asking = self._begun(self._query(text, scope, key, limit, options), ceiling, _running_loop())
        for one in sorted(asking, key=_by_deadline):
            while one.step is not None:
                _take(one, _wait(one.step, one.deadline, self._clock))
        return self._found(asking, limit)

    async def asearch(
        self,
        text: object,
        scope: str = "session",
        key: str | None = None,
        limit: int | None = None,
        *,
        ceiling: float | None = None,
        options: Mapping[str, Any] = EMPTY,
    ) -> Found:
        """As `search`, without ever holding up the event loop."""
        asking = self._begun(self._query(text, scope, key, limit, options), ceiling, False)
        for one in sorted(asking, key=_by_deadline):
            while one.step is not None:
                _take(one, await _await(one.step, one.deadline, self._clock))
        return self._found(asking, limit)

    def _query(self, text: object, scope: object, key: object, limit: object, options: object) -> Query | None:
        """The query that providers are asked, or None: nobody is to be asked."""
        if not isinstance(text, str) or not text.strip() or not _open(self._gate):
            return None
        if not isinstance(scope, str) or scope not in (*SCOPES, ALL):
            return None
        wanted = key if isinstance(key, str) and key.strip() else None
        if scope in KEYED and wanted is None:
            return None
        given = options if isinstance(options, Mapping) else EMPTY
        return Query(text, scope, wanted, self._limit(limit), given)

    def _limit(self, limit: object) -> int:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            return self._default_limit
        return min(limit, self._max_hits)

    def _begun(self, query: Query | None, ceiling: float | None, on_loop: bool) -> list[_Asking]:
        """Everyone is asked at once; what was answered at once is in `answer`."""
        if query is None:
            return []
        start = self._clock.now()
        asking = []
        for one in self._members:
            if not one.has(query.scope):
                continue
            granted = one.timeout if ceiling is None else min(one.timeout, _seconds(ceiling, DEFAULT_TIMEOUT))
            asked = _Asking(one, start + granted)
            asking.append(asked)
            call = _search_of(one.provider, query, asked.deadline)
            if one.inline:
                try:
                    _answered(asked, call())
                except Exception:  # noqa: BLE001 boundary: a provider's failure costs only itself
                    _failed(asked)
            elif on_loop:
                asked.state = OutcomeState.EVENT_LOOP
            else:
                asked.step = one.crew.submit(call)
                asked.off_thread = True
                if asked.step is None:
                    asked.state = OutcomeState.BUSY
            if on_loop and asked.step is not None and not asked.step.resolved:
                asked.step, asked.state = None, OutcomeState.EVENT_LOOP
        return asking

    def _found(self, asking: list[_Asking], limit: int | None) -> Found:
        lists: list[tuple[Document, ...]] = []
        outcomes: list[Asked] = []
        most = self._limit(limit)
        for asked in asking:
            hits: tuple[Document, ...] = ()
            dropped, state = 0, asked.state
            if state is OutcomeState.OK:
                taken = _documents(asked.answer, asked.one.name, most)
                if taken is None:
                    state = OutcomeState.BAD_SHAPE
                    _log.warning("memory provider %s: its answer is no list", asked.one.name)
                else:
                    hits, dropped = taken
                    if not hits:
                        state = OutcomeState.NOTHING
            asked.one.counts[f"search_{state}"] += 1
            lists.append(hits)
            outcomes.append(Asked(asked.one.name, state, len(hits), dropped))
        return Found(fused(lists, most), tuple(outcomes)) if asking else NOTHING

    # -- telling -------------------------------------------------------------------------------------------------------

    def put(self, turn: Turn, scope: str = "session") -> None:
        """Hands a turn to every provider of a scope. Returns at once; a provider that fails, or that does not keep up,
        is counted and costs nobody else. Whoever hands in what people said goes through `Ingest`, which bounds and
        screens it."""
        if scope not in SCOPES:
            return
        for one in self._members:
            if not one.has(scope):
                continue
            if one.inline:
                _put(one, turn)
            elif one.lane.submit(_put_of(one, turn)) is None:
                one.counts["put_dropped"] += 1

    def drain(self, timeout: float = DRAIN_SECONDS) -> bool:
        """True when every provider has been handed what was put before; False after `timeout`, for a provider that is
        stuck, and on a thread that runs an event loop."""
        if _running_loop():
            return False
        until = self._clock.now() + max(0.0, timeout)
        marks = [one.lane.submit(_nothing) for one in self._members if not one.inline and one.enabled]
        return all(mark is not None and _wait(mark, until, self._clock) is not None for mark in marks)


def _open(gate: bool | Callable[[], bool]) -> bool:
    """Whether a switch is on. A gate of privacy that fails is closed."""
    if not callable(gate):
        return gate is True
    try:
        return gate() is True
    except Exception:  # noqa: BLE001 boundary: a switch that cannot be read is off
        return False


def _search_of(provider: MemoryProvider, query: Query, deadline: float) -> Callable[[], Any]:
    return lambda: provider.search(query, deadline)


def _put_of(one: _Registered, turn: Turn) -> Callable[[], None]:
    return lambda: _put(one, turn)


def _put(one: _Registered, turn: Turn) -> None:
    try:
        one.provider.put(turn)
    except Exception:  # noqa: BLE001 boundary: a provider's failure costs only itself; its error may hold the turn
        one.counts["put_failed"] += 1
        _log.warning("memory provider %s could not take a turn", one.name)
    else:
        one.counts["put"] += 1


def _nothing() -> None:
    """What a lane does to show that it has come this far."""


def _by_deadline(one: _Asking) -> float:
    return one.deadline


def _answered(asked: _Asking, answer: Any) -> None:
    if isinstance(answer, Waiter):
        asked.step = answer
    else:
        asked.answer = answer


def _take(asked: _Asking, value: Any) -> None:
    """Ends a step: with an answer, with a further waiter that a call gave, or with nothing in time."""
    step, asked.step = asked.step, None
    if asked.off_thread:
        asked.off_thread = False
        if value is None:
            asked.state = OutcomeState.LATE
        elif value[0]:
            _answered(asked, value[1])
        else:
            _failed(asked)
    elif value is None and step is not None and not step.resolved:
        asked.state = OutcomeState.LATE
    else:
        asked.answer = value


def _failed(asked: _Asking) -> None:
    asked.state = OutcomeState.FAILED
    _log.warning("memory provider %s failed in a search", asked.one.name)


def _documents(answer: Any, name: str, most: int) -> tuple[tuple[Document, ...], int] | None:
    """The usable hits under the provider's name, how many were not usable, or None: no list at all."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        return None
    kept: list[Document] = []
    dropped = 0
    for one in answer:
        if len(kept) >= most:
            break
        hit = _usable(one, name)
        if hit is None:
            dropped += 1
        else:
            kept.append(hit)
    return tuple(kept), dropped


def _usable(one: Any, name: str) -> Document | None:
    if not isinstance(one, Document) or not isinstance(one.id, str) or not isinstance(one.text, str):
        return None
    text = clip(fence.neutral(one.text[:LOOKED_CHARS]), HIT_CHARS)
    if not text or not one.id.strip():
        return None
    peer = fence.line(one.peer[:400])[:100] if isinstance(one.peer, str) else ""
    return replace(one, text=text, peer=peer, created_at=_when(one.created_at), provider=name)


def _when(given: Any) -> datetime | None:
    """A time that can be shown and compared, in UTC, for which it is taken without a zone; None for what is no time.
    The name of a zone is text of the provider's, and does not come along."""
    if not isinstance(given, datetime):
        return None
    try:
        return given.astimezone(UTC) if given.tzinfo is not None else given.replace(tzinfo=UTC)
    except Exception:  # noqa: BLE001 boundary: a zone that can't be reckoned with costs the time and not the search
        return None
