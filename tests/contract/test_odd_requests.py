"""Odd requests: `local` answers them as the server of HONCHO_CONTRACT_URL does, or, without one, decently."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any

import httpx
import pytest

from tests.contract.odd_requests import SETUP, Odd, all_requests
from tests.contract.steps import NO_BODY, Raw
from tests.contract.unify import filled

REQUESTS = list(all_requests())
_answers: dict[str, list[tuple[int, Any]]] = {}


def _ask(client: httpx.Client, odd: Odd, names: dict[str, str]) -> tuple[int, Any]:
    content, headers = b"", {}
    if isinstance(odd.body, Raw):
        content, headers = odd.body.text.encode(), {"content-type": odd.body.content_type}
    elif odd.body is not NO_BODY:
        content, headers = json.dumps(filled(odd.body, names)).encode(), {"content-type": "application/json"}
    reply = client.request(odd.method, filled(odd.path, names), content=content or None, headers=headers)
    return reply.status_code, reply.json() if reply.content else None


def _all(url: str, mark: str) -> list[tuple[int, Any]]:
    if url not in _answers:
        names = {"x": mark}
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=url, timeout=60, trust_env=False, limits=limits) as client:
            for odd in SETUP:
                assert _ask(client, odd, names)[0] == 201
            _answers[url] = [_ask(client, odd, names) for odd in REQUESTS]
    return _answers[url]


def _outline(body: Any) -> Any:
    """What two servers must agree on: faults by kind and place, lists by length and content, objects by their keys."""
    if isinstance(body, dict) and isinstance(body.get("detail"), list):
        return [(fault["type"], fault["loc"]) for fault in body["detail"]]
    if isinstance(body, dict) and "detail" in body:
        return body if "does not" in body["detail"] or "not found" in body["detail"] else "one sentence"
    if isinstance(body, dict) and "items" in body:
        return body["total"], [item.get("content", item["id"]) for item in body["items"]]
    if isinstance(body, dict):
        told = ("metadata", "configuration", "observe_me", "observe_others", "peer_card")
        return {key: value if key in told else "" for key, value in body.items()}
    return len(body) if isinstance(body, list) else body


MARK = secrets.token_hex(3)


@pytest.mark.parametrize("index", range(len(REQUESTS)), ids=[f"{n} {odd.name}" for n, odd in enumerate(REQUESTS)])
def test_an_odd_request_is_answered_as_honcho_answers_it(local_url: str, index: int) -> None:
    odd = REQUESTS[index]
    status, body = _all(local_url, MARK)[index]
    if status >= 400:
        assert set(body) == {"detail"}
        assert isinstance(body["detail"], str) or all(
            {"type", "loc", "msg", "input"} <= set(fault) for fault in body["detail"]
        )
    if status >= 500:
        assert "bad%20id" in odd.path
    url = os.environ.get("HONCHO_CONTRACT_URL")
    if url:
        other_status, other = _all(url, MARK)[index]
        if odd.differs:
            assert (status, _outline(body)) != (other_status, _outline(other)) or status >= 400, "no longer differs"
        else:
            assert (status, _outline(body)) == (other_status, _outline(other))
