"""The SnapshotKeeper: a thread actor that carries snapshots between the file and the table, and holds up nobody.

At start it hands what was kept to the manager, newest first, a slice at a time, each after the one before was taken;
later it writes what has changed, in batches. Every failure of the file costs snapshots and nothing else: the reason
stands in `status`, and it is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from honcho_actors.privacy import names
from honcho_actors.sessions.line import MANY
from honcho_actors.sessions.messages import (
    ForgetSaved,
    Moved,
    PersonSnapshot,
    Restored,
    SessionSnapshot,
    Taken,
    Unsaved,
    Wanted,
)
from honcho_actors.sessions.snapshots import FILE, SnapshotFile
from honcho_actors.sessions.table import Table
from honcho_actors.settings import Settings, SettingsCell
from honcho_actors.store import StoreFailed
from supervision import Reason, ThreadActor
from supervision.logged import unsaid

SLICE = 128
"""Snapshots in one slice: about half a megabyte, a few milliseconds of the interpreter."""
BATCH = 512
"""Rows of one write."""
WRITE_AFTER = 2.0
"""Seconds for which changes are collected before they are written."""
RETRY_AFTER = 5.0
"""Seconds until a file that failed, or a manager that is away, is tried again."""
PRUNE_EVERY = 3600.0
"""Seconds between two prunings of a file that is written to."""

_log = logging.getLogger("honcho_actors.sessions")


def _place(settings: Settings) -> tuple[str, str]:
    """What of the file belongs to these settings."""
    return settings.server_id, names.workspace_id(settings.workspace)


class _Begin:
    """Open the file and load."""


class _Flush:
    """Write what has been collected."""


class SnapshotKeeper(ThreadActor):
    """Reads and writes the snapshots of `table` in the settings' `cache_dir`. `wall` gives wall clock seconds."""

    def __init__(self, table: Table, cell: SettingsCell, wall: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._table = table
        self._cell = cell
        self._wall = wall
        self._file: SnapshotFile | None = None
        self._slices: Iterator[Restored] | None = None
        self._loaded: tuple[str, str] | None = None
        self._timer = False
        self._beginning = True
        self._pruned = 0.0

    def on_start(self) -> None:
        self._table.keeper = self.actor_ref
        self.actor_ref.cast(_Begin())

    def on_stop(self, reason: Reason) -> None:
        if self._table.keeper is self.actor_ref:
            self._table.keeper = None
        self._slices = None
        self._write()
        if self._file is not None:
            self._file.close()

    def on_receive(self, message: object) -> Any:
        try:
            return self._handle(message)
        except Exception:  # noqa: BLE001 boundary: a fault with snapshots costs snapshots, never the read side
            _log.warning("snapshots failed and are tried again", exc_info=unsaid(), extra={"event": "snapshots_failed"})
            self._table.snapshots = "failed"
            if isinstance(message, _Flush):
                self._later()
            else:
                self._load_again()
            return False

    def _handle(self, message: object) -> Any:
        if isinstance(message, _Begin):
            self._begin()
        elif isinstance(message, Taken):
            self._next()
        elif isinstance(message, Wanted):
            self._hand_over(message)
        elif isinstance(message, Unsaved):
            self._later()
        elif isinstance(message, _Flush):
            self._timer = False
            if len(self._table.begun) > MANY:  # a storm: what costs the interpreter's time can wait
                self._later()
            elif not self._write():
                self._timer = True
                self.send_after(RETRY_AFTER, _Flush())
        elif isinstance(message, Moved):
            if self._loaded != _place(self._cell.current):
                self._load()
        elif isinstance(message, ForgetSaved):
            return self._forget(message.peer)
        return None

    def _begin(self) -> None:
        self._beginning = False
        file = self._opened()
        if file is None:
            self._load_again()
            return
        try:
            self._prune(file)
        except StoreFailed as failed:
            self._broken(failed)
            self._load_again()
            return
        self._load()
        if self._table.unsaved:
            self._later()

    def _load_again(self) -> None:
        """From the beginning, after a while: what has been taken is passed over then."""
        self._slices = None
        if not self._beginning:
            self._beginning = True
            self.send_after(RETRY_AFTER, _Begin())

    def _load(self) -> None:
        """Begins to hand over what was kept of the server and workspace that are set now."""
        settings = self._cell.current
        if not settings.configured or self._file is None:
            return
        self._loaded = _place(settings)
        self._table.snapshots = "loading"
        self._slices = self._restored(self._file, settings.snapshot_ttl)
        self._next()
        self._next()  # one is read while the other is taken: beside a busy thread every change of hands costs some ms

    def _restored(self, file: SnapshotFile, ttl: float) -> Iterator[Restored]:
        assert self._loaded is not None
        server, workspace = self._loaded
        oldest = self._wall() - ttl
        for persons in file.persons(server, workspace, SLICE):
            fresh = tuple(one for one in persons if one.saved_at >= oldest)
            yield Restored(fresh, (), self._wall(), self.actor_ref)
        for sessions in file.sessions(server, workspace, SLICE):
            yield Restored((), tuple(one for one in sessions if one.saved_at >= oldest), self._wall(), self.actor_ref)
        yield Restored((), (), self._wall(), self.actor_ref, last=True)

    def _next(self) -> None:
        """Hands over the next slice. While the manager is away nothing is read ahead."""
        if self._slices is None:
            return
        manager = self._table.manager
        if manager is None:
            self.send_after(RETRY_AFTER / 20, Taken())
            return
        try:
            restored = next(self._slices, None)
        except StoreFailed as failed:
            self._broken(failed)
            self._load_again()
            return
        if restored is None:
            self._slices = None
            self._table.snapshots = "loaded"
        elif not manager.cast(restored):
            self.send_after(RETRY_AFTER / 20, Taken())

    def _hand_over(self, wanted: Wanted) -> None:
        """While snapshots are being loaded: those of a conversation that a turn waits for, ahead of the others."""
        manager, file = self._table.manager, self._file
        if self._slices is None or manager is None or file is None:
            return
        oldest = self._wall() - self._cell.current.snapshot_ttl
        try:
            person, session = file.person(wanted.person), file.session(wanted.key)
        except StoreFailed as failed:
            self._broken(failed)
            self._load_again()
            return
        if person is not None and person.saved_at >= oldest:
            talks = (session,) if session is not None and session.saved_at >= oldest else ()
            manager.cast(Restored((person,), talks, self._wall(), self.actor_ref, wanted=True))

    def _later(self) -> None:
        if not self._timer:
            self._timer = True
            self.send_after(WRITE_AFTER, _Flush())

    def _write(self) -> bool:
        """Writes everything that has changed. False: what could not be written is kept for the next time."""
        unsaved = self._table.unsaved
        while unsaved:
            batch = [unsaved.popitem() for _ in range(min(BATCH, len(unsaved)))]
            file = self._opened()
            try:
                if file is None:
                    raise LookupError
                self._save(file, [value for _, value in batch])
                if self.clock.now() - self._pruned >= PRUNE_EVERY:
                    self._prune(file)
            except (StoreFailed, LookupError) as failed:
                if isinstance(failed, StoreFailed):
                    self._broken(failed)
                for key, value in batch:
                    unsaved.setdefault(key, value)
                return False
            if self._table.snapshots != "loading" and self._slices is None and not self._beginning:
                self._table.snapshots = "loaded"
        return True

    def _prune(self, file: SnapshotFile) -> None:
        """Keeps the file as small as the settings say."""
        settings = self._cell.current
        self._pruned = self.clock.now()
        file.prune(self._wall() - settings.snapshot_ttl, settings.max_sessions)

    def _save(self, file: SnapshotFile, batch: list[PersonSnapshot | SessionSnapshot]) -> None:
        """Times leave the process as wall clock: the monotonic one means nothing to the next."""
        wall, now = self._wall(), self.clock.now()
        file.save(
            [
                replace(one, made_at=wall - (now - one.made_at), saved_at=wall)
                for one in batch
                if isinstance(one, PersonSnapshot)
            ],
            [replace(one, saved_at=wall) for one in batch if isinstance(one, SessionSnapshot)],
        )

    def _forget(self, peer: str) -> bool:
        """Drops what is kept of a remote peer. True when nothing of it is left in the file."""
        for key in list(self._table.unsaved):
            if peer in key[3:5]:
                self._table.unsaved.pop(key, None)
        file = self._opened()
        if file is None:
            return not (self._cell.current.cache_dir / FILE).exists()
        try:
            file.forget(peer)
        except StoreFailed as failed:
            self._broken(failed)
            return False
        return True

    def _opened(self) -> SnapshotFile | None:
        if self._file is None:
            try:
                self._file = SnapshotFile(self._cell.current.cache_dir)
            except StoreFailed as failed:
                self._broken(failed)
                return None
            if self._file.set_aside is not None:
                name = self._file.set_aside.path.name
                extra = {"event": "snapshots_set_aside", "file": name}
                _log.warning("snapshots were unreadable and were set aside as %s", name, extra=extra)
        return self._file

    def _broken(self, failed: StoreFailed) -> None:
        if self._table.snapshots != failed.reason.value:
            extra = {"event": "snapshots_not_kept", "reason": failed.reason.value}
            _log.warning("snapshots can't be kept at present: %s", failed, extra=extra)
        self._table.snapshots = failed.reason.value
        if self._file is not None:
            self._file.close()
            self._file = None
