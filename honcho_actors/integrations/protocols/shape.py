"""What every protocol has in common: the words of a request, the end of a reply, and how text stands in a message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

Body = Mapping[str, Any]

MAX_ANSWER_CHARS = 1_000_000
"""Of a stream that are kept; what a model says beyond is not captured."""


class Words(NamedTuple):
    """What a request says. `said`: all user texts, oldest first; `since`: how many stand before the model's last
    words; `first`: the place of the first of them, where the model's server keeps what was said before."""

    said: tuple[str, ...]
    since: int
    first: int = 0


class Reply(NamedTuple):
    """What a model replied: its text (None: there is none), and whether the turn goes on (a tool is called)."""

    text: str | None
    goes_on: bool = False


class Reader(ABC):
    """Reads a stream's events, one after the other, as they pass. Never raises."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._chars = 0
        self.complete = False
        """The model said that this was the end."""
        self.failed = False
        """The stream said that it failed."""
        self.goes_on = False
        """A tool is called: the turn is not over."""
        self.on_text: Callable[[str], object] | None = None
        """Gets each piece of text as it comes, for whoever shows it."""

    @abstractmethod
    def feed(self, event: Any) -> None:
        """One event, as plain data or as an SDK's object."""

    def reply(self) -> Reply:
        """What it came to. For a stream that ended by itself."""
        if self.failed:
            return Reply(None)
        text = "".join(self._parts)
        return Reply(text or None, self.goes_on)

    def _add(self, text: object) -> None:
        if isinstance(text, str) and self._chars < MAX_ANSWER_CHARS:
            self._parts.append(text)
            self._chars += len(text)
            self._tell(text)

    def _tell(self, text: object) -> None:
        if self.on_text is not None and isinstance(text, str) and text:
            self.on_text(text)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way of asking a model."""

    name: str
    heard: Callable[[Body], Words | None]
    placed: Callable[[Body, str, Sequence[str]], dict[str, Any]]
    """A new body with the stable block in the system text and each block behind its message; the old one stays."""
    answer: Callable[[Any], Reply]
    reader: Callable[[], Reader]


def part(holder: Any, name: str) -> Any:
    """A field of plain data or of an SDK's object; None when it has none."""
    if type(holder) is dict:
        return holder.get(name)
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def text_of(content: object, kinds: frozenset[str]) -> str | None:
    """The text of a message's content, its parts joined by line feeds; None when it is no content at all."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [one["text"] for one in content if _is_text(one, kinds)]
    return "\n".join(texts)


def with_text(content: object, block: str, kind: str) -> Any:
    """The content with a block behind it: more text, or one more part."""
    if isinstance(content, str):
        return content + block
    if isinstance(content, list):
        return [*content, {"type": kind, "text": block.lstrip("\n")}]
    return content


def beside_it(message: Any, block: str, kind: str) -> Any:
    """The message with a block behind its content: a new one, or the same where there is no block."""
    if not block or not isinstance(message, Mapping):
        return message
    return {**message, "content": with_text(message.get("content"), block, kind)}


def behind(text: object, block: str) -> str:
    """A system text with the stable block behind it."""
    return f"{text}\n\n{block}" if isinstance(text, str) and text else block


def place_of(anchor: object) -> int:
    """A place that no count of messages reaches, for what stands behind something that the server keeps."""
    digest = blake2b(repr(anchor).encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return (1 << 56) + int.from_bytes(digest, "big")


def _is_text(one: object, kinds: frozenset[str]) -> bool:
    return isinstance(one, Mapping) and one.get("type") in kinds and isinstance(one.get("text"), str)
