"""An uploaded text becomes messages of the size that one may have; anything else is refused by its reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.conftest import Space

TEXT = ("notes.txt", b"alpha beta", "text/plain")


def send(space: Space, file: Any = TEXT, **fields: str) -> tuple[int, Any]:
    files = {"file": file} if file is not None else {"other": TEXT}
    reply = space.client.post(f"{space.base}/sessions/s/messages/upload", files=files, data=fields)
    return reply.status_code, reply.json()


def test_a_text_becomes_a_message_with_its_metadata_and_time(space: Space) -> None:
    status, made = send(space, peer_id="alice", metadata='{"from": "disk"}', created_at="2026-01-02T03:04:05Z")
    assert status == 201
    assert [(item["content"], item["metadata"], item["created_at"]) for item in made] == [
        ("alpha beta", {"from": "disk"}, "2026-01-02T03:04:05Z")
    ]


def test_a_long_text_becomes_several_messages_in_order_and_loses_nothing(space: Space) -> None:
    text = "".join(f"{number:07d} " for number in range(9_000))
    status, made = send(space, ("long.txt", text.encode(), "text/plain"), peer_id="alice")
    assert status == 201
    assert [len(item["content"]) for item in made] == [25_000, 25_000, 22_000]
    assert "".join(item["content"] for item in made) == text


@pytest.mark.parametrize(
    ("file", "fields", "status"),
    [
        (TEXT, {}, 422),
        (None, {"peer_id": "alice"}, 422),
        (TEXT, {"peer_id": "bad id"}, 422),
        (TEXT, {"peer_id": "alice", "metadata": "no json"}, 422),
        (TEXT, {"peer_id": "alice", "metadata": "[1]"}, 422),
        (TEXT, {"peer_id": "alice", "created_at": "yesterday"}, 422),
        (("a.bin", b"\xff\xfe\x00", "text/plain"), {"peer_id": "alice"}, 422),
        (("a.pdf", b"%PDF-1.7", "application/pdf"), {"peer_id": "alice"}, 415),
        (("a.txt", b"x" * (5 * 1024 * 1024 + 1), "text/plain"), {"peer_id": "alice"}, 413),
    ],
)
def test_what_cannot_be_taken_is_refused_and_stores_nothing(
    space: Space, file: Any, fields: dict[str, str], status: int
) -> None:
    answered, body = send(space, file, **fields)
    assert (answered, set(body)) == (status, {"detail"})
    assert space.post("/sessions/s/messages/list", {})["total"] == 0


def test_a_body_that_is_no_form_is_refused_by_its_missing_fields(space: Space) -> None:
    path = f"{space.base}/sessions/s/messages/upload"
    for kind in ("multipart/form-data", "multipart/form-data; boundary=X", "application/json"):
        reply = space.client.post(path, content=b"{}", headers={"content-type": kind})
        assert reply.status_code == 422
        assert [fault["loc"] for fault in reply.json()["detail"]] == [["body", "peer_id"], ["body", "file"]]
