"""Whether a command may ask the configured server itself, beside the runtime's client, and by the same rule: over plain
http the key and what was said go to private addresses alone."""

from __future__ import annotations

import socket

from honcho_actors.honcho.endpoint import BadEndpoint, all_private, parse_endpoint
from honcho_actors.settings import Settings


def why_not(settings: Settings) -> str:
    """One clause, or "" when it may be asked. Looks the name up when plain http is wanted; sends nothing."""
    endpoint = parse_endpoint(settings.server_url, settings.api_key, allow_public_http=settings.allow_public_http)
    if isinstance(endpoint, BadEndpoint):
        return endpoint.problem
    if not endpoint.demands_private:
        return ""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError:
        return "its name has no address"
    return "" if all_private(str(one[4][0]) for one in found) else "https is demanded off private networks"
