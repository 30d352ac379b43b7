"""A scenario is a list of steps: each names the recorded exchange that it restates, its request, and what is
promised.

Templates hold `{x}`, the mark that makes a run's names its own, and `{names}` that are bound by the first answer that
carries them. `replay` reads the answers from a recording, after checking that the recorded request is the step's;
`live` sends the requests.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from tests.contract.unify import ANY, Mismatch, filled, unify

NO_BODY = object()
NEWEST, V3_0_12, V3_0_7, LOCAL, URL = "head", "v3.0.12", "v3.0.7", "local", "url"
RECORDED = (NEWEST, V3_0_12, V3_0_7)
GUARDED_URL = (URL,) if os.environ.get("HONCHO_CONTRACT_AUTH_URL") else ()
"""With the token of HONCHO_CONTRACT_TOKEN (an administrator's), the `auth` run is asked of that server."""
Check = Callable[[Any, dict[str, str]], None]


@dataclass(frozen=True)
class Raw:
    """A body that is sent as it is."""

    text: str
    content_type: str = "application/json"

    def recorded(self) -> dict[str, str]:
        """How a recording shows it: a body that was not text is shown as Python shows bytes."""
        return {"<raw>": repr(self.text.encode()) if self.content_type.startswith("multipart/") else self.text}


@dataclass(frozen=True)
class Step:
    exchange: str | None
    method: str
    path: str
    body: Any = NO_BODY
    status: int | dict[str, int] = 200
    expect: Any = None
    check: Check | None = None
    headers: dict[str, str] = field(default_factory=dict)
    only: Sequence[str] = ()
    """Servers that the step is for; empty for all. Elsewhere its test skips with `why`."""
    why: str = ""
    until: Callable[[Any], bool] | None = None
    """Live: asked again until this holds, for at most 60 s."""
    keep: dict[str, str] = field(default_factory=dict)
    """Live: names for later steps, from these fields of the answer."""
    differs: dict[str, Any] = field(default_factory=dict)
    """What a server promises in place of `expect`."""

    def statuses(self, target: str) -> set[int]:
        if isinstance(self.status, int):
            return {self.status}
        if target in self.status:
            return {self.status[target]}
        if target == URL:
            return {code for name, code in self.status.items() if name != LOCAL}
        return {self.status[NEWEST]}

    def is_for(self, target: str) -> bool:
        return not self.only or target in self.only


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    names: dict[str, str]


class Absent(Exception):
    """The recording of this version has no such exchange."""


class Target(Protocol):
    @property
    def name(self) -> str: ...

    def play(self, run: str, steps: Sequence[Step]) -> dict[str, Answer | Exception]:
        """Every named step's answer, or why there is none."""


@dataclass(frozen=True)
class Replay:
    name: str
    exchanges: Sequence[dict[str, Any]]

    def play(self, run: str, steps: Sequence[Step]) -> dict[str, Answer | Exception]:
        recorded = {item["name"]: item for item in self.exchanges if item["run"].split("-", 1)[1] == run}
        names: dict[str, str] = {}
        answers: dict[str, Answer | Exception] = {}
        for step in steps:
            if step.exchange is None:
                continue
            found = recorded.get(step.exchange)
            if found is None:
                answers[step.exchange] = Absent(f"not among the exchanges recorded on {self.name}")
                continue
            try:
                self._same_request(step, found, names)
                answer = Answer(found["status"], found["response"], names)
                _bind(step, self.name, answer)
                answers[step.exchange] = answer
            except Mismatch as fault:
                answers[step.exchange] = fault
        return answers

    def _same_request(self, step: Step, found: dict[str, Any], names: dict[str, str]) -> None:
        unify(step.method, found["method"], names, "method")
        unify(step.path, found["path"], names, "path")
        body = step.body
        if isinstance(body, Raw):
            unify(body.recorded(), found["request"], names, "request")
        elif body is NO_BODY:
            unify(None, found["request"], names, "request")
        else:
            unify(body, found["request"], names, "request", subset=False)


@dataclass(frozen=True)
class Live:
    """A server that answers; the `auth` run has one of its own, which demands `token`."""

    name: str
    url: str
    guarded: str = ""
    token: str = ""

    def play(self, run: str, steps: Sequence[Step]) -> dict[str, Answer | Exception]:
        names = {"x": secrets.token_hex(3), "token": self.token, "forged": _forged()}
        answers: dict[str, Answer | Exception] = {}
        url = self.guarded if run == "auth" and self.guarded else self.url
        # After a bare 500 Honcho closes the connection without saying so: each step takes a new one.
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=url, timeout=60, trust_env=False, limits=limits) as client:
            for step in steps:
                if not step.is_for(self.name):
                    continue
                try:
                    answer = self._send(client, step, names)
                    _bind(step, self.name, answer)
                    names.update({name: str(answer.body[part]) for name, part in step.keep.items()})
                except (Mismatch, KeyError, httpx.HTTPError) as fault:
                    if step.exchange is None:
                        raise
                    answers[step.exchange] = fault
                    continue
                if step.exchange is None:
                    assert answer.status < 400, (step, answer)
                else:
                    answers[step.exchange] = answer
        return answers

    def _send(self, client: httpx.Client, step: Step, names: dict[str, str]) -> Answer:
        headers: dict[str, str] = filled(step.headers, names)
        content: bytes | None = None
        if isinstance(step.body, Raw):
            content = step.body.text.encode()
            headers["content-type"] = step.body.content_type
        elif step.body is not NO_BODY:
            content = json.dumps(filled(step.body, names)).encode()
            headers["content-type"] = "application/json"
        deadline = time.monotonic() + 60
        while True:
            reply = client.request(step.method, filled(step.path, names), content=content, headers=headers)
            body = _decoded(reply)
            if step.until is None or step.until(body) or time.monotonic() > deadline:
                return Answer(reply.status_code, body, names)
            time.sleep(0.02)


def _forged() -> str:
    """A token of the right form, signed with a secret of nobody's."""

    def part(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    signed = f"{part(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{part(json.dumps({'ad': True}).encode())}"
    return f"{signed}.{part(hmac.digest(secrets.token_bytes(32), signed.encode(), 'sha256'))}"


def _decoded(reply: httpx.Response) -> Any:
    if not reply.content:
        return None
    try:
        return reply.json()
    except ValueError:
        return reply.text


def _bind(step: Step, target: str, answer: Answer) -> None:
    """Takes new names from the answer, so that later steps can use them; what does not match is the test's to say."""
    expected = step.differs.get(target, step.expect)
    if expected is not None and answer.status in step.statuses(target) and answer.status < 400:
        try:
            unify(expected, answer.body, answer.names)
        except Mismatch:
            return


def judge(step: Step, target: str, answer: Answer) -> None:
    """The assertions of one step."""
    assert answer.status in step.statuses(target), (answer.status, answer.body)
    expected = step.differs.get(target, step.expect)
    first = step.statuses(NEWEST) if isinstance(step.status, dict) else step.statuses(target)
    if answer.status in first:
        if expected is not None:
            unify(expected, answer.body, dict(answer.names))
        if step.check is not None:
            step.check(answer.body, dict(answer.names))
    elif answer.status >= 400:
        assert set(answer.body) == {"detail"}, answer.body


# --- words for scenarios ------------------------------------------------------------------------------------------


def fill(unit: str, length: int) -> str:
    """A text of exactly `length` characters made of `unit`."""
    return (unit * (length // len(unit) + 1))[:length]


def keys(count: int) -> dict[str, int]:
    return {f"k{index}": index for index in range(count)}


def series(first: Any, count: int) -> list[Any]:
    """`count` items like the first, whose texts that end in 0 count on."""

    def like(value: Any, index: int) -> Any:
        if isinstance(value, str):
            return value[:-1] + str(index) if value.endswith("0") else value
        return {key: like(inner, index) for key, inner in value.items()} if isinstance(value, dict) else value

    return [like(first, index) for index in range(count)]


def fault(kind: str, *loc: str | int) -> dict[str, Any]:
    """A refusal for the shape of a request."""
    return {"detail": [{"type": kind, "loc": list(loc), "msg": ANY}]}


def refused(detail: str) -> dict[str, Any]:
    """A refusal in one sentence."""
    return {"detail": detail}


def page(items: Any, total: int | None = None, page: int = 1, size: int = 50, pages: int | None = None) -> Any:
    count = len(items) if total is None else total
    return {
        "items": items,
        "total": count,
        "page": page,
        "size": size,
        "pages": -(-count // size) if pages is None else pages,
    }
