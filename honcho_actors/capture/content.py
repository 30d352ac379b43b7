"""What is captured: which turns, which of their texts, under which batch id, with which metadata. Pure.

A turn is captured when a person is in it (interactive), it is to be kept (not ephemeral), its words were typed (not
synthetic) and it is the main line (not a subagent's). Of it: the user's texts in admission order, then the answer; a
blank half is left out, a withheld one too, a long one is split. Every text and every piece of metadata passes the
egress gate by itself, so that one withheld value never takes its neighbours along, and never goes with them.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Protocol

from honcho_actors.capture.schema import NO_SERVER
from honcho_actors.model import SkipReason, Turn
from honcho_actors.privacy.egress import Blank, Field, Gate, Withheld
from honcho_actors.privacy.identity import Identity

METADATA_KEYS: Final = 80
"""Of the host's own; the server takes 100, ours included."""
METADATA_DEPTH: Final = 4
METADATA_CHARS: Final = 16_000
METADATA_LOOKED: Final = 200_000
"""Characters of one turn's metadata that are looked at; what comes after them is left out."""
_VALUE_CHARS: Final = 2_000
_KEY_CHARS: Final = 100
_ITEMS: Final = 100
_TURN_ID_CHARS: Final = 200

OURS: Final = frozenset(
    {"batch_id", "position", "delivery_id", "turn_id", "unanswered", "part", "parts", "fork", "copied_from"}
)
"""Names in a message's metadata that a host can't set."""


class CaptureSettings(Protocol):
    """The settings that decide whether a turn is captured."""

    @property
    def enabled(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """One message as it will be sent, but for the ids of its delivery. `offset_us` from the turn's time."""

    peer: str
    text: str
    metadata: str
    offset_us: int


@dataclass(frozen=True, slots=True)
class Draft:
    """One turn, filtered and screened, ready for the outbox."""

    batch_id: bytes
    identity: Identity
    turn_id: str | None
    at_us: int
    pieces: tuple[Piece, ...]
    earlier: bytes | None = None
    """The id under which this turn would have been accepted while no server was configured."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """What became of a turn: a draft or the reason for none, and which fields were withheld on the way."""

    draft: Draft | None
    skipped: SkipReason | None
    withheld: tuple[str, ...] = ()


def skip_reason(turn: Turn, settings: CaptureSettings) -> SkipReason | None:
    """Why this turn is not captured at all, or None. Looks at no text; costs well under a microsecond."""
    if not settings.enabled:
        return SkipReason.DISABLED
    if settings.read_only:
        return SkipReason.READ_ONLY
    if turn.scope != "main":
        return SkipReason.SUBAGENT
    if turn.interactive is not True:
        return SkipReason.NOT_INTERACTIVE
    if turn.ephemeral is not False:
        return SkipReason.EPHEMERAL
    if turn.synthetic is not False:
        return SkipReason.SYNTHETIC
    return None


def batch_id_of(identity: Identity, turn_id: str | None) -> bytes:
    """The id of a turn's batch: the same for the same turn id of the same person in the same conversation, else fresh.

    Never made from what was said: the same words said twice are two batches.
    """
    if not turn_id:
        return uuid.uuid4().bytes
    return turn_digest(*identity.realm, identity.session.key, identity.user_peer, turn_id)


def turn_digest(*parts: str) -> bytes:
    """The batch id of a turn with an id of its own: of server, workspace, partition, conversation, person, turn id."""
    digest = hashlib.sha256(b"turn")
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()[:16]


def draft(turn: Turn, identity: Identity, *, gate: Gate, max_chars: int, at_us: int, batch_id: bytes) -> Drafted:
    """Screens a turn that is to be captured. Linear in its texts; for the writer's thread, not for a turn's.

    What somebody said in several messages is looked at together, too: where only all of them hold a credential (a label
    and its value, a long paste that was cut), none of them leaves.
    """
    prompts = tuple(turn.prompt) if isinstance(turn.prompt, tuple | list) else (turn.prompt,)
    halves: list[tuple[str, str, object]] = [(identity.user_peer, "prompt", text) for text in prompts]
    if turn.answer is not None:
        halves.append((identity.ai_peer, "answer", turn.answer))
    withheld: list[str] = []
    shared = clean_metadata(turn.metadata, gate)
    if turn.metadata and shared.pop("", None):
        withheld.append("metadata")
    if turn.turn_id:
        shown = gate.screen(turn.turn_id, _TURN_ID_CHARS, field=Field.METADATA)
        if shown is not None:
            shared["turn_id"] = shown.text
    if turn.answer is None:
        shared["unanswered"] = True
    plain = _json(shared)
    pieces: list[Piece] = []
    looked = [(peer, name, gate.parts(text, max_chars, field=Field.MESSAGE)) for peer, name, text in halves]
    said = [part.text for _, name, parts in looked if name == "prompt" and isinstance(parts, tuple) for part in parts]
    apart = len(prompts) < 2 or not isinstance(gate.parts("\n".join(said), max_chars, field=Field.MESSAGE), Withheld)
    for peer, name, parts in looked:
        if isinstance(parts, Withheld) or not (apart or name == "answer" or isinstance(parts, Blank)):
            withheld.append(name)
        elif not isinstance(parts, Blank):
            for number, part in enumerate(parts, 1):
                metadata = plain if len(parts) == 1 else _json({**shared, "part": number, "parts": len(parts)})
                pieces.append(Piece(peer, part.text, metadata, len(pieces)))
    if not pieces:
        skipped = SkipReason.WITHHELD if withheld and withheld != ["metadata"] else SkipReason.BLANK
        return Drafted(None, skipped, tuple(withheld))
    turn_id = storable(turn.turn_id) if isinstance(turn.turn_id, str) and turn.turn_id else None
    earlier = None
    if turn_id and turn.turn_id and identity.realm.server != NO_SERVER:
        place = (NO_SERVER, *identity.realm[1:], identity.session.key, identity.user_peer)
        earlier = turn_digest(*place, turn.turn_id)
    return Drafted(Draft(batch_id, identity, turn_id, at_us, tuple(pieces), earlier), None, tuple(withheld))


def storable(text: str) -> str:
    """The text itself, or with its lone surrogates spelt out: a database column holds no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def clean_metadata(metadata: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """The host's metadata as the server takes it: JSON, finite, shallow, bounded, each string screened by itself and
    under its key, so that what only its key calls a password is one.

    What can't travel is left out, never an error. The key "" stands for *something was withheld*.
    """
    if not metadata or not isinstance(metadata, Mapping):
        return {}
    cleaner = _Cleaner(gate)
    found: dict[str, Any] = {}
    size = 0
    for key, value in list(metadata.items())[: METADATA_KEYS * 4]:
        if len(found) >= METADATA_KEYS or key in OURS:
            continue
        name = cleaner.key(key)
        kept = cleaner.value(value, METADATA_DEPTH, name) if name else _LEFT_OUT
        if name is None or kept is _LEFT_OUT:
            continue
        size += len(_json({name: kept}))
        if size > METADATA_CHARS:
            break
        found[name] = kept
    if cleaner.withheld:
        found[""] = True
    return found


def copied_metadata(metadata: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """The metadata of a message that is copied into a fork: what a host may set, looked at once more, and what we said
    of the turn."""
    found = clean_metadata(metadata, gate)
    found.pop("", None)
    for name in ("unanswered", "part", "parts"):
        if isinstance(metadata.get(name), int):
            found[name] = metadata[name]
    shown = gate.screen(metadata.get("turn_id"), _TURN_ID_CHARS, field=Field.METADATA)
    if shown is not None:
        found["turn_id"] = shown.text
    return found


_LEFT_OUT: Final = object()


class _Cleaner:
    __slots__ = ("_gate", "_left", "withheld")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._left = METADATA_LOOKED
        self.withheld = False

    def key(self, key: object) -> str | None:
        text = self._text(key, _KEY_CHARS) if isinstance(key, str) else None
        return text if isinstance(text, str) and len(text) == len(str(key)) else None

    def value(self, value: object, depth: int, name: str) -> Any:
        self._left -= 1
        if self._left < 0:
            return _LEFT_OUT
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            text = self._text(value, _VALUE_CHARS)
            return _LEFT_OUT if text is None or (text and not self._may(name, text)) else text
        if isinstance(value, int):
            return value if abs(value) < 1 << 63 and self._may(name, str(value)) else _LEFT_OUT
        if isinstance(value, float):
            return value if math.isfinite(value) else _LEFT_OUT
        if isinstance(value, datetime | date):
            return value.isoformat()
        if depth <= 1:
            return _LEFT_OUT
        if isinstance(value, Mapping):
            named = ((self.key(key), item) for key, item in list(value.items())[:_ITEMS])
            pairs = ((key, self.value(item, depth - 1, key)) for key, item in named if key is not None)
            return {key: item for key, item in pairs if item is not _LEFT_OUT}
        if isinstance(value, list | tuple):
            items = (self.value(item, depth - 1, name) for item in value[:_ITEMS])
            return [item for item in items if item is not _LEFT_OUT]
        return _LEFT_OUT

    def _may(self, name: str, text: str) -> bool:
        """Whether a value may leave under its key."""
        said = f"{name}: {text}"
        if len(said) > self._left:
            return False
        self._left -= len(said)
        held = isinstance(self._gate.verdict(said, _VALUE_CHARS, field=Field.METADATA), Withheld)
        self.withheld = self.withheld or held
        return not held

    def _text(self, text: str, budget: int) -> str | None:
        if len(text) > self._left:
            return None
        self._left -= len(text)
        if not text.strip():
            return "" if budget == _VALUE_CHARS else None
        verdict = self._gate.verdict(text, budget, field=Field.METADATA)
        if isinstance(verdict, Withheld):
            self.withheld = True
            return None
        return None if isinstance(verdict, Blank) else verdict.text


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
