"""Takes an echo of what was added out of what a model says, piece by piece as it is streamed.

An echo begins with the id of the envelope's opening line, which nobody else can write, and goes on for as long as the
answer repeats, byte for byte, one of the texts that were really added. Where it stops repeating, the answer goes on and
is shown: nothing that follows is swallowed, whether or not the envelope was closed. The stable half, which carries no
id, is known by its first hundred characters.
"""

from __future__ import annotations

from honcho_actors.privacy.envelope import Envelope

ID_DIGITS = 4
"""Digits of an id that an answer may end in the middle of; with fewer it is not an echo yet."""

TELLING = 100
"""Characters of the stable half, which has no id, that nobody repeats by chance: its title and the start of its
label."""


class Scrubber:
    """One answer. `feed` gives what may be shown now; `end`, once, what was still held back. Not thread-safe."""

    def __init__(self, envelope: Envelope, added: tuple[str, ...], stable: str = "") -> None:
        """`added`: what stood beside user messages; `stable`: what stood in the system text."""
        opening, closing = envelope.opening, envelope.closing
        opens = opening[: opening.index(envelope.mark) + len(envelope.mark)] if envelope.mark else opening
        texts = [opening, *(text[at:] for text in added if (at := text.find(opening)) >= 0)]
        self._lines = {opens: [text[len(opens) :] for text in dict.fromkeys(texts)], closing: []}
        """What an echo begins with, and what may follow it."""
        if len(stable) > TELLING:
            self._lines[stable[:TELLING]] = [stable[TELLING:]]
        self._told = (opens.removesuffix(envelope.mark), closing[: closing.find(envelope.mark)])
        """What may be shown of a line that the answer ended in: anybody can write it."""
        self._longest = max(map(len, self._lines)) - 1
        self._echo: list[str] | None = None
        """What may still follow of the texts that the echo has repeated so far; None outside an echo."""
        self._pending = ""

    def feed(self, piece: str) -> str:
        """The next piece of the answer."""
        text, self._pending = self._pending + piece, ""
        shown = []
        while text:
            if self._echo is not None:
                text = self._repeated(text)
                continue
            start, line = self._first(text)
            if line:
                shown.append(text[:start])
                text = text[start + len(line) :]
                self._echo = self._lines[line] or None
                continue
            held = self._held_back(text)
            shown.append(text[: len(text) - held])
            self._pending = text[len(text) - held :]
            break
        return "".join(shown)

    def end(self) -> str:
        """What was held back because it might have become an echo and did not."""
        held, self._pending, self._echo = self._pending, "", None
        return "" if any(held.startswith(told) and len(held) >= len(told) + ID_DIGITS for told in self._told) else held

    def _repeated(self, text: str) -> str:
        """What is left of a piece after the part that repeats what was added."""
        assert self._echo is not None
        same = [(_alike(rest, text), rest) for rest in self._echo]
        most = max((length for length, _ in same), default=0)
        going = [rest[length:] for length, rest in same if length == most < len(rest)]
        self._echo = going if most == len(text) and going else None
        return text[most:]

    def _first(self, text: str) -> tuple[int, str]:
        """Where the first beginning of an echo stands, and which; ("" when there is none)."""
        found = [(at, line) for line in self._lines if (at := text.find(line)) >= 0]
        return min(found, default=(0, ""))

    def _held_back(self, text: str) -> int:
        """How much of the end of a text may be the beginning of an echo."""
        for size in range(min(self._longest, len(text)), 0, -1):
            end = text[-size:]
            if any(line.startswith(end) for line in self._lines):
                return size
        return 0


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common from the start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low
