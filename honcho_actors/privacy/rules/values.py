"""How much a single word looks like a secret, when its surroundings say that it may be one.

Four steps: WORD (nothing but its place speaks for it), FAIR (a person's password), STRONG (several kinds of
characters), RANDOM (made by a machine). NOTHING for what is clearly something else: a placeholder, code, a version, a
date, a path, an address. Looks at no more than the first 256 characters.
"""

from __future__ import annotations

import re
from typing import Final

NOTHING, WORD, FAIR, STRONG, RANDOM = range(5)

_LOOK: Final = 256
_PLACEHOLDER: Final = re.compile(
    r"""(?xi)^(?:[<\[{(|=]|\$[{(]|\$[a-z_]\w*$|%[a-z_]+%|%[sdv({]|&[a-z]+;|\#\{|[*\u2022\u25cf]{2,}|x{3,}|\.{2,}|_{3,}|-{3,}|\u2026
    |(?:your|my|the|some|enter|insert|paste|put|any)[-_]|change[-_]?(?:me|this|it)$|(?:example|sample|dummy|fake|placeholder)
    |(?:todo|tbd|redacted|removed|hidden|masked|undefined|n/a)$
    |(?:os|process|env|var|local|data|self|this|config|settings|secrets?|vault|app|args|opts?|options|params?|req|request)
     [.\[(]|ref\+|op://|file:|@[a-z]+\b|!(?:ref|sub|vault|getatt)\b)"""
)
_PLACEHOLDER_IN: Final = re.compile(r"(?i)your[-_]|[-_]here|<[a-z]|\$\{|\{\{|\*\*\*|xxxx|[-_]xxx|\.\.\.|…|example")
_ELSE: Final = re.compile(
    r"(?xi)^(?:"
    r"v?\d{1,4}(?:[.:/-]\d{1,5}){1,5}[a-z]{0,4}\d{0,2}[+]?"  # version, date, time, address, ratio
    r"|[+-]?\d{1,12}(?:[.,]\d{1,6})?(?:-?(?:st|nd|rd|th|am|pm|px|r?em|[kmgt]i?b|bits?|bytes?|ms|s|m|h|d|w|y|x|k|%|chars?|"
    r"characters?|digits?|letters?|days?|hours?|hrs?|min(?:utes?|s)?|secs?|times|words?|years?|months?|weeks?|fold|°c?|€|\$|usd))?"
    r"|(?:sha|md|aes|rsa|ecdsa|hs|rs|es|ps|utf|ucs|base|oauth|iso|ipv|http|h|tls|ssl|pbkdf|bcrypt|argon|blake|hmac|ed|x|gpt|"
    r"claude|llama|gemini|python|py|node|web|win|windows|mp|usb|wi-?fi|k|s|ec|r|b|u|p|q|a|i|e|c|covid|area|top|route|level|type|"
    r"class|chapter|section|step|phase|option|version|ver|line|page|row|column|port|room|ios|iphone|galaxy|pixel|macos)"
    r"[-_]?\d{1,6}[a-z]{0,2}(?:[-_.]\d{1,5}){0,3}s?(?:-[a-z]{1,8})?"
    r"|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,32}){1,4}"  # mail address
    r"|[a-z][a-z0-9+.-]{1,12}://.*"
    r"|(?:\.{0,2}|~|[a-z]:)[/\\].*"
    r"|[\w./~-]{1,128}\.(?:py|js|ts|tsx|go|rs|rb|java|c|h|cpp|cs|php|sh|txt|md|json|ya?ml|toml|ini|cfg|conf|env|pem|key|crt|"
    r"log|csv|xml|html?|css|sql|db|zip|gz|tar|pdf|docx?|xlsx?|png|jpe?g|gif|svg|com|org|net|io|dev|app|de|es|fr|uk|ai)"
    r"(?::\d{1,6})?"
    r"|(?:[a-z_]{1,32}\.){1,5}[a-z_]{1,32}(?:[\[(].*)?"  # attribute access
    r"|\.?[a-z_][a-z_.]{0,63}(?:\(|\[[\"'a-z\d:-]).*"  # call, index
    r"|[a-z][\w-]{1,32}:\d{1,12}|[\w.-]{1,40}/[\w.-]{1,40}\#\d{1,7}"  # an id with its kind, an issue of a project
    r"|[a-z-]{2,20}=[\"'].*"  # an attribute of a tag
    r"|[a-z_]{3,40}=.{0,40}"  # argument by name
    r"|\#[0-9a-f]{3,8}"
    r"|(?:[0-9a-f]{2}:){3,31}[0-9a-f]{2}"
    r"|[a-z]{1,2}\d{1,2}"
    r")$"
)
_PATH: Final = re.compile(r"^(?:[a-z0-9_.-]{1,40}/){2,}[a-z0-9_.-]{0,60}$")
_PUBLIC: Final = re.compile(r"^(?:AAAA[BCE][0-9]|sha\d{3}-|ssh-|ecdsa-|data:|age1|npub1)")
_UUID: Final = re.compile(r"(?i)^\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?$")
_WORDS: Final = re.compile(r"^_{0,2}[A-Za-z]{1,24}(?:[-_/.][A-Za-z]{1,24}){0,8}_{0,2}$")
_HEX: Final = re.compile(r"(?i)^(?:0x)?[0-9a-f]{16,256}$")
_TOKENISH: Final = re.compile(r"^[A-Za-z0-9+/_=.~:-]{16,256}$")
_CAMEL: Final = re.compile(r"^[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20}){0,6}$")
_ORDINARY: Final = frozenset(
    [
        "string",
        "str",
        "text",
        "varchar",
        "bytes",
        "int",
        "integer",
        "number",
        "float",
        "bool",
        "boolean",
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "optional",
        "required",
        "any",
        "object",
        "array",
        "list",
        "dict",
        "type",
        "value",
        "field",
        "input",
        "output",
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pass",
        "pwd",
        "secret",
        "secrets",
        "token",
        "tokens",
        "key",
        "keys",
        "apikey",
        "credential",
        "credentials",
        "login",
        "username",
        "user",
        "users",
        "admin",
        "email",
        "mail",
        "name",
        "hidden",
        "visible",
        "private",
        "public",
        "default",
        "disabled",
        "enabled",
        "unknown",
        "missing",
        "empty",
        "blank",
        "invalid",
        "valid",
        "wrong",
        "incorrect",
        "correct",
        "expired",
        "forgotten",
        "lost",
        "reset",
        "changed",
        "change",
        "set",
        "unset",
        "updated",
        "stored",
        "saved",
        "encrypted",
        "hashed",
        "plaintext",
        "plain",
        "protected",
        "needed",
        "necessary",
        "changed",
        "weak",
        "strong",
        "long",
        "short",
        "good",
        "bad",
        "safe",
        "secure",
        "easy",
        "hard",
        "simple",
        "complex",
        "same",
        "different",
        "new",
        "old",
        "here",
        "there",
        "below",
        "above",
        "again",
        "correct",
        "working",
        "broken",
        "not",
        "never",
        "always",
        "only",
        "also",
        "just",
        "still",
        "already",
        "yet",
        "now",
        "then",
        "and",
        "but",
        "the",
        "this",
        "that",
        "your",
        "my",
        "our",
        "mine",
        "yours",
        "bearer",
        "basic",
        "oauth",
        "jwt",
        "csrf",
        "auto",
        "automatic",
        "manual",
        "prompt",
        "file",
        "env",
        "environment",
        "vault",
        "keychain",
        "kms",
        "ask",
        "asked",
        "tbd",
        "todo",
        "yes",
        "no",
        "ok",
        "okay",
        "please",
        "thanks",
        "see",
        "sent",
        "given",
        "shown",
        "used",
        "using",
        "use",
        "for",
        "from",
        "with",
        "without",
        "must",
        "should",
        "can",
        "will",
        "may",
        "contraseña",
        "clave",
        "senha",
        "passwort",
        "kennwort",
        "wachtwoord",
        "parola",
        "hasło",
        "heslo",
        "пароль",
        "密码",
        "口令",
        "密钥",
    ]
)


def trimmed(word: str) -> str:
    """A word without the punctuation of the sentence around it."""
    word = word.strip("\"'`“”‘’«»„‚‹›*|")
    while word and word[-1] in ".,;:?…)]}>。，；：、）】》\"'`":
        word = word[:-1]
    return word.lstrip("([{<“«\"'`（【《")


def strength(word: str) -> int:
    """How much `word`, already trimmed, looks like a secret."""
    word = word[:_LOOK]
    size = len(word)
    if size < 4 or _PLACEHOLDER.match(word):
        return NOTHING
    if word.isalpha():
        return _alphabetic(word)
    if word.isdigit():
        return WORD
    if _PLACEHOLDER_IN.search(word):
        return NOTHING
    if _UUID.match(word):
        return STRONG
    if _WORDS.match(word):
        return WORD
    digits = sum(map(str.isdigit, word))
    if _HEX.match(word) and 3 <= digits < size:
        return RANDOM if size >= 24 else STRONG
    if _ELSE.match(word) or _PATH.match(word) or _PUBLIC.match(word):
        return NOTHING
    lower, upper = sum(map(str.islower, word)), sum(map(str.isupper, word))
    kinds = (digits > 0) + (lower > 0) + (upper > 0) + (digits + lower + upper < size)
    letters = lower + upper
    if not letters and not digits:
        return NOTHING
    if size >= 16 and digits >= 2 and letters >= 4 and _TOKENISH.match(word):
        if size >= 20 and kinds >= 3 and _scattered(word):
            return RANDOM
        return STRONG if _scattered(word) else FAIR
    if size >= 8 and kinds >= 3 and digits:
        return STRONG
    if size >= 6 and kinds >= 2 and (digits or kinds >= 3):
        return FAIR
    if size >= 5 and kinds >= 2:
        return FAIR if digits and letters else WORD
    return WORD


def is_placeholder(word: str) -> bool:
    """Whether a word stands for a value that somebody else is to put there."""
    return bool(_PLACEHOLDER.match(word) or _PLACEHOLDER_IN.search(word[:_LOOK]))


def is_common(word: str) -> bool:
    """Whether a plain word is one that stands beside `password` in schemas and sentences rather than being one."""
    return word.casefold() in _ORDINARY


def _alphabetic(word: str) -> int:
    """Letters only: a long mixed one is made by a machine, one with capitals inside may be a password, the rest are
    words."""
    if not word.isascii() or is_common(word):
        return NOTHING
    if word.islower() or word.istitle() or word.isupper():
        return RANDOM if len(word) >= 24 and not word.islower() and _consonants(word) else WORD
    if len(word) >= 20 and not _CAMEL.match(word):
        return RANDOM
    return WORD if _CAMEL.match(word) else FAIR


def _consonants(word: str) -> bool:
    vowels = sum(word.lower().count(vowel) for vowel in "aeiouy")
    return vowels * 5 < len(word)


def _scattered(word: str) -> bool:
    """Whether kinds of characters alternate as in random text: words with a number at the end do not."""
    changes, last = 0, ""
    for char in word[:64]:
        kind = "d" if char.isdigit() else "l" if char.islower() else "u" if char.isupper() else "s"
        changes += kind != last
        last = kind
    return changes * 4 >= min(len(word), 64)
