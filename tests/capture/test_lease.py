"""A holder's file: locked while it lives, also when another process took it for a dead one's as it was made."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.capture.lease import Owner
from honcho_actors.store import StoreFailed


def test_a_holder_is_alive_for_others_until_it_closes(tmp_path: Path) -> None:
    one, other = Owner(tmp_path), Owner(tmp_path)
    one.open()
    other.open()
    assert other.alive(one.name)
    one.close()
    assert not other.alive(one.name)
    other.close()


@pytest.mark.parametrize("when", ["before_it_is_opened", "before_it_is_locked"])
def test_a_file_that_is_removed_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    one, other = Owner(tmp_path), Owner(tmp_path)
    path = tmp_path / "owners" / one.name
    robbed: list[str] = []
    real_open, real_flock = os.open, fcntl.flock

    def opening(name: Any, flags: int, *more: Any, **given: Any) -> int:
        if when == "before_it_is_opened" and not robbed and Path(name) == path and not flags & os.O_CREAT:
            robbed.append("x")
            assert not other.alive(one.name)
        return real_open(name, flags, *more, **given)

    def locking(descriptor: Any, kind: int) -> None:
        if when == "before_it_is_locked" and not robbed:
            robbed.append("x")
            assert not other.alive(one.name)
        real_flock(descriptor, kind)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(fcntl, "flock", locking)
    one.open()
    assert robbed
    assert path.exists()
    assert other.alive(one.name)
    one.close()
    assert not other.alive(one.name)


def test_a_file_that_never_stays_is_a_store_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Owner(tmp_path), Owner(tmp_path)
    real = fcntl.flock
    inside: list[int] = []

    def locking(descriptor: Any, kind: int) -> None:
        if not inside:
            inside.append(1)
            other.alive(one.name)
            inside.clear()
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", locking)
    with pytest.raises(StoreFailed):
        one.open()
