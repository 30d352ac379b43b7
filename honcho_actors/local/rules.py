"""Shapes of requests, as small rules that check, convert and collect faults in the words that Honcho's clients know.

A rule takes the value, its place and the collector, and returns the converted value. Unknown fields are dropped, as the
contract says. `null` is taken where the field says so and becomes the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from honcho_actors.local.errors import Faults, Loc
from honcho_actors.local.times import Moment, NotATime, moment

Rule = Callable[[Any, Loc, Faults], Any]
ID_PATTERN = "^[a-zA-Z0-9_-]+$"
ID = re.compile(r"[a-zA-Z0-9_-]+")
ID_CHARS = 512
METADATA_KEYS = 100
METADATA_DEPTH = 5


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def text(least: int = 0, most: int | None = None, *, is_id: bool = False, strip_nul: bool = False) -> Rule:
    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.add("string_type", loc, "Input should be a valid string", value)
            return ""
        if len(value) < least:
            message = f"String should have at least {_plural(least, 'character')}"
            faults.add("string_too_short", loc, message, value, {"min_length": least})
        elif most is not None and len(value) > most:
            message = f"String should have at most {_plural(most, 'character')}"
            faults.add("string_too_long", loc, message, value, {"max_length": most})
        elif is_id and not ID.fullmatch(value):
            message = f"String should match pattern '{ID_PATTERN}'"
            faults.add("string_pattern_mismatch", loc, message, value, {"pattern": ID_PATTERN})
        return value.replace("\x00", "") if strip_nul else value

    return check


def identifier() -> Rule:
    return text(1, ID_CHARS, is_id=True)


def _bounded(value: Any, loc: Loc, faults: Faults, given: Any, least: float | None, most: float | None) -> None:
    if least is not None and value < least:
        faults.add("greater_than_equal", loc, f"Input should be greater than or equal to {least}", given, {"ge": least})
    elif most is not None and not value <= most:  # NaN is inside of nothing
        faults.add("less_than_equal", loc, f"Input should be less than or equal to {most}", given, {"le": most})


def integer(least: int | None = None, most: int | None = None) -> Rule:
    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        number: int
        if isinstance(value, str):
            if not re.fullmatch(r"\s*[+-]?\d{1,18}(\.0*)?\s*", value):
                message = "Input should be a valid integer, unable to parse string as an integer"
                faults.add("int_parsing", loc, message, value)
                return 0
            number = int(value.split(".")[0])
        elif not isinstance(value, int | float):
            faults.add("int_type", loc, "Input should be a valid integer", value)
            return 0
        elif value != value // 1:
            message = "Input should be a valid integer, got a number with a fractional part"
            faults.add("int_from_float", loc, message, value)
            return 0
        else:
            number = int(value)
        _bounded(number, loc, faults, value, least, most)
        return number

    return check


def number(least: float | None = None, most: float | None = None) -> Rule:
    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        try:
            if isinstance(value, bool):
                raise TypeError
            converted = float(value)
        except ValueError:
            message = "Input should be a valid number, unable to parse string as a number"
            faults.add("float_parsing", loc, message, value)
            return 0.0
        except TypeError:
            faults.add("float_type", loc, "Input should be a valid number", value)
            return 0.0
        _bounded(converted, loc, faults, value, least, most)
        return converted

    return check


_TRUE = {"1", "true", "t", "yes", "y", "on"}
_FALSE = {"0", "false", "f", "no", "n", "off"}


def boolean(value: Any, loc: Loc, faults: Faults) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or (isinstance(value, int | float) and value in (0, 1)):
        word = str(value).lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        message = "Input should be a valid boolean, unable to interpret input"
        faults.add("bool_parsing", loc, message, value)
        return False
    faults.add("bool_type", loc, "Input should be a valid boolean", value)
    return False


def literal(*allowed: str, kind: str = "literal_error") -> Rule:
    quoted = [f"'{word}'" for word in allowed]
    expected = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"

    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        if value not in allowed:
            faults.add(kind, loc, f"Input should be {expected}", value, {"expected": expected})
        return value

    return check


def mapping(value: Any, loc: Loc, faults: Faults) -> Any:
    """Any JSON object."""
    if not isinstance(value, dict):
        faults.add("dict_type", loc, "Input should be a valid dictionary", value)
        return {}
    return value


def _depth(value: Any, limit: int) -> int:
    """Levels of nesting, counted no further than `limit`."""
    if limit <= 0:
        return 0
    if isinstance(value, dict):
        return 1 + max((_depth(inner, limit - 1) for inner in value.values()), default=0)
    if isinstance(value, list):
        return max((_depth(inner, limit) for inner in value), default=0)
    return 0


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nul(inner) for inner in value]
    return value


def metadata(value: Any, loc: Loc, faults: Faults) -> Any:
    """A JSON object within Honcho's limits: 100 keys at the top, five levels deep."""
    if not isinstance(value, dict):
        return mapping(value, loc, faults)
    if len(value) > METADATA_KEYS:
        message = f"Value error, Metadata exceeds maximum of {METADATA_KEYS} top-level keys"
        faults.add("value_error", loc, message, value, {"error": {}})
    elif _depth(value, METADATA_DEPTH + 1) > METADATA_DEPTH:
        message = f"Value error, Metadata nesting exceeds maximum depth of {METADATA_DEPTH}"
        faults.add("value_error", loc, message, value, {"error": {}})
    return _without_nul(value)


def array(item: Rule, least: int = 0, most: int | None = None) -> Rule:
    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        if not isinstance(value, list):
            faults.add("list_type", loc, "Input should be a valid list", value)
            return []
        count = len(value)
        context = {"field_type": "List", "actual_length": count}
        if count < least:
            message = f"List should have at least {_plural(least, 'item')} after validation, not {count}"
            faults.add("too_short", loc, message, value, {**context, "min_length": least})
            return []
        if most is not None and count > most:
            message = f"List should have at most {_plural(most, 'item')} after validation, not {count}"
            faults.add("too_long", loc, message, value, {**context, "max_length": most})
            return []
        return [item(inner, (*loc, index), faults) for index, inner in enumerate(value)]

    return check


def moments(value: Any, loc: Loc, faults: Faults) -> Any:
    """A point in time in any form that Honcho takes."""
    try:
        return moment(value)
    except NotATime as fault:
        kind = "datetime_from_date_parsing" if isinstance(value, str) else "datetime_type"
        message = f"Input should be a valid datetime or date, {fault}"
        faults.add(kind, loc, message, value, {"error": str(fault)})
        return Moment(0, "")


@dataclass(frozen=True, slots=True)
class Field:
    rule: Rule
    required: bool = False
    default: Any = None
    nullable: bool = True
    alias: str | None = None


def record(
    fields: Mapping[str, Field], *, after: Callable[[dict[str, Any], Any, Loc, Faults], None] | None = None
) -> Rule:
    """A JSON object with known fields; `after` checks what concerns more than one of them."""

    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        if not isinstance(value, dict):
            message = "Input should be a valid dictionary or object to extract fields from"
            faults.add("model_attributes_type", loc, message, value)
            return {}
        before = len(faults.found)
        result: dict[str, Any] = {}
        for name, field in fields.items():
            key = name if name in value or field.alias is None else field.alias
            if key not in value:
                if field.required:
                    faults.add("missing", (*loc, name), "Field required", value)
                result[name] = field.default
            elif value[key] is None and field.nullable and not field.required:
                result[name] = field.default
            else:
                result[name] = field.rule(value[key], (*loc, key), faults)
        if after is not None and len(faults.found) == before:
            after(result, value, loc, faults)
        return result

    return check


def map_of(item: Rule) -> Rule:
    def check(value: Any, loc: Loc, faults: Faults) -> Any:
        if not isinstance(value, dict):
            return mapping(value, loc, faults)
        return {key: item(inner, (*loc, key), faults) for key, inner in value.items()}

    return check
