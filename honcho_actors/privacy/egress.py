"""The one gate for everything that leaves: `Screened` is made here and nowhere else, and the client sends nothing else.

A value passes whole or not at all: nothing is ever redacted and sent. Order: bring the text into the form that
travels, look at the whole of it (up to 1 MiB, in the form that a person would read, so that a credential which begins
before a cut withholds), then clip to the call site's budget or split for sending; what is clipped or split is looked
at again, as it travels.

Withheld text appears nowhere: not in a log, an error, a representation or a count; only the kind of rule that tripped
does. All functions are total (any object, any budget), pure but for counting, linear in the text, and may be called
from any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NoReturn, Protocol, final

from honcho_actors.privacy import rules
from honcho_actors.privacy.text import clip, cut, inspected, travelling

INSPECTED_CHARS: Final = 1 << 20
"""How much of one value is looked at before a clip, which never sends more. A split looks at all of it."""

WINDOW_CHARS: Final = 1 << 16
OVERLAP_CHARS: Final = 1 << 12
"""A text is looked at window by window; no credential that a rule knows by its beginning is longer than the overlap."""


class Field(StrEnum):
    """What a text is for. Closed: the label of `egress_withheld_total`."""

    MESSAGE = "message"
    QUERY = "query"
    SEARCH = "search"
    ARGUMENT = "argument"
    CONCLUSION = "conclusion"
    CARD = "card"
    METADATA = "metadata"
    OTHER = "other"


_MAKER: Final = object()


@final
class Screened:
    """Text that passed the gate. Made by this module alone; immutable; equal and hashed by its text; can't be
    pickled."""

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str, maker: object) -> None:
        if maker is not _MAKER:
            raise TypeError("only the egress gate makes Screened")
        object.__setattr__(self, "text", text)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("Screened has no subclasses")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("Screened is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("Screened is immutable")

    def __reduce__(self) -> NoReturn:
        raise TypeError("Screened is made by the egress gate, not by unpickling")

    def __copy__(self) -> Screened:
        return self

    def __deepcopy__(self, memo: object) -> Screened:
        return self

    def __eq__(self, other: object) -> bool:
        return other.text == self.text if type(other) is Screened else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __len__(self) -> int:
        return len(self.text)

    def __repr__(self) -> str:
        return f"Screened({len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Blank:
    """There is no text: blank, invisible only, not a string, or a budget that is not a positive whole number."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """There is text and it must not leave. `rule` is the kind of rule that tripped, never anything of the text."""

    rule: str


Verdict = Screened | Blank | Withheld
_BLANK: Final = Blank()


class Screener(Protocol):
    """A further opinion, united with the rules of this project: True withholds. An exception withholds too."""

    def __call__(self, text: str, /) -> bool: ...


Outcome = Literal["passed", "blank", "withheld"]
Observe = Callable[[Field, Outcome, str], None]
"""Told of every verdict: the field, the outcome, and the rule ("" unless withheld). Must not raise; is given no
text."""


def _unobserved(field: Field, outcome: Outcome, rule: str) -> None:
    pass


class Gate:
    """One set of rules: those of this project, always, and what one runtime adds to them.

    `secrets` are values that must never leave whatever they look like (the product's own configured key). A room takes
    a gate and calls it as it would call this module, whose functions are those of a gate with nothing added.
    """

    __slots__ = ("_observe", "_screener", "_secrets")

    def __init__(
        self, secrets: Iterable[str | None] = (), screener: Screener | None = None, observe: Observe | None = None
    ) -> None:
        self._secrets = tuple({value.strip() for value in secrets if value and len(value.strip()) >= _SHORTEST_SECRET})
        self._screener = screener
        self._observe = observe or _unobserved

    def __repr__(self) -> str:
        return f"Gate({len(self._secrets)} own secrets, screener {'on' if self._screener else 'off'})"

    def verdict(self, text: object, budget: int, *, field: Field = Field.OTHER) -> Verdict:
        """The text, trimmed and clipped to `budget` graphemes, or why there is none."""
        answer = self._judge(text, budget)
        self._tell(field, answer)
        return answer

    def screen(self, text: object, budget: int, *, field: Field = Field.OTHER) -> Screened | None:
        """As `verdict`, for a caller to whom *blank* and *withheld* are the same."""
        answer = self.verdict(text, budget, field=field)
        return answer if isinstance(answer, Screened) else None

    def split(self, text: object, size: int, *, field: Field = Field.MESSAGE) -> tuple[Screened, ...] | None:
        """The whole text in pieces of at most `size` code points that join to it (trimmed), or None: blank or withheld.

        Code points, not graphemes, because the server counts those; a cut never falls inside a character.
        """
        answer = self.parts(text, size, field=field)
        return answer if isinstance(answer, tuple) else None

    def parts(
        self, text: object, size: int, *, field: Field = Field.MESSAGE
    ) -> tuple[Screened, ...] | Blank | Withheld:
        """As `split`, where the difference between *blank* and *withheld* matters."""
        answer = self._divide(text, size)
        self._tell(field, answer)
        return answer

    def again(self, text: object, *, field: Field = Field.MESSAGE) -> Screened | None:
        """Stored text that passed before, looked at once more on its way out and not changed by a byte, or None."""
        if not isinstance(text, str) or not text:
            self._tell(field, _BLANK)
            return None
        found = Withheld("too_long") if len(text) > INSPECTED_CHARS else self._look(text)
        answer = found if isinstance(found, Withheld) else Screened(text, _MAKER)
        self._tell(field, answer)
        return answer if isinstance(answer, Screened) else None

    def _tell(self, field: Field, answer: Verdict | tuple[Screened, ...]) -> None:
        outcome: Outcome = (
            "withheld" if isinstance(answer, Withheld) else "blank" if isinstance(answer, Blank) else "passed"
        )
        rule = answer.rule if isinstance(answer, Withheld) else ""
        self._observe(field, outcome, rule)
        for guard in _guards:
            guard.observe(field, outcome, rule)

    def _judge(self, text: object, budget: int) -> Verdict:
        if not _positive(budget) or not isinstance(text, str):
            return _BLANK
        whole = travelling(text[:INSPECTED_CHARS])
        if found := self._look(whole):
            return found
        short = clip(whole, budget)
        if len(short) < len(whole):
            short = short.rstrip()
            if found := self._look(short):
                return found
        return Screened(short, _MAKER)

    def _divide(self, text: object, size: int) -> tuple[Screened, ...] | Blank | Withheld:
        if not _positive(size) or not isinstance(text, str):
            return _BLANK
        whole = travelling(text)
        if found := self._look(whole):
            return found
        pieces = tuple(cut(whole, size))
        if len(pieces) > 1:
            for piece in pieces:
                if isinstance(found := self._look(piece), Withheld):
                    return found
        return tuple(Screened(piece, _MAKER) for piece in pieces)

    def _look(self, text: str) -> Blank | Withheld | None:
        """Why a text does not pass, or None. In overlapping windows, so that a long text never holds the interpreter
        up."""
        visible = False
        for start in range(0, max(1, len(text) - OVERLAP_CHARS), WINDOW_CHARS - OVERLAP_CHARS):
            window = text[start : start + WINDOW_CHARS]
            seen = inspected(window)
            if seen.strip():
                visible = True
                if rule := self._inspect(window, seen):
                    return Withheld(rule)
        return None if visible else _BLANK

    def _inspect(self, text: str, seen: str) -> str | None:
        try:
            rule = rules.find(seen)
        except Exception:  # noqa: BLE001 boundary: the gate never raises; a rule that fails withholds
            return "rule_failed"
        if rule:
            return rule
        if _holds_any(self._secrets, text, seen):
            return "own_key"
        for guard in _guards:
            if _holds_any((value.strip() for value in guard.secrets() if value), text, seen):
                return "own_key"
            if guard.screener is not None and (kind := _asked(guard.screener, seen)):
                return kind
        return _asked(self._screener, seen) if self._screener is not None else None


def _holds_any(secrets: Iterable[str], text: str, seen: str) -> bool:
    return any(len(value) >= _SHORTEST_SECRET and (value in text or value in seen) for value in secrets)


def _asked(screener: Screener, seen: str) -> str | None:
    try:
        return None if screener(seen) is False else "screener"
    except Exception:  # noqa: BLE001 boundary: a screener that fails withholds; its error may hold the text
        return "screener_failed"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Guard:
    secrets: Callable[[], Iterable[str | None]]
    screener: Screener | None
    observe: Observe


_guards: tuple[_Guard, ...] = ()
_guarding = threading.Lock()


def _after_fork() -> None:
    """In a forked child: the thread that may have held the lock is not here."""
    global _guarding
    _guarding = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def guard(
    secrets: Callable[[], Iterable[str | None]],
    screener: Screener | None = None,
    observe: Observe | None = None,
) -> Callable[[], None]:
    """Makes every gate of this process stricter until the returned function is called: for as long as a runtime runs.

    `secrets` is asked at every verdict for values that must not leave (the configured key, which may be rotated);
    `screener` is united with the rules; `observe` is told of every verdict. A guard can only withhold more, so it is
    the union of all that run: the key of one runtime does not leave through another.
    """
    global _guards
    added = _Guard(secrets, screener, observe or _unobserved)
    with _guarding:
        _guards = (*_guards, added)

    def release() -> None:
        global _guards
        with _guarding:
            _guards = tuple(guard for guard in _guards if guard is not added)

    return release


_SHORTEST_SECRET: Final = 6
"""A configured key shorter than this would withhold ordinary words."""


def _positive(number: object) -> bool:
    return type(number) is int and number > 0


DEFAULT: Final = Gate()
"""The rules of this project and nothing added."""

verdict = DEFAULT.verdict
screen = DEFAULT.screen
split = DEFAULT.split
parts = DEFAULT.parts
again = DEFAULT.again
