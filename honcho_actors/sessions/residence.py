"""Who stays in memory: conversations and persons bounded by count, bytes and idle time; whoever is pinned stays.

`cachetools` keeps the order of use. Only what may go is in it: an entry with a running refresh or a waiter is taken out
until that has ended. What is counted is the real table, never a counter beside it. A person outlives its conversations,
so that a new one starts warm, and leaves after them. One owner: the SessionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from cachetools import LRUCache

from honcho_actors.sessions.table import (
    ENTRY_BYTES,
    P_BLOCK,
    P_CARD,
    P_REPRESENTATION,
    STABLE,
    VOLATILE,
    Block,
    Entry,
    Key,
    Person,
    PersonId,
    Table,
)


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
    return ENTRY_BYTES + len(person[P_REPRESENTATION]) + sum(map(len, person[P_CARD])) + len(person[P_BLOCK][STABLE])


class Residence:
    """The policy over one table. `evicted(reason, entry_or_person)` is told of everyone who leaves."""

    def __init__(self, table: Table, evicted: Callable[[str], None], now: float) -> None:
        self._table = table
        self._evicted = evicted
        self._free_entries: LRUCache[Key, None] = LRUCache(inf)
        self._free_persons: LRUCache[PersonId, float] = LRUCache(inf)
        """Persons without a conversation, and since when."""
        self._of_person: dict[PersonId, Key | set[Key]] = {}
        for entry in sorted(table.entries.values(), key=lambda one: one.touched):
            self._join(entry)
            self.settle(entry)
        for person in table.persons:
            if person not in self._of_person:
                self._free_persons[person] = now

    def admit(self, key: Key, now: float, max_sessions: int) -> Entry | None:
        """The entry of `key`, made when there is none; None when every place is taken by someone who can't leave."""
        entries = self._table.entries
        entry = entries.get(key)
        if entry is not None:
            return entry
        while len(entries) >= max_sessions:
            if not self._drop_oldest("entries"):
                return None
        entry = Entry(key, now)
        self._join(entry)
        entries[key] = entry
        self._table.bytes += entry.bytes
        self.settle(entry)
        return entry

    def touch(self, entry: Entry, now: float) -> None:
        """It was used just now."""
        entry.touched = now
        if entry.key in self._free_entries:
            self._free_entries[entry.key]

    def settle(self, entry: Entry) -> None:
        """Its pins may have changed: it can leave exactly when nothing holds it."""
        if entry.pinned:
            self._free_entries.pop(entry.key, None)
        elif entry.key not in self._free_entries and entry.key in self._table.entries:
            self._free_entries[entry.key] = None

    def weigh(self, entry: Entry) -> None:
        """Its texts have changed."""
        if self._table.entries.get(entry.key) is not entry:
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
            self._free_persons[key] = now
        return True

    def conversations(self, person: PersonId) -> list[Entry]:
        """Every entry of a person."""
        found = self._of_person.get(person)
        if found is None:
            return []
        keys = found if isinstance(found, set) else {found}
        entries = self._table.entries
        return [entries[key] for key in keys if key in entries]

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
            entry = self._table.entries.get(key)
            if entry is None:
                continue
            if entry.touched < before and not entry.pinned:
                self.drop(entry, "idle")
                dropped += 1
            elif entry.ready is not None:
                entry.ready = None
        return dropped

    def idle_persons(self, before: float) -> None:
        """Drops persons that have had no conversation, and of whom nothing was read, since a moment."""
        for key, since in list(self._free_persons.items()):
            if since < before:
                self._forget_person(key)

    def newest_last(self, persons: list[PersonId], entries: list[Key]) -> None:
        """Puts those that are still free into the order of use, the first of each list as the most recently used."""
        for person in reversed(persons):
            if person in self._free_persons:
                self._free_persons[person]
        for entry in reversed(entries):
            if entry in self._free_entries:
                self._free_entries[entry]

    def drop(self, entry: Entry, reason: str) -> None:
        """Takes an entry out, whatever holds it. It has no block from then on: a turn may still remember it."""
        if self._table.entries.pop(entry.key, None) is None:
            return
        self._free_entries.pop(entry.key, None)
        self._table.bytes -= entry.bytes
        entry.block = entry.ready = None
        self._leave(entry)
        self._evicted(reason)

    def drop_person(self, key: PersonId) -> None:
        """Takes what is known of a person out, whatever holds it."""
        self._forget_person(key)

    def keys_in_slices(self, size: int) -> Iterator[list[Key]]:
        """All keys as they are now, in slices."""
        keys = list(self._table.entries)
        for start in range(0, len(keys), size):
            yield keys[start : start + size]

    def _drop_oldest(self, reason: str) -> bool:
        try:
            key, _ = self._free_entries.popitem()
        except KeyError:
            return False
        self.drop(self._table.entries[key], reason)
        return True

    def _drop_person(self) -> bool:
        try:
            key, _ = self._free_persons.popitem()
        except KeyError:
            return False
        self._forget_person(key)
        return True

    def _forget_person(self, key: PersonId) -> None:
        self._free_persons.pop(key, None)
        person = self._table.persons.pop(key, None)
        if person is not None:
            self._table.bytes -= person_bytes(person)

    def _join(self, entry: Entry) -> None:
        found = self._of_person.get(entry.person)
        if found is None:
            self._of_person[entry.person] = entry.key
        elif isinstance(found, set):
            found.add(entry.key)
        elif found != entry.key:
            self._of_person[entry.person] = {found, entry.key}
        self._free_persons.pop(entry.person, None)

    def _leave(self, entry: Entry) -> None:
        found = self._of_person.get(entry.person)
        if isinstance(found, set):
            found.discard(entry.key)
            if len(found) == 1:
                self._of_person[entry.person] = next(iter(found))
        elif found == entry.key:
            del self._of_person[entry.person]
            if entry.person in self._table.persons:
                self._free_persons[entry.person] = entry.touched
