"""Matching a template with `{names}` against what was recorded or answered, binding the names on the way."""

from __future__ import annotations

import re
from typing import Any

ANY = "{*}"
"""Matches everything that is not null."""
MORE = "{...}"
"""As the last item of a list: any further items."""
_NAME = re.compile(r"\{(\w+)\}")
_CUT = re.compile(r"(?s)(.*)\.\.\.<(\d+) (?:chars|items|keys)>")


HEADING = "## Explicit Observations"
_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] (.*)")


class Mismatch(AssertionError):
    """Where and how two things differ."""


class Said:
    """A representation with exactly these explicit observations.

    Their order within one second is the server's; a text that was concluded in two seconds stands there twice.
    """

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def match(self, actual: Any, names: dict[str, str], where: str) -> None:
        if not isinstance(actual, str) or not actual.startswith(f"{HEADING}\n\n") or not actual.endswith("\n"):
            raise Mismatch(f"{where}: {actual!r} is no representation")
        lines = [_LINE.fullmatch(line) for line in actual.removeprefix(f"{HEADING}\n\n").rstrip("\n").split("\n")]
        if any(line is None for line in lines):
            raise Mismatch(f"{where}: a line without its time in {actual!r}")
        found = [(line.group(1), line.group(2)) for line in lines if line is not None]
        if [stamp for stamp, _ in found] != sorted(stamp for stamp, _ in found):
            raise Mismatch(f"{where}: not in ascending time: {actual!r}")
        wanted = {filled_key(text, names) for text in self.texts}
        told = {text for _, text in found}
        if told != wanted or len(set(found)) != len(found):
            raise Mismatch(f"{where}: {sorted(told)} where {sorted(wanted)} was expected")


class AnyOrder:
    """A list with these items in whatever order."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def match(self, actual: Any, names: dict[str, str], where: str) -> None:
        if not isinstance(actual, list) or len(actual) != len(self.items):
            raise Mismatch(f"{where}: {actual!r} are not {len(self.items)} items")
        left = list(actual)
        for item in self.items:
            for candidate in left:
                trial = dict(names)
                try:
                    unify(item, candidate, trial, where)
                except Mismatch:
                    continue
                names.update(trial)
                left.remove(candidate)
                break
            else:
                raise Mismatch(f"{where}: {item!r} is not among {left!r}")


def filled(template: Any, names: dict[str, str]) -> Any:
    """The template with every `{name}` replaced; an unbound name is a mistake in the scenario."""
    if isinstance(template, str):
        return _NAME.sub(lambda found: names[found.group(1)], template)
    if isinstance(template, dict):
        return {filled(key, names): filled(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(item, names) for item in template]
    return template


def _text(template: str, actual: str, names: dict[str, str], where: str) -> None:
    if template in (ANY, actual):
        return
    pattern, last, fresh = "", 0, set()
    for found in _NAME.finditer(template):
        pattern += re.escape(template[last : found.start()])
        name = found.group(1)
        if name in names:
            pattern += re.escape(names[name])
        elif name in fresh:
            pattern += f"(?P={name})"
        else:
            pattern += f"(?P<{name}>[A-Za-z0-9_-]+?)"
            fresh.add(name)
        last = found.end()
    matched = re.fullmatch(pattern + re.escape(template[last:]), actual)
    if matched is None:
        raise Mismatch(f"{where}: {actual!r} does not match {template!r} with {names}")
    names.update(matched.groupdict())


def unify(template: Any, actual: Any, names: dict[str, str], where: str = "$", *, subset: bool = True) -> None:
    """Raises `Mismatch`; `subset` lets objects have more keys than the template. Recorded cuts match by their
    length."""
    if template == ANY:
        if actual is None:
            raise Mismatch(f"{where}: null where something was expected")
    elif isinstance(template, Said | AnyOrder):
        template.match(actual, names, where)
    elif isinstance(template, str) and isinstance(actual, str):
        cut = _CUT.fullmatch(actual)
        if cut and not template.endswith(actual[-10:]):
            whole = filled_key(template, names)
            if not whole.startswith(cut.group(1)) or len(whole) != int(cut.group(2)):
                raise Mismatch(f"{where}: not the recorded text of {cut.group(2)} characters")
        else:
            _text(template, actual, names, where)
    elif isinstance(template, dict) and isinstance(actual, dict):
        if actual.get("...", "").startswith("<"):
            return
        missing = [key for key in template if filled_key(key, names) not in actual]
        extra = [] if subset else [key for key in actual if key not in [filled_key(name, names) for name in template]]
        if missing or extra:
            raise Mismatch(f"{where}: keys missing {missing}, more {extra}")
        for key, value in template.items():
            unify(value, actual[filled_key(key, names)], names, f"{where}.{key}", subset=subset)
    elif isinstance(template, list) and isinstance(actual, list):
        if actual and isinstance(actual[-1], str) and _CUT.fullmatch(actual[-1]):
            return
        wanted = template[:-1] if template and template[-1] == MORE else template
        if len(actual) < len(wanted) or (wanted is template and len(actual) != len(wanted)):
            raise Mismatch(f"{where}: {len(actual)} items where {len(wanted)} were expected")
        for index, item in enumerate(wanted):
            unify(item, actual[index], names, f"{where}[{index}]", subset=subset)
    elif template != actual or type(template) is not type(actual):
        raise Mismatch(f"{where}: {actual!r} where {template!r} was expected")


def filled_key(key: str, names: dict[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found.group(1), found.group()), key)
