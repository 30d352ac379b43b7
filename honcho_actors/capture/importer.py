"""Bringing in what was said elsewhere: JSON Lines, OpenAI-style `messages` JSON, a ChatGPT export; once, and resumable.

The format is found from the file itself. What is read becomes turns (what the person said, then the answer), each under
a turn id made of its conversation and its place, time and words in it, which the outbox remembers for ever: an import
that is run again, whole or after it was cut off, sends nothing twice. A bad line or message is skipped and named by its
number; a file that is nothing of the kind is refused with one sentence (`NotReadable`).
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from honcho_actors.capture.facade import Capture
from honcho_actors.capture.receipt import Receipt
from honcho_actors.model import ReceiptState, SkipReason, Turn

MAX_FILE_BYTES: Final = 2 << 30
MAX_PROBLEMS: Final = 200
EXPORTED: Final = "conversations.json"
"""Where a ChatGPT export, as it is downloaded, keeps what was said."""
AT_ONCE: Final = 1_024
"""Messages that are on their way to the disk at once."""
_PATIENCE: Final = 60.0


class NotReadable(Exception):
    """Nothing can be imported from this file; the text is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message of an imported conversation."""

    role: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One imported conversation: its own key, and what was said, in order. `named`: the file says the key itself; else
    it is made of the file's name.
    """

    key: str
    messages: tuple[Said, ...]
    named: bool = True


@dataclass(slots=True)
class Problems:
    """What was skipped, by number, in words that hold nothing of the text."""

    found: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(text)


@dataclass(frozen=True, slots=True)
class Imported:
    """What one run came to. `known`: messages that an earlier run had brought in."""

    files: int = 0
    conversations: int = 0
    messages: int = 0
    accepted: int = 0
    known: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_file(path: Path, problems: Problems) -> Iterator[Conversation]:
    """The conversations of a file, whichever of the three formats it has. Raises NotReadable."""
    try:
        text = _content(path).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise NotReadable(f"{path.name} can't be read: {error.strerror or type(error).__name__}") from error
    if not text.strip():
        raise NotReadable(f"{path.name} is empty")
    whole = _json(text)
    if isinstance(whole, list) and whole and any(isinstance(one, dict) and "mapping" in one for one in whole):
        return _chatgpt(whole, path.stem, problems)
    if isinstance(whole, dict) and "mapping" in whole:
        return _chatgpt([whole], path.stem, problems)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        return _openai([whole], path.stem, problems)
    if isinstance(whole, list) and whole and all(isinstance(one, dict) and "messages" in one for one in whole):
        return _openai(whole, path.stem, problems)
    if isinstance(whole, list) and any(isinstance(one, dict) and "role" in one for one in whole):
        return _openai([{"messages": whole}], path.stem, problems)
    return _lines(text, path, problems)


def _content(path: Path) -> bytes:
    """The bytes of a file, or of the conversations in an archive as ChatGPT sends it. Raises NotReadable, OSError."""
    too_large = NotReadable(f"{path.name} is larger than {MAX_FILE_BYTES >> 30} GiB")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise too_large
    with path.open("rb") as stream:
        if stream.read(4) != b"PK\x03\x04":
            stream.seek(0)
            return stream.read()
        try:
            with zipfile.ZipFile(stream) as archive:
                name = next((name for name in archive.namelist() if name.split("/")[-1] == EXPORTED), None)
                if name is None:
                    raise NotReadable(f"{path.name} is an archive without {EXPORTED}")
                if archive.getinfo(name).file_size > MAX_FILE_BYTES:
                    raise too_large
                return archive.read(name)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
            raise NotReadable(f"{path.name} is an archive that can't be read") from error


def look_over(paths: Iterable[Path]) -> int:
    """How many messages an import of these files would hand over. Reads all, keeps nothing. Raises NotReadable."""
    return sum(len(_spoken(conversation)) for conversation in _read(paths, Problems()))


def _read(paths: Iterable[Path], problems: Problems) -> Iterator[Conversation]:
    """The conversations of all files. Two files are never made into one conversation because of their names alone."""
    homes: dict[str, tuple[Path, bool]] = {}
    for path in paths:
        for conversation in read_file(path, problems):
            home, named = homes.setdefault(conversation.key, (path, conversation.named))
            if not (named and conversation.named) and home.resolve() != path.resolve():
                raise NotReadable(
                    f"{home.name} and {path.name} would both be the conversation {conversation.key}: give one of them"
                    " another file name, or name the conversation in the files"
                )
            yield conversation


def _spoken(conversation: Conversation) -> list[Said]:
    return [said for said in conversation.messages if said.role in ("user", "assistant")]


def turns_of(conversation: Conversation, user: str | None, partition: str) -> Iterator[Turn]:
    """One capture for each message, so that a conversation which has grown since sends only what is new."""
    spoken = _spoken(conversation)
    last_answer = max((place for place, said in enumerate(spoken) if said.role == "assistant"), default=-1)
    for place, said in enumerate(spoken):
        is_user = said.role == "user"
        answered = place <= last_answer
        yield Turn(
            session_key=conversation.key,
            user=user,
            partition=partition,
            prompt=said.text if is_user else "",
            answer=None if not answered else "" if is_user else said.text,
            turn_id=_turn_id(conversation.key, place, said),
            at=said.at,
        )


def import_files(
    capture: Capture,
    paths: Iterable[Path],
    *,
    user: str | None = None,
    partition: str = "",
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Hands every turn of these files to the outbox, and returns when all are on disk. Raises NotReadable before a file
    of which nothing can be read; what came before it stays. Delivery goes on beside it: `capture.flush` waits for it.
    `progress` hears, now and then, how many messages have been dealt with.
    """
    problems = Problems()
    conversations = messages = accepted = known = 0
    skipped: dict[str, int] = {}
    waiting: list[Receipt] = []

    def settle(keep: int) -> None:
        nonlocal accepted, known
        while len(waiting) > keep:
            receipt = waiting.pop(0)
            state = receipt.wait(ReceiptState.ACCEPTED, _PATIENCE)
            if state is ReceiptState.SKIPPED:
                skipped[receipt.reason] = skipped.get(receipt.reason, 0) + 1
            elif receipt.repeated:
                known += 1
            elif state is ReceiptState.PENDING:
                skipped[SkipReason.STORE_FAILED.value] = skipped.get(SkipReason.STORE_FAILED.value, 0) + 1
            else:
                accepted += 1
            if progress is not None:
                progress(messages - len(waiting))

    given = list(paths)
    for conversation in _read(given, problems):
        conversations += 1
        for turn in turns_of(conversation, user, partition):
            messages += 1
            receipt = capture.capture(turn, keep=True)
            while receipt.reason == SkipReason.OVERLOADED.value:
                settle(0)
                receipt = capture.capture(turn, keep=True)
            waiting.append(receipt)
            settle(AT_ONCE)
    settle(0)
    return Imported(len(given), conversations, messages, accepted, known, skipped, tuple(problems.found))


# -- formats -----------------------------------------------------------------------------------------------------------


def _lines(text: str, path: Path, problems: Problems) -> Iterator[Conversation]:
    """JSON Lines: one message a line (`role`, `content`, `time`, perhaps `conversation`), or one `messages` object a
    line.
    """
    grouped: dict[tuple[str, bool], list[Said]] = {}
    whole: list[dict[str, Any]] = []
    readable = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        value = _json(line)
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            whole.append(value)
            readable += 1
            continue
        said = _said(value) if isinstance(value, dict) else None
        if said is None:
            problems.add(f"{path.name}: line {number} is no message and was skipped")
            continue
        readable += 1
        if said.text:
            grouped.setdefault(_key(value, path.stem), []).append(said)
    if not readable:
        raise NotReadable(f"{path.name} is neither JSON Lines of messages, nor a messages file, nor a ChatGPT export")

    def conversations() -> Iterator[Conversation]:
        for (key, named), messages in grouped.items():
            yield Conversation(key, tuple(messages), named)
        yield from _openai(whole, path.stem, problems)

    return conversations()


def _openai(wholes: list[Any], stem: str, problems: Problems) -> Iterator[Conversation]:
    for place, whole in enumerate(wholes, 1):
        messages = []
        for number, value in enumerate(whole["messages"] if isinstance(whole.get("messages"), list) else (), 1):
            said = _said(value) if isinstance(value, dict) else None
            if said is None:
                problems.add(f"{stem}: message {number} of conversation {place} was skipped")
            elif said.text:
                messages.append(said)
        if messages:
            key, named = _key(whole, stem if place == 1 else f"{stem}-{place}")  # the first, when others are added, too
            yield Conversation(key, tuple(messages), named)


def _chatgpt(wholes: list[Any], stem: str, problems: Problems) -> Iterator[Conversation]:
    """A ChatGPT export: the branch that ends in `current_node`, from its root."""
    for place, whole in enumerate(wholes, 1):
        mapping = whole.get("mapping") if isinstance(whole, dict) else None
        if not isinstance(mapping, dict):
            problems.add(f"{stem}: conversation {place} has no messages and was skipped")
            continue
        branch: list[Said] = []
        node: object = whole.get("current_node") or _leaf(mapping)
        seen: set[str] = set()
        while isinstance(node, str) and node in mapping and node not in seen:
            seen.add(node)
            entry = mapping[node] if isinstance(mapping[node], dict) else {}
            message = entry.get("message")
            if isinstance(message, dict):
                said = _chatgpt_said(message)
                if said is not None and said.text:
                    branch.append(said)
            node = entry.get("parent")
        if branch:
            key, named = _key(whole, f"{stem}-{place}")
            yield Conversation(key, tuple(reversed(branch)), named)


def _chatgpt_said(message: dict[str, Any]) -> Said | None:
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    hidden = message.get("metadata")
    if isinstance(hidden, dict) and hidden.get("is_visually_hidden_from_conversation"):
        return None
    return _made(role, message.get("content"), message.get("create_time"))


def _leaf(mapping: dict[str, Any]) -> str | None:
    parents = {entry.get("parent") for entry in mapping.values() if isinstance(entry, dict)}
    return next((name for name in reversed(list(mapping)) if name not in parents), None)


def _said(value: dict[str, Any]) -> Said | None:
    content = value.get("content", value.get("text"))
    when = next((value[name] for name in ("time", "created_at", "timestamp", "create_time") if name in value), None)
    return _made(value.get("role"), content, when)


_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant"}


def _made(role: object, content: object, when: object) -> Said | None:
    """A message of a person or of the assistant; an empty one for any other role, None for what is no message."""
    if not isinstance(role, str) or (text := _text(content)) is None:
        return None
    known = _ROLES.get(role.lower())
    return Said(known or "other", text if known else "", _time(when))


def _text(content: object) -> str | None:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        parts = content.get("parts")
        if isinstance(parts, list):
            return "\n".join(part for part in parts if isinstance(part, str))
        return content["text"] if isinstance(content.get("text"), str) else ""
    if isinstance(content, list):
        texts = (
            part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None for part in content
        )
        return "\n".join(text for text in texts if isinstance(text, str))
    return None


def _time(when: object) -> datetime | None:
    try:
        if isinstance(when, str):
            moment = datetime.fromisoformat(when.strip().replace("Z", "+00:00"))
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if isinstance(when, int | float) and not isinstance(when, bool) and math.isfinite(when):
            return datetime.fromtimestamp(when / 1000 if when > 1e11 else when, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _key(value: dict[str, Any], fallback: str) -> tuple[str, bool]:
    """A conversation's key, and whether the file names it."""
    for name in ("conversation", "conversation_id", "session", "session_id", "session_key", "thread_id", "id"):
        found = value.get(name)
        if isinstance(found, str) and found.strip():
            return found, True
    return fallback, False


def _turn_id(key: str, place: int, said: Said) -> str:
    when = "" if said.at is None else said.at.astimezone(UTC).isoformat()
    words = f"import\0{key}\0{place}\0{when}\0{said.role}\0{said.text}".encode("utf-8", "surrogatepass")
    return f"import-{hashlib.sha256(words).hexdigest()[:32]}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
