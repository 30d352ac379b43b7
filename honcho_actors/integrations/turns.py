"""One turn of a person, begun once and finished once, however many model calls it takes. Every adapter stands on this.

    turns = Turns(memory)
    turn = turns.begin(TurnRequest(session_key="telegram:42", user="7654321"), "where were we?")  # or await abegin(...)
    turn.system                            # stable block: belongs behind the static system text
    turn.beside(["hi", "where were we?"])  # for each user message, oldest first: what stands behind its text, or ""
    turn.finish("We were at the ribs.")    # or turn.finish(None): there was no answer

What an adapter may rely on:

- **Once.** `begin` asks memory once; `system` and this turn's block never change while the turn lasts, so that each
  model call of a tool loop gets the same bytes. `finish` captures once, whoever calls it, however often, on whatever
  thread; it does not wait, does not raise, and is right in async code and in a `finally` under cancellation, too.
- **Replay.** `beside` notes this turn's block in the ledger under (conversation, place, words): the first writer wins,
  and every later call, also of later turns, gives the same bytes for the same message.
- **An answer that never came** is captured as unanswered: by `finish(None)`, by leaving `with turn:` without an answer,
  by a newer turn of the same conversation, by `Turns.close()`. An answer that comes after that is captured alone.
- **Nobody is guessed.** Without an identity `begin` gives a turn whose blocks are empty and that captures nothing.
- **Nothing fails because of memory**: no call here raises for what the network, the disk or the server does.

Two ways in: `begin` where the framework says when a person's turn begins, `meet` where there are only model calls and a
turn has to be recognised in their messages. Half an answer (a cut stream) is no answer.
"""

from __future__ import annotations

import os
import random
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from honcho_actors.host import Replays
from honcho_actors.host.history import digest_of
from honcho_actors.model import Context, SessionKey, Turn, TurnRequest
from honcho_actors.privacy import identity

if TYPE_CHECKING:
    from honcho_actors.capture import Receipt
    from honcho_actors.runtime import Memory

MAX_UNANSWERED: Final = 8
"""Turns of one conversation that wait for an answer or for a retry and can be recognised again."""
MAX_CONVERSATIONS: Final = 10_000
"""Conversations with such turns."""
NOTHING: Final = Context()

_ids: Final = random.Random()
"""Makes the ids of turns: a call to the system for each would give the interpreter away, in the middle of a turn."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.seed)

Place = tuple[int, bytes]
"""How many user messages stand before one, and the digest of its words."""


class Talk(NamedTuple):
    """A conversation as the ledger knows it: a subagent's is apart from the person's own."""

    session: SessionKey
    scope: str


class _Stage(Enum):
    OPEN = 1
    UNANSWERED = 2
    ANSWERED = 3
    FORGOTTEN = 4


class OpenTurn:
    """One turn. Made by `Turns`; any thread."""

    __slots__ = (
        "_at",
        "_block",
        "_lock",
        "_prompt",
        "_ready",
        "_stage",
        "_turns",
        "_words",
        "asked",
        "context",
        "receipt",
        "request",
        "system",
        "talk",
        "turn_id",
    )

    def __init__(
        self, turns: Turns, request: TurnRequest, talk: Talk | None, prompt: tuple[str, ...], turn_id: str | None
    ) -> None:
        """Use `Turns.begin` or `Turns.meet`."""
        self._turns = turns
        self._prompt = prompt
        self._words = digest_of(prompt[-1]) if prompt else b""
        self._stage = _Stage.OPEN
        self._lock = threading.Lock()
        self._block = ""
        self._at: Place | None = None
        self._ready: tuple[tuple[str, ...], int, tuple[str, ...]] | None = None
        """The messages that were met a moment ago, the first one's place, and what stands beside each."""
        self.request = request
        self.talk = talk
        """Where it belongs; None for a turn without identity."""
        self.turn_id = turn_id or f"{_ids.getrandbits(128):032x}"
        self.asked = False
        """Whether memory has answered."""
        self.context: Context = NOTHING
        """What memory gave, with its state and its reason."""
        self.system = ""
        """The stable half, fenced and labelled: goes behind the static system text. "" when there is none."""
        self.receipt: Receipt | None = None
        """Of what was captured last."""

    def __repr__(self) -> str:
        return f"OpenTurn({self.turn_id}, {self._stage.name.lower()})"

    @property
    def known(self) -> bool:
        """Whether somebody is identified, so that there can be memory at all."""
        return self.talk is not None

    @property
    def over(self) -> bool:
        """Whether it was finished, with an answer or without."""
        return self._stage is not _Stage.OPEN

    @property
    def answered(self) -> bool:
        """Whether an answer was captured."""
        return self._stage is _Stage.ANSWERED

    @property
    def block(self) -> str:
        """What moves: it stands behind this turn's user text, separated by a blank line. "" when there is nothing.
        Prefer `beside`, which also keeps it for later turns."""
        return self._block

    def beside(self, said: Sequence[str], first: int = 0) -> tuple[str, ...]:
        """For each user message that the model is about to get, oldest first: the text that stands behind its own
        (it begins with a blank line), "" for none. The first call settles which of them is this turn's. `first`: the
        place of the first of them, where what was said before is not sent again."""
        talk = self.talk
        if talk is None or not said or self._stage is _Stage.FORGOTTEN:
            return ("",) * len(said)
        ready, self._ready = self._ready, None
        if ready is not None and ready[1] == first and ready[0] == tuple(said):
            return ready[2]
        return self._beside(talk, _places(said, first))

    def finish(self, answer: str | None) -> Receipt | None:
        """The turn is over. A blank answer is none. Captures what was not captured yet, and gives its receipt; None
        where nobody is identified."""
        if self.talk is None:
            self._stage = _Stage.ANSWERED if answer else _Stage.UNANSWERED
            return None
        text = answer if isinstance(answer, str) and answer.strip() else None
        with self._lock:
            self._ready = None
            before = self._stage
            if before in _ENDED or (text is None and before is _Stage.UNANSWERED):
                return self.receipt
            self._stage = _Stage.UNANSWERED if text is None else _Stage.ANSWERED
            prompt, self._prompt = self._prompt, ()
        if text is None and not prompt:
            return self.receipt
        if text is not None:
            text = self._turns.replays.open(self.talk).cleaned(text)
        request = self.request
        turn = Turn(
            session_key=identity.entry_key(request),
            user=request.user,
            prompt=prompt,
            answer=text,
            turn_id=self.turn_id if before is _Stage.OPEN else f"{self.turn_id}:answer",
            scope=request.scope,
            audience=request.audience,
            partition=request.partition,
            interactive=not request.automated,
        )
        self.receipt = self._turns.memory.capture(turn)
        return self.receipt

    async def afinish(self, answer: str | None) -> Receipt | None:
        """As `finish`, returning when what was captured is on disk (or was skipped)."""
        receipt = self.finish(answer)
        if receipt is not None:
            await receipt
        return receipt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.finish(None)

    def _say(self, prompt: tuple[str, ...]) -> None:
        """What the person said in it, found in the messages of a model call."""
        self._prompt = prompt
        self._words = digest_of(prompt[-1])
        self.request = replace(self.request, query="\n".join(prompt))

    def _filled(self, context: Context) -> None:
        """Memory has answered; the first answer holds."""
        assert self.talk is not None
        with self._lock:
            if self.asked:
                return
            self.context = context
            prompt = self._turns.replays.open(self.talk).begun("", context, "-")
            self.system, self._block = prompt.system, prompt.added
            self.asked = True

    def _met(self, said: Sequence[str], first: int, places: Sequence[Place]) -> None:
        """These messages are about to be sent; `beside` is asked about them next."""
        if self.talk is not None and places and self._stage is not _Stage.FORGOTTEN:
            self._ready = (tuple(said), first, self._beside(self.talk, places))

    def _beside(self, talk: Talk, places: Sequence[Place]) -> tuple[str, ...]:
        if self._at is None:
            self._settle(talk, places)
        get = self._turns.replays.open(talk).get
        return tuple([get(*place) or "" for place in places])

    def _forgotten(self) -> None:
        """Its person is forgotten: it is over, nothing of it is captured, and it holds nothing of them."""
        with self._lock:
            self._stage, self.asked = _Stage.FORGOTTEN, True
            self._prompt, self._ready, self._block, self.system = (), None, "", ""
            self.context = NOTHING

    def _settle(self, talk: Talk, places: Sequence[Place]) -> None:
        """Finds this turn's message: the newest that holds its words, else the newest. The block that holds is the
        ledger's, where another turn stood at the same place with the same words."""
        at = next((place for place in reversed(places) if place[1] == self._words), places[-1])
        self._at = at
        self._block = self._turns.replays.keep(talk, *at, self._block)


_ENDED: Final = frozenset({_Stage.ANSWERED, _Stage.FORGOTTEN})


class Turns:
    """Begins the turns of one runtime. One for each adapter, or one for all of them; any thread, any event loop."""

    def __init__(
        self,
        memory: Memory,
        *,
        budget: float | None = None,
        require_user: bool = False,
        replays: Replays | None = None,
    ) -> None:
        """`budget`: seconds that a cold turn may wait (default: `first_turn_wait`). `require_user`: a turn that names
        nobody gets no memory, whatever the settings say; for whatever serves many people. `replays`: the ledger, for
        a host that shares it or has it survive a restart (`Replays(histories(memory.settings))`).
        """
        self.memory = memory
        self.replays = Replays() if replays is None else replays
        self._budget = budget
        self._require_user = require_user
        self._open: dict[Talk, _Held] = {}
        self._clock = count(1)
        memory.companion("every turns", _Every).join(self)

    @classmethod
    def of(cls, memory: Memory) -> Turns:
        """The turns that the adapters of a runtime share: one ledger, whichever of them a conversation comes through.
        They end with the runtime: what is open when it closes is captured as unanswered."""
        return memory.companion("turns", cls)

    # -- the framework says when a turn begins -------------------------------------------------------------------------

    def begin(self, request: TurnRequest, said: str | Sequence[str], *, turn_id: str | None = None) -> OpenTurn:
        """A new turn of this conversation, with what the person said in it; one that was still open is over.
        `request.query` is filled in. Waits at most `budget`; on a thread that runs an event loop not at all."""
        turn = self._new(request, said, turn_id)
        if turn.talk is not None:
            self._began(turn, turn.talk)
            self._ask(turn)
        return turn

    async def abegin(self, request: TurnRequest, said: str | Sequence[str], *, turn_id: str | None = None) -> OpenTurn:
        """As `begin`, suspending the task. Cancelled meanwhile, what was said is captured as unanswered."""
        turn = self._new(request, said, turn_id)
        if turn.talk is not None:
            self._began(turn, turn.talk)
            await self._aask(turn)
        return turn

    # -- a turn is recognised in a model call --------------------------------------------------------------------------

    def meet(
        self,
        request: TurnRequest,
        said: Sequence[str],
        since: int,
        *,
        first: int = 0,
        turn_id: str | None = None,
        again: bool = False,
    ) -> OpenTurn:
        """The turn that a model call belongs to: the one that is open at the same place with the same words (a tool
        loop, a retry), else a new one.

        `said`: all user messages that the model is about to get, oldest first; `since`: how many of them stand before
        the model's last words, so that the others are new; `first`: the place of the first of them. The same words
        after an answer are a new turn, unless `turn_id` or `again` (a call is repeated) says that it is the same.
        """
        turn, places = self._joined(request, said, since, first, turn_id, again)
        if turn.talk is not None:
            if not turn.asked:
                self._ask(turn)
            turn._met(said, first, places)
        return turn

    async def ameet(
        self,
        request: TurnRequest,
        said: Sequence[str],
        since: int,
        *,
        first: int = 0,
        turn_id: str | None = None,
        again: bool = False,
    ) -> OpenTurn:
        """As `meet`, suspending the task."""
        turn, places = self._joined(request, said, since, first, turn_id, again)
        if turn.talk is not None:
            if not turn.asked:
                await self._aask(turn)
            turn._met(said, first, places)
        return turn

    # -- the end -------------------------------------------------------------------------------------------------------

    def forget(self, peer: str) -> None:
        """Nothing of this person (remote peer) is held here any more; their open turns are over, uncaptured."""
        for talk in [one for one in list(self._open) if one.session.user == peer]:
            held = self._open.pop(talk, None)
            if held is not None:
                for turn in held.left():
                    turn._forgotten()
        self.replays.forget(peer)

    def close(self) -> None:
        """Every turn that is still open is over. Before `Memory.close`, so that what was said is captured."""
        for talk in list(self._open):
            held = self._open.pop(talk, None)
            if held is not None:
                held.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def talk(self, request: TurnRequest) -> Talk | None:
        """The conversation that a request is about; None where nobody is identified."""
        user = request.user
        if self._require_user and not (isinstance(user, str) and user.strip()):
            return None
        who = identity.resolve(request, self.memory.settings)
        return None if isinstance(who, identity.NoIdentity) else Talk(who.session, request.scope)

    def _new(self, request: TurnRequest, said: str | Sequence[str], turn_id: str | None) -> OpenTurn:
        prompt = (said,) if isinstance(said, str) else tuple(said)
        return OpenTurn(self, replace(request, query="\n".join(prompt)), self.talk(request), prompt, turn_id)

    def _ask(self, turn: OpenTurn) -> None:
        try:
            turn._filled(self.memory.context(turn.request, self._budget))
        except BaseException:  # interrupted while it waited: what was said is said
            turn.finish(None)
            raise

    async def _aask(self, turn: OpenTurn) -> None:
        try:
            await self.replays.aopen(turn.talk)  # what is stored of it is read on another thread
            turn._filled(await self.memory.acontext(turn.request, self._budget))
        except BaseException:  # cancelled while it waited: what was said is said
            turn.finish(None)
            raise

    def _joined(
        self, request: TurnRequest, said: Sequence[str], since: int, first: int, turn_id: str | None, again: bool
    ) -> tuple[OpenTurn, Sequence[Place]]:
        """The turn that these messages belong to: the one at their place that has no answer yet, or a new one; and the
        places of the messages."""
        talk = self.talk(request)
        if talk is None:
            return self._new(request, (), turn_id), ()
        held = self._held(talk)
        places = _places(said, first)
        with held.lock:
            found = held.newest() if not places else held.turns.get(places[-1])
            if found is not None and (again or not found.answered) and turn_id in (None, found.turn_id):
                return found, places
            turn = OpenTurn(self, request, talk, (), turn_id)
            self._fill_in(turn, talk, said, places, since)
            others = held.begin(places[-1] if places else turn.turn_id, turn)
        for other in others:
            other.finish(None)
        return turn, places

    def _fill_in(self, turn: OpenTurn, talk: Talk, said: Sequence[str], places: Sequence[Place], since: int) -> None:
        """What is new in these messages: those since the model's last words that were not met before, the last one in
        any case. Where the model goes on after its own words, nothing is new."""
        last = len(said) - 1
        if since > last:
            turn.request = replace(turn.request, query="")
            turn._at = places[-1] if places else None
            return
        ledger = self.replays.open(talk)
        fresh = [number for number in range(since, last) if ledger.get(*places[number]) is None]
        for number in fresh:
            ledger.keep(*places[number], "")
        turn._say(tuple([said[number] for number in (*fresh, last)]))

    def _began(self, turn: OpenTurn, talk: Talk) -> None:
        """The conversation goes on with this turn: any other of it that is open is over."""
        held = self._held(talk)
        with held.lock:
            others = held.begin(turn.turn_id, turn)
        for other in others:
            other.finish(None)

    def _held(self, talk: Talk) -> _Held:
        held = self._open.get(talk)
        if held is None:
            if len(self._open) >= MAX_CONVERSATIONS:
                self._forget_some()
            held = self._open.setdefault(talk, _Held())
        held.used = next(self._clock)
        return held

    def _forget_some(self) -> None:
        """Drops the conversations that were used least recently; what is still open in them is over."""
        order = sorted(self._open.items(), key=lambda one: one[1].used)
        for talk, _ in order[: max(1, MAX_CONVERSATIONS // 16)]:
            gone = self._open.pop(talk, None)
            if gone is not None:
                gone.end()


class _Every:
    """All turns of one runtime, also those that do not end with it: who is forgotten is forgotten in each."""

    def __init__(self, memory: Memory) -> None:
        self._all: weakref.WeakSet[Turns] = weakref.WeakSet()
        self._lock = threading.Lock()

    def join(self, turns: Turns) -> None:
        with self._lock:
            self._all.add(turns)

    def forget(self, peer: str) -> None:
        with self._lock:
            found = list(self._all)
        for turns in found:
            turns.forget(peer)

    def close(self) -> None:
        """Whoever made them ends them."""


class _Held:
    """The turns of one conversation that have no answer yet. The lock is this conversation's own."""

    __slots__ = ("lock", "turns", "used")

    def __init__(self) -> None:
        self.used = 0
        """When it was used last, as `Turns` counts."""
        self.lock = threading.Lock()
        self.turns: dict[Place | str, OpenTurn] = {}

    def newest(self) -> OpenTurn | None:
        return next(reversed(self.turns.values()), None)

    def begin(self, place: Place | str, turn: OpenTurn) -> list[OpenTurn]:
        """Takes a turn in, under the lock; gives those that are over with it."""
        others = list(self.turns.values())
        for key, other in list(self.turns.items()):
            if other.answered:
                del self.turns[key]
        self.turns.pop(place, None)
        self.turns[place] = turn
        for key in list(self.turns)[:-MAX_UNANSWERED]:
            del self.turns[key]
        return [other for other in others if not other.over]

    def left(self) -> list[OpenTurn]:
        """Its turns, which are no longer held."""
        with self.lock:
            turns = list(self.turns.values())
            self.turns.clear()
        return turns

    def end(self) -> None:
        for turn in self.left():
            turn.finish(None)


def _places(said: Sequence[str], first: int) -> list[Place]:
    return [(number, digest_of(text)) for number, text in enumerate(said, first)]
