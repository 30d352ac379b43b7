"""Memory inside the client of `anthropic`: messages, sync and async, streamed, with tools.

    from anthropic import Anthropic
    from honcho_actors.integrations.anthropic import remember

    client = remember(Anthropic(), memory)
    with talking(session_key="telegram:42", user="7654321"):
        client.messages.create(model="...", max_tokens=500, messages=[...])

The stable block stands behind `system`, what moves behind the user's message it was made for; breakpoints of the prompt
cache stay where you put them. See `stainless` for what is covered, `docs/integrations/anthropic.md` for what is not.
Extra: `anthropic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.stainless import remembering
from honcho_actors.integrations.turns import Turns
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from honcho_actors.runtime import Memory

anthropic = needed("anthropic", extra="anthropic")

C = TypeVar("C")


def remember(client: C, memory: Memory | Turns, request: TurnRequest | None = None) -> C:
    """A copy of the client (`Anthropic`, `AsyncAnthropic` or a subclass) that remembers; connections are shared, the
    one that was given stays as it is. `request`: whose calls these are when nobody is `talking`. Raises TypeError for
    anything that is no such client."""
    turns = memory if isinstance(memory, Turns) else Turns.of(memory)
    if isinstance(client, anthropic.AsyncAnthropic):
        return remembering(client, turns, request, is_async=True)
    if isinstance(client, anthropic.Anthropic):
        return remembering(client, turns, request, is_async=False)
    raise TypeError(f"remember takes a client of anthropic, not a {type(client).__name__}")
