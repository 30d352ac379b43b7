"""A proxy before a model: programs that can be given an address, and nothing else, get memory, too.

    honcho-actors proxy --upstream https://api.openai.com     # then OPENAI_BASE_URL=http://127.0.0.1:8486/v1

Chat completions, responses and messages of requests that say who is talking carry memory and are captured; everything
else passes through as it is. `app` is the way of a request, `upstream` the connections to the model, `naming` who is
talking, `serving` runs it all. Bodies and keys are never logged. Extra: `proxy`.
"""

from __future__ import annotations

from honcho_actors.integrations.proxy.app import Proxy
from honcho_actors.integrations.proxy.naming import Naming
from honcho_actors.integrations.proxy.upstream import BadUpstream, Upstream

__all__ = ["BadUpstream", "Naming", "Proxy", "Upstream"]
