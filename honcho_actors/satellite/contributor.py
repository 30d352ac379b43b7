"""The contributor: recalled memory as a host's ContextRegistry asks for it.

`plan` reads settings, table and clock once; everything after uses that one reading. A warm plan holds its answer and
wants no time; a cold one wants the first-turn wait, and waits for what the host grants less the headroom. Safe to
register `inline`: neither step ever blocks.
"""

from __future__ import annotations

from typing import Any

from honcho_actors.host.plan import Answer, Plan
from honcho_actors.model import Context, TurnRequest
from honcho_actors.sessions import Sessions
from honcho_actors.sessions.messages import TurnRecord
from supervision import Waiter

NAME = "memory"
"""The name to register under: titles and names shown to a model do not name the service."""


class ContextContributor:
    """One for each runtime. Any thread, any event loop."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def plan(self, request: TurnRequest) -> Plan:
        """The offer for this turn. Whatever is no TurnRequest has nothing to say."""
        sessions = self._sessions
        turn = sessions.look(request)
        if turn.context is not None:
            return Plan(0.0, lambda deadline: sessions.counted(turn))
        wait = turn.settings.first_turn_wait
        if wait <= 0.0:
            return Plan(0.0, lambda deadline: sessions.unserved(turn))
        return Plan(wait + turn.settings.headroom, lambda deadline: self._begin(turn, deadline))

    def _begin(self, turn: TurnRecord, deadline: float) -> Answer | Waiter[Any]:
        """Starts the load and hands the registry the reply that will come before its grant ends."""
        sessions = self._sessions
        until = deadline - turn.settings.headroom
        if until <= turn.at or until <= sessions.now():
            return sessions.unserved(turn)
        waiter: Waiter[Context] = sessions.begin(turn, until)
        waiter.add_done_callback(lambda done: sessions.ended(turn, done))
        return waiter
