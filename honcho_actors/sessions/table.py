"""The published table: what a turn reads, written by the SessionManager alone and outliving it.

A turn does two dictionary look-ups and takes one attribute; each is atomic, so it needs no lock and can never wait for
the writer. A `Block`, a `Person` and a conversation at rest (`entries`) are plain tuples of text and numbers: Python's
cyclic collector stops tracking such tuples, and the dictionaries that hold nothing else. A conversation at rest costs
it nothing, and a hundred thousand of them no pause that a turn would feel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from honcho_actors.model import Cause, Context, Placement, Reason, Section, SessionKey, State
from honcho_actors.sessions import block as text
from honcho_actors.sessions.summaries import Summaries

if TYPE_CHECKING:
    from honcho_actors.sessions.messages import PersonSnapshot, SessionSnapshot, TurnRecord
    from supervision import Ref, Waiter

Key = tuple[str, str, str, str, str, str]
"""A conversation: server, workspace, partition, key, user, audience. Plain, so that the collector can forget it."""
PersonId = tuple[str, str, str, str, str]
"""A person's collection: server, workspace, partition, observer, observed."""

Block = tuple[str, str, float, int, float, int, int, int]
"""Stable text, volatile text, made_at and turn of the base layer, made_at and turn of the dialectic, settings epoch,
flags."""
STABLE: Final = 0
VOLATILE: Final = 1
MADE_AT: Final = 2
MADE_TURN: Final = 3
ASKED_AT: Final = 4
ASKED_TURN: Final = 5
EPOCH: Final = 6
FLAGS: Final = 7

KNOWN: Final = 1
RESTORED: Final = 2
NO_ROOM: Final = 4
"""Flags of a block: the server knows the person; it comes from a snapshot and was not read in this process yet;
something is remembered and none of it fits into the budget."""

Person = tuple[str | tuple[int, int], tuple[str, ...], float, int, Block]
"""Representation (read it by `representation_of`), card, made_at, flags, and the block of a conversation of which
nothing more is known. A representation that the block shows word for word is kept as its place there."""
P_REPRESENTATION: Final = 0
P_CARD: Final = 1
P_MADE_AT: Final = 2
P_FLAGS: Final = 3
P_BLOCK: Final = 4

READY_FOR: Final = 1.0
"""Seconds for which a built Context is reused: its age is never wrong by more. One is kept only for a conversation
whose turns come faster than that; the others cost the collector nothing."""

FEED_LENGTH: Final = 16_384
"""Turns that may wait to be counted while the manager is away; older ones are forgotten, uncounted."""

ENTRY_BYTES: Final = 700
"""What an entry weighs beside its texts: slots, keys, its place in the order."""

_STABLE_HEAD: Final = len(text.STABLE_HEAD)
_VOLATILE_HEAD: Final = len(text.VOLATILE_HEAD)


def flat(session: SessionKey) -> Key:
    """The table's key of a conversation."""
    realm, key, user, audience = session
    return (realm[0], realm[1], realm[2], key, user, audience)


def representation_of(person: Person) -> str:
    """What the server said of a person."""
    held = person[P_REPRESENTATION]
    return held if isinstance(held, str) else person[P_BLOCK][STABLE][held[0] : held[1]]


def person_of(key: Key) -> PersonId:
    """The one slot: what the person's own peer knows of that person."""
    return (key[0], key[1], key[2], key[4], key[4])


class Entry:
    """One conversation. Readers take `block`, `ready`, `opened`, `reason`; everything else is the manager's own."""

    __slots__ = (
        "answer",
        "answered_at",
        "answered_turn",
        "asked_mark",
        "base_at",
        "base_job",
        "base_mark",
        "began_warm",
        "block",
        "bytes",
        "dialectic_job",
        "empties",
        "failures",
        "key",
        "opened",
        "question_due",
        "ready",
        "reason",
        "remote",
        "retry_at",
        "served_at",
        "summary",
        "summary_job",
        "summary_mark",
        "touched",
        "turns",
        "uploads",
        "waiters",
    )

    def __init__(self, key: Key, now: float) -> None:
        self.key = key
        self.block: Block | None = None
        """None until a base layer has landed: this conversation has never been loaded."""
        self.ready: tuple[Block, float, Context] | None = None
        self.served_at = -READY_FOR
        """When a turn last took the block; written by whoever serves."""
        self.opened = False
        """A turn of this conversation has been answered: later ones do not wait for its first load."""
        self.reason: Reason = Reason.LOADING
        """Why there is no block."""
        self.turns = 0
        self.base_mark: int | None = None
        self.base_at = now - 1e9
        self.began_warm = False
        """The person was known when the conversation began here."""
        self.asked_mark: int | None = None
        self.summary_mark: int | None = None
        self.summary = ""
        self.answer = ""
        self.answered_at = 0.0
        self.answered_turn = 0
        self.empties = 0
        self.base_job = 0
        self.dialectic_job = 0
        self.summary_job = 0
        self.question_due: Any = None
        """A dialectic question that waits for the base layer to say whether the person is known."""
        self.waiters: list[Any] | None = None
        self.failures = 0
        self.retry_at = 0.0
        self.remote = ""
        self.touched = now
        self.uploads = 0
        self.bytes = ENTRY_BYTES

    @property
    def person(self) -> PersonId:
        """Whose conversation it is."""
        return person_of(self.key)

    @property
    def pinned(self) -> bool:
        """A refresh runs for it, or somebody waits for it: not to be evicted."""
        return bool(self.base_job or self.dialectic_job or self.summary_job or self.waiters)


Rest = tuple[Any, ...]
"""A conversation at rest: its fields in the order of `_KEPT`, all of them text and numbers."""
R_BLOCK: Final = 0
R_TOUCHED: Final = 1
R_BYTES: Final = 2

_KEPT: Final = (
    "block",
    "touched",
    "bytes",
    "turns",
    "base_mark",
    "base_at",
    "began_warm",
    "asked_mark",
    "summary_mark",
    "summary",
    "answer",
    "answered_at",
    "answered_turn",
    "empties",
    "failures",
    "retry_at",
    "remote",
    "uploads",
    "opened",
    "reason.value",
)
_fields = attrgetter(*_KEPT)


def pack(entry: Entry) -> Rest:
    """What is kept of a conversation that nothing holds. Give it to `unpack`."""
    packed: Rest = _fields(entry)
    return packed


def unpack(key: Key, rest: Rest) -> Entry:
    """The conversation again: a new object, equal in everything but what only a live one has."""
    entry = Entry(key, 0.0)
    (
        entry.block,
        entry.touched,
        entry.bytes,
        entry.turns,
        entry.base_mark,
        entry.base_at,
        entry.began_warm,
        entry.asked_mark,
        entry.summary_mark,
        entry.summary,
        entry.answer,
        entry.answered_at,
        entry.answered_turn,
        entry.empties,
        entry.failures,
        entry.retry_at,
        entry.remote,
        entry.uploads,
        entry.opened,
        reason,
    ) = rest
    entry.reason = Reason(reason)
    return entry


class Entries:
    """All conversations: those in use as objects, those at rest packed. Written by the manager alone.

    `look` may be called from any thread. A conversation that changes from one dictionary to the other is put into the
    new one before it is taken out of the old one.
    """

    __slots__ = ("lively", "resting")

    def __init__(self) -> None:
        self.lively: dict[Key, Entry] = {}
        self.resting: dict[Key, Rest] = {}

    def __len__(self) -> int:
        return len(self.lively) + len(self.resting)

    def __contains__(self, key: object) -> bool:
        return key in self.lively or key in self.resting

    def __iter__(self) -> Iterator[Key]:
        """All keys as they are now, those at rest first, least recently used first."""
        return iter([*self.resting.copy(), *self.lively.copy()])

    def look(self, key: Key) -> Entry | None:
        """The conversation as it is; of one at rest a copy, which stays a copy."""
        entry = self.lively.get(key)
        if entry is None:
            rest = self.resting.get(key)
            if rest is not None:
                return unpack(key, rest)
            entry = self.lively.get(key)  # it may have been woken between the two looks
        return entry

    def values(self) -> list[Entry]:
        """All of them, as by `look`."""
        return [entry for key in self if (entry := self.look(key)) is not None]


class Table:
    """Everything that survives the manager: entries, persons, the feed of served turns, and the manager's address."""

    def __init__(self) -> None:
        self.entries = Entries()
        self.persons: dict[PersonId, Person] = {}
        self.feed: deque[TurnRecord] = deque(maxlen=FEED_LENGTH)
        self.lost = 0
        """Turns that were forgotten uncounted, because more waited than the feed holds."""
        self.woken = False
        self.manager: Ref[Any] | None = None
        self.generation = 0
        self.bytes = 0
        self.closed = False
        self.restored = 0
        """Persons and conversations that were loaded from snapshots."""
        self.summaries = Summaries()
        """Of conversations that are held, and of those that have left."""
        self.unsaved: dict[tuple[str, ...], PersonSnapshot | SessionSnapshot] = {}
        """What has changed since it was last saved: put by the manager, taken by the keeper."""
        self.begun: set[Waiter[Context]] = set()
        """Whoever waits now."""
        self.read_seconds: float | None = None
        """How long a first read takes of late when it need not wait for a place; None before there was one."""
        self.keeper: Ref[Any] | None = None
        self.degraded: tuple[Cause, ...] = ()
        """Why memory is worse than it should be now; put by whoever watches over the runtime, taken with each block."""
        self.served = 0
        """Turns of people that were answered and counted, with memory or without."""
        self.failed_reads = 0
        """Base reads that failed since the last good one,"""
        self.failed_why = ""
        """and why the last of them did: a word of `Reason`."""
        self.snapshots = "loading"
        """How the file of snapshots fares, in a word for `status`."""

    def read_took(self, seconds: float) -> None:
        """A first read came back. The server is believed to be as fast as it was, and slow only after a while."""
        before = self.read_seconds
        self.read_seconds = seconds if before is None or seconds < before else before + (seconds - before) / 8


def context_of(block: Block, now: float, volatile_max_age: float) -> Context:
    """The finished answer of a warm turn."""
    stable, volatile, made_at, made_turn, asked_at, asked_turn, _, flags = block
    age = now - made_at
    if age < 0.0:
        age = 0.0
    sections: tuple[Section, ...] = ()
    if stable:
        sections = (Section(text.STABLE_TITLE, stable[_STABLE_HEAD:], Placement.SYSTEM, age, made_turn),)
    if volatile:
        asked_age = max(0.0, now - asked_at)
        if asked_age <= volatile_max_age:
            sections += (
                Section(text.VOLATILE_TITLE, volatile[_VOLATILE_HEAD:], Placement.USER_MESSAGE, asked_age, asked_turn),
            )
        else:
            volatile = ""
    if sections:
        reason = Reason.HIT
    else:
        reason = Reason.BUDGET if flags & NO_ROOM else Reason.NOTHING_KNOWN
    state = State.RESTORED if flags & RESTORED else State.WARM
    return Context(sections, state, reason, 0.0, age, stable, volatile)
