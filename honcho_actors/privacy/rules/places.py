"""Places that hold credentials by their nature: addresses with a password in them, authorisation headers, command
options, pairs."""

from __future__ import annotations

import re
from typing import Final

from honcho_actors.privacy.rules import values
from honcho_actors.privacy.rules.tokens import decoded

_URL: Final = re.compile(r"://([^\s/@:\"'<>]{0,128}):([^\s/@\"'<>]{1,256})@[\w\[]")
_STORE: Final = re.compile(
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|ldaps?|smtps?|s?ftps?|clickhouse|nats)"
    r"(?:\+\w{1,20})?://([^\s/@:\"'<>]{0,128}):(?!\d{1,5}/)([^\s\"'<>]{1,160}?)@[\w\[]"
)
"""Where passwords stand as they are, slash and at sign included."""
_TOKEN_URL: Final = re.compile(r"://([A-Za-z0-9_.~%+-]{20,256})@[\w\[]")
_MANIFEST: Final = re.compile(
    r"\n[ \t]{1,8}[\w.-]{1,64}:[ \t]{1,4}[\"']?([A-Za-z0-9+/]{8,2048}={0,2})[\"']?[ \t\r]{0,4}(?=\n|\Z)"
)
_STORES: Final = re.compile(r"://[^\s/@:\"'<>]{0,128}:[^\s/@\"'<>]{1,160}[/@]")
"""The quick question before."""
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
    r"(?i)(?:bearer|authorization:?\s{0,2}[\"']?\s?(?:token|apikey|api-key|key))[ \t=:\"']{1,3}"
    r"([A-Za-z0-9._~+/=-]{12,512})"
)
_BASIC: Final = re.compile(r"(?i)basic[ \t]{1,3}([A-Za-z0-9+/_-]{8,512})")
_COOKIE: Final = re.compile(
    r"(?i)(?:sess(?:ion)?(?:[_.-]?(?:id|key|token))?|sid|auth|jwt|remember[_-]\w{2,12}|xsrf-token|sig(?:nature)?)=([^\s;,\"'&]{12,160})"
)
_COOKIES: Final = ("sess", "sid=", "auth=", "jwt=", "remember", "xsrf-", "sig=", "signature=")
_COMMAND: Final = re.compile(
    r"(?:\bmysql(?:dump|admin)?\b[^\n|]{0,64}?\s-p|\bsshpass\s{1,3}-p\s{0,2}[\"']?|\b(?:curl|wget)\b[^\n|]{0,96}?\s"
    r"(?:-u|--user)[ =]?[\"']?[\w.@+-]{1,64}:|\bhtpasswd\b[^\n|]{0,80}\s|\b(?:redis-cli)\b[^\n|]{0,64}?\s-a\s{1,3}|"
    r"\bdocker login\b[^\n|]{0,64}?\s-p\s{1,3}|\bnet use\b[^\n|]{0,120}\s|"
    r"\brequirepass\s{1,3}[\"']?|\bauth=\(\s{0,2}[\"'][^\"'\n]{1,64}[\"'],\s{0,3}[\"']|"
    r"\b[Ss]et_?[Pp]assword\(\s{0,2}[\"']|"
    r"\bIDENTIFIED BY\s{1,3}[\"']|\becho\s{1,3}[\"']?(?=\S{4,128}\s{0,3}\|\s{0,3}sudo)|"
    r"\blftp\b[^\n|]{0,64}?\s-u\s{1,3}[\w.@+-]{1,64},|"
    r"\bConvertTo-SecureString\s{1,3}(?:-String\s{1,3})?[\"']|\bnet user\s{1,3}[\w.-]{1,32}\s{1,3}|\bpsk=[\"']?|"
    r"\brclone\b[^\n|]{0,64}?pass\s{1,3})([^\s\"'|]{4,128})"
)
_COMMANDS: Final = (
    "mysql",
    "sshpass",
    "curl",
    "wget",
    "htpasswd",
    "redis-cli",
    "docker login",
    "net use",
    "rclone",
    "IDENTIFIED BY",
)
_COMMANDS_TOO: Final = (
    "requirepass",
    "masterauth",
    "auth=(",
    "etPassword(",
    "et_password(",
    "lftp",
    "ConvertTo-SecureString",
    "psk=",
    "| sudo",
)
_TIGHT: Final = re.compile(
    r"[(\"'`«“]{0,2}(?:([A-Za-z][\w.@-]{1,40})[:|]|(?:admin|root|user|guest|test|deploy|login|pi|ubuntu|postgres|sa)/)"
    r"([^\s/|]{6,64})\Z"
)
_DIGIT: Final = re.compile(r"\d")
_NEXT: Final = re.compile(r"\S{6,64}")
_NEAR_CHARS: Final = 48
_PAIR_CONTEXT: Final = re.compile(
    r"log[ -]?(?:in|on|ged)|cred|user|usuario|benutzer|admin|root|ssh|vnc|rdp|zugang|acceso|acesso|account|konto|"
    r"cuenta|compte|router|access|sign in|connect|identifiant|anmeld|einlogg|entra|账号|帐号|用户|登录|アカウント|"
    r"wi-?fi|wlan|ssid|ログイン|계정|аккаунт|логин|вход"
)


_WIFI: Final = re.compile(r"WIFI:(?:[A-OQ-Z]:[^;\n]{0,64};){0,4}P:[^;\n]{4,64};")


def find_address(text: str) -> str | None:
    """A URL that carries a user's password. The passwords of documentation (`user:password@`, `guest:guest@`) are
    none."""
    if "@" in text and "://" in text:
        stores = _STORE.finditer(text) if _STORES.search(text) else ()
        for found in (*_URL.finditer(text), *stores):
            user, secret = found[1].lower(), found[2].lower()
            if secret not in _EXAMPLES and secret != user and not values.is_placeholder(found[2]):
                return "url"
        if any(values.strength(found[1]) == values.RANDOM for found in _TOKEN_URL.finditer(text)):
            return "url"
    if "WIFI:" in text and _WIFI.search(text):
        return "url"
    return None


def find_manifest(text: str) -> str | None:
    """A value of a secret's manifest, in base64 as it stands there."""
    if "kind: Secret\n" in text and "data:" in text:
        for found in _MANIFEST.finditer(text):
            if len(found[1]) % 4 == 0 and decoded(found[1]):
                return "secret"
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
    if "=" in text:
        for name in _COOKIES:
            at = low.find(name)
            while at >= 0:
                cookie = _COOKIE.match(text, at)
                if cookie and values.strength(cookie[1]) >= values.STRONG:
                    return "cookie"
                at = low.find(name, cookie.end() if cookie else at + len(name))
    return None


def find_command(text: str) -> str | None:
    """A password given to a command in the way of that command."""
    if not any(name in text for name in (*_COMMANDS, *_COMMANDS_TOO)):
        return None
    for found in _COMMAND.finditer(text):
        value = values.trimmed(found[1])
        much = values.strength(value)
        if much >= values.FAIR or (much == values.WORD and not values.is_common(value)):
            return "command"
    return None


def find_pair(text: str, low: str, mid_words: list[str]) -> str | None:
    """A name and a password side by side, where the text speaks of getting in somewhere."""
    for word in mid_words:
        if (":" in word or "/" in word or "|" in word) and (found := _TIGHT.match(word)) and _is_secret(found[2]):
            at = low.find(word.lower())
            if _PAIR_CONTEXT.search(low, max(0, at - _NEAR_CHARS), at + len(word) + _NEAR_CHARS):
                return "pair"
    at = text.find(" / ")
    while at >= 0:
        spaced = _NEXT.match(text, at + 3)
        named = spaced is not None and text[at - 1 : at].isalnum() and _is_secret(spaced[0])
        if named and _PAIR_CONTEXT.search(low, max(0, at - _NEAR_CHARS), at + 2 * _NEAR_CHARS):
            return "pair"
        at = text.find(" / ", at + 2)
    return None


def _is_secret(word: str) -> bool:
    return _DIGIT.search(word) is not None and values.strength(values.trimmed(word)) >= values.STRONG
