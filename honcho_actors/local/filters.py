"""Honcho's filter language, as SQL: equality, lists, comparisons, `AND`/`OR`/`NOT`, containment for metadata.

What is not understood is refused, never ignored: a filter that is silently dropped would widen what is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from honcho_actors.local.errors import Refused
from honcho_actors.local.times import NotATime, moment

OPERATORS = ("contains", "gt", "gte", "icontains", "in", "lt", "lte", "ne")
_SQL = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
ANYTHING = "*"
_SOMEWHERE = ("id", "created_at", "is_active", "workspace_id", "session_id", "peer_id", "metadata")
"""Columns that some model has; Honcho words their absence differently."""
MAX_DEPTH = 8
MAX_TERMS = 2000
MAX_JOINED = 50
"""Terms side by side; more are joined in groups, for SQLite takes an expression of 1,000 levels."""


@dataclass(frozen=True, slots=True)
class Column:
    sql: str
    kind: Literal["text", "number", "time", "flag", "json"]
    allowed: frozenset[str] = frozenset()
    """The only values that the column has; empty for any."""
    indexed: str | None = None
    """For metadata of messages: SQL of the row's key in `message_keys`."""


Condition = tuple[str, list[Any]]
ALL: Condition = ("1", [])


def contains(stored: str, wanted: str) -> bool:
    """JSON containment: every part of `wanted` is somewhere in `stored` at the same place."""
    return _holds(json.loads(stored), json.loads(wanted))


def _holds(stored: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            key in stored and _holds(stored[key], part) for key, part in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(stored, list) and all(any(_holds(item, part) for item in stored) for part in wanted)
    if isinstance(wanted, bool) or isinstance(stored, bool):
        return stored is wanted
    return type(stored) is not dict and type(stored) is not list and bool(stored == wanted)


def compared(stored: str, path: str, operator: str, operand: str) -> bool:
    """One comparison with a metadata value; a value of another type compares as false."""
    value: Any = json.loads(stored)
    for step in json.loads(path):
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    wanted: Any = json.loads(operand)
    if operator == "in":
        return any(_holds(value, item) for item in wanted)
    if operator == "ne":
        return not _holds(value, wanted)
    if operator in ("contains", "icontains"):
        if isinstance(value, list):
            return any(_holds(item, wanted) for item in value)
        left, right = str(value), str(wanted)
        return right.lower() in left.lower() if operator == "icontains" else right in left
    numbers = (int, float)
    if isinstance(value, numbers) and isinstance(wanted, str):
        try:
            wanted = float(wanted)
        except ValueError:
            return False
    if isinstance(value, numbers) and isinstance(wanted, numbers):
        difference = float(value) - float(wanted)
    elif isinstance(value, str) and isinstance(wanted, str):
        difference = float((value > wanted) - (value < wanted))
    else:
        return False
    return {"gt": difference > 0, "gte": difference >= 0, "lt": difference < 0, "lte": difference <= 0}[operator]


def compile_filters(
    filters: Mapping[str, Any] | None, columns: Mapping[str, Column], model: str, *, session: int | None = None
) -> Condition:
    """SQL and parameters for the whole filter; raises `Refused` (422) for what is unknown.

    `session` is the key of the one session that is searched: its metadata is then found through an index.
    """
    return _Compiler(columns, model, session).both(filters or {}, 0)


class _Compiler:
    def __init__(self, columns: Mapping[str, Column], model: str, session: int | None) -> None:
        self._columns = columns
        self._model = model
        self._session = session
        self._terms = 0

    def both(self, filters: Any, depth: int) -> Condition:
        if not isinstance(filters, dict):
            raise Refused(422, "Invalid filter configuration")
        if depth > MAX_DEPTH:
            raise Refused(422, f"Invalid filter: nested deeper than {MAX_DEPTH}")
        parts = [self._one(name, value, depth) for name, value in filters.items()]
        return _joined(parts, " AND ")

    def _one(self, name: str, value: Any, depth: int) -> Condition:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise Refused(422, f"Invalid filter: more than {MAX_TERMS} terms")
        if name in ("AND", "OR", "NOT"):
            if not isinstance(value, list):
                raise Refused(422, f"{name} operator must contain a list, got {type(value).__name__}")
            parts = [self.both(part, depth + 1) for part in value]
            if name == "NOT":
                parts = [(f"NOT ({sql})", params) for sql, params in parts]
            return _joined(parts, " OR " if name == "OR" else " AND ")
        column = self._columns.get(name)
        if column is None:
            elsewhere = self._model == "Document" or (self._model != "Message" and name in _SOMEWHERE)
            allowed = "" if elsewhere else "is not allowed to be filtered on or "
            raise Refused(422, f"Column '{name}' {allowed}does not exist on {self._model}")
        if value == ANYTHING:
            return ALL
        if column.kind == "json":
            return self._metadata(column, name, value)
        if isinstance(value, dict):
            unknown = [operator for operator in value if operator not in OPERATORS]
            if unknown or not value:
                raise Refused(
                    422,
                    f"Invalid filter for column '{name}': unsupported operator(s) {unknown}. "
                    f"Expected one of {list(OPERATORS)} or a scalar value.",
                )
            return _joined([self._operator(column, name, *pair) for pair in value.items()], " AND ")
        if isinstance(value, list):
            return self._operator(column, name, "in", value)
        if value is None:
            return f"{column.sql} IS NULL", []
        return f"{column.sql} = ?", [self._operand(column, name, value)]

    def _operator(self, column: Column, name: str, operator: str, operand: Any) -> Condition:
        if operator == "in":
            if operand == ANYTHING:
                return ALL
            if not isinstance(operand, list):
                raise Refused(422, f"Invalid filter for column '{name}': 'in' takes a list")
            if ANYTHING in operand:
                return ALL
            if not operand:
                return "0", []
            self._terms += len(operand)
            if self._terms > MAX_TERMS:
                raise Refused(422, f"Invalid filter: more than {MAX_TERMS} terms")
            marks = ",".join("?" * len(operand))
            return f"{column.sql} IN ({marks})", [self._operand(column, name, item) for item in operand]
        if operator in ("contains", "icontains"):
            if column.kind != "text" or not isinstance(operand, str):
                raise Refused(422, f"Invalid filter for column '{name}': '{operator}' needs text")
            if operator == "contains":
                return f"instr({column.sql}, ?) > 0", [operand]
            return f"instr(lower({column.sql}), lower(?)) > 0", [operand]
        if operator == "ne":
            if operand is None:
                return f"{column.sql} IS NOT NULL", []
            return f"({column.sql} IS NULL OR {column.sql} <> ?)", [self._operand(column, name, operand)]
        return f"{column.sql} {_SQL[operator]} ?", [self._operand(column, name, operand)]

    def _operand(self, column: Column, name: str, value: Any) -> Any:
        kind = column.kind
        if kind == "time":
            try:
                return moment(value).us
            except NotATime as fault:
                raise Refused(422, f"Invalid datetime value: {value}") from fault
        if kind == "flag" and isinstance(value, bool):
            return int(value)
        if kind == "number" and isinstance(value, int | float | str):
            try:
                return float(value)
            except OverflowError:  # a whole number larger than any other
                return math.inf if int(value) > 0 else -math.inf
            except ValueError as fault:
                raise Refused(422, f"Invalid numeric value: {value}. Expected a number, got str") from fault
        if kind == "text" and isinstance(value, str):
            if column.allowed and value not in column.allowed:
                raise Refused(
                    422, f"Invalid value for column '{name}': {value!r}. Expected one of {sorted(column.allowed)}"
                )
            return value
        raise Refused(422, f"Invalid filter for column '{name}': a value of another type was expected")

    def _metadata(self, column: Column, name: str, value: Any) -> Condition:
        if value is None or isinstance(value, list):
            return "0", []
        if not isinstance(value, dict):
            raise Refused(422, f"Invalid filter for column '{name}': an object was expected")
        return _joined(self._parts(column, value, ()), " AND ")

    def _parts(self, column: Column, wanted: Mapping[str, Any], path: tuple[str, ...]) -> list[Condition]:
        parts: list[Condition] = []
        for key, value in wanted.items():
            here = (*path, key)
            if value == ANYTHING:
                continue
            if not path and isinstance(value, dict) and value and all(operator in OPERATORS for operator in value):
                for operator, operand in value.items():
                    if operator == "in" and not isinstance(operand, list):
                        raise Refused(422, f"Invalid filter for column 'metadata.{key}': 'in' takes a list")
                    parts.append(
                        (
                            f"json_compared({column.sql}, ?, ?, ?)",
                            [json.dumps(here), operator, json.dumps(operand)],
                        )
                    )
                continue
            if isinstance(value, dict) and value:
                parts.extend(self._parts(column, value, here))
                continue
            nested: Any = value
            for step in reversed(here):
                nested = {step: nested}
            exact = (f"json_contains({column.sql}, ?)", [json.dumps(nested)])
            if column.indexed is not None and self._session is not None and not path and indexed_pairs({key: value}):
                found = "SELECT message FROM message_keys WHERE session = ? AND key = ? AND value = ?"
                parts.append((f"{column.indexed} IN ({found})", [self._session, key, value]))
                continue
            parts.append(exact)
        return parts


INDEXED_CHARS = 200
"""Metadata keys and values up to this length are found through `message_keys`; longer ones by reading the rows."""


def indexed_pairs(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The top-level text values that `message_keys` holds."""
    return [
        (key, value)
        for key, value in metadata.items()
        if isinstance(value, str) and len(value) <= INDEXED_CHARS and len(key) <= INDEXED_CHARS
    ]


def _joined(parts: list[Condition], word: str) -> Condition:
    if not parts:
        return ALL
    if len(parts) == 1:
        return parts[0]
    if len(parts) > MAX_JOINED:
        return _joined(
            [_joined(parts[start : start + MAX_JOINED], word) for start in range(0, len(parts), MAX_JOINED)], word
        )
    return word.join(f"({sql})" for sql, _ in parts), [value for _, params in parts for value in params]
