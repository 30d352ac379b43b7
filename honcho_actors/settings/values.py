"""How one setting's value is read: strictly, and with a sentence for what is refused.

A kind turns what a source holds (text from an environment, a typed value from a file or a caller) into the value or
raises `Refused` with the reason. Pure: no file, no environment, no default. A refusal never quotes a value that could
be a secret or an address, and never one longer than a word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_OFF = frozenset({"off", "none", "unset", "no"})
_SHOWN_CHARS = 20


class Refused(ValueError):
    """A value that a kind does not take; the text is one clause for people and holds no secret."""


class Blank(Exception):
    """An empty value: as good as not set."""


class Kind(Protocol):
    """Reads one value. `describe` finishes the sentence "must be ..."."""

    def read(self, raw: object) -> Any: ...
    def describe(self) -> str: ...
    def schema(self) -> dict[str, Any]: ...


def shown(raw: object) -> str:
    """What may be repeated of a refused value: short, printable, without line breaks."""
    text = raw if isinstance(raw, str) else repr(raw)
    if len(text) > _SHOWN_CHARS or not text.isprintable():
        return f"a {type(raw).__name__}"
    return repr(text) if isinstance(raw, str) else text


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise Refused(f"{shown(raw)} is not text")
    text = raw.strip()
    if not text:
        raise Blank
    return text


@dataclass(frozen=True)
class Flag:
    """true / 1 / yes / on against false / 0 / no / off, in any case; a truth value of a typed source; nothing else."""

    def read(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        word = _text(raw).lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise Refused(f"{shown(raw)} is neither true nor false")

    def describe(self) -> str:
        return "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds; true is not 1, 5.0 is not 5."""

    least: int
    most: int = 1_000_000_000
    optional: bool = False

    def read(self, raw: object) -> int | None:
        if isinstance(raw, bool) or not isinstance(raw, (int, str)):
            if raw is None and self.optional:
                return None
            raise Refused(f"{shown(raw)} is not a whole number")
        if isinstance(raw, str):
            text = _text(raw)
            if self.optional and text.lower() in _OFF:
                return None
            if not _WHOLE.fullmatch(text):
                raise Refused(f"{shown(text)} is not a whole number")
            value = int(text)
        else:
            value = raw
        if not self.least <= value <= self.most:
            raise Refused(f"it must lie between {self.least} and {self.most}")
        return value

    def describe(self) -> str:
        return f"a whole number from {self.least} to {self.most}" + (", or off" if self.optional else "")

    def schema(self) -> dict[str, Any]:
        kind: Any = ["integer", "null"] if self.optional else "integer"
        return {"type": kind, "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number:
    """A finite number between two bounds (seconds, rates); no unit suffix, no NaN, no infinity."""

    least: float
    most: float = 315_360_000.0  # ten years: far past any sense, far below what a timer can hold
    optional: bool = False

    def read(self, raw: object) -> float | None:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            if raw is None and self.optional:
                return None
            raise Refused(f"{shown(raw)} is not a number")
        if isinstance(raw, str):
            text = _text(raw)
            if self.optional and text.lower() in _OFF:
                return None
            if not _NUMBER.fullmatch(text):
                raise Refused(f"{shown(text)} is not a number (seconds carry no unit)")
            value = float(text)
        elif isinstance(raw, int) and abs(raw) > self.most:
            raise Refused(f"it must lie between {self.least:g} and {self.most:g}")
        else:
            value = float(raw)
        if not math.isfinite(value) or not self.least <= value <= self.most:
            raise Refused(f"it must lie between {self.least:g} and {self.most:g}")
        return value

    def describe(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}" + (", or off" if self.optional else "")

    def schema(self) -> dict[str, Any]:
        kind: Any = ["number", "null"] if self.optional else "number"
        return {"type": kind, "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class OneOf:
    """One word of a closed list, in any case, `-` read as `_`."""

    words: tuple[str, ...]

    def read(self, raw: object) -> str:
        word = _text(raw).lower().replace("-", "_")
        if word not in self.words:
            raise Refused(f"{shown(raw)} is none of {', '.join(self.words)}")
        return word

    def describe(self) -> str:
        return "one of " + ", ".join(self.words)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Text:
    """Non-blank text, trimmed, without control characters. `may_be_empty` for prefixes."""

    most_chars: int = 1000
    may_be_empty: bool = False

    def read(self, raw: object) -> str:
        if self.may_be_empty and raw == "":
            return ""
        text = _text(raw)
        if len(text) > self.most_chars:
            raise Refused(f"it is longer than {self.most_chars} characters")
        if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in text):
            raise Refused("it holds a control character")
        return text

    def describe(self) -> str:
        return f"text of at most {self.most_chars} characters"

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.most_chars}


@dataclass(frozen=True)
class Secret:
    """A key: one line of visible ASCII. Never repeated in any message."""

    def read(self, raw: object) -> str | None:
        if raw is None:
            return None
        if not isinstance(raw, str):
            raise Refused("it is not text")
        text = raw.strip()
        if not text:
            raise Blank
        if len(text) > 8192 or not text.isascii() or not text.isprintable() or " " in text:
            raise Refused("it is not one line of visible characters")
        return text

    def describe(self) -> str:
        return "one line of visible characters"

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "null"]}


@dataclass(frozen=True)
class Address:
    """An http or https address with a host and at most a path; kept normalised."""

    def read(self, raw: object) -> str | None:
        if raw is None:
            return None
        if not isinstance(raw, str):
            raise Refused("it is not text")
        text = raw.strip()
        if not text:
            raise Blank
        return normal_url(text)

    def describe(self) -> str:
        return "an address such as http://127.0.0.1:8000"

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "null"], "format": "uri"}


def normal_url(text: str) -> str:
    """One spelling for one server: scheme and host in lower case, no default port, no trailing slash or API version."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Refused("it is not an address (visible ASCII without spaces)")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname
    except ValueError:
        raise Refused("it is not an address such as http://127.0.0.1:8000") from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise Refused("it must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise Refused("it must not hold a user name or a password (the key has its own setting)")
    if parts.query or parts.fragment:
        raise Refused("it must not hold a query or a fragment")
    scheme = parts.scheme.lower()
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != {"http": 80, "https": 443}[scheme]:
        host = f"{host}:{port}"
    path = re.sub(r"/v[0-9]+$", "", parts.path.rstrip("/")).rstrip("/")
    return f"{scheme}://{host}{path}"


@dataclass(frozen=True)
class Names:
    """A mapping of names to names: a table of a file, a mapping of a caller, a JSON object of an environment."""

    most: int = 10_000

    def read(self, raw: object) -> Mapping[str, str]:
        value = raw
        if isinstance(raw, str):
            text = _text(raw)
            try:
                value = json.loads(text)
            except ValueError:
                raise Refused('it is not a JSON object such as {"telegram:7": "ada"}') from None
        if not isinstance(value, Mapping):
            raise Refused(f"a {type(value).__name__} is not a table of names")
        if len(value) > self.most:
            raise Refused(f"it holds more than {self.most} names")
        pairs: dict[str, str] = {}
        for name, target in value.items():
            if not isinstance(name, str) or not isinstance(target, str) or not name.strip() or not target.strip():
                raise Refused("every name and every target must be non-blank text")
            pairs[name] = target.strip()
        return MappingProxyType(pairs)

    def describe(self) -> str:
        return "a table of names"

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True)
class Folder:
    """A directory's path, `~` expanded, made absolute. Whoever writes there finds out whether it can be written."""

    def read(self, raw: object) -> Path:
        text = str(raw) if isinstance(raw, Path) else _text(raw)
        if "\0" in text:
            raise Refused("it holds a NUL character")
        try:
            return Path(text).expanduser().absolute()
        except (RuntimeError, OSError):
            raise Refused("its home directory cannot be found") from None

    def describe(self) -> str:
        return "a directory's path"

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}
