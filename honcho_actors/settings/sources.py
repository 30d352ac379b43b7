"""Where settings come from: the environment, two TOML files, a stored key, and the file that Honcho's own tools write.

Reads; never writes, never raises, never blocks on anything but a small regular file. What cannot be read becomes a
`Problem` without any of its contents.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

APP = "honcho-actors"
FILE_NAME = "honcho-actors.toml"
KEY_FILE_NAME = "api-key"
PREFIX = "HONCHO_ACTORS_"
MOST_FILE_BYTES = 1_000_000
SHARED_NAMES: Mapping[str, tuple[str, ...]] = {
    "api_key": ("HONCHO_API_KEY",),
    "base_url": ("HONCHO_URL", "HONCHO_BASE_URL"),
    "workspace": ("HONCHO_WORKSPACE_ID",),
}
KEY_FILE_VARIABLE = "HONCHO_API_KEY_FILE"
NO_SETTINGS = frozenset({PREFIX + "PROXY_TOKEN", PREFIX + "MCP_TOKEN"})
"""Variables of ours that commands read by themselves."""
HONCHO_CONFIG_FIELDS = {"apiKey": "api_key", "environmentUrl": "base_url"}
WORKING_DIRECTORY_FILE = f"./{FILE_NAME}"
WORKING_DIRECTORY_MAY_NOT_SET = frozenset({"api_key", "base_url", "allow_public_http", "metrics_host"})


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a source that was not taken. `text` is one sentence for people; it never holds a secret."""

    field: str
    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.field} ({self.source}): {self.text}"


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source holds: field name -> raw value, and the source's name as people see it for each."""

    values: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """The places to look. Tests and embedders give their own; `Sources.usual()` is what a process has."""

    environ: Mapping[str, str]
    directory: Path
    config_dir: Path
    home: Path

    @classmethod
    def usual(cls) -> Sources:
        try:
            directory = Path.cwd()
        except OSError:  # the working directory was removed under us
            directory = Path(os.sep)
        try:
            home = Path.home()
        except RuntimeError:
            home = Path(os.sep)
        return cls(os.environ, directory, platformdirs.user_config_path(APP), home)

    def files(self) -> tuple[Path, ...]:
        """Every file that a reading looks at, in order."""
        named = self.environ.get(KEY_FILE_VARIABLE, "").strip()
        extra = (Path(named),) if named and "\0" not in named else ()
        return (
            *extra,
            self.config_dir / KEY_FILE_NAME,
            self.directory / FILE_NAME,
            self.config_dir / FILE_NAME,
            self.home / ".honcho" / "config.json",
        )

    def fingerprint(self) -> tuple[object, ...]:
        """Changes when a reading could give something else: cheap enough for once a second."""
        variables = tuple(sorted(item for item in self.environ.items() if item[0].startswith("HONCHO_")))
        return (variables, *(_stamp(path) for path in self.files()))


def _stamp(path: Path) -> object:
    try:
        seen = path.stat()
    except (OSError, ValueError):
        return None
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode)


def read_layers(sources: Sources, fields: Collection[str]) -> tuple[list[Layer], list[Problem]]:
    """All layers below the explicit one, strongest first, and what was wrong with them."""
    problems: list[Problem] = []
    layers = [
        _key_files(sources, problems),
        _own_environment(sources, fields, problems),
        *_shared_environment(sources),
        _toml(sources.directory / FILE_NAME, WORKING_DIRECTORY_FILE, fields, problems, WORKING_DIRECTORY_MAY_NOT_SET),
        _toml(sources.config_dir / FILE_NAME, str(sources.config_dir / FILE_NAME), fields, problems),
        _honcho_config(sources.home / ".honcho" / "config.json", problems),
    ]
    return layers, problems


def nearest(name: str, fields: Collection[str]) -> str | None:
    """The known name that a mistyped one most likely meant: recallMode, Save_Messages and save_mesages all have one."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
    found = difflib.get_close_matches(snake, sorted(fields), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown(name: str, source: str, fields: Collection[str], *, spelled: str = "") -> Problem:
    meant = nearest(name, fields)
    hint = f"; did you mean {spelled}{meant.upper() if spelled else meant}?" if meant else ""
    shown = name if len(name) <= 40 and name.isprintable() else "a name"
    return Problem(shown, source, f"no setting has this name{hint}")


def read_small_file(path: Path) -> tuple[str | None, str | None]:
    """(text, None), (None, reason), or (None, None) when there is no such file. A BOM is dropped."""
    try:
        seen = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, ValueError) as error:
        return None, _why(error)
    if not stat.S_ISREG(seen.st_mode):
        return None, "it is not a regular file"
    if seen.st_size > MOST_FILE_BYTES:
        return None, f"it is larger than {MOST_FILE_BYTES} bytes"
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_FILE_BYTES + 1)
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"
    except OSError as error:
        return None, _why(error)


def _why(error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None)
    return f"it cannot be read ({reason.lower() if reason else type(error).__name__})"


def _key_files(sources: Sources, problems: list[Problem]) -> Layer:
    named = sources.environ.get(KEY_FILE_VARIABLE, "").strip()
    stored = sources.config_dir / KEY_FILE_NAME
    places = [(Path(named), f"{KEY_FILE_VARIABLE}", True)] if named and "\0" not in named else []
    places.append((stored, str(stored), False))
    for path, source, must_exist in places:
        text, reason = read_small_file(path)
        if text is not None and text.strip():
            return Layer({"api_key": text.strip()}, {"api_key": source})
        if text is not None:
            reason = "it is empty"
        elif reason is None and must_exist:
            reason = "there is no such file"
        if reason is not None:
            problems.append(Problem("api_key", source, f"the key file was not used: {reason}"))
    return Layer()


def _own_environment(sources: Sources, fields: Collection[str], problems: list[Problem]) -> Layer:
    values: dict[str, Any] = {}
    named: dict[str, str] = {}
    for variable, text in sources.environ.items():
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS:
            continue
        name = variable[len(PREFIX) :].lower()
        if name in fields and variable == PREFIX + name.upper():
            values[name], named[name] = text, variable
        else:
            problem = unknown(variable[len(PREFIX) :], "environment", fields, spelled=PREFIX)
            problems.append(Problem(variable if len(variable) <= 60 else PREFIX, problem.source, problem.text))
    return Layer(values, named)


def _shared_environment(sources: Sources) -> list[Layer]:
    """One layer a variable: two names may stand for one field, and the second must still be found behind the first."""
    layers = []
    for name, variables in SHARED_NAMES.items():
        for variable in variables:
            if variable in sources.environ:
                layers.append(Layer({name: sources.environ[variable]}, {name: variable}))
    return layers


def _toml(
    path: Path, source: str, fields: Collection[str], problems: list[Problem], barred: Collection[str] = ()
) -> Layer:
    text, reason = read_small_file(path)
    if text is None:
        if reason is not None:
            problems.append(Problem("file", source, f"the file was not used: {reason}"))
        return Layer()
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        where = re.search(r"line \d+", str(error))
        at = f" ({where.group()})" if where else ""
        problems.append(Problem("file", source, f"the file was not used: it is not TOML{at}"))
        return Layer()
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name not in fields:
            problems.append(unknown(name, source, fields))
        elif name in barred:
            problems.append(Problem(name, source, "a file in the working directory cannot set this"))
        else:
            values[name] = value
    return Layer(values, dict.fromkeys(values, source))


def _honcho_config(path: Path, problems: list[Problem]) -> Layer:
    source = "~/.honcho/config.json"
    text, reason = read_small_file(path)
    if text is None:
        if reason is not None:
            problems.append(Problem("file", source, f"the file was not used: {reason}"))
        return Layer()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        problems.append(Problem("file", source, "the file was not used: it is not JSON"))
        return Layer()
    if not isinstance(content, dict):
        problems.append(Problem("file", source, "the file was not used: it does not hold an object"))
        return Layer()
    values = {
        ours: content[theirs]
        for theirs, ours in HONCHO_CONFIG_FIELDS.items()
        if theirs in content and content[theirs] is not None
    }
    return Layer(values, dict.fromkeys(values, source))
