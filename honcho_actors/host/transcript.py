"""Two histories of one conversation: what people saw, and the exact bytes that the model saw.

People, hooks and pages are shown what was typed; the model is replayed what it was sent, byte for byte, so that a
provider's prompt cache goes on fitting when memory has moved on, after the conversation was evicted, and after a
restart.

Two kinds, over one storage port (`history.TranscriptStore`):

`Transcript`: the host leaves its history to us.

    transcripts = Transcripts(store)                              # one for a process; any thread
    talk = transcripts.open(key, owner=peer)                      # loads at the first call; keep the object or not
    prompt = talk.compose(STATIC, memory.context(request), typed) # or what a ContextRegistry collected
    answer = model(prompt.system, talk.replay(), prompt.user)
    talk.user(prompt); talk.assistant(answer)                     # and talk.tool(...) for what stands between
    talk.shown()                                                  # what people see
    memory.capture(Turn(..., prompt=prompt.typed, answer=talk.shown()[-1][1]))

`Replay`: a framework keeps the history, clean, and sends all of it with every call. The ledger knows which bytes stood
beside which user message, by (ordinal, hash of the text); the first writer wins.

    replays = Replays(store)                                      # also by key: mark, get, keep
    ledger = replays.open(key, owner=peer)                        # or await replays.aopen(...)
    prompt = ledger.compose(STATIC, context, typed, ordinal)      # once a turn; asked again it gives the same bytes
    texts = ledger.applied(user_texts)                            # user messages 0, 1, 2 ... as the model saw them
    clean = ledger.cleaned(answer)                                # an answer without an echo of what was added

A `key` is text, a `SessionKey`, or a tuple that begins with one (then the owner is its person). Stores are
`history.MemoryTranscripts`, `kept.SqliteTranscripts`, and `sessions.histories.histories(settings)`, which is the latter
in `cache.db`.

Both: `mark` (128 bits, made once a conversation, kept with it), `envelope` (its finished lines), `fresh` (nothing was
kept), `strip(text)` (by the id alone), `scrubber()` (for streamed answers), `prompt.prefix` (whether this request
extends the one before, and if not why: `history.Prefix`).

`owner` is the remote peer of the person. Where it is given, a turn for which memory could not be had *for now* (a load
that runs, a deadline, a failing server) keeps the stable half that the turn before had: losing and regaining it would
cost the provider's cache twice. A turn that must have none (another audience, memory switched off, nothing known) loses
it at once. Without an owner nothing is held.

One conversation belongs to one person. A `Transcript` is used by one caller at a time; `Replay.get` and `Replay.keep`,
and everything of `Transcripts` and `Replays`, are safe from any thread.
"""

from __future__ import annotations

import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from honcho_actors.host.history import Kept, Prefix, TranscriptStore, digest_of
from honcho_actors.host.prompt import Prompt, composed, moving_half, stable_parts
from honcho_actors.host.registry import Collected
from honcho_actors.host.scrub import TELLING, Scrubber
from honcho_actors.model import Context
from honcho_actors.privacy.envelope import Envelope, is_mark, new_mark
from supervision.logged import unsaid

Role = Literal["user", "assistant", "tool"]

MAX_ROWS: Final = 4_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""What one conversation may keep; above either, the older half leaves and a new prefix begins."""

ECHOES: Final = 64
"""Of so many added texts, the newest, an echo is looked for in what a model says."""

ROW_BYTES: Final = 120
"""What a message costs beside its text."""

_log = logging.getLogger("honcho_actors.host")


Row = tuple[Role, str, str | None]
"""As it is held: a plain tuple of text, which the cyclic collector leaves alone."""


class Entry(NamedTuple):
    """One message, as a host gives it. `sent` is what the model saw, `shown` what people see; None: nothing."""

    role: Role
    sent: str
    shown: str | None


class Conversation(ABC):
    """What both kinds have in common: the id, the stable half that is in force, and what is kept of it all."""

    def __init__(self, name: str, store: TranscriptStore | None = None, owner: str = "") -> None:
        self.name = name
        self.owner = owner
        self._store = store
        self._static: str | None = None
        self._stable: str | None = None
        self._digests: tuple[str, str] = ("", "")
        """Of the static text and the stable half that were sent last."""
        self._held: dict[str, str] = {}
        """The stable text of each contributor."""
        self.used = 0
        """When it was used last, as `Transcripts` counts; written by it alone."""
        self._rows = 0
        self._bytes = 0
        self._why: Prefix | None = Prefix.NO_STORE
        kept = None
        if store is not None:
            self._why = Prefix.NEW
            try:
                kept = store.load(name)
                if kept is not None:
                    self._restore(kept)
            except Exception:  # noqa: BLE001 boundary: a turn never fails because of what was kept
                text = "the history of a conversation can't be read; a new prefix begins"
                _log.warning(text, exc_info=unsaid(), extra={"event": "history_not_read"})
                self._why, kept = Prefix.STORE_FAILED, None
                self._emptied()
        self.fresh = kept is None
        """Nothing was kept: the id is new, and the model's prefix starts anew."""
        if kept is None:
            self.mark = new_mark()
            """128 bits that open and close what is added to a user's message in this conversation."""
        self.envelope = Envelope(self.mark)
        self._head_due = kept is None
        """The store has no head yet: the first message brings it, so that whoever opens the same conversation at the
        same time and is not taken leaves nothing behind."""

    @property
    def size(self) -> int:
        """Bytes, about, that it holds in memory."""
        return self._bytes + sum(map(len, self._held.values()))

    def strip(self, text: str) -> str:
        """A user's message as it was typed: without the envelope of this conversation at its end. Goes by the id alone;
        anything else keeps every byte."""
        return self.envelope.stripped(text)

    def cleaned(self, text: str) -> str:
        """What a model said, without an echo of what had been added: for people, hooks, pages, and for capture."""
        stable = self._stable or ""
        if self.mark not in text and (len(stable) <= TELLING or stable[:TELLING] not in text):
            return text
        scrubber = self.scrubber()
        return scrubber.feed(text) + scrubber.end()

    def scrubber(self) -> Scrubber:
        """As `cleaned`, for an answer that comes in pieces. One for each answer."""
        return Scrubber(self.envelope, tuple(self._added())[-ECHOES:], self._stable or "")

    def let_go(self) -> None:
        """Nothing of it is kept from now on, and nothing is held: it was dropped, or its person is forgotten."""
        self._store = None
        self._emptied()
        self._why = Prefix.NEW

    # -- for the two kinds -------------------------------------------------------------------------------------------

    def _composed(self, static: str, collected: Collected | Context, typed: str) -> tuple[Prompt, dict[str, str]]:
        """The prompt, and the stable texts by contributor that it holds."""
        parts = stable_parts(collected)
        held = {name: text for name, text, _ in parts if text}
        if self.owner:
            for name, text, for_now in parts:
                if for_now and not text and name in self._held:
                    held[name] = self._held[name]
        stable = "\n\n".join(held[name] for name, _, _ in parts if name in held)
        prefix = self._stands(static, stable)
        return composed(static, stable, moving_half(collected), typed, self.envelope, prefix), held

    def _stands(self, static: str, stable: str) -> Prefix:
        if self._why is not None:
            return self._why
        if static != self._static and (self._static is not None or _mark_of(static) != self._digests[0]):
            return Prefix.STATIC_CHANGED
        if stable != self._stable and (self._stable is not None or _mark_of(stable) != self._digests[1]):
            return Prefix.MEMORY_CHANGED
        return Prefix.CONTINUED

    def _was_sent(self, prompt: Prompt, held: dict[str, str] | None) -> bool:
        """Remembers what the next prompt is compared with. True when the head has changed."""
        self._why = None
        changed = False
        if held is not None and held != self._held:
            self._held, changed = held, True
        if prompt.static != self._static or prompt.stable != self._stable:
            self._static, self._stable = prompt.static, prompt.stable
            digests = (_mark_of(prompt.static), _mark_of(prompt.stable))
            changed = changed or digests != self._digests
            self._digests = digests
        return changed

    def _restore(self, kept: Kept) -> None:
        head = json.loads(kept.head)
        mark, digests, held = head["mark"], head["sent"], head["held"]
        if not is_mark(mark):
            raise ValueError("no id")
        self.mark = mark
        self._digests = (str(digests[0]), str(digests[1]))
        self._held = {str(name): str(text) for name, text in held.items()} if self.owner else {}
        for row in kept.rows:
            self._take(json.loads(row))
        self._rows = len(kept.rows)
        self._why = None if kept.rows or any(self._digests) else Prefix.NEW

    def _save(self, at: int, rows: Iterable[Any], *, head: bool = False) -> None:
        """Leaves a change with the store. What fails here costs the next process its prefix, and no turn."""
        packed = [json.dumps(row, separators=(",", ":")) for row in rows]
        self._rows = at + len(packed)
        if self._store is None:
            return
        text = None
        if head or self._head_due:
            self._head_due = False
            kept = {"mark": self.mark, "sent": self._digests, "held": self._held if self.owner else {}}
            text = json.dumps(kept, separators=(",", ":"))
        try:
            self._store.save(self.name, self.owner, text, at, packed)
        except Exception:  # noqa: BLE001 boundary: a turn never fails because of what is kept
            text = "the history of a conversation can't be kept"
            _log.warning(text, exc_info=unsaid(), extra={"event": "history_not_kept"})

    def _emptied(self) -> None:
        self._held, self._digests, self._bytes, self._rows = {}, ("", ""), 0, 0

    @abstractmethod
    def _take(self, row: Any) -> None:
        """Takes in one row of what was kept."""

    @abstractmethod
    def _added(self) -> Iterator[str]:
        """Every text that was added to what somebody said."""


class Transcript(Conversation):
    """The whole history of one conversation."""

    def __init__(self, name: str, store: TranscriptStore | None = None, owner: str = "") -> None:
        self._entries: list[Row] = []
        self._composing: tuple[Prompt, dict[str, str]] | None = None
        super().__init__(name, store, owner)

    def compose(self, static: str, collected: Collected | Context, typed: str) -> Prompt:
        """The prompt of a turn that is about to begin. Nothing is kept until `user` says that it was sent."""
        self._composing = self._composed(static, collected, typed)
        return self._composing[0]

    def user(self, prompt: Prompt) -> None:
        """A turn was sent with this prompt."""
        held = self._composing[1] if self._composing is not None and self._composing[0] is prompt else None
        head = self._was_sent(prompt, held)
        self._add(("user", prompt.user, prompt.typed), head)

    def assistant(self, text: str, sent: str | None = None) -> None:
        """The model answered. `sent`: the bytes that stand for it in later requests, where they are not the text."""
        self._add(("assistant", text if sent is None else sent, self.cleaned(text)))

    def tool(self, sent: str, role: Role = "tool") -> None:
        """A call that the model made (`role="assistant"`) or what a tool answered, as it stands in later requests.
        People are not shown it."""
        self._add((role, sent, None))

    def shown(self) -> tuple[tuple[Role, str], ...]:
        """What people, hooks and pages see: no added byte."""
        return tuple((role, shown) for role, _, shown in self._entries if shown is not None)

    def replay(self) -> tuple[tuple[Role, str], ...]:
        """What the model saw, to the byte."""
        return tuple((role, sent) for role, sent, _ in self._entries)

    def compact(self, first: int, *summary: Entry) -> None:
        """The host replaces everything before message `first` (of `replay`) by a summary: a new prefix begins."""
        self._entries[: max(0, first)] = [(one.role, one.sent, one.shown) for one in summary]
        self._recount(Prefix.COMPACTED)

    def rewind(self, count: int) -> None:
        """The host takes back everything after the first `count` messages: to edit or to try again."""
        if not 0 <= count < len(self._entries):
            return
        del self._entries[count:]
        self._why = self._why or Prefix.REWOUND
        self._bytes = sum(map(_weight, self._entries))
        self._save(count, ())

    def _add(self, entry: Row, head: bool = False) -> None:
        self._entries.append(entry)
        self._bytes += _weight(entry)
        if len(self._entries) > MAX_ROWS or self._bytes > MAX_BYTES:
            half = len(self._entries) // 2
            while half < len(self._entries) - 1 and self._entries[half][0] != "user":
                half += 1
            del self._entries[:half]
            self._recount(Prefix.TRIMMED)
        else:
            self._save(self._rows, (entry,), head=head)

    def _recount(self, why: Prefix) -> None:
        self._why = why
        self._bytes = sum(map(_weight, self._entries))
        self._save(0, self._entries, head=True)

    def _take(self, row: Any) -> None:
        role, sent, shown = row
        if role not in ("user", "assistant", "tool") or not isinstance(sent, str):
            raise ValueError("no message")
        self._entries.append((role, sent, shown))
        self._bytes += _weight(self._entries[-1])

    def _emptied(self) -> None:
        super()._emptied()
        self._entries.clear()

    def _added(self) -> Iterator[str]:
        for role, sent, shown in self._entries:
            if role == "user" and shown is not None and sent != shown:
                yield sent[len(shown) :]


class Replay(Conversation):
    """Which bytes stood beside which user message, for a framework that keeps the messages itself.

    A message is told by its place (how many user messages stand before it) and by its words (`digest_of`). "" is an
    entry, too: the message was met, and nothing was put beside it.
    """

    def __init__(self, name: str, store: TranscriptStore | None = None, owner: str = "") -> None:
        self._beside: dict[tuple[int, bytes], str] = {}
        self._keeping = threading.Lock()
        """Held while a new entry is numbered and left with the store."""
        super().__init__(name, store, owner)

    def compose(self, static: str, collected: Collected | Context, typed: str, ordinal: int) -> Prompt:
        """The prompt of user message `ordinal` (from 0), kept at once. Asked again for the same message, with whatever
        context, it gives the bytes that it gave first."""
        prompt, held = self._composed(static, collected, typed)
        added = self.keep(ordinal, digest_of(typed), prompt.added)
        if added != prompt.added or self._why is Prefix.TRIMMED:
            prompt = replace(prompt, user=typed + added, prefix=self._why or prompt.prefix)
        if self._was_sent(prompt, held):
            self._save(self._rows, (), head=True)
        return prompt

    def begun(self, static: str, collected: Collected | Context, typed: str) -> Prompt:
        """As `compose`, for a turn whose message has no place yet. `keep` then says what stands beside it."""
        prompt, held = self._composed(static, collected, typed)
        if self._was_sent(prompt, held):
            self._save(self._rows, (), head=True)
        return prompt

    def get(self, ordinal: int, digest: bytes) -> str | None:
        """What stands beside this message; None when it was never met."""
        return self._beside.get((ordinal, digest))

    def keep(self, ordinal: int, digest: bytes, added: str) -> str:
        """What stands beside this message from now on: `added`, unless something was kept before."""
        found = self._beside.get((ordinal, digest))
        if found is not None:
            return found
        with self._keeping:
            before = len(self._beside)
            kept = self._beside.setdefault((ordinal, digest), added)
            if len(self._beside) == before:
                return kept
            self._bytes += len(added) + ROW_BYTES
            if len(self._beside) <= MAX_ROWS and self._bytes <= MAX_BYTES:
                self._save(self._rows, (_row((ordinal, digest), added),))
                return added
            self._beside = dict(list(self._beside.items())[len(self._beside) // 2 :])
            self._why = Prefix.TRIMMED
            self._bytes = sum(len(text) + ROW_BYTES for text in self._beside.values())
            self._save(0, [_row(key, text) for key, text in self._beside.items()], head=True)
        return added

    def applied(self, texts: Iterable[str]) -> list[str]:
        """User messages 0, 1, 2 ... of a clean history as the model saw them."""
        get = self._beside.get
        return [text + (get((ordinal, digest_of(text))) or "") for ordinal, text in enumerate(texts)]

    def _take(self, row: Any) -> None:
        ordinal, digest, added = row
        if not isinstance(ordinal, int) or not isinstance(added, str):
            raise ValueError("no row of a ledger")
        self._beside[ordinal, bytes.fromhex(digest)] = added
        self._bytes += len(added) + ROW_BYTES

    def _emptied(self) -> None:
        super()._emptied()
        self._beside.clear()

    def _added(self) -> Iterator[str]:
        return iter(list(self._beside.values()))


def _row(key: tuple[int, bytes], added: str) -> tuple[int, str, str]:
    return (key[0], key[1].hex(), added)


def _mark_of(text: str) -> str:
    return digest_of(text).hex() if text else ""


def _weight(entry: Row) -> int:
    return len(entry[1]) + len(entry[2] or "") + ROW_BYTES
