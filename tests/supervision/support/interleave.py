"""An interleaving checker: runs a few threads line by line in every order that up to n preemptions allow.

Not luck: the orders are enumerated, and a failing one is printed and replays. A thread is paused before each line of
the files under test (`opcodes=True`: before each bytecode), and goes on when the checker says so. Locks that the code
under test makes are replaced by `StepLock`s, so that a paused owner blocks others in a way that the checker sees.
"""

from __future__ import annotations

import sys
import threading
from _thread import allocate_lock as real_lock
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty
from types import FrameType
from typing import Any

import pytest

Build = Callable[[], tuple[list[Callable[[], object]], Callable[[], None]]]


@dataclass
class _Step:
    enabled: tuple[int, ...]
    chosen: int
    current: int
    preemptions: int


class StepLock:
    """A lock whose waiters are known to the checker."""

    def __init__(self) -> None:
        self.held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = _running()
        if me is not None:
            run, index = me
            while self.held:
                if not blocking:
                    return False
                if run.wait_for(index, self, timed=timeout >= 0):
                    return False
        elif self.held:
            if not blocking or timeout >= 0:
                return False
            raise AssertionError("the checker itself would wait for a lock")
        self.held = True
        return True

    def release(self) -> None:
        self.held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class StepQueue:
    """A `SimpleQueue` whose waiting reader is known to the checker."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()

    @property
    def held(self) -> bool:
        """Whether a reader would wait."""
        return not self.items

    def get(self) -> Any:
        me = _running()
        assert me is not None, "the checker itself would wait for an item"
        while not self.items:
            me[0].wait_for(me[1], self, timed=False)
        return self.items.popleft()

    def get_nowait(self) -> Any:
        if not self.items:
            raise Empty
        return self.items.popleft()

    def put(self, item: Any) -> None:
        self.items.append(item)

    def qsize(self) -> int:
        return len(self.items)


_local = threading.local()


def _running() -> tuple[_Run, int] | None:
    return getattr(_local, "run", None)


def _baton() -> Any:
    lock = real_lock()
    lock.acquire()
    return lock


class _Run:
    def __init__(self, workers: list[Callable[[], object]], files: tuple[str, ...], opcodes: bool) -> None:
        self.files = files
        self.opcodes = opcodes
        self.go = [_baton() for _ in workers]
        self.back = _baton()
        self.done = [False] * len(workers)
        self.waiting: list[StepLock | StepQueue | None] = [None] * len(workers)
        self.timed = [False] * len(workers)
        self.expire = [False] * len(workers)
        self.errors: list[BaseException] = []
        self.cut = False
        self.threads = [
            threading.Thread(target=self._main, args=(index, worker), daemon=True)
            for index, worker in enumerate(workers)
        ]

    def _main(self, index: int, worker: Callable[[], object]) -> None:
        _local.run = (self, index)
        self.go[index].acquire()
        sys.settrace(lambda frame, event, arg: self._trace(index, frame, event))
        try:
            worker()
        except _Cut:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            sys.settrace(None)
            self.done[index] = True
            self.back.release()

    def _trace(self, index: int, frame: FrameType, event: str) -> Any:
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        if self.opcodes:
            frame.f_trace_opcodes = True

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == ("opcode" if self.opcodes else "line"):
                self.pause(index)
            return local

        return local

    def pause(self, index: int) -> None:
        self.back.release()
        self.go[index].acquire()
        if self.cut:
            raise _Cut

    def wait_for(self, index: int, lock: StepLock | StepQueue, *, timed: bool) -> bool:
        """Pause until the lock is free; True when a timed wait ran out instead, because nobody else could go on."""
        self.waiting[index] = lock
        self.timed[index] = timed
        self.pause(index)
        self.waiting[index] = None
        expired, self.expire[index] = self.expire[index], False
        return expired

    def enabled(self) -> tuple[int, ...]:
        ready = tuple(
            index
            for index, done in enumerate(self.done)
            if not done and ((lock := self.waiting[index]) is None or not lock.held)
        )
        if ready:
            return ready
        late = tuple(
            i for i, done in enumerate(self.done) if not done and self.timed[i] and self.waiting[i] is not None
        )
        for index in late:
            self.expire[index] = True
        return late

    def execute(self, prefix: list[int]) -> list[_Step]:
        for thread in self.threads:
            thread.start()
        steps: list[_Step] = []
        current, preemptions = -1, 0
        while not all(self.done):
            enabled = self.enabled()
            if not enabled:
                self._give_up()
                raise AssertionError(f"deadlock after {[step.chosen for step in steps]}")
            if len(steps) < len(prefix):
                chosen = prefix[len(steps)]
                assert chosen in enabled, "the code under test is not deterministic"
            else:
                chosen = current if current in enabled else enabled[0]
            steps.append(_Step(enabled, chosen, current, preemptions))
            if current in enabled and chosen != current:
                preemptions += 1
            current = chosen
            self.go[chosen].release()
            self.back.acquire()
        for thread in self.threads:
            thread.join()
        return steps

    def _give_up(self) -> None:
        self.cut = True
        for index, done in enumerate(self.done):
            if not done:
                self.go[index].release()
                self.back.acquire()


class _Cut(BaseException):
    """Ends a thread of a run that is over."""


class Interleavings:
    """Explores. `files` are the ends of the paths whose lines are steps."""

    def __init__(self, *files: str, preemptions: int = 2, opcodes: bool = False, limit: int = 20_000) -> None:
        self.files = files
        self.preemptions = preemptions
        self.opcodes = opcodes
        self.limit = limit

    def explore(self, build: Build) -> int:
        """Run `build()`'s workers in every order and its check after each; the number of orders. Raises on the first
        bad.
        """
        todo: list[list[int]] = [[]]
        runs = 0
        while todo:
            prefix = todo.pop()
            runs += 1
            assert runs <= self.limit, f"more than {self.limit} orders"
            workers, check = build()
            run = _Run(workers, self.files, self.opcodes)
            steps = run.execute(prefix)
            order = "".join(str(step.chosen) for step in steps)
            try:
                assert not run.errors, run.errors
                check()
            except AssertionError as error:
                raise BadOrder(order, runs, error) from error
            for at in range(len(prefix), len(steps)):
                step = steps[at]
                for other in step.enabled:
                    if other == step.chosen:
                        continue
                    cost = step.preemptions + (step.current in step.enabled and other != step.current)
                    if cost <= self.preemptions:
                        todo.append([one.chosen for one in steps[:at]] + [other])
        return runs


class BadOrder(AssertionError):
    """An order of steps in which the promise does not hold."""

    def __init__(self, order: str, runs: int, error: AssertionError) -> None:
        super().__init__(f"after {runs} orders, {order}: {error}")
        self.order = order


@contextmanager
def step_locks(modules: Iterable[Any]) -> Iterator[None]:
    """Have the modules make `StepLock`s where they would make locks."""
    patch = pytest.MonkeyPatch()
    for module in modules:
        patch.setattr(module, "allocate_lock", StepLock)
    try:
        yield
    finally:
        patch.undo()
