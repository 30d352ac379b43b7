"""What the fault proxy does to which request: a plan of rules, and the dice that are thrown for it. Pure, no I/O.

A plan is JSON: `{"seed": 7, "rules": [{"fault": "cut", "on": ["session_context"], "chance": 0.2, "times": 3}, ...]}`.
Rules are tried in order; the first that fires decides, except that `latency` adds up and goes on. Dice depend on the
seed, the operation and how many of that operation came before, so that the same plan meets the same traffic alike
whatever else runs beside it.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class PlanError(ValueError):
    """The plan can't be used; the text says where and why."""


class Fault(StrEnum):
    """What can be done to a request. Closed."""

    LATENCY = "latency"
    """Forwarded `delay` seconds later (random up to `delay_max`)."""
    REFUSE = "refuse"
    """Reset before anything is forwarded."""
    HANG = "hang"
    """Read, never forwarded, never answered, until the client goes."""
    DRIP = "drip"
    """Forwarded; the reply comes one byte every `interval` seconds."""
    CUT = "cut"
    """Forwarded; the reply ends after the share `keep` of its bytes."""
    CUT_REQUEST = "cut_request"
    """Only the share `keep` of the body reaches the server; then both sides are dropped."""
    GARBAGE = "garbage"
    """Not forwarded; answered with something that is no Honcho: `body`, else a login page."""
    NOISE = "noise"
    """Not forwarded; answered with bytes that are no HTTP."""
    STATUS = "status"
    """Not forwarded; answered with `status`, `headers`, `body`."""
    COMMIT_THEN_DROP = "commit_then_drop"
    """Forwarded and done by the server; the client gets a reset instead of the reply."""
    COMMIT_THEN_STATUS = "commit_then_status"
    """Forwarded and done by the server; the client gets `status`."""
    LATE_REPLY = "late_reply"
    """Forwarded at once; the reply is held for `delay` seconds."""
    LATE_COMMIT = "late_commit"
    """Held for `delay` seconds and then forwarded, whether or not the client is still there."""


OPERATIONS: tuple[tuple[str, str, str], ...] = (
    ("health", "GET", r"/health"),
    ("ensure_workspace", "POST", r"/v3/workspaces"),
    ("workspace_search", "POST", r"/v3/workspaces/[^/]+/search"),
    ("queue_status", "GET", r"/v3/workspaces/[^/]+/queue/status"),
    ("ensure_peer", "POST", r"/v3/workspaces/[^/]+/peers"),
    ("list_peers", "POST", r"/v3/workspaces/[^/]+/peers/list"),
    ("peer_context", "GET", r"/v3/workspaces/[^/]+/peers/[^/]+/context"),
    ("chat", "POST", r"/v3/workspaces/[^/]+/peers/[^/]+/chat"),
    ("peer_search", "POST", r"/v3/workspaces/[^/]+/peers/[^/]+/search"),
    ("get_card", "GET", r"/v3/workspaces/[^/]+/peers/[^/]+/card"),
    ("put_card", "PUT", r"/v3/workspaces/[^/]+/peers/[^/]+/card"),
    ("ensure_session", "POST", r"/v3/workspaces/[^/]+/sessions(?:/[^/]+/peers)?"),
    ("list_sessions", "POST", r"/v3/workspaces/[^/]+/sessions/list"),
    ("session_context", "GET", r"/v3/workspaces/[^/]+/sessions/[^/]+/context"),
    ("summaries", "GET", r"/v3/workspaces/[^/]+/sessions/[^/]+/summaries"),
    ("session_search", "POST", r"/v3/workspaces/[^/]+/sessions/[^/]+/search"),
    ("get_member", "GET", r"/v3/workspaces/[^/]+/sessions/[^/]+/peers/[^/]+/config"),
    ("set_member", "PUT", r"/v3/workspaces/[^/]+/sessions/[^/]+/peers/[^/]+/config"),
    ("add_messages", "POST", r"/v3/workspaces/[^/]+/sessions/[^/]+/messages"),
    ("list_messages", "POST", r"/v3/workspaces/[^/]+/sessions/[^/]+/messages/list"),
    ("create_conclusions", "POST", r"/v3/workspaces/[^/]+/conclusions"),
    ("list_conclusions", "POST", r"/v3/workspaces/[^/]+/conclusions/list"),
    ("query_conclusions", "POST", r"/v3/workspaces/[^/]+/conclusions/query"),
    ("delete_conclusion", "DELETE", r"/v3/workspaces/[^/]+/conclusions/[^/]+"),
)
"""Name, method and path of what is told apart; everything else is `other`."""

_PATTERNS = tuple((name, method, re.compile(path)) for name, method, path in OPERATIONS)
_NAMES = frozenset({name for name, _, _ in OPERATIONS} | {"other", "*"})


def operation_of(method: str, target: str) -> str:
    """The operation that a request line asks for."""
    path = target.split("?", 1)[0].rstrip("/")
    for name, wanted, pattern in _PATTERNS:
        if method == wanted and pattern.fullmatch(path):
            return name
    return "other"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a plan. Durations in seconds; `keep` is a share from 0 to 1; `times=None` has no limit."""

    fault: Fault
    on: frozenset[str] = frozenset({"*"})
    chance: float = 1.0
    times: int | None = None
    skip: int = 0
    delay: float = 0.5
    delay_max: float = 0.0
    interval: float = 0.05
    keep: float = 0.5
    status: int = 503
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that fired, with the delay that the dice gave it."""

    rule: Rule
    delay: float


@dataclass(slots=True)
class Plan:
    """Rules with the count of what they did. One event loop uses it."""

    seed: int = 0
    rules: tuple[Rule, ...] = ()
    requests: Counter[str] = field(default_factory=Counter)
    fired: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rule_seen: Counter[int] = field(default_factory=Counter)
    _rule_fired: Counter[int] = field(default_factory=Counter)

    def throw(self, operation: str) -> tuple[Hit, ...]:
        """What happens to the next request of this operation: latencies first, then at most one other fault."""
        self.requests[operation] += 1
        dice = random.Random(f"{self.seed}/{operation}/{self.requests[operation]}")
        hits: list[Hit] = []
        for number, rule in enumerate(self.rules):
            if operation not in rule.on and "*" not in rule.on:
                continue
            roll, share = dice.random(), dice.random()
            self._rule_seen[number] += 1
            if self._rule_seen[number] <= rule.skip or roll >= rule.chance:
                continue
            if rule.times is not None and self._rule_fired[number] >= rule.times:
                continue
            self._rule_fired[number] += 1
            self.fired[operation, rule.fault.value] += 1
            hits.append(Hit(rule, rule.delay + share * max(0.0, rule.delay_max - rule.delay)))
            if rule.fault is not Fault.LATENCY:
                break
        return tuple(hits)

    def report(self) -> dict[str, Any]:
        """How often each operation came, and how often each fault fired on it."""
        fired: dict[str, dict[str, int]] = {}
        for (operation, fault), count in sorted(self.fired.items()):
            fired.setdefault(operation, {})[fault] = count
        return {"requests": dict(sorted(self.requests.items())), "fired": fired}


def parse_plan(text: str | bytes) -> Plan:
    """A plan from JSON. Raises `PlanError` with one sentence."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise PlanError("the plan is not JSON") from None
    if isinstance(value, list):
        value = {"rules": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("rules", []), list):
        raise PlanError('the plan is not an object with a list of "rules"')
    unknown = set(value) - {"seed", "rules"}
    if unknown:
        raise PlanError(f"the plan has an unknown key {sorted(unknown)[0]!r}")
    seed = value.get("seed", 0)
    if not isinstance(seed, int):
        raise PlanError("the seed is not a whole number")
    return Plan(seed, tuple(_rule(number, rule) for number, rule in enumerate(value.get("rules", []), 1)))


def _rule(number: int, value: object) -> Rule:
    if not isinstance(value, Mapping):
        raise PlanError(f"rule {number} is not an object")
    unknown = set(value) - {*Rule.__slots__}
    if unknown:
        raise PlanError(f"rule {number} has an unknown key {sorted(map(str, unknown))[0]!r}")
    try:
        fault = Fault(str(value.get("fault")))
    except ValueError:
        raise PlanError(f"rule {number}: the fault must be one of {', '.join(Fault)}") from None
    on = value.get("on", ["*"])
    names = frozenset([on] if isinstance(on, str) else on if isinstance(on, list) else [])
    if not names or not names <= _NAMES:
        raise PlanError(f"rule {number}: `on` must name operations: {', '.join(sorted(_NAMES))}")
    headers = value.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for text in headers.values()):
        raise PlanError(f"rule {number}: `headers` must map names to text")
    body = value.get("body")
    if body is not None and not isinstance(body, str):
        body = json.dumps(body)
    return Rule(
        fault,
        names,
        chance=_number(number, value, "chance", 1.0, 1.0),
        times=None if value.get("times") is None else int(_number(number, value, "times", 0, 1e9)),
        skip=int(_number(number, value, "skip", 0, 1e9)),
        delay=_number(number, value, "delay", 0.5, 3600.0),
        delay_max=_number(number, value, "delay_max", 0.0, 3600.0),
        interval=_number(number, value, "interval", 0.05, 3600.0),
        keep=_number(number, value, "keep", 0.5, 1.0),
        status=int(_number(number, value, "status", 503, 599)),
        headers=tuple(headers.items()),
        body=body,
    )


def _number(number: int, value: Mapping[str, Any], key: str, default: float, most: float) -> float:
    found = value.get(key, default)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= most:
        raise PlanError(f"rule {number}: `{key}` must be a number from 0 to {most:g}")
    return found


def storm(seed: int, share: float) -> Plan:
    """A schedule of everything that can go wrong, hitting about the given share of all requests."""
    share = min(max(share, 0.0), 1.0)
    mix = (
        Rule(Fault.REFUSE),
        Rule(Fault.CUT_REQUEST),
        Rule(Fault.COMMIT_THEN_DROP),
        Rule(Fault.LATE_COMMIT, delay=0.1, delay_max=1.5),
        Rule(Fault.LATE_REPLY, delay=0.1, delay_max=1.5),
        Rule(Fault.COMMIT_THEN_STATUS, status=500, body='{"detail": "An unexpected error occurred"}'),
        Rule(Fault.STATUS, status=503, headers=(("retry-after", "1"),), body='{"detail": "busy"}'),
        Rule(Fault.CUT),
        Rule(Fault.GARBAGE),
        Rule(Fault.HANG),
        Rule(Fault.DRIP, interval=0.02),
    )
    rules = []
    left = 1.0
    for rule in mix:  # each is met only where those before it did not fire: the same share of the whole for each
        want = share / len(mix)
        rules.append(_with_chance(rule, min(1.0, want / left)))
        left -= want
    return Plan(seed, tuple(rules))


def _with_chance(rule: Rule, chance: float) -> Rule:
    return Rule(
        rule.fault, rule.on, chance, rule.times, rule.skip, rule.delay, rule.delay_max, rule.interval, rule.keep,
        rule.status, rule.headers, rule.body,
    )  # fmt: skip
