"""Which process is alive: a name for this one, and a lock that ends with it.

A lease on a conversation names its holder. A holder that was killed must not be waited for, and one that is merely slow
must not be robbed: so each process keeps an empty file locked for as long as it lives, and whoever can lock that file
knows that its owner is gone. A forked child closes its copy at once, so that it can't keep a dead parent alive. Where
the system has no such locks, a lease ends by its time alone.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import weakref
from pathlib import Path
from typing import Any

from honcho_actors.store import StoreFailed, StoreReason, private_directory, private_file

fcntl: Any
try:
    import fcntl
except ImportError:  # a system without advisory locks
    fcntl = None

_held: weakref.WeakSet[Owner] = weakref.WeakSet()


ATTEMPTS = 100
"""Between the making of a holder's file and its lock another process may take it for a dead one's and remove it."""


class Owner:
    """This process, as one holder of leases. `open` before use; `close` gives everything up."""

    def __init__(self, directory: Path) -> None:
        self.name = uuid.uuid4().hex
        self._directory = directory / "owners"
        self._descriptor: int | None = None

    def open(self) -> None:
        """Makes and locks the file; once more when somebody has removed it. Raises StoreFailed where the directory
        can't be written."""
        path = self._path(self.name)
        if self._descriptor is not None:
            if path.exists():
                return
            self.drop()
        private_directory(self._directory)
        for _ in range(ATTEMPTS):
            private_file(path)
            descriptor = _locked(path)
            if descriptor is not None:
                self._descriptor = descriptor
                _held.add(self)
                return
        raise StoreFailed(StoreReason.UNUSABLE, path, "removed again and again")

    def close(self) -> None:
        """Removes the file: this holder is gone."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path(self.name).unlink()
        self.drop()

    def drop(self) -> None:
        """Closes this process's copy of the lock and leaves the file: what a forked child does."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def alive(self, name: str) -> bool:
        """Whether the holder of this name may still be at work. Removes the file of one that is not."""
        if name == self.name:
            return True
        path = self._path(name)
        try:
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            if fcntl is None:
                return True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # else it has made another since
                    path.unlink()
                    return False
            return path.exists()
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        """Removes the files of holders that are gone."""
        with contextlib.suppress(OSError, StoreFailed):
            for path in list(self._directory.iterdir()):
                self.alive(path.name)

    def _path(self, name: str) -> Path:
        return self._directory / name


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock of the file that stands there; None when it was removed meanwhile: a lock of a
    file that is gone would tell nobody that its holder lives."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except FileNotFoundError:
        pass  # removed between the lock and the look
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _after_fork() -> None:
    for owner in list(_held):
        owner.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
