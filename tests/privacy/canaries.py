"""Credentials of many kinds, made at run time from a counter: each can be told from all others in a dump of bytes."""

from __future__ import annotations

from benchmarks._egress_corpus import ALNUM, B64URL, HEX, TOKENS, UPPER, Dice


class Canaries:
    """Gives credentials that were never issued; `core` parts (12 characters) are what a dump is searched for."""

    def __init__(self, seed: int = 4711) -> None:
        self.dice = Dice(seed)
        self.given: list[str] = []

    def give(self, kind: str = "") -> str:
        """A fresh credential, self-evident by its shape."""
        makers = {**TOKENS["seen"], **TOKENS["blind"]}
        names = sorted(name for name in makers if "pem" not in name and "openssh" not in name)
        name = kind or names[len(self.given) % len(names)]
        secret = makers[name](self.dice)
        self.given.append(secret)
        return secret

    def cores(self) -> list[str]:
        """The middle of every credential given: found in a dump even when its ends were cut or escaped."""
        return [secret[len(secret) // 2 - 6 : len(secret) // 2 + 6] for secret in self.given]

    def found_in(self, dump: bytes | str) -> list[str]:
        """The cores that a dump holds."""
        text = dump.decode("utf-8", "replace") if isinstance(dump, bytes) else dump
        return [core for core in self.cores() if core in text]


def alnum(count: int, seed: int = 1) -> str:
    return Dice(seed).of(ALNUM, count)


def hexdigits(count: int, seed: int = 1) -> str:
    return Dice(seed).of(HEX, count)


def capitals(count: int, seed: int = 1) -> str:
    return Dice(seed).of(UPPER + "234567", count)


def url_safe(count: int, seed: int = 1) -> str:
    return Dice(seed).of(B64URL, count)
