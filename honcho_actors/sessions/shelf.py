"""What stands in the table: publishes persons and blocks, admits conversations, takes snapshots in and gives them out.

The only place where the published table is written. Every text is rendered once, when what it is made of has changed.
Part of the SessionManager.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from honcho_actors.model import Context, Reason, State
from honcho_actors.sessions import publishing
from honcho_actors.sessions.block import About, Limits, about, made_with
from honcho_actors.sessions.messages import PersonSnapshot, Restored, SessionSnapshot, Unsaved
from honcho_actors.sessions.ports import Ports
from honcho_actors.sessions.residence import Residence
from honcho_actors.sessions.table import (
    KNOWN,
    P_BLOCK,
    P_CARD,
    P_FLAGS,
    P_MADE_AT,
    RESTORED,
    STABLE,
    Entry,
    Key,
    Person,
    PersonId,
    Table,
    context_of,
    person_of,
    representation_of,
)
from honcho_actors.settings import Settings

UNSAVED_MAX = 20_000
"""Changes that may wait to be saved; further ones are not kept for the next process."""


class Shelf:
    """Owned by the manager. `evicted` is told why somebody left."""

    def __init__(self, table: Table, ports: Ports, evicted: Callable[[str], None], now: float) -> None:
        self._table = table
        self._ports = ports
        self._restored: tuple[list[PersonId], list[Key]] = ([], [])
        self._told: tuple[Person, Limits, About | None] | None = None
        """Whose part was rendered last, in case a conversation with them is rendered next."""
        self.residence = Residence(table, evicted, now)

    def limits(self, settings: Settings) -> Limits:
        return Limits(settings.context_tokens, settings.dialectic_max_chars, self._ports.counter)

    def know(
        self,
        person: PersonId,
        representation: str,
        card: tuple[str, ...],
        made_at: float,
        flags: int,
        settings: Settings,
        now: float,
        kept: PersonSnapshot | None = None,
    ) -> bool:
        """Publishes what is known of a person. False when there is no room for one more."""
        before = self._table.persons.get(person)
        representation = representation.strip()
        limits = self.limits(settings)
        told = about(representation, card, limits) if kept is None and flags & KNOWN else None
        known = publishing.person(
            representation,
            card,
            made_at=made_at,
            flags=flags,
            before=before,
            limits=limits,
            epoch=settings.epoch,
            text=kept.text if kept is not None and kept.made_with == made_with(limits) else None,
            told=told,
        )
        self._told = (known, limits, told)
        if not self.residence.keep_person(person, known, now, settings.max_sessions, push=kept is None):
            return False
        was_known = before is not None and bool(before[P_FLAGS] & KNOWN)
        if kept is None and (flags & KNOWN or was_known) and _worth_saving(before, known):
            text, how = known[P_BLOCK][STABLE], made_with(self.limits(settings))
            self._save(person, PersonSnapshot(person, representation, known[P_CARD], made_at, 0.0, text, how))
        return True

    def publish(self, entry: Entry, settings: Settings, read_now: bool = False) -> None:
        """Renders and publishes the block of one conversation out of what is known now."""
        known = self._table.persons.get(entry.person)
        if known is None:
            return
        before = entry.block
        made_turn = entry.turns if read_now else (before[3] if before is not None else 0)
        limits = self.limits(settings)
        entry.block = publishing.block(
            entry,
            known,
            made_turn=made_turn,
            limits=limits,
            epoch=settings.epoch,
            told=self._told[2] if self._told is not None and self._told[:2] == (known, limits) else None,
        )
        entry.ready = None
        entry.reason = Reason.HIT
        self.residence.weigh(entry)

    def entry(self, key: Key, settings: Settings, now: float) -> Entry | None:
        """The entry, admitted if it is new; a new one of a known person has a block at once."""
        entry = self.residence.find(key)
        if entry is not None:
            return entry
        entry = self.residence.admit(key, now, settings.max_sessions)
        if entry is None:
            return None
        if entry.person in self._table.persons:
            entry.began_warm = True
            if settings.session_summary:
                entry.summary = self._table.summaries.get(key)
            self.publish(entry, settings)
        self.residence.bound(settings.max_sessions, settings.max_cache_bytes)
        return self.residence.find(key)

    def restore(self, message: Restored, now: float) -> list[PersonId]:
        """Snapshots take a place that is free, never that of something that was read in this process: they come newest
        first, so what finds no place is the oldest. Gives the persons that have become known."""
        settings = self._ports.cell.current
        known: list[PersonId] = []
        persons, entries = self._restored
        for kept in message.persons:
            if self._table.bytes >= settings.max_cache_bytes:
                break
            if kept.person[0] != settings.server_id or kept.person in self._table.persons:
                continue
            if not kept.representation and not kept.card:
                continue
            made_at = now - max(0.0, message.wall_now - kept.made_at)
            flags = KNOWN | RESTORED
            if not self.know(kept.person, kept.representation, kept.card, made_at, flags, settings, now, kept):
                break
            self._table.restored += 1
            known.append(kept.person)
        limits = self.limits(settings)
        fits: dict[PersonId, str] = {}
        for session in message.sessions:
            if session.key[0] != settings.server_id:
                continue
            held = self._table.entries.lively.get(session.key)
            if held is not None and held.block is None and not held.summary:
                held.summary = session.summary  # a turn waits for it: it is published with its person's part
            if session.key in self._table.entries:
                continue
            whose = person_of(session.key)
            person = self._table.persons.get(whose)
            if person is None:
                continue
            if len(self._table.entries) >= settings.max_sessions or self._table.bytes >= settings.max_cache_bytes:
                break
            if whose not in fits:
                fits[whose] = made_of(person, limits)
            entry = Entry(session.key, now)
            entry.summary = session.summary
            self._table.summaries.put(session.key, session.summary)
            entry.began_warm = True
            text = session.text if session.made_with == fits[whose] else None
            entry.block = publishing.block(
                entry, person, made_turn=0, limits=limits, epoch=settings.epoch, text=text or None
            )
            entry.reason = Reason.HIT
            self.residence.take_in(entry, person[P_BLOCK])
            self._table.restored += 1
            entries.append(session.key)
        persons.extend(known)
        if message.last:
            self.residence.newest_last(persons, entries)
            self._restored = ([], [])
        return known

    def forget_told(self) -> None:
        """Keeps nothing of whoever was rendered last."""
        self._told = None

    def save_session(self, entry: Entry, settings: Settings) -> None:
        self._table.summaries.put(entry.key, entry.summary)
        text = entry.block[STABLE] if entry.block is not None else ""
        known = self._table.persons.get(entry.person)
        how = made_of(known, self.limits(settings)) if text and known is not None else ""
        self._save(entry.key, SessionSnapshot(entry.key, entry.summary, 0.0, text, how))

    def _save(self, key: tuple[str, ...], snapshot: PersonSnapshot | SessionSnapshot) -> None:
        """Leaves a change for the keeper. Never waits."""
        unsaved, keeper = self._table.unsaved, self._table.keeper
        if len(unsaved) >= UNSAVED_MAX:
            return
        unsaved[key] = snapshot
        if keeper is not None and len(unsaved) == 1:
            keeper.cast(Unsaved())


def made_of(known: Person, limits: Limits) -> str:
    """What a conversation's text depends on beside its summary: a snapshot of it may be older than the person's."""
    how = made_with(limits)
    if not how:
        return ""
    digest = sha256(repr((representation_of(known), known[P_CARD])).encode("utf-8", "surrogatepass"))
    return f"{how}:{digest.hexdigest()[:16]}"


def _worth_saving(before: Person | None, known: Person) -> bool:
    """Something is new, or an hour has gone by: a snapshot that is only confirmed must not grow old."""
    if before is None or before[P_FLAGS] != known[P_FLAGS]:
        return True
    texts_differ = representation_of(before) != representation_of(known) or before[P_CARD] != known[P_CARD]
    return texts_differ or before[P_MADE_AT] // 3600 != known[P_MADE_AT] // 3600


def filled(entry: Entry, now: float, settings: Settings) -> Context:
    """The answer of a cold turn whose base layer is there."""
    block = entry.block
    assert block is not None
    found = context_of(block, now, settings.volatile_max_age)
    reason = Reason.FILLED if found.reason is Reason.HIT else found.reason
    return Context(found.sections, State.COLD, reason, 0.0, found.age, found.system, found.user_message)
