"""Remote names: what a session, a peer, a workspace and a file are called, from keys that nobody controls.

Promise: two different keys never get the same name. A key that is a legal name already, short enough and not of the
shape that this module makes, is its own name. Every other key becomes a readable stem, two dashes and 128 bits of the
SHA-256 of the *original* key in hex; since no key of that shape is taken over unchanged, the two kinds can't meet.
Names are at most 100 characters (the limit of Honcho before 3.0.7; later 512), match `^[A-Za-z0-9_-]+$`, keep case,
and depend on nothing but the key. A key that holds a credential shows
nothing of itself in its name. Total: any string has a name, blank and lone surrogates included; whether a blank
key may have one is `identity`'s business.
"""

from __future__ import annotations

import hashlib
import re

from honcho_actors.privacy.rules import trie

MAX_CHARS = 100
DIGEST_CHARS = 32

_TOKEN = re.compile(
    "(?:"
    + trie.pattern(
        (
            *(
                "sk-",
                "sk_",
                "rk_",
                "pk_",
                "ghp_",
                "gho_",
                "ghs_",
                "ghu_",
                "ghr_",
                "github_pat_",
                "xoxb-",
                "xoxp-",
                "xoxa-",
            ),
            *(
                "xoxs-",
                "xapp-",
                "AKIA",
                "ASIA",
                "AIza",
                "eyJ",
                "glpat-",
                "gldt-",
                "glrt-",
                "hch-v",
                "hf_",
                "gsk_",
                "npm_",
            ),
            *(
                "pypi-",
                "SG.",
                "whsec_",
                "shpat_",
                "shpss_",
                "dop_v1_",
                "lin_api_",
                "ntn_",
                "hvs.",
                "AGE-SECRET",
                "pplx-",
            ),
            *("tvly-", "xai-", "nvapi-", "r8_", "dapi", ":AA"),
        )
    ).pattern
    + ")[A-Za-z0-9_-]{12}"
)
_GIVEN = re.compile(
    r"://[^/\s:@]{0,64}:[^/\s@]{1,128}@|(?i:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key)[=:][^\s]{4}"
)
"""Keys that hold a credential are not readable in a name. Never to be changed: it decides names that servers
remember."""

_CLEAN = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MADE = re.compile(r"--[0-9a-f]{32}\Z")
_DIRT = re.compile(r"[^A-Za-z0-9_-]+|-{2,}")
_STEM_CHARS = MAX_CHARS - DIGEST_CHARS - 2
_STEM_LOOK = 4 * MAX_CHARS
_CLEAN_FILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])")


def session_id(key: str) -> str:
    """The remote name of a conversation's key."""
    return _name(key, "session")


def peer_id(key: str) -> str:
    """The remote name of a person's (or an assistant's) key."""
    return _name(key, "peer")


def workspace_id(key: str) -> str:
    """The remote name of a workspace."""
    return _name(key, "workspace")


def file_name(key: str) -> str:
    """A file name without extension, safe on every file system, case-insensitive ones and reserved device names
    included."""
    if _CLEAN_FILE.fullmatch(key) and not (_MADE.search(key) or _DEVICE.fullmatch(key) or holds_secret(key)):
        return key
    return _made(key.lower(), key, "file")


def apart(key: str, *bounds: str) -> str:
    """The name of a key inside bounds (a partition, an audience, a person): never the name of any plain key.

    The digest covers the number and the length of every part, so that no two combinations can be written alike.
    """
    return _made(key, f"{len(bounds)}\x00" + "".join(f"{len(part)}:{part}" for part in (*bounds, key)), "apart")


def holds_secret(key: str) -> bool:
    """Whether a key or a name holds what looks like a credential; no name made here does."""
    return (len(key) > 14 and _TOKEN.search(key) is not None) or (
        (":" in key or "=" in key) and _GIVEN.search(key) is not None
    )


def _name(key: str, kind: str) -> str:
    if _CLEAN.fullmatch(key) and not _MADE.search(key) and not holds_secret(key):
        return key
    return _made(key, key, kind)


def _made(readable: str, original: str, kind: str) -> str:
    shown = "" if holds_secret(original) else _DIRT.sub("-", readable[:_STEM_LOOK])[:_STEM_CHARS].strip("-")
    digest = hashlib.sha256(
        f"honcho-actors {kind if kind == 'apart' else 'key'} ".encode() + _bytes(original)
    ).hexdigest()
    if holds_secret(shown):
        shown = ""
    return f"{shown or kind[0]}--{digest[:DIGEST_CHARS]}"


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
