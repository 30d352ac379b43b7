"""Two histories of one conversation: what people saw, and the exact bytes that the model saw.

People, hooks and pages are shown what was typed; the model is replayed what it was sent, byte for byte, so that a
provider's prompt cache goes on fitting when memory has moved on. Where a host gives a store, both survive a restart
together with the mark; without one the first turn after a restart starts a new prefix, and `fresh` says so.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from honcho_actors.host.prompt import Prompt

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `shown` is for people, `sent` is what the model saw."""

    role: Role
    shown: str
    sent: str


class TranscriptStore(Protocol):
    """Where a host keeps transcripts. `load` gives what `save` was given, or None."""

    def load(self, session_key: str) -> dict[str, Any] | None: ...
    def save(self, session_key: str, state: dict[str, Any]) -> None: ...


class MemoryTranscripts:
    """A store in memory: for tests, and for hosts that keep one process."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Any]] = {}

    def load(self, session_key: str) -> dict[str, Any] | None:
        return self._kept.get(session_key)

    def save(self, session_key: str, state: dict[str, Any]) -> None:
        self._kept[session_key] = state


class Transcript:
    """The history of one conversation. One owner; not thread-safe."""

    def __init__(self, session_key: str, store: TranscriptStore | None = None) -> None:
        self._key = session_key
        self._store = store
        found = store.load(session_key) if store is not None else None
        self.fresh = found is None
        """Nothing was kept: the model's prefix starts anew."""
        self.mark: str = found["mark"] if found else secrets.token_hex(16)
        """128 bits that open and close what is added to a user's message in this conversation."""
        self.system: str = found["system"] if found else ""
        """The system text of the last turn."""
        self._entries: list[Entry] = [Entry(**one) for one in found["entries"]] if found else []

    def user(self, prompt: Prompt) -> None:
        """A turn was sent with this prompt."""
        self.system = prompt.system
        self._add(Entry("user", prompt.typed, prompt.user))

    def assistant(self, text: str) -> None:
        """The model answered."""
        self._add(Entry("assistant", text, text))

    def shown(self) -> tuple[tuple[Role, str], ...]:
        """What people, hooks and pages see: no added byte."""
        return tuple((one.role, one.shown) for one in self._entries)

    def replay(self) -> tuple[tuple[Role, str], ...]:
        """What the model saw, to the byte."""
        return tuple((one.role, one.sent) for one in self._entries)

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self._store is not None:
            state = {"mark": self.mark, "system": self.system, "entries": [asdict(one) for one in self._entries]}
            self._store.save(self._key, state)
