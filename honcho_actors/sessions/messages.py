"""What the SessionManager is told. Private to this room: others use the facade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from honcho_actors.model import Context, SessionKey, TurnRequest
from honcho_actors.privacy.identity import Identity
from honcho_actors.sessions.table import Key, PersonId
from honcho_actors.settings import Settings
from supervision import Ref, Reply, Waiter


class TurnRecord(NamedTuple):
    """One turn as it was served, or as it waits to be. `context` None: it waits. `cause`: why a waiter was answered.

    `key` None: a turn without memory, which only the meters hear of.
    """

    key: Key | None
    request: TurnRequest
    settings: Settings
    at: float
    context: Context | None
    cause: str = ""


class Drain:
    """Served turns lie in the feed."""


DRAIN = Drain()


class Open(NamedTuple):
    """A cold turn: load, and resolve `waiter`. Dropped when its deadline has passed before it is read."""

    turn: TurnRecord
    deadline: float
    waiter: Waiter[Context]


class Load(NamedTuple):
    """Load without a turn. `again`: even when it is loaded (the conversation went idle, a tool wrote a fact)."""

    key: Key
    identity: Identity
    settings: Settings
    again: bool = False


class Uploaded(NamedTuple):
    """Something of this conversation has reached the server."""

    session: SessionKey


class Forget(NamedTuple):
    """Drop everything about a remote peer, in every realm."""

    peer: str


class Overdue(NamedTuple):
    """A worker has not reported in time."""

    number: int


class LookAtLine:
    """Is anybody in line in vain?"""


LOOK = LookAtLine()


class Readable(NamedTuple):
    """The server answers reads again, as was seen apart from any conversation after so many of them had failed."""

    failed: int


class Started(NamedTuple):
    """The reply about a worker's start is there."""

    number: int
    reply: Reply[Any]


class Sweep(NamedTuple):
    """The next slice of the idle sweep."""

    keys: Any


class Republish(NamedTuple):
    """The next slice of a person's conversations after a change of what is known of them."""

    person: PersonId
    keys: list[Key]


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """What is kept of a conversation between processes. Times are wall clock seconds."""

    key: Key
    summary: str
    saved_at: float
    text: str = ""
    made_with: str = ""


@dataclass(frozen=True, slots=True)
class PersonSnapshot:
    """What is kept of a person between processes. Times are wall clock seconds in the file, the runtime's before."""

    person: PersonId
    representation: str
    card: tuple[str, ...]
    made_at: float
    saved_at: float
    text: str = ""
    made_with: str = ""
    """The rendered block, and what its bytes depend on beside the above: it is taken as it is only when that still
    fits."""


class Restored(NamedTuple):
    """A slice of snapshots, newest first. The manager tells the keeper `Taken` afterwards."""

    persons: tuple[PersonSnapshot, ...]
    sessions: tuple[SessionSnapshot, ...]
    wall_now: float
    keeper: Ref[Any]
    last: bool = False
    wanted: bool = False
    """It was asked for by `Wanted`, and is no slice: nobody waits for a `Taken`."""


class Wanted(NamedTuple):
    """To the keeper: somebody waits for this conversation. Is it among those that are yet to be loaded?"""

    key: Key
    person: PersonId


class Taken(NamedTuple):
    """To the keeper: a slice has been taken, the next may come."""


class Unsaved(NamedTuple):
    """To the keeper: something in `Table.unsaved` is new."""


class Moved(NamedTuple):
    """To the keeper: other settings are in force, perhaps of another server."""


class ForgetSaved(NamedTuple):
    """To the keeper: drop what is kept of a remote peer. The reply is True when nothing is left."""

    peer: str
