"""A conformance kit for memory providers: run it over yours before a host does.

In a test suite::

    @pytest.mark.parametrize("case", provider_kit.CASES, ids=str)
    def test_my_provider(case):
        case.run(make_my_provider)

or from a shell, `python -m honcho_actors.host.provider_kit package.module:make_my_provider`. `make` gives a provider
that is ready to be asked; each case makes its own. A case that is not met raises `NotMet` with one sentence. What a
provider finds is not judged, since that is its own affair; how it behaves is.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from honcho_actors.host.providers import (
    ALL,
    HIT_CHARS,
    KEYED,
    MOST_HITS,
    SCOPES,
    MemoryProvider,
    MemoryProviders,
    Query,
)
from honcho_actors.host.registry import OutcomeState
from honcho_actors.model import Document, Turn
from supervision import Clock, Waiter

Make = Callable[[], MemoryProvider]

WAIT: Final = 10.0
"""Seconds that a search is granted here."""
GRACE: Final = 10.0
"""Seconds after a deadline until an answer counts as never given: a loaded machine is not a fault of the provider."""

HOSTILE: Final = (
    "foo-bar",
    "it's",
    "NOT baz",
    "foo OR",
    "AND AND AND",
    '"unbalanced',
    "col:value*",
    "a^2 + (b - c)",
    "'; DROP TABLE messages; --",
    "%_%\\",
    "../../etc/passwd",
    "\u202eright to left",
    "e\u0301\u0301\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "我的專案",
    "a\x00b\x1b[2J\ud83d",
    "   \n\t ",
)
"""Full-text metacharacters, SQL, paths, directions, clusters, ideographs, controls and half characters, blanks."""
LONG: Final = "word " * 2_400


class NotMet(AssertionError):
    """A case that a provider does not meet, in one sentence."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a host relies on."""

    name: str
    check: Callable[[Make], None]

    def __str__(self) -> str:
        return self.name

    def run(self, make: Make) -> None:
        """Raises `NotMet` when the provider does not do this."""
        self.check(make)


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every case, in their order; `failures` are (case, sentence)."""

    passed: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        return not self.failures


def run(make: Make) -> Report:
    """Every case, whatever the ones before it came to."""
    passed: list[str] = []
    failures: list[tuple[str, str]] = []
    for case in CASES:
        try:
            case.run(make)
        except NotMet as error:
            failures.append((case.name, str(error)))
        except Exception as error:  # noqa: BLE001 boundary: a provider that cannot even be made fails its case
            failures.append((case.name, f"it raised {type(error).__name__}"))
        else:
            passed.append(case.name)
    return Report(tuple(passed), tuple(failures))


# -- how a provider is asked -------------------------------------------------------------------------------------------


def _ask(provider: MemoryProvider, query: Query) -> Sequence[Document]:
    """The hits, with everything checked that holds for each search."""
    clock = Clock()
    deadline = clock.now() + WAIT
    answer = provider.search(query, deadline)
    if isinstance(answer, Waiter):
        if not clock.block(answer, deadline + GRACE):
            raise NotMet("a search was not answered by its deadline")
        answer = answer.value
    if clock.now() > deadline + GRACE:
        raise NotMet("a search held its caller beyond the deadline")
    return _checked(answer, query)


def _checked(answer: Any, query: Query) -> Sequence[Document]:
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise NotMet(f"a search gave a {type(answer).__name__}, not a list of documents")
    for hit in answer:
        if not isinstance(hit, Document):
            raise NotMet(f"a hit is a {type(hit).__name__}, not a Document")
        if not isinstance(hit.id, str) or not hit.id.strip():
            raise NotMet("a hit has no id")
        if not isinstance(hit.text, str) or not hit.text.strip():
            raise NotMet("a hit has no text")
        if hit.scope not in (*SCOPES, ALL):
            raise NotMet("a hit names a scope that there is not")
        if query.scope != ALL and hit.scope != query.scope:
            raise NotMet("a hit is of another scope than was asked for")
        if hit.key not in (query.key, None):
            raise NotMet("a hit is labelled with a key that was not asked for")
    if len(answer) > query.limit:
        raise NotMet(f"a search for {query.limit} gave {len(answer)}")
    return answer


def _put(provider: MemoryProvider, turn: Turn) -> None:
    begun = time.monotonic()
    provider.put(turn)
    if time.monotonic() - begun > WAIT + GRACE:
        raise NotMet("a put held its caller up")


@contextmanager
def _hosted(make: Make) -> Iterator[tuple[MemoryProviders, MemoryProvider]]:
    providers, provider = MemoryProviders(), make()
    providers.register("kit", provider, timeout=WAIT)
    try:
        yield providers, provider
    finally:
        providers.unregister("kit")


# -- the cases ---------------------------------------------------------------------------------------------------------


def _shape(make: Make) -> None:
    if not isinstance(make(), MemoryProvider):
        raise NotMet("a provider has `search` and `put`")


def _hostile(text: str) -> Callable[[Make], None]:
    def check(make: Make) -> None:
        provider = make()
        for scope in ("session", "global"):
            _ask(provider, Query(text, scope, "kit" if scope == "session" else None))

    return check


def _long(make: Make) -> None:
    for hit in _ask(make(), Query(LONG, "session", "kit")):
        if len(hit.text) > HIT_CHARS * 20:
            raise NotMet("a hit is far too long for a prompt")


def _scope(scope: str, key: str | None) -> Callable[[Make], None]:
    def check(make: Make) -> None:
        found = _ask(make(), Query("the kit", scope, key))
        if scope in KEYED and (key is None or not key.strip()) and found:
            raise NotMet(f"a search of scope {scope} without its key found something")

    return check


def _unknown_scope(make: Make) -> None:
    if _ask(make(), Query("the kit", "everything", "kit")):
        raise NotMet("an unknown scope found something")


def _options(make: Make) -> None:
    provider = make()
    _ask(provider, Query("the kit", "session", "kit", 5, {"rerank": True, "": None, "limit": -1}))
    _ask(provider, Query("the kit"))


def _limits(make: Make) -> None:
    provider = make()
    for limit in (1, 5, 100):
        _ask(provider, Query("the kit", "session", "kit", limit))


def _no_time(make: Make) -> None:
    """Even with no time left there is an answer, or a waiter that holds one."""
    clock, provider, query = Clock(), make(), Query("the kit", "session", "kit")
    answer = provider.search(query, clock.now() - 1.0)
    if isinstance(answer, Waiter):
        if not clock.block(answer, clock.now() + GRACE):
            raise NotMet("a search without time was never answered")
        answer = answer.value
    _checked(answer, query)


def _puts(make: Make) -> None:
    provider = make()
    for turn in (
        Turn("kit", prompt="a prompt", answer="an answer", turn_id="kit-1"),
        Turn("kit", prompt="a prompt", answer="an answer", turn_id="kit-1"),
        Turn("kit", prompt="a prompt", answer=None),
        Turn("kit", prompt="", answer="an answer"),
        Turn("kit", prompt="a\x00\ud83d\u202e", answer="b" * 2_000, user="kit"),
    ):
        _put(provider, turn)


def _threads(make: Make) -> None:
    provider, errors = make(), []

    def work() -> None:
        try:
            for _ in range(5):
                _ask(provider, Query("the kit", "session", "kit"))
                provider.put(Turn("kit", prompt="a prompt", answer="an answer"))
        except Exception as error:  # noqa: BLE001 boundary: whatever a thread meets is told by the case
            errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20 * WAIT)
    if errors:
        raise NotMet(f"from several threads it raised {type(errors[0]).__name__}")
    if any(thread.is_alive() for thread in threads):
        raise NotMet("from several threads it did not come to an end")


def _registered(make: Make) -> None:
    with _hosted(make) as (providers, _):
        told = providers.status()["kit"]
        if set(told["scopes"]) - set(SCOPES):
            raise NotMet("its status names scopes that there are not")
        if providers.names != ("kit",):
            raise NotMet("it was not registered")
        providers.unregister("kit")
        if providers.names:
            raise NotMet("it could not be unregistered")


def _through_the_registry(make: Make) -> None:
    with _hosted(make) as (providers, _):
        for text in (*HOSTILE, LONG):
            for scope in (*SCOPES, ALL):
                found = providers.search(text, scope, "kit", 5)
                _states(found.outcomes)
                if len(found.documents) > 5:
                    raise NotMet("through the registry it gave more than was asked for")
        providers.put(Turn("kit", prompt="a prompt", answer="an answer"))
        if not providers.drain(WAIT):
            raise NotMet("through the registry a put did not come to an end")
        if providers.status()["kit"]["counts"].get("put_failed"):
            raise NotMet("through the registry a put failed")


def _on_a_loop(make: Make) -> None:
    """A search from a coroutine must not hold its loop up for long."""

    async def look(providers: MemoryProviders) -> float:
        longest = 0.0
        search = asyncio.create_task(providers.asearch("the kit", "session", "kit", MOST_HITS))
        while not search.done():
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)
        _states((await search).outcomes)
        return longest

    with _hosted(make) as (providers, _):
        if asyncio.run(look(providers)) > GRACE:
            raise NotMet("a search held the event loop up")


def _states(outcomes: Sequence[Any]) -> None:
    for one in outcomes:
        if one.state not in (OutcomeState.OK, OutcomeState.NOTHING):
            raise NotMet(f"through the registry a search ended as {one.state}")
        if one.dropped:
            raise NotMet("through the registry a hit was no usable document")


CASES: Final[tuple[Case, ...]] = (
    Case("has search and put", _shape),
    *(Case(f"hostile query {number}", _hostile(text)) for number, text in enumerate(HOSTILE, 1)),
    Case("a query of 12,000 characters", _long),
    *(
        Case(f"scope {scope} {'with' if key else 'without'} a key", _scope(scope, key))
        for scope in (*SCOPES, ALL)
        for key in ("kit", None)
    ),
    Case("a blank key", _scope("session", "   ")),
    Case("an unknown scope", _unknown_scope),
    Case("unknown options and none", _options),
    Case("limits", _limits),
    Case("no time left", _no_time),
    Case("puts", _puts),
    Case("several threads", _threads),
    Case("register, status, unregister", _registered),
    Case("fan-out through the registry", _through_the_registry),
    Case("a search from an event loop", _on_a_loop),
)


def main(arguments: Sequence[str]) -> int:
    """0 when every case is met, 1 when one is not, 2 for a call that makes no sense."""
    if len(arguments) != 1 or ":" not in arguments[0]:
        print("usage: python -m honcho_actors.host.provider_kit package.module:make_provider", file=sys.stderr)
        return 2
    module, _, name = arguments[0].partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        print(f"cannot be loaded: {error}", file=sys.stderr)
        return 2
    report = run(make)
    for name, why in report.failures:
        print(f"not met: {name}: {why}")
    print(f"{len(report.passed)} of {len(CASES)} cases met")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
