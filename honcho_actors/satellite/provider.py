"""Honcho as one memory provider of a host: searched inside exactly the scope that is asked for, told through the
outbox.

Scopes: `session` is one conversation, by the host's own key; `agent` is what one person wrote, by that person's id;
`workspace` (by its name), `global` and `all` are everything, and are empty unless the settings say that one person is
alone in the workspace (`pin_user_peer`), because what a provider gives is shown on behalf of one person. No failure is
an error, and nothing is ever widened or relabelled. Uploads of a host's ingest go to the same outbox as captured turns,
under the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from honcho_actors.host.providers import ALL, SCOPES, Query
from honcho_actors.model import Document, Turn
from honcho_actors.privacy.text import clip
from honcho_actors.settings import SettingsCell
from supervision import Clock, Waiter

LONGEST: Final = 5.0
"""Seconds that a search may take here, whatever `request_timeout` says: somebody waits for it."""
MOST_HITS: Final = 100
DEFAULT_LIMIT: Final = 5
HIT_CHARS: Final = 2_000
_WHOLE: Final = frozenset({"workspace", "global", ALL})

Find = Callable[[str, str, str | None, int, float], Waiter[tuple[Document, ...]] | None]
"""Begins a search on the runtime's loop: text, scope, key, limit, seconds. None: there is no loop."""


class HonchoProvider:
    """One for each runtime. Any thread, any event loop; never blocks, never raises."""

    scopes = SCOPES
    inline = True

    def __init__(self, cell: SettingsCell, clock: Clock, find: Find, keep: Callable[[Turn], object]) -> None:
        self._cell = cell
        self._clock = clock
        self._find = find
        self._keep = keep

    @property
    def timeout(self) -> float:
        """Seconds that this provider asks for."""
        return min(self._cell.current.request_timeout, LONGEST)

    def search(self, query: Query, deadline: float) -> Waiter[tuple[Document, ...]] | tuple[Document, ...]:
        """The hits, best first, at `deadline` (absolute, monotonic) at the latest; empty on every failure."""
        settings = self._cell.current
        if not settings.configured or not isinstance(query, Query):
            return ()
        scope, key = query.scope, query.key
        if scope in _WHOLE and not settings.pin_user_peer:
            return ()
        if scope == "workspace" and key != settings.workspace:
            return ()
        seconds = min(deadline - self._clock.now(), self.timeout)
        if not seconds > 0.0:
            return ()
        asked = "global" if scope == ALL else scope
        begun = self._find(query.text, asked, key, _limit(query.limit), seconds)
        if begun is None:
            return ()
        found: Waiter[tuple[Document, ...]] = Waiter(clock=self._clock, deadline=deadline, on_deadline=())
        begun.add_done_callback(lambda done: found.resolve(tuple(_clipped(one) for one in done.value)))
        return found

    def put(self, turn: Turn) -> None:
        """Hands a turn to the outbox; what becomes of it is the outbox's to say, in its status."""
        self._keep(turn)


def _limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        return DEFAULT_LIMIT
    return min(limit, MOST_HITS)


def _clipped(hit: Document) -> Document:
    return hit if len(hit.text) <= HIT_CHARS else replace(hit, text=clip(hit.text, HIT_CHARS).rstrip())
