"""The remote name of a conversation, found out without a look at the file system on any event loop.

With strategy `repo` the name hangs on where the repository's root is, and a directory can stand on a disk that does not
answer. The look is made on a thread of its own; every other strategy knows the name already and costs nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from honcho_actors.host.crew import Crew
from honcho_actors.privacy.identity import Identity, locate

MOST_LOOKS: Final = 8
"""At a time; a disk that hangs costs as many threads and no more."""


class Locating:
    """One for each runtime. `await`ed on any event loop."""

    def __init__(self) -> None:
        self._crew = Crew("honcho-locate", MOST_LOOKS)

    async def __call__(self, identity: Identity, deadline: float) -> str:
        """The remote name; TimeoutError at `deadline` (the running loop's time), or at once when the disk already holds
        up as many looks as there may be."""
        if identity.remote_session:
            return identity.remote_session
        looking = self._crew.submit(lambda: locate(identity).remote_session)
        if looking is None:
            raise TimeoutError("the file system does not answer")
        async with asyncio.timeout_at(deadline):
            good, value = await looking
        if not good:
            raise OSError("the file system could not be looked at") from value
        name: str = value
        return name
