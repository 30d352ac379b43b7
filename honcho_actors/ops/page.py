"""The status page as it is sent: one file of the package, and the policy that lets it run nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import Final

from honcho_actors.ops.wire import Answer

_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@cache
def page() -> Answer:
    """The page and its headers. Nothing in it depends on the process: figures come by `/overview`, with a key."""
    html = resources.files("honcho_actors.ops").joinpath("page.html").read_text(encoding="utf-8")
    return Answer(
        html.encode(),
        content_type="text/html; charset=utf-8",
        headers=(
            ("Content-Security-Policy", _policy(html)),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
        ),
    )


def _policy(html: str) -> str:
    """Its one script and its one style by their digests, figures from where it came from, and nothing else at all."""
    digests = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for kind, text in _INLINE.findall(html)
    }
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'sha256-{digests['script']}'",
            f"style-src 'sha256-{digests['style']}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
