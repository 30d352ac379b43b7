"""Who stays in memory: conversations and persons bounded by count, bytes and idle time; whoever is pinned stays.

A conversation is *lively* (an object, with whatever its refreshes and waiters need) or *at rest* (one packed tuple). It
is woken by what happens to it; of those that nothing holds `LIVELY` stay awake, the most recently used (`cachetools`
keeps that order). Those at rest lie in the order in which they went to rest, which is the order of use, too. What is
counted is the real table, never a counter beside it. A person outlives its conversations, so that a new one starts
warm, and leaves after them. One owner: the SessionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

from cachetools import LRUCache

from honcho_actors.sessions.order import Order
from honcho_actors.sessions.table import (
    ENTRY_BYTES,
    P_BLOCK,
    P_CARD,
    P_REPRESENTATION,
    R_BLOCK,
    R_BYTES,
    R_TOUCHED,
    STABLE,
    VOLATILE,
    Block,
    Entry,
    Key,
    Person,
    PersonId,
    Rest,
    Table,
    pack,
    person_of,
    unpack,
)

LIVELY: Final = 2_048
"""Conversations that stay awake though nothing holds them: each costs the collector a tenth of a microsecond or two."""
FEW: Final = 8
"""Conversations of one person up to which their keys are one tuple; more are a dictionary."""


def entry_bytes(entry: Entry, shared: Block | None) -> int:
    """What an entry weighs; a text that it shares with its person is the person's."""
    size = ENTRY_BYTES + len(entry.summary) + len(entry.answer)
    block = entry.block
    if block is not None and (shared is None or block[STABLE] is not shared[STABLE]):
        size += len(block[STABLE])
    if block is not None:
        size += len(block[VOLATILE])
    return size


def person_bytes(person: Person) -> int:
    """What a person weighs: what was read of them, and the block made of it."""
    held = person[P_REPRESENTATION]
    apart = len(held) if isinstance(held, str) else 0
    return ENTRY_BYTES + apart + sum(map(len, person[P_CARD])) + len(person[P_BLOCK][STABLE])


class Residence:
    """The policy over one table. `evicted(reason)` is told of every conversation that leaves."""

    def __init__(self, table: Table, evicted: Callable[[str], None], now: float) -> None:
        self._table = table
        self._lively = table.entries.lively
        self._evicted = evicted
        self._free: LRUCache[Key, None] = LRUCache(inf)
        """Those awake that nothing holds, in the order of use."""
        self._resting: Order[Key, Rest] = Order(table.entries.resting)
        self._free_persons: Order[PersonId, float] = Order({})
        """Persons without a conversation, and since when."""
        self._of_person: dict[PersonId, tuple[Key, ...] | dict[Key, None]] = {}
        for key in table.entries:
            self._join(key)
        for entry in sorted(self._lively.values(), key=lambda one: one.touched):
            self.settle(entry)
        for person in table.persons:
            if person not in self._of_person:
                self._free_persons.put(person, now)

    def find(self, key: Key) -> Entry | None:
        """The conversation, awake; None when it is not held."""
        entry = self._lively.get(key)
        if entry is None:
            rest = self._resting.places.get(key)
            if rest is None:
                return None
            entry = self._lively[key] = unpack(key, rest)
            self._resting.take(key)
            self.settle(entry)
        return entry

    def admit(self, key: Key, now: float, max_sessions: int) -> Entry | None:
        """The entry of `key`, made when there is none; None when every place is taken by someone who can't leave."""
        entry = self.find(key)
        if entry is not None:
            return entry
        while len(self._table.entries) >= max_sessions:
            if not self._drop_oldest("entries"):
                return None
        entry = Entry(key, now)
        self._join(key)
        self._lively[key] = entry
        self._table.bytes += entry.bytes
        self.settle(entry)
        return entry

    def touch(self, entry: Entry, now: float) -> None:
        """It was used just now."""
        entry.touched = now
        if entry.key in self._free:
            self._free[entry.key] = None

    def settle(self, entry: Entry) -> None:
        """Its pins may have changed: it can leave, or go to rest, exactly when nothing holds it."""
        free, key = self._free, entry.key
        if entry.pinned:
            free.pop(key, None)
        elif key not in free and self._lively.get(key) is entry:
            free[key] = None
            while len(free) > LIVELY:
                if not (oldest := self._lively[free.popitem()[0]]).pinned:
                    self.rest(oldest)

    def rest(self, entry: Entry) -> None:
        """Puts a conversation to rest that nothing holds."""
        self._free.pop(entry.key, None)
        self._resting.put(entry.key, pack(entry))
        self._lively.pop(entry.key, None)

    def take_in(self, entry: Entry, shared: Block) -> None:
        """A new conversation that is at rest from the beginning; the caller has seen that there is room."""
        entry.bytes = entry_bytes(entry, shared)
        self._join(entry.key)
        self._resting.put(entry.key, pack(entry))
        self._table.bytes += entry.bytes

    def changed(self, entry: Entry) -> None:
        """Keeps what was changed in a copy of one at rest (`Entries.look`), which stays at rest and where it was."""
        if entry.key in self._resting:
            self._resting.places[entry.key] = pack(entry)

    def weigh(self, entry: Entry) -> None:
        """Its texts have changed."""
        if self._lively.get(entry.key) is not entry and entry.key not in self._resting:
            return
        person = self._table.persons.get(entry.person)
        size = entry_bytes(entry, None if person is None else person[P_BLOCK])
        self._table.bytes += size - entry.bytes
        entry.bytes = size

    def keep_person(self, key: PersonId, person: Person, now: float, max_persons: int, *, push: bool = True) -> bool:
        """Publishes what is known of a person. False when there is no room for one more; `push`: others may be dropped
        for it."""
        persons = self._table.persons
        before = persons.get(key)
        if before is None:
            while len(persons) >= max_persons:
                if not push or not self._drop_person():
                    return False
        persons[key] = person
        self._table.bytes += person_bytes(person) - (0 if before is None else person_bytes(before))
        if key not in self._of_person:
            self._free_persons.put(key, now)
        return True

    def conversations(self, person: PersonId) -> list[Key]:
        """Every conversation of a person."""
        return list(self._of_person.get(person, ()))

    def bound(self, max_sessions: int, max_bytes: int) -> None:
        """Drops the least recently used until the limits hold or nothing more can leave."""
        table = self._table
        while len(table.entries) > max_sessions and self._drop_oldest("entries"):
            pass
        while table.bytes > max_bytes and (self._drop_person() or self._drop_oldest("bytes")):
            pass

    def idle(self, keys: list[Key], before: float) -> int:
        """Drops those of `keys` that were last used before a moment and are not pinned. How many."""
        dropped = 0
        for key in keys:
            rest = self._resting.places.get(key)
            entry = self._lively.get(key)
            if rest is not None and rest[R_TOUCHED] < before:
                self._drop_resting(key, rest, "idle")
                dropped += 1
            elif entry is not None and entry.touched < before and not entry.pinned:
                self.drop(entry, "idle")
                dropped += 1
            elif entry is not None and entry.ready is not None:
                entry.ready = None
        return dropped

    def idle_persons(self, before: float) -> None:
        """Drops persons that have had no conversation, and of whom nothing was read, since a moment."""
        for key, since in list(self._free_persons.places.items()):
            if since < before:
                self._forget_person(key)

    def newest_last(self, persons: list[PersonId], entries: list[Key]) -> None:
        """Puts those that are still free into the order of use, the first of each list as the most recently used."""
        for person in reversed(persons):
            since = self._free_persons.places.get(person)
            if since is not None:
                self._free_persons.put(person, since)
        for key in reversed(entries):
            rest = self._resting.places.get(key)
            if rest is not None:
                self._resting.put(key, rest)
            elif key in self._free:
                self._free[key] = None

    def drop(self, entry: Entry, reason: str) -> None:
        """Takes an entry out, whatever holds it. It has no block from then on: a turn may still remember it."""
        if self._lively.get(entry.key) is not entry:
            return
        self._free.pop(entry.key, None)
        del self._lively[entry.key]
        self._table.bytes -= entry.bytes
        entry.block = entry.ready = None
        self._leave(entry.key, entry.touched)
        self._evicted(reason)

    def drop_person(self, key: PersonId) -> None:
        """Takes what is known of a person out, whatever holds it."""
        self._forget_person(key)

    def keys_in_slices(self, size: int) -> Iterator[list[Key]]:
        """All keys as they are now, in slices."""
        keys = list(self._table.entries)
        for start in range(0, len(keys), size):
            yield keys[start : start + size]

    def never_loaded(self) -> list[Key]:
        """Those at rest of which nothing was ever read."""
        return [key for key, rest in self._resting.places.items() if rest[R_BLOCK] is None]

    def _drop_oldest(self, reason: str) -> bool:
        oldest = self._resting.take_oldest()
        if oldest is not None:
            self._gone(*oldest, reason)
            return True
        if not self._free:
            return False
        self.drop(self._lively[self._free.popitem()[0]], reason)
        return True

    def _drop_resting(self, key: Key, rest: Rest, reason: str) -> None:
        self._resting.take(key)
        self._gone(key, rest, reason)

    def _gone(self, key: Key, rest: Rest, reason: str) -> None:
        self._table.bytes -= rest[R_BYTES]
        self._leave(key, rest[R_TOUCHED])
        self._evicted(reason)

    def _drop_person(self) -> bool:
        oldest = self._free_persons.take_oldest()
        if oldest is None:
            return False
        self._forget_person(oldest[0])
        return True

    def _forget_person(self, key: PersonId) -> None:
        self._free_persons.take(key)
        person = self._table.persons.pop(key, None)
        if person is not None:
            self._table.bytes -= person_bytes(person)

    def _join(self, key: Key) -> None:
        person = person_of(key)
        found = self._of_person.get(person, ())
        if isinstance(found, dict):
            found[key] = None
        elif key not in found:
            self._of_person[person] = (*found, key) if len(found) < FEW else dict.fromkeys((*found, key))
        self._free_persons.take(person)

    def _leave(self, key: Key, touched: float) -> None:
        person = person_of(key)
        found = self._of_person.get(person, ())
        if isinstance(found, dict):
            found.pop(key, None)
        else:
            found = self._of_person[person] = tuple(one for one in found if one != key)
        if not found:
            self._of_person.pop(person, None)
            if person in self._table.persons:
                self._free_persons.put(person, touched)
