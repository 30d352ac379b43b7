"""Establishing a conversation on the server, before its first message and never beside it.

The observation flags of a member count from the moment at which it joins: a message that comes first makes members that
observe nothing, and the flags that follow are ignored with a 200. So the session is made with its members, answered,
recorded, and only then posted to. A session that was there already may have members without flags: each is set by its
own call, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from honcho_actors.honcho.outcomes import Call, Failure, Outcome
from honcho_actors.honcho.reading import Observation

if TYPE_CHECKING:
    from honcho_actors.honcho.client import HonchoClient
    from honcho_actors.settings import Settings

OBSERVERS = 10
"""Members of one session that may observe others: the server's limit. People beyond it are observed, and observe
nobody.
"""

Flags = tuple[bool, bool]


def flags_of(is_person: bool, settings: Settings, observers: int) -> Flags:
    """(observe_me, observe_others) of a new member, by the preset `observation_mode`."""
    if settings.observation_mode == "unified":
        return (True, False) if is_person else (False, True)
    return (True, observers < OBSERVERS or not is_person)


def preset(strangers: Mapping[str, bool], known: Mapping[str, Flags], settings: Settings) -> dict[str, Flags]:
    """The flags of the peers that are to join, beside those that are known. The assistant first: it must be able to
    observe.
    """
    observers = sum(1 for flags in known.values() if flags[1])
    found: dict[str, Flags] = {}
    for peer, is_person in sorted(strangers.items(), key=lambda entry: (entry[1], entry[0])):
        found[peer] = flags_of(is_person, settings, observers)
        observers += found[peer][1]
    return found


def configuration(settings: Settings) -> dict[str, Any]:
    """The session's own configuration."""
    return {"summary": {"enabled": settings.session_summary}, "dream": {"enabled": settings.session_dream}}


async def establish(
    client: HonchoClient, workspace: str, session: str, members: Mapping[str, Flags], settings: Settings, call: Call
) -> Failure | None:
    """Makes the session with these members, or mends the one that is there. None: it is established."""
    observations = {peer: Observation(observe_me=me, observe_others=others) for peer, (me, others) in members.items()}
    made: Outcome[Any] = await client.ensure_session(
        workspace, session, observations, call, configuration=configuration(settings)
    )
    if isinstance(made, Failure):
        return made
    if made.status != 201:
        for peer, observation in observations.items():
            mended = await client.set_member(workspace, session, peer, observation, call)
            if isinstance(mended, Failure):
                return mended
    return None
