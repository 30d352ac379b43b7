"""An uploaded text file, taken apart and made into messages of the size that one message may have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email import message_from_bytes, policy
from typing import Any

from honcho_actors.local.errors import Faults, Refused
from honcho_actors.local.messages import MAX_BATCH, MAX_CHARS

MAX_FILE_BYTES = 5 << 20
MAX_FIELDS = 16


def fields_of(raw: bytes, content_type: str) -> dict[str, Any]:
    """The named parts of a form: text, or (content type, bytes) for a file. Anything else is an empty form."""
    if not content_type.lower().startswith("multipart/form-data"):
        return {}
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    parsed = message_from_bytes(head + raw, policy=policy.HTTP)
    found: dict[str, Any] = {}
    for part in list(parsed.iter_parts())[:MAX_FIELDS]:
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            continue
        is_file = part.get_filename() is not None
        found[name] = (part.get_content_type(), content) if is_file else content.decode("utf-8", "replace")
    return found


def messages_of(form: Any) -> list[Mapping[str, Any]]:
    """What the form says, as the batch of an ordinary creation; the shape of each is checked there."""
    given: Mapping[str, Any] = form if isinstance(form, dict) else {}
    faults = Faults()
    for name in ("peer_id", "file"):
        if name not in given:
            faults.add("missing", ("body", name), "Field required", None)
    faults.raise_if_any()
    if not isinstance(given["file"], tuple):
        faults.add("value_error", ("body", "file"), "Value error, Expected UploadFile", given["file"], {"error": {}})
    if not isinstance(given["peer_id"], str):
        faults.add("string_type", ("body", "peer_id"), "Input should be a valid string", None)
    faults.raise_if_any()
    kind, content = given["file"]
    if len(content) > MAX_FILE_BYTES:
        raise Refused(413, f"File size exceeds maximum allowed size of {MAX_FILE_BYTES} bytes")
    if not kind.startswith("text/") and kind != "application/json":
        raise Refused(415, f"Unsupported file type: {kind}; this server takes text")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise Refused(422, "The file is not UTF-8 text") from fault
    pieces = [text[start : start + MAX_CHARS] for start in range(0, len(text), MAX_CHARS)] or [""]
    if len(pieces) > MAX_BATCH:
        raise Refused(413, f"The file makes more than {MAX_BATCH} messages")
    shared = {name: _json(given, name) for name in ("metadata", "configuration")}
    created = {"created_at": given["created_at"]} if given.get("created_at") else {}
    return [{"peer_id": given["peer_id"], "content": piece, **shared, **created} for piece in pieces]


def _json(given: Mapping[str, Any], name: str) -> Any:
    text = given.get(name)
    if not isinstance(text, str) or not text:
        return None
    try:
        return json.loads(text)
    except ValueError as fault:
        raise Refused(422, f"The field {name} is not JSON") from fault
