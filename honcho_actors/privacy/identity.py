"""Whose memory a turn may touch, and what it is called on the server. Nobody is ever guessed.

The person, by a ladder: everybody is the pinned peer; or the alias that the operator gave for this id; or prefix + id;
or the id. No id means the configured `user_peer` only while `require_user` is false; otherwise there is no memory. A
person never gets the assistant's own name. What trusted code says is a `str`; what came in a message or a header is a
`Claimed`, and no claim is an identity until the operator's own code vouches for it.

The conversation, by strategy: its own key, its directory (the whole path), its repository, or one for the workspace. A
partition and a shared audience are part of every name; where the key does not say whose conversation it is (no key, a
directory, a repository, the whole workspace), the person is too.

`resolve` is pure string work without a lock, remembered in a bounded plain dict: a few hundred nanoseconds on a
repeat. It never touches a file; a repository is looked for by `locate`, off the turn path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from honcho_actors.model import Audience, Realm, Reason, SessionKey, SkipReason, Turn, TurnRequest
from honcho_actors.privacy import names

REMEMBERED = 8192
_SETTINGS_REMEMBERED = 16


class IdentitySettings(Protocol):
    """The settings that identity reads."""

    @property
    def server_id(self) -> str: ...
    @property
    def workspace(self) -> str: ...
    @property
    def user_peer(self) -> str: ...
    @property
    def ai_peer(self) -> str: ...
    @property
    def require_user(self) -> bool: ...
    @property
    def user_peer_aliases(self) -> Mapping[str, str]: ...
    @property
    def user_peer_prefix(self) -> str: ...
    @property
    def pin_user_peer(self) -> bool: ...
    @property
    def session_strategy(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """One person in one conversation. `remote_session` is "" while a repository has still to be located."""

    realm: Realm
    session: SessionKey
    user_peer: str
    ai_peer: str
    remote_session: str
    directory: str = ""
    """Where to look for the repository, for strategy `repo` only."""
    bound_to: str = ""
    """The person whose name keeps the remote session apart where its key does not; "" for the configured user."""


@dataclass(frozen=True, slots=True)
class NoIdentity:
    """There is no memory for this turn, in the words of a context and in those of a receipt."""

    reason: Reason = Reason.NO_IDENTITY
    skip: SkipReason = SkipReason.NO_IDENTITY


@dataclass(frozen=True, slots=True, repr=False)
class Claimed:
    """A name that came in a message, a header or a tool argument. Not an identity: nothing here takes it for one."""

    name: str

    def vouched(self, known: Mapping[str, str]) -> str | None:
        """The trusted id that the operator's table gives for this claim, or None."""
        found = known.get(self.name)
        return found if isinstance(found, str) and found.strip() else None

    def __repr__(self) -> str:
        return "Claimed(...)"


NOBODY: Final = NoIdentity()
NO_SESSION: Final = NoIdentity(skip=SkipReason.NO_SESSION)

DEFAULT_KEY: Final = "default"


def entry_key(request: TurnRequest) -> str:
    """The conversation's own key: the first non-blank of session_key, session_id, cwd, else `default`."""
    return _text(request.session_key) or _text(request.session_id) or _text(request.cwd) or DEFAULT_KEY


def resolve(request: TurnRequest | Turn, settings: IdentitySettings) -> Identity | NoIdentity:
    """Who this is and where their memory of this conversation lives. Any thread; never raises; never waits."""
    known = _resolvers.get(id(settings))
    resolver = known if known is not None and known.settings is settings else _resolver(settings)
    key: tuple[object, ...] = (
        (request.session_key, request.session_id, request.cwd, request.user, request.audience, request.partition)
        if type(request) is TurnRequest
        else (request.session_key, request.user, request.audience, request.partition)
    )
    try:
        return resolver.memo[key]
    except KeyError:
        return resolver.remember(key, request)
    except TypeError:
        return NOBODY


def locate(identity: Identity) -> Identity:
    """The same identity with its remote session known. Looks at the file system: for workers, never on a turn."""
    if identity.remote_session:
        return identity
    root = repository_root(identity.directory)
    return replace(identity, remote_session=_remote(root, identity.session, identity.bound_to))


def repository_root(directory: str) -> str:
    """The nearest folder at or above `directory` that holds a `.git`; `directory` itself when there is none. File
    system."""
    here = directory
    for _ in range(_DEEPEST):
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            break
        here = above
    return directory


_DEEPEST: Final = 64


def _remote(base: str, session: SessionKey, person: str) -> str:
    """The remote name: plain for a person's own private conversation, else with every bound that keeps it apart."""
    partition = session.realm.partition
    if session.audience == "private" and not partition and not person:
        return names.session_id(base)
    return names.apart(base, session.audience, partition, person if session.audience == "private" else "")


class _Resolver:
    """What is remembered for one settings object. Races of threads cost a repeated computation, nothing else."""

    __slots__ = ("_directories", "_home", "memo", "settings")

    def __init__(self, settings: IdentitySettings) -> None:
        self.settings = settings
        self.memo: dict[tuple[object, ...], Identity | NoIdentity] = {}
        self._directories: dict[SessionKey, str] = {}
        self._home = _working_directory() if settings.session_strategy in ("directory", "repo") else os.sep

    def remember(self, key: tuple[object, ...], request: TurnRequest | Turn) -> Identity | NoIdentity:
        """Resolves, and keeps the answer for the next turn of this conversation."""
        answer = self._resolve(request)
        if len(self.memo) >= REMEMBERED:
            self.memo = {}
        self.memo[key] = answer
        return answer

    def _resolve(self, request: TurnRequest | Turn) -> Identity | NoIdentity:
        settings = self.settings
        if isinstance(request, TurnRequest):
            key, cwd = entry_key(request), _text(request.cwd)
            named = bool(_text(request.session_key) or _text(request.session_id))
        else:
            key, cwd, named = _text(request.session_key), "", True
        person = _person(request.user, settings)
        partition = request.partition
        if person is None or not isinstance(partition, str):
            return NOBODY
        if not key:
            return NO_SESSION
        audience: Audience = "private" if request.audience == "private" else "shared"
        realm = Realm(settings.server_id, names.workspace_id(settings.workspace), partition)
        ai_peer = _peer(settings.ai_peer, partition)
        user_peer = _peer(person, partition)
        if user_peer == ai_peer:
            user_peer = names.apart(person, "person", partition)
        session = SessionKey(realm, key, user_peer, audience)
        bound_to = "" if person == settings.user_peer else user_peer
        directory = ""
        match settings.session_strategy:
            case "global":
                remote = _remote(settings.workspace, session, bound_to)
            case "directory":
                remote = _remote(self._directory(session, cwd), session, bound_to)
            case "repo":
                remote, directory = "", self._directory(session, cwd)
            case _:
                remote = _remote(key, session, "" if named else bound_to)
        return Identity(realm, session, user_peer, ai_peer, remote, directory, bound_to)

    def _directory(self, session: SessionKey, cwd: str) -> str:
        """The directory of a conversation: the first that a request gave for its key, so that its captures follow its
        reads."""
        known = self._directories.get(session)
        if known is not None:
            return known
        if not cwd and not os.path.isabs(session.key):
            return self._home
        directory = os.path.normpath(os.path.join(self._home, cwd or session.key))
        if cwd:
            if len(self._directories) >= REMEMBERED:
                self._directories = {}
            self._directories[session] = directory
            self.memo = {key: answer for key, answer in self.memo.copy().items() if not _of(session, answer)}
        return directory


def _of(session: SessionKey, answer: Identity | NoIdentity) -> bool:
    return isinstance(answer, Identity) and answer.session == session


def _person(user: object, settings: IdentitySettings) -> str | None:
    """The ladder, up to the name that a peer is made of."""
    if user is None:
        return None if settings.require_user else settings.user_peer
    if not isinstance(user, str) or not user.strip():
        return None
    if settings.pin_user_peer:
        return settings.user_peer
    alias = settings.user_peer_aliases.get(user)
    if alias is not None:
        return alias
    return settings.user_peer_prefix + user


def _peer(name: str, partition: str) -> str:
    return names.apart(name, "peer", partition) if partition else names.peer_id(name)


def _text(value: object) -> str:
    """The value itself when it is a string with something in it, else ""."""
    return value if isinstance(value, str) and value.strip() else ""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep


_resolvers: dict[int, _Resolver] = {}


def _resolver(settings: IdentitySettings) -> _Resolver:
    """The resolver of a settings object, which it holds: while it is remembered no other object has the same id."""
    global _resolvers
    made = _Resolver(settings)
    if len(_resolvers) >= _SETTINGS_REMEMBERED:
        _resolvers = {}
    _resolvers[id(settings)] = made
    return made
