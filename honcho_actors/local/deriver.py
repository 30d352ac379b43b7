"""The background task that turns what was said into conclusions and summaries: by extraction, or by a model.

It never holds up a request. What a model can't do in three tries is done by extraction, so that nothing stays undone.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from typing import Any

from honcho_actors.local import llm, summaries, work
from honcho_actors.local.llm import Model, NoAnswer
from honcho_actors.local.store import Store
from honcho_actors.local.times import line_stamp

Row = sqlite3.Row
Connection = sqlite3.Connection

BATCH = 100
MODEL_BATCH_MESSAGES = 20
MAX_TRIES = 3
RETRY_SECONDS = 5.0
SUMMARY_WORDS = {"short": 120, "long": 400}
_log = logging.getLogger("honcho_actors.local")


class Deriver:
    """Works the queue off whenever `wake` is called, and once at the start for what a stop left over."""

    def __init__(self, store: Store, model: Model | None, *, retry: float = RETRY_SECONDS) -> None:
        self._retry = retry
        self._batch = BATCH
        self._store = store
        self._model = model
        self._wanted = asyncio.Event()
        self._wanted.set()

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                while await self._some():  # noqa: ASYNC110 (not a wait: it works off what is there)
                    await asyncio.sleep(0)
                self._batch = BATCH
            except Exception as fault:  # noqa: BLE001 - boundary: one bad item or a full disk never ends derivation
                _log.warning("deriving failed, trying again in %s s: %r", self._retry, fault)
                await asyncio.sleep(self._retry)
                self._batch = 1  # until the queue is empty: only the bad item itself pays for the fault
                await self._recover()
                self._wanted.set()

    async def _recover(self) -> None:
        try:
            await self._store.write(work.give_back, MAX_TRIES)
        except sqlite3.Error as fault:
            _log.warning("the queue cannot be written: %s", fault)

    async def _some(self) -> bool:
        if self._model is None:
            return await self._store.write(work.extract_items, self._batch) > 0
        return await self._by_model(self._model)

    async def _by_model(self, model: Model) -> bool:
        """One call: messages of one person in one session together, or one summary."""
        items = await self._store.write(_take)
        if not items:
            return False
        try:
            result = await self._ask(model, items)
        except NoAnswer as fault:
            _log.warning("deriving by the model failed: %s", fault)
            await self._store.write(_give_back, items)
            await asyncio.sleep(self._retry)
            return True
        await self._store.write(_keep, items, result)
        return True

    async def _ask(self, model: Model, items: list[Row]) -> Any:
        first = items[0]
        if first["kind"] == "observe":
            lines = await self._store.read(_lines, items)
            system = llm.DERIVE.format(peer=first["observed"])
            user = "\n".join(f"[{line_stamp(when)}] {peer}: {text}" for when, peer, text in lines)
        else:
            system = llm.SUMMARISE.format(words=SUMMARY_WORDS[first["kind"]])
            user = llm.transcript(await self._store.read(work.heard, first))
        loop = asyncio.get_running_loop()
        reply = await loop.run_in_executor(model.threads, model.complete, system, user)
        return llm.conclusions_in(reply) if first["kind"] == "observe" else reply


def _take(db: Connection) -> list[Row]:
    waiting = work.waiting(db, BATCH)
    if not waiting:
        return []
    first = waiting[0]
    if first["kind"] == "observe":
        same = [
            item
            for item in waiting
            if (item["kind"], item["session"], item["observed"], item["observers"])
            == (first["kind"], first["session"], first["observed"], first["observers"])
        ][:MODEL_BATCH_MESSAGES]
    else:
        same = [first]
    work.mark(db, same, work.TAKEN)
    return same


def _give_back(db: Connection, items: list[Row]) -> None:
    spent = [item for item in items if item["tries"] + 1 >= MAX_TRIES]
    again = [item for item in items if item["tries"] + 1 < MAX_TRIES]
    work.mark(db, again, work.WAITING, failed=True)
    for item in spent:
        work.extract_one(db, item)
    work.mark(db, spent, work.DONE, failed=True)


def _lines(db: Connection, items: list[Row]) -> list[tuple[int, str, str]]:
    found = (work.message(db, item["message"]) for item in items)
    return [(row["created_at"], row["peer"], row["content"]) for row in found if row is not None]


def _keep(db: Connection, items: list[Row], result: Any) -> None:
    last = items[-1]
    name = work.session_name(db, last["session"])
    said = work.message(db, last["message"])
    if name is not None and said is not None:
        if last["kind"] == "observe":
            work.keep(db, last, name, result, said["created_at"])
        else:
            summaries.store(db, last["session"], last["kind"], result, said)
    work.mark(db, items, work.DONE)
