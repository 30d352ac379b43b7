# ruff: noqa: RUF009 - `_setting` gives a dataclass field with its definition; it is not a default that is shared
"""Every setting: one definition, one frozen value, its sources, its problems and its epoch.

`Settings.load()` never raises and touches no network: a value that is not taken falls to the next source and is
recorded in `problems`; one that guards privacy falls to its closed side. `SettingsCell` holds the value in force; a
turn reads `cell.current`, a plain attribute that is published whole. What stands here may not know a client, an actor
or a conversation.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import platformdirs

from honcho_actors.settings.sources import APP, WORKING_DIRECTORY_FILE, Problem, Sources, read_layers, unknown
from honcho_actors.settings.values import (
    Address,
    Blank,
    Flag,
    Folder,
    Kind,
    Names,
    Number,
    OneOf,
    Refused,
    Secret,
    Text,
    Whole,
    normal_url,
)

__all__ = ["DEFINITIONS", "Definition", "Problem", "Settings", "SettingsCell", "Sources", "normal_url"]

HOSTED_URL: Final = "https://api.honcho.dev"
"""Where a key without an address belongs."""

RecallMode = Literal["hybrid", "context", "tools"]
SessionStrategy = Literal["session", "directory", "repo", "global"]
ReasoningLevel = Literal["minimal", "low", "medium", "high", "max"]
ObservationMode = Literal["directional", "unified"]
ScreenerName = Literal["none", "redact-secret"]
LEVELS: Final = ("minimal", "low", "medium", "high", "max")
_DAY: Final = 86_400.0
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting as its sources, the schema and the documentation see it. `closed`: what a refused value becomes."""

    name: str
    kind: Kind
    doc: str
    default: Any
    closed: Any = None
    is_gate: bool = False
    is_secret: bool = False


def _setting(default: Any, kind: Kind, doc: str, *, closed: Any = None, secret: bool = False) -> Any:
    extra = {"kind": kind, "doc": doc, "closed": closed, "secret": secret}
    if callable(default):
        return field(default_factory=default, metadata=extra, hash=False)
    return field(default=default, metadata=extra)


def _state_dir() -> Path:
    return platformdirs.user_state_path(APP)


def _cache_dir() -> Path:
    return platformdirs.user_cache_path(APP)


@dataclass(frozen=True, slots=True)
class Origin:
    """How settings were loaded, to load them again; `values` tells whether they still are what was read."""

    sources: Sources
    explicit: Mapping[str, Any]
    values: tuple[Any, ...]
    fingerprint: object


@dataclass(frozen=True)
class Settings:
    """The settings in force. Durations in seconds, sizes in bytes, cadences in substantive turns.

    Direct construction checks as loading does: a value that is not taken becomes the default (a privacy gate's becomes
    its closed side) and a problem.
    """

    enabled: bool = _setting(True, Flag(), "the master switch", closed=False)
    api_key: str | None = _setting(None, Secret(), "key of the Honcho server", secret=True)
    base_url: str | None = _setting(None, Address(), "address of a self-hosted Honcho server")
    workspace: str = _setting("honcho-actors", Text(), "remote workspace")
    user_peer: str = _setting("user", Text(), "the person meant when a turn names nobody")
    ai_peer: str = _setting("assistant", Text(), "the assistant's own peer")
    require_user: bool = _setting(False, Flag(), "a turn that names nobody has no memory", closed=True)
    user_peer_aliases: Mapping[str, str] = _setting(
        lambda: _NOTHING, Names(), "names of one person on several surfaces, each mapped to one peer"
    )
    user_peer_prefix: str = _setting("", Text(50, may_be_empty=True), "put before every user's peer and session name")
    pin_user_peer: bool = _setting(False, Flag(), "every turn is the one person `user_peer`", closed=False)
    recall_mode: RecallMode = _setting(
        "hybrid", OneOf(("hybrid", "context", "tools")), "context: blocks only; tools: tools only; hybrid: both"
    )
    session_strategy: SessionStrategy = _setting(
        "session", OneOf(("session", "directory", "repo", "global")), "what one remote session stands for"
    )
    context_cadence: int = _setting(1, Whole(1), "turns between two base refreshes of a conversation")
    dialectic_cadence: int = _setting(2, Whole(1), "turns between two dialectic questions (billed)")
    context_tokens: int = _setting(
        1200, Whole(-1_000_000, 1_000_000), "room for the whole block; 0 or less means no block"
    )
    dialectic_max_chars: int = _setting(600, Whole(1, 100_000), "longest dialectic supplement")
    dialectic_depth: int = _setting(1, Whole(1, 3), "passes of a dialectic question")
    reasoning_level: ReasoningLevel = _setting("low", OneOf(LEVELS), "effort of a dialectic question")
    reasoning_level_cap: ReasoningLevel = _setting("high", OneOf(LEVELS), "highest effort that a long question reaches")
    observation_mode: ObservationMode = _setting(
        "directional", OneOf(("directional", "unified")), "who observes whom in a new session"
    )
    save_messages: bool = _setting(True, Flag(), "false is read-only: nothing is written to the server", closed=False)
    session_summary: bool = _setting(True, Flag(), "the conversation's summary is part of the block")
    session_dream: bool = _setting(True, Flag(), "the server may derive from these messages", closed=False)
    inject_in_subagents: bool = _setting(False, Flag(), "subagents get the block too", closed=False)
    allow_public_http: bool = _setting(False, Flag(), "plain http is allowed to public addresses too", closed=False)
    screener: ScreenerName = _setting(
        "none",
        OneOf(("none", "redact-secret")),
        "a further opinion on what leaves, united with the own rules; one that fails withholds everything",
        closed="redact-secret",
    )
    first_turn_wait: float = _setting(3.0, Number(0.0, 3600.0), "longest that a cold turn waits")
    headroom: float = _setting(0.05, Number(0.0, 60.0), "taken off the host's grant, for the way back")
    request_timeout: float = _setting(10.0, Number(0.01, 3600.0), "total time of one request")
    delivery_timeout: float = _setting(60.0, Number(0.01, 3600.0), "total time of one delivery request")
    dialectic_timeout: float = _setting(60.0, Number(0.01, 3600.0), "total time of one dialectic question")
    settle_time: float = _setting(15.0, Number(0.0, 3600.0), "after which an unknown outcome has settled on the server")
    max_concurrent_requests: int = _setting(32, Whole(1, 10_000), "requests in flight at once")
    requests_per_second: float | None = _setting(None, Number(0.01, 100_000.0, True), "requests started a second")
    dialectic_per_hour: int | None = _setting(None, Whole(0, 1_000_000, True), "dialectic questions an hour")
    max_sessions: int = _setting(10_000, Whole(1, 10_000_000), "conversations kept ready")
    max_cache_bytes: int = _setting(64 * 1024 * 1024, Whole(0, 1 << 40), "bytes of the blocks kept ready")
    idle_ttl: float = _setting(7_200.0, Number(0.1), "after which an unused conversation is dropped from memory")
    representation_ttl: float = _setting(600.0, Number(0.0), "after which what is known of a person is read again")
    volatile_max_age: float = _setting(600.0, Number(0.0), "after which a dialectic supplement is no longer shown")
    snapshot_ttl: float = _setting(7 * _DAY, Number(0.0), "after which a stored snapshot is not restored")
    outbox_retention: float = _setting(30 * _DAY, Number(1.0), "after which an undelivered turn expires")
    outbox_max_bytes: int = _setting(1 << 30, Whole(1, 1 << 50), "largest outbox")
    delivered_window: int = _setting(200, Whole(1, 1_000_000), "delivered batches remembered for each conversation")
    anchor_window: int = _setting(1000, Whole(1, 1_000_000), "fork anchors remembered for each conversation")
    message_max_chars: int = _setting(25_000, Whole(100, 25_000), "longest message; a longer one is split")
    search_limit: int = _setting(8, Whole(1, 100), "hits of one search")
    tool_preview_chars: int = _setting(500, Whole(1, 100_000), "characters of a hit that a tool shows")
    state_dir: Path = _setting(_state_dir, Folder(), "where the outbox lives (worth backing up)")
    cache_dir: Path = _setting(_cache_dir, Folder(), "where snapshots live (may be deleted)")
    metrics_port: int | None = _setting(None, Whole(0, 65_535, True), "port of the Prometheus scrape; 0 picks one")
    metrics_host: str = _setting(
        "127.0.0.1",
        OneOf(("127.0.0.1", "0.0.0.0", "::1", "::")),
        "who reaches the scrape port: this machine, or (0.0.0.0, ::) every machine that reaches this one",
        closed="127.0.0.1",
    )
    admin_port: int | None = _setting(0, Whole(0, 65_535, True), "port of the admin endpoint; 0 picks one")

    problems: tuple[Problem, ...] = field(default=(), compare=False)
    sources: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    """Where each value came from: `explicit`, a variable's name, a file, `default`."""
    shadowed: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    """Weaker sources that held a value too, and lost."""
    epoch: int = field(default=0, compare=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)
    """None for settings that were built by hand."""

    configured: bool = field(init=False, default=False, compare=False)
    """Enabled, and there is a server to talk to: a key (the hosted one), an address, or both."""
    read_only: bool = field(init=False, default=False, compare=False)
    server_url: str | None = field(init=False, default=None, compare=False)
    server_id: str = field(init=False, default="", compare=False)
    """Digest of the server's address, 16 hex digits: first part of every key."""

    def __post_init__(self) -> None:
        problems = list(self.problems)
        named = dict(self.sources)
        for one in DEFINITIONS.values():
            given = getattr(self, one.name)
            try:
                value = one.kind.read(given)
            except Blank:
                value = _fresh_default(one)
            except Refused as refused:
                value = one.closed if one.is_gate else _fresh_default(one)
                problems.append(_refusal(one, "explicit", refused))
            named.setdefault(one.name, "default" if value == one.default else "explicit")
            object.__setattr__(self, one.name, value)
        refused_url = self.base_url is None and any(
            problem.field == "base_url" and problem.source != WORKING_DIRECTORY_FILE for problem in problems
        )
        # A key without an address means the hosted service, but never when an address was meant and could not be read:
        # what belongs to one's own server must not go anywhere else.
        url = self.base_url or (HOSTED_URL if self.api_key and not refused_url else None)
        put = object.__setattr__
        put(self, "problems", tuple(problems))
        put(self, "sources", MappingProxyType(named))
        put(self, "shadowed", MappingProxyType(dict(self.shadowed)))
        put(self, "server_url", url)
        put(self, "server_id", hashlib.sha256((url or "").encode()).hexdigest()[:16])
        put(self, "configured", bool(self.enabled and url))
        put(self, "read_only", not self.save_messages)

    def __repr__(self) -> str:
        changed = {
            one.name: ("present" if one.is_secret else getattr(self, one.name))
            for one in DEFINITIONS.values()
            if getattr(self, one.name) != one.default
        }
        inner = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"Settings({inner})"

    @classmethod
    def load(cls, sources: Sources | None = None, /, **explicit: Any) -> Settings:
        """Reads every source once. Never raises: what is not taken is in `problems`. Touches no network."""
        places = sources or Sources.usual()
        fingerprint = places.fingerprint()
        values, named, shadowed, problems = _resolve(places, explicit)
        origin = Origin(places, dict(explicit), tuple(values.values()), fingerprint)
        return cls(**values, problems=tuple(problems), sources=named, shadowed=shadowed, origin=origin)

    def shown(self) -> dict[str, Any]:
        """Every value as it may be shown to people: JSON-able, a secret as present or absent."""
        found: dict[str, Any] = {}
        for one in DEFINITIONS.values():
            value = getattr(self, one.name)
            if one.is_secret:
                value = "present" if value else "absent"
            elif isinstance(value, Path):
                value = str(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            found[one.name] = value
        return found


def _definitions() -> dict[str, Definition]:
    found = {}
    for one in fields(Settings):
        if "kind" not in one.metadata:
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        found[one.name] = Definition(
            one.name,
            one.metadata["kind"],
            one.metadata["doc"],
            default,
            one.metadata["closed"],
            one.metadata["closed"] is not None,
            one.metadata["secret"],
        )
    return found


DEFINITIONS: dict[str, Definition] = {}
DEFINITIONS.update(_definitions())


def _refusal(one: Definition, source: str, refused: Refused) -> Problem:
    text = str(refused)
    if one.is_gate:
        text += f"; this guards privacy, so it is {str(one.closed).lower()}"
    return Problem(one.name, source, text)


def _resolve(
    places: Sources, explicit: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str], dict[str, tuple[str, ...]], list[Problem]]:
    """The winning value of each field. A refused value falls to the next source; a refused gate closes at once."""
    layers, problems = read_layers(places, DEFINITIONS.keys())
    for name in explicit:
        if name not in DEFINITIONS:
            problems.append(unknown(name, "explicit", DEFINITIONS.keys()))
    values: dict[str, Any] = {}
    named: dict[str, str] = {}
    shadowed: dict[str, tuple[str, ...]] = {}
    for one in DEFINITIONS.values():
        offers = []
        if explicit.get(one.name) is not None:
            offers.append((explicit[one.name], "explicit"))
        offers += [(layer.values[one.name], layer.named[one.name]) for layer in layers if one.name in layer.values]
        lost: list[str] = []
        for raw, source in offers:
            if one.name in values:
                lost.append(source)
                continue
            try:
                value = one.kind.read(raw)
            except Blank:
                continue
            except Refused as refused:
                problems.append(_refusal(one, source, refused))
                if not one.is_gate:
                    continue
                value = one.closed
            values[one.name], named[one.name] = value, source
        if one.name not in values:
            values[one.name] = _fresh_default(one)
            named[one.name] = "default"
        if lost:
            shadowed[one.name] = tuple(lost)
    return values, named, shadowed, problems


def _fresh_default(one: Definition) -> Any:
    if one.name == "state_dir":
        return _state_dir()
    if one.name == "cache_dir":
        return _cache_dir()
    return one.default


class SettingsCell:
    """The settings in force. `current` is a plain attribute: readers take it once and use that one value.

    Settings that were loaded are read again by `reload()`; settings that were built or changed by hand change only by
    `publish`. Every change is a new epoch. Any thread may call.
    """

    def __init__(self, settings: Settings | None = None, *, sources: Sources | None = None, **explicit: Any) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Settings], None]] = []
        first = settings if settings is not None else Settings.load(sources, **explicit)
        origin = first.origin
        if origin is not None and origin.values != tuple(getattr(first, name) for name in DEFINITIONS):
            origin = None
        self._origin = origin
        self._seen: object = origin.fingerprint if origin is not None else None
        self.current: Settings = replace_epoch(first, max(first.epoch, 1))

    def subscribe(self, listener: Callable[[Settings], None]) -> None:
        """`listener` is called with the new settings after each change, of a value or of what was not taken, on the
        thread that changed them."""
        self._listeners.append(listener)

    def publish(self, settings: Settings) -> bool:
        """Puts other settings in force. False when nothing differs."""
        return self._publish(settings, None)

    def _publish(self, settings: Settings, seen: object) -> bool:
        with self._lock:
            if seen is not None:  # with the values that were read then: of two who read at once the later one stands
                self._seen = seen
            before = self.current
            differs = settings != before
            if not differs and settings.problems == before.problems:
                return False
            self.current = replace_epoch(settings, before.epoch + 1 if differs else before.epoch)
        for listener in tuple(self._listeners):
            listener(self.current)
        return differs

    def reload(self) -> bool:
        """Reads the sources again. True when a value changed."""
        origin = self._origin
        if origin is None:
            return False
        again = Settings.load(origin.sources, **origin.explicit)
        return self._publish(again, None if again.origin is None else again.origin.fingerprint)

    def poll(self) -> bool:
        """`reload`, but only when a source looks different: for once a second."""
        if self._origin is None or self._origin.sources.fingerprint() == self._seen:
            return False
        return self.reload()


def replace_epoch(settings: Settings, epoch: int) -> Settings:
    """The same settings under another epoch; sources and problems are kept."""
    return replace(settings, epoch=epoch)
