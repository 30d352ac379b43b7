"""Asking the server what it has of a group: the only cure for an unknown outcome.

By metadata (our own hexadecimal delivery id, nothing from outside) together with a *range* of the messages' own times:
on the metadata alone the server scans the whole session, and equality of times is an error on released servers. What
comes back is checked again, item by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from honcho_actors.capture.clocks import from_us
from honcho_actors.honcho.outcomes import Call, Failure

if TYPE_CHECKING:
    from honcho_actors.capture.delivering import Row
    from honcho_actors.honcho.client import HonchoClient

_PAGES = 10
_SIZE = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """One message of a group on the server."""

    id: str
    batch_id: str
    position: int


async def look(
    client: HonchoClient, workspace: str, session: str, delivery: bytes, first: int, last: int, call: Call
) -> list[Seen] | Failure:
    """Every copy of every message of this group that the server has, in its order."""
    wanted = delivery.hex()
    filters: dict[str, Any] = {
        "metadata": {"delivery_id": wanted},
        "created_at": {"gte": from_us(first).isoformat(), "lte": from_us(last).isoformat()},
    }
    seen: list[Seen] = []
    for page in range(1, _PAGES + 1):
        outcome = await client.list_messages(workspace, session, filters=filters, page=page, size=_SIZE, call=call)
        if isinstance(outcome, Failure):
            if outcome.absent:  # the conversation was deleted; any other 404 is no look at all
                return seen
            return outcome
        for message in outcome.value.items:
            metadata = message.metadata
            position = metadata.get("position")
            if metadata.get("delivery_id") == wanted and isinstance(position, int):
                seen.append(Seen(message.id, str(metadata.get("batch_id")), position))
        if page >= outcome.value.pages:
            break
    return seen


def places(rows: Sequence[Row], seen: Sequence[Seen]) -> tuple[list[int], dict[int, str]]:
    """Which places of the group were seen (one entry for each copy), and the id of the first copy at each place."""
    where = {(row.batch_id.hex(), row.position): place for place, row in enumerate(rows)}
    found: list[int] = []
    ids: dict[int, str] = {}
    for one in seen:
        place = where.get((one.batch_id, one.position))
        if place is not None:
            found.append(place)
            ids.setdefault(place, one.id)
    return found, ids


def extra_copies(seen: Sequence[Seen]) -> int:
    """Copies beyond the first, whatever is still remembered of the group."""
    return len(seen) - len({(one.batch_id, one.position) for one in seen})
