"""What the client can ask, and for each operation what a lost reply means. Names are those of the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from honcho_actors.honcho.breaker import Area


@dataclass(frozen=True, slots=True)
class Operation:
    """`idempotent`: asking twice is asking once. `stores`: a lost reply after the last byte is an unknown outcome.

    `knows_peers`: a 404 that names a peer which is not in the workspace is an answer, *nothing known*.
    """

    name: str
    method: str
    area: Area
    idempotent: bool = True
    stores: bool = False
    knows_peers: bool = False


ENSURE_WORKSPACE = Operation("ensure_workspace", "POST", Area.WRITE)
ENSURE_PEER = Operation("ensure_peer", "POST", Area.WRITE)
ENSURE_SESSION = Operation("ensure_session", "POST", Area.WRITE)
SET_MEMBER = Operation("set_member", "PUT", Area.WRITE)
GET_MEMBER = Operation("get_member", "GET", Area.READ)
ADD_MESSAGES = Operation("add_messages", "POST", Area.WRITE, idempotent=False, stores=True)
LIST_MESSAGES = Operation("list_messages", "POST", Area.READ)
SESSION_CONTEXT = Operation("session_context", "GET", Area.READ, knows_peers=True)
PEER_CONTEXT = Operation("peer_context", "GET", Area.READ, knows_peers=True)
SUMMARIES = Operation("summaries", "GET", Area.READ)
CHAT = Operation("chat", "POST", Area.CHAT, idempotent=False, knows_peers=True)
"""Not idempotent: each one is billed."""
SESSION_SEARCH = Operation("session_search", "POST", Area.SEARCH)
PEER_SEARCH = Operation("peer_search", "POST", Area.SEARCH)
WORKSPACE_SEARCH = Operation("workspace_search", "POST", Area.SEARCH)
GET_CARD = Operation("get_card", "GET", Area.READ, knows_peers=True)
PUT_CARD = Operation("put_card", "PUT", Area.WRITE)
CREATE_CONCLUSIONS = Operation("create_conclusions", "POST", Area.SEARCH, idempotent=False, stores=True)
LIST_CONCLUSIONS = Operation("list_conclusions", "POST", Area.READ)
QUERY_CONCLUSIONS = Operation("query_conclusions", "POST", Area.SEARCH)
DELETE_CONCLUSION = Operation("delete_conclusion", "DELETE", Area.WRITE)
LIST_SESSIONS = Operation("list_sessions", "POST", Area.READ)
LIST_PEERS = Operation("list_peers", "POST", Area.READ)
QUEUE_STATUS = Operation("queue_status", "GET", Area.READ)
HEALTH = Operation("health", "GET", Area.HEALTH)
