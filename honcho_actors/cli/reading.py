"""Reading a Honcho server back, independently of the runtime: what it really holds, in its own order.

Used by the demo to count. It talks plain HTTP to the public API with a total deadline, and shares no code with the
client whose work it checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx

from honcho_actors.cli.transcript import Conversation
from honcho_actors.model import TurnRequest
from honcho_actors.privacy import identity
from honcho_actors.settings import Settings

PAGE_SIZE: Final = 100
MOST_PAGES: Final = 1000


class Unreadable(RuntimeError):
    """The server gave no usable answer; the text is one clause."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the server holds of one conversation, against what was said in it."""

    session: str
    said: int
    held: int
    missing: int
    doubled: int
    in_order: bool

    @property
    def is_exact(self) -> bool:
        return self.said == self.held and not self.missing and not self.doubled and self.in_order


class ServerReader:
    """Reads one workspace of one server."""

    def __init__(self, url: str, settings: Settings) -> None:
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=20.0, trust_env=False)
        self._settings = settings

    def close(self) -> None:
        self._client.close()

    def is_honcho(self) -> bool:
        """Whether something that speaks the API answers at all."""
        try:
            reply = self._client.post("/v3/workspaces", json={"id": self._settings.workspace}, timeout=5.0)
            return reply.status_code in (200, 201) and reply.json().get("id") == self._settings.workspace
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
            return False

    def messages(self, conversation: Conversation) -> list[tuple[str, str]]:
        """(role, content) of every message of this conversation, in the server's order."""
        found = identity.resolve(TurnRequest(session_key=conversation.key, user=conversation.user), self._settings)
        if isinstance(found, identity.NoIdentity):
            raise Unreadable("this conversation has no name on the server")
        path = f"/v3/workspaces/{self._settings.workspace}/sessions/{found.remote_session}/messages/list"
        held: list[tuple[str, str]] = []
        for page in range(1, MOST_PAGES + 1):
            content = self._post(path, page)
            for item in content["items"]:
                role = "user" if item["peer_id"] == found.user_peer else "assistant"
                held.append((role, item["content"]))
            if page >= int(content.get("pages") or 1):
                break
        return held

    def count(self, conversation: Conversation, said: list[tuple[str, str]]) -> Counted:
        """Compares what was handed over so far with what the server holds."""
        held = self.messages(conversation)
        wanted = [(role, text.strip()) for role, text in said]
        left = list(held)
        missing = 0
        for one in wanted:
            if one in left:
                left.remove(one)
            else:
                missing += 1
        return Counted(conversation.key, len(wanted), len(held), missing, len(left), held == wanted)

    def _post(self, path: str, page: int) -> dict[str, Any]:
        try:
            reply = self._client.post(path, params={"page": page, "size": PAGE_SIZE}, json={})
            if reply.status_code == 404:
                return {"items": [], "pages": 1}
            reply.raise_for_status()
            content = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unreadable(f"the server could not be read ({type(error).__name__})") from None
        if not isinstance(content, dict) or not isinstance(content.get("items"), list):
            raise Unreadable("the server's answer is not a page")
        return content
