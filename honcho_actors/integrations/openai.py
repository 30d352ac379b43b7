"""Memory inside the client of `openai`: chat completions and responses, sync and async, streamed, with tools.

    from openai import OpenAI
    from honcho_actors.integrations.openai import remember

    client = remember(OpenAI(), memory)
    with talking(session_key="telegram:42", user="7654321"):
        client.chat.completions.create(model="...", messages=[...])

The stable block stands behind the system text (`instructions` of a response), what moves behind the user's message it
was made for. See `stainless` for what is covered, `docs/integrations/openai.md` for what is not. Extra: `openai`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from honcho_actors.integrations.extras import needed
from honcho_actors.integrations.stainless import remembering
from honcho_actors.integrations.turns import Turns
from honcho_actors.model import TurnRequest

if TYPE_CHECKING:
    from honcho_actors.runtime import Memory

openai = needed("openai", extra="openai")

C = TypeVar("C")


def remember(client: C, memory: Memory | Turns, request: TurnRequest | None = None) -> C:
    """A copy of the client (`OpenAI`, `AsyncOpenAI` or a subclass) that remembers; connections are shared, the one that
    was given stays as it is. `request`: whose calls these are when nobody is `talking`. Raises TypeError for anything
    that is no such client."""
    turns = memory if isinstance(memory, Turns) else Turns.of(memory)
    if isinstance(client, openai.AsyncOpenAI):
        return remembering(client, turns, request, is_async=True)
    if isinstance(client, openai.OpenAI):
        return remembering(client, turns, request, is_async=False)
    raise TypeError(f"remember takes a client of openai, not a {type(client).__name__}")
