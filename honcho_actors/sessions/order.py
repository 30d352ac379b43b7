"""Who was used longest ago: a plain dictionary in order of use, which the cyclic collector need not look at.

`collections.OrderedDict` is looked through at every full collection, for ever; a dictionary of untracked tuples and
numbers is not. Taking the oldest out of a dictionary again and again would walk over the places that were left empty
before it, so the oldest are noted a batch at a time.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BATCH: Final = 256
"""The oldest that are noted at once."""


class Order(Generic[K, V]):
    """An order over `places`, which others may read meanwhile: the least recently used first."""

    def __init__(self, places: dict[K, V]) -> None:
        self.places = places
        self._oldest: list[tuple[K, V]] = []

    def __contains__(self, key: object) -> bool:
        return key in self.places

    def __len__(self) -> int:
        return len(self.places)

    def put(self, key: K, value: V) -> None:
        """It was used just now. A value is one object for one use: by it a place is told from the one before."""
        if self.places.pop(key, None) is value:
            self._oldest.clear()
        self.places[key] = value

    def take(self, key: K) -> V | None:
        """Takes one out; None when it is not there."""
        return self.places.pop(key, None)

    def take_oldest(self) -> tuple[K, V] | None:
        """Takes out the one that was used longest ago; None when there is nobody."""
        places = self.places
        while places:
            if not self._oldest:
                self._oldest = list(islice(places.items(), BATCH))[::-1]
            key, value = self._oldest.pop()
            if places.get(key) is value:  # else it was used meanwhile, or is gone
                del places[key]
                return key, value
        return None
