"""Places that hold credentials by their nature: addresses with a password in them, authorisation headers, command
options, pairs."""

from __future__ import annotations

import re
from typing import Final

from honcho_actors.privacy.rules import values
from honcho_actors.privacy.rules.tokens import decoded

_URL: Final = re.compile(r"://([^\s/@:\"'<>]{0,128}):([^\s/@\"'<>]{1,256})@[\w\[]")
_EXAMPLES: Final = frozenset(
    [
        "password",
        "pass",
        "passwd",
        "pwd",
        "secret",
        "user",
        "username",
        "pw",
        "changeme",
        "token",
        "yourpassword",
        "mypassword",
    ]
)
_BEARER: Final = re.compile(
    r"(?i)(?:bearer|authorization:?\s{0,2}[\"']?\s?(?:token|apikey|api-key|key))[ \t=:\"']{1,3}([A-Za-z0-9._~+/=-]{12,512})"
)
_BASIC: Final = re.compile(r"(?i)basic[ \t]{1,3}([A-Za-z0-9+/_-]{8,512})")
_COOKIE: Final = re.compile(
    r"(?i)(?:sess(?:ion)?(?:[_.-]?(?:id|key|token))?|sid|auth|connect\.sid|phpsessid|jsessionid|asp\.net_sessionid|remember[_-]\w{2,12}"
    r"|user_session|_session|jwt|laravel_session|xsrf-token)=([^\s;,\"'&]{12,512})"
)
_COMMAND: Final = re.compile(
    r"(?:\bmysql(?:dump|admin)?\b[^\n|]{0,120}?\s-p|\bsshpass\s{1,3}-p\s{0,2}[\"']?|\b(?:curl|wget|http)\b[^\n|]{0,160}?\s"
    r"(?:-u|--user)[ =]?[\"']?[\w.@+-]{1,64}:|\bhtpasswd\b[^\n|]{0,80}\s|\b(?:redis-cli)\b[^\n|]{0,120}?\s-a\s{1,3}|"
    r"\bdocker login\b[^\n|]{0,120}?\s-p\s{1,3}|\bnet use\b[^\n|]{0,120}\s|\brclone\b[^\n|]{0,80}?pass\s{1,3})([^\s\"'|]{4,128})"
)
_PAIR: Final = re.compile(r"(?<![^\s(\"'`«“,:：，])([A-Za-z][\w.@+-]{1,40})(?:\s?[/|]\s?|:)([^\s/|]{6,64})")
_PAIR_CONTEXT: Final = re.compile(
    r"log[ -]?(?:in|on|ged)|cred|user|usuario|benutzer|admin|root|ssh|vnc|rdp|zugang|acceso|acesso|account|konto|cuenta|compte|"
    r"router|access|sign in|connect|identifiant|anmeld|einlogg|entra|账号|帐号|用户|登录|アカウント|ログイン|계정|аккаунт|логин|вход"
)


def find_address(text: str) -> str | None:
    """A URL that carries a user's password. The passwords of documentation (`user:password@`, `guest:guest@`) are
    none."""
    for found in _URL.finditer(text):
        user, secret = found[1].lower(), found[2].lower()
        if secret not in _EXAMPLES and secret != user and not values.is_placeholder(found[2]):
            return "url"
    return None


def find_header(text: str, low: str) -> str | None:
    """A bearer or basic authorisation, or the cookie of a session."""
    if "bearer" in low or "authorization" in low:
        for found in _BEARER.finditer(text):
            if values.strength(found[1]) >= values.FAIR and any(map(str.isdigit, found[1])):
                return "header"
    if "basic " in low:
        for found in _BASIC.finditer(text):
            if ":" in (decoded(found[1]) or ""):
                return "header"
    if ("cookie" in low or "sess" in low or "sid=" in low or "auth=" in low) and "=" in text:
        for found in _COOKIE.finditer(text):
            if values.strength(found[1]) >= values.STRONG:
                return "cookie"
    return None


def find_command(text: str) -> str | None:
    """A password given to a command in the way of that command."""
    for found in _COMMAND.finditer(text):
        value = values.trimmed(found[1])
        if values.strength(value) >= values.FAIR or (
            values.strength(value) == values.WORD and not values.is_common(value)
        ):
            return "command"
    return None


def find_pair(text: str, low: str) -> str | None:
    """A name and a password side by side, where the text speaks of getting in somewhere."""
    if not _PAIR_CONTEXT.search(low):
        return None
    for found in _PAIR.finditer(text):
        value = values.trimmed(found[2])
        if values.strength(value) >= values.STRONG and any(map(str.isdigit, value)):
            around = low[max(0, found.start() - 48) : found.end() + 48]
            if _PAIR_CONTEXT.search(around):
                return "pair"
    return None
