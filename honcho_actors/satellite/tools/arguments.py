"""What a model sent, read: each parameter by its rule, and a refusal that names the parameter and never the value.

Numbers may come as digits in a text and as whole floats, since models send them so; a number above the most is the
most; zero, negative and broken ones are refused and never mean *no limit*. `null` is absent. Nothing here raises
anything but `Wrong` and `Held`, which never leave this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from honcho_actors.privacy import egress
from honcho_actors.privacy.egress import Blank, Field, Screened, Withheld

QUERY_CHARS: Final = 1_500
CONCLUSION_CHARS: Final = 2_000
CARD_LINE_CHARS: Final = 500
CARD_LINES: Final = 50
_DIGITS: Final = 12
_MISSING: Final = object()


class Wrong(Exception):
    """A malformed call; the text is for the model."""


class Held(Exception):
    """A parameter that must not leave; the text is the parameter's name. `field` is what it was for."""

    def __init__(self, parameter: str, field: Field) -> None:
        super().__init__(parameter)
        self.parameter = parameter
        self.field = field


class Arguments:
    """The arguments of one call, all of them known by name."""

    def __init__(self, given: object, known: Sequence[str]) -> None:
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise Wrong("the arguments must be one JSON object")
        names = frozenset(known)
        try:
            values = {name: given[name] for name in given if isinstance(name, str) and name in names}
            count = len(given)
        except Exception:  # noqa: BLE001 - boundary: a mapping that cannot be read is malformed, and is answered
            raise Wrong("the arguments must be one JSON object") from None
        if count != len(values):
            raise Wrong(f"there is a parameter that this tool does not have; it takes: {', '.join(known)}")
        self._values: dict[str, Any] = {name: value for name, value in values.items() if value is not None}

    def has(self, name: str) -> bool:
        """Whether the parameter was given; null is not given."""
        return name in self._values

    def string(self, name: str) -> str:
        """The text of a parameter as it came; "" when absent or blank. Wrong when it is no text."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise Wrong(f"`{name}` must be a text")
        return value if value.strip() else ""

    def text(self, name: str, budget: int, field: Field, *, longest: int | None = None) -> Screened:
        """A required text, screened, clipped to `budget`; refused when it is longer than `longest`."""
        if name not in self._values:
            raise Wrong(f"`{name}` is required: a text that is not blank")
        value = self.string(name)
        if longest is not None and len(value.strip()) > longest:
            raise Wrong(f"`{name}` is too long: at most {longest} characters")
        return screened(value, name, budget, field)

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 1; more than `most` is `most`."""
        value = self._values.get(name, default)
        number = _whole(value)
        if number is None or number < 1:
            raise Wrong(f"`{name}` must be a whole number from 1 to {most}")
        return min(number, most)

    def flag(self, name: str) -> bool:
        """true or false; false when absent."""
        value = self._values.get(name, False)
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower(), _MISSING)
        if not isinstance(value, bool):
            raise Wrong(f"`{name}` must be true or false")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self._values.get(name, default)
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in allowed:
            raise Wrong(f"`{name}` must be one of: {', '.join(allowed)}")
        return word

    def lines(self, name: str) -> tuple[Screened, ...]:
        """The lines of a card: all of them or none. They are looked at together, too: they leave as one."""
        value = self._values[name]
        if not isinstance(value, (list, tuple)):
            raise Wrong(f"`{name}` must be a list of texts, one fact each")
        if not value:
            raise Wrong(f"`{name}` is an empty list, which would erase the whole card; nothing was changed")
        if len(value) > CARD_LINES:
            raise Wrong(f"`{name}` has too many lines: at most {CARD_LINES}")
        found: list[Screened] = []
        for line in value:
            if not isinstance(line, str) or not line.strip():
                raise Wrong(f"every entry of `{name}` must be a text that is not blank")
            if len(line.strip()) > CARD_LINE_CHARS:
                raise Wrong(f"a line of `{name}` is too long: at most {CARD_LINE_CHARS} characters each")
            found.append(screened(line, name, CARD_LINE_CHARS, Field.CARD))
        if len(found) > 1:
            screened("\n".join(line.text for line in found), name, CARD_LINES * (CARD_LINE_CHARS + 1), Field.CARD)
        return tuple(found)


def screened(value: str, name: str, budget: int, field: Field) -> Screened:
    """The text as it may leave; `Wrong` when there is none, `Held` when it must not."""
    verdict = egress.verdict(value, budget, field=field)
    if isinstance(verdict, Withheld):
        raise Held(name, field)
    if isinstance(verdict, Blank):
        raise Wrong(f"`{name}` is required: a text that is not blank")
    return verdict


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        digits = value.strip()
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else None
    return None
