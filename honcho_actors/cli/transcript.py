"""Reading a conversation: JSON Lines of role, content and time, cut into turns and conversations.

A line that cannot be used is named by its number and skipped; a file that holds no usable line is an error. `user` and
`session` are optional; without `session` a pause of more than six hours begins a new conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

PAUSE: Final = timedelta(hours=6)
MOST_LINE_CHARS: Final = 1_000_000
NOBODY_NAMED: Final = "you"


class Unusable(ValueError):
    """The transcript as a whole cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One usable line."""

    line: int
    role: str
    content: str
    at: datetime | None
    user: str | None
    session: str | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: what the person said in a row, and the answer. Either may be missing, never both."""

    prompt: tuple[str, ...]
    answer: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Conversation:
    key: str
    user: str
    turns: tuple[Exchange, ...]

    @property
    def utterances(self) -> tuple[tuple[str, str], ...]:
        """(role, content) in order: what the server must hold in the end."""
        return tuple(
            pair
            for turn in self.turns
            for pair in (
                *(("user", text) for text in turn.prompt),
                *((("assistant", turn.answer),) if turn.answer is not None else ()),
            )
        )


@dataclass(frozen=True, slots=True)
class Transcript:
    conversations: tuple[Conversation, ...]
    skipped: tuple[str, ...]
    """One clause for each line that was not used, by its number."""

    @property
    def count(self) -> int:
        return sum(len(conversation.utterances) for conversation in self.conversations)


def bundled() -> Path:
    """The conversation that comes with the package: two people, three conversations over a fortnight."""
    return Path(__file__).parent / "data" / "fortnight.jsonl"


def read(path: Path) -> Transcript:
    """Reads and cuts a transcript. Raises `Unusable` with one sentence."""
    try:
        with path.open("rb") as stream:
            data = stream.read()
    except OSError as error:
        raise Unusable(f"the transcript {path} cannot be read: {(error.strerror or 'error').lower()}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable(
            f"the transcript {path} is not UTF-8 text: JSON Lines of role, content, time are wanted"
        ) from None
    skipped: list[str] = []
    utterances = list(_utterances(text.split("\n"), skipped))
    if not utterances:
        if not text.strip():
            raise Unusable(f"the transcript {path} is empty")
        raise Unusable(
            f"the transcript {path} holds no usable line: JSON Lines of role, content, time are wanted ({skipped[0]})"
        )
    return Transcript(tuple(_conversations(utterances)), tuple(skipped))


def _utterances(lines: Iterable[str], skipped: list[str]) -> Iterator[Utterance]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > MOST_LINE_CHARS:
            skipped.append(f"line {number}: longer than {MOST_LINE_CHARS} characters")
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            skipped.append(f"line {number}: not JSON")
            continue
        reason = _why_not(entry)
        if reason:
            skipped.append(f"line {number}: {reason}")
            continue
        at = _time(entry.get("time"))
        if at is None and entry.get("time") is not None:
            skipped.append(f"line {number}: its time is not ISO 8601; taken without one")
        user, session = entry.get("user"), entry.get("session")
        yield Utterance(
            number,
            entry["role"],
            entry["content"],
            at,
            user.strip() if isinstance(user, str) and user.strip() else None,
            session.strip() if isinstance(session, str) and session.strip() else None,
        )


def _why_not(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "not a JSON object"
    if entry.get("role") not in ("user", "assistant"):
        return "role is neither user nor assistant"
    content = entry.get("content")
    if not isinstance(content, str):
        return "content is not text"
    if not content.strip():
        return "content is blank"
    return None


def _time(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    try:
        at = datetime.fromisoformat(raw.strip())
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _conversations(utterances: list[Utterance]) -> Iterator[Conversation]:
    groups: list[list[Utterance]] = []
    for one in utterances:
        last = groups[-1][-1] if groups else None
        if last is None or _is_new(last, one):
            groups.append([])
        groups[-1].append(one)
    names: set[str] = set()
    for index, group in enumerate(groups, 1):
        wanted = group[0].session or f"conversation-{index}"
        key = wanted if wanted not in names else f"{wanted}-{index}"
        names.add(key)
        user = next((one.user for one in group if one.user), NOBODY_NAMED)
        yield Conversation(key, user, tuple(_turns(group)))


def _is_new(last: Utterance, one: Utterance) -> bool:
    if last.session != one.session or (one.user is not None and last.user is not None and one.user != last.user):
        return True
    return one.session is None and last.at is not None and one.at is not None and abs(one.at - last.at) > PAUSE


def _turns(group: list[Utterance]) -> Iterator[Exchange]:
    prompt: list[Utterance] = []
    for one in group:
        if one.role == "user":
            prompt.append(one)
            continue
        at = prompt[0].at if prompt else one.at
        yield Exchange(tuple(said.content for said in prompt), one.content, at)
        prompt = []
    if prompt:
        yield Exchange(tuple(said.content for said in prompt), None, prompt[0].at)
