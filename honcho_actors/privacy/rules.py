"""What a credential looks like. First cut: the five classic kinds; each rule is bounded and linear."""

from __future__ import annotations

import re

_RULES = (
    (
        "assignment",
        re.compile(
            r"(?i)\b(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|auth[_-]?token)\b[\"']?\s{0,3}[:=]\s{0,3}[^\s]"
        ),
    ),
    ("provider_key", re.compile(r"sk-[A-Za-z0-9_-]{20}|hch-v3-[A-Za-z0-9_.-]{16}")),
    ("provider_key", re.compile(r"AKIA[0-9A-Z]{16}")),
    ("private_key", re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY")),
    ("jwt", re.compile(r"eyJ[A-Za-z0-9_.-]{30}")),
)


def find(text: str) -> str | None:
    """The name of the first rule that `text` (in its inspected form) trips, or None."""
    for name, pattern in _RULES:
        if pattern.search(text):
            return name
    return None
