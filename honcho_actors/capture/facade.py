"""What `runtime` holds of this room: capturing, waiting for deliveries, selection, forks, forgetting, status.

`capture` filters, finds out who and where, and puts the turn in front of the writer: some microseconds, no disk, no
network, no reply to wait for. Everything else here may be called from any thread, never raises for what a host hands
in, and waits only as long as it says.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from honcho_actors.capture import content, forking, retaining
from honcho_actors.capture.accepting import Conversations
from honcho_actors.capture.clocks import to_us
from honcho_actors.capture.core import CapturePorts, Core
from honcho_actors.capture.intake import MAX_TURN_CHARS, Captured, Failed, Intake
from honcho_actors.capture.receipt import Receipt
from honcho_actors.capture.sweeper import Sweeper, WakeUp
from honcho_actors.capture.writer import OutboxWriter, flush_mark
from honcho_actors.model import Audience, Realm, ReceiptState, SessionKey, SkipReason, Turn
from honcho_actors.privacy import identity as identities
from honcho_actors.privacy.identity import Identity, NoIdentity
from supervision import ChildSpec, Restart, Waiter, WouldBlockLoop

__all__ = ["Capture", "CapturePorts", "Forgotten"]

FULL_FOR = 0.05
"""Seconds that a capture waits for room in a full intake before it is skipped."""
_STEP = 0.002

DELIVERY_NAME = "honcho.delivery"
"""The delivery supervisor's name in the runtime's registry."""

MAX_WORKERS = 10_000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What `forget` removed here, and the sessions in which the person's words remain on the server."""

    done: bool
    undelivered_turns: int = 0
    remembered_turns: int = 0
    remote_sessions: tuple[str, ...] = ()
    reason: str = ""


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


class Capture:
    """The capture side of one runtime."""

    def __init__(self, ports: CapturePorts, state_dir: Path, *, intake: Intake | None = None) -> None:
        self._core = Core(ports, state_dir, intake)
        _cores.add(self._core)

    @property
    def core(self) -> Core:
        """What this room's actors share."""
        return self._core

    def child_specs(self) -> list[ChildSpec]:
        """The children of the write side, in their order: OutboxWriter, DeliverySupervisor, Sweeper (one for all)."""
        core = self._core
        return [
            ChildSpec("outbox_writer", OutboxWriter, args=(core,), restart=Restart.PERMANENT, shutdown=5.0),
            ChildSpec.dynamic("delivery", max_children=MAX_WORKERS, name=DELIVERY_NAME),
            ChildSpec("sweeper", Sweeper, args=(core, DELIVERY_NAME), restart=Restart.PERMANENT, shutdown=2.0),
        ]

    # -- capturing -----------------------------------------------------------------------------------------------------

    def capture(self, turn: Turn, *, keep: bool = False) -> Receipt:
        """Hands a turn over; the receipt is *pending*, or *skipped* with the reason. Never raises.

        `keep`: the turn's id is remembered for ever, not only for the delivered window (imports).
        """
        prepared = self._prepare(turn, keep)
        if isinstance(prepared, Receipt):
            return prepared
        if self._core.intake.full and not self._wait_for_room():
            return self._skip(SkipReason.OVERLOADED, prepared.receipt)
        return self._admit(prepared)

    async def acapture(self, turn: Turn, *, keep: bool = False) -> Receipt:
        """As `capture`, and returns when the turn is on disk, or was skipped."""
        prepared = self._prepare(turn, keep)
        if isinstance(prepared, Receipt):
            receipt = prepared
        else:
            until = time.monotonic() + FULL_FOR
            while self._core.intake.full and time.monotonic() < until:  # noqa: ASYNC110 - the writer wakes no loop
                await asyncio.sleep(_STEP)
            if self._core.intake.full:
                return self._skip(SkipReason.OVERLOADED, prepared.receipt)
            receipt = self._admit(prepared)
        await receipt.until(ReceiptState.ACCEPTED)
        return receipt

    def _prepare(self, turn: Turn, keep: bool) -> Captured | Receipt:
        core = self._core
        try:
            settings = core.ports.settings.current
            if core.closed:
                return self._skip(SkipReason.CLOSED)
            reason = content.skip_reason(turn, settings)
            if reason is not None:
                return self._skip(reason)
            who = identities.resolve(turn, settings)
            if isinstance(who, NoIdentity):
                return self._skip(who.skip)
            if core.given_up:
                return self._skip(SkipReason.GIVEN_UP)
            chars = _chars(turn)
            if chars > MAX_TURN_CHARS:
                return self._skip(SkipReason.TOO_LARGE)
            batch_id = content.batch_id_of(who, turn.turn_id)
            if turn.turn_id:
                known = core.receipts.get(batch_id)
                if known is not None and known.state is not ReceiptState.SKIPPED:
                    return known
            at_us = core.ports.read_clock().wall_us if turn.at is None else to_us(turn.at)
            receipt = Receipt(batch_id.hex(), clock=core.ports.clock)
            return Captured(turn, who, batch_id, at_us, settings.message_max_chars, keep, receipt, chars)
        except Exception:  # noqa: BLE001 boundary: whatever a host hands in, a turn never fails because of capture
            return self._skip(SkipReason.BLANK)

    def _admit(self, captured: Captured) -> Receipt:
        core = self._core
        receipt = core.admit(captured.batch_id, captured.receipt)
        if receipt is not captured.receipt:
            return receipt
        core.intake.add(captured)
        core.wake()
        if core.shut:  # it was closed between the first look and now, and nobody will look here again
            self._skip(SkipReason.CLOSED, receipt)
        return receipt

    def _wait_for_room(self) -> bool:
        """At most FULL_FOR; not at all on a thread that runs an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            until = time.monotonic() + FULL_FOR
            while self._core.intake.full and time.monotonic() < until:
                time.sleep(_STEP)
        return not self._core.intake.full

    def _skip(self, reason: SkipReason, receipt: Receipt | None = None) -> Receipt:
        self._core.skipped(reason)
        if receipt is None:
            return Receipt(os.urandom(16).hex(), ReceiptState.SKIPPED, reason.value)
        receipt.advance(ReceiptState.SKIPPED, reason.value)
        return receipt

    # -- waiting -------------------------------------------------------------------------------------------------------

    def flush(self, timeout: float) -> bool:
        """True when nothing that was captured before this call is undelivered; set aside and expired count as ended."""
        try:
            return bool(self._flushed(timeout).result() is True)
        except WouldBlockLoop:
            return False

    async def aflush(self, timeout: float) -> bool:
        """As `flush`, for coroutines."""
        return (await self._flushed(timeout)) is True

    def _flushed(self, timeout: float) -> Waiter[Any]:
        core = self._core
        clock = core.ports.clock
        waiter: Waiter[Any] = Waiter(clock=clock, deadline=clock.now() + max(0.0, timeout), on_deadline=False)
        if core.closed:
            waiter.resolve(False)
            return waiter
        core.submit(flush_mark, in_order=True, fence=False, waiter=waiter)
        core.tell_sweeper(WakeUp())
        return waiter

    def nudge(self) -> None:
        """Everything that waits for the server is tried now: a key appeared, a breaker closed. Returns at once."""
        self._core.tell_sweeper(WakeUp())

    # -- selection, forks, forgetting ----------------------------------------------------------------------------------

    def opt_out(self, session_key: str, partition: str = "") -> None:
        """What is said in this conversation from now on is not captured; durable."""
        self._opt(session_key, partition, out=True)

    def opt_in(self, session_key: str, partition: str = "") -> None:
        """Takes `opt_out` back; durable."""
        self._opt(session_key, partition, out=False)

    def _opt(self, session_key: str, partition: str, *, out: bool) -> None:
        core = self._core
        place = (content.storable(session_key), content.storable(partition))

        def act(connection: Any) -> None:
            (core.opted_out.add if out else core.opted_out.discard)(place)
            retaining.opt(connection, *place, out=out)

        if isinstance(self._wait(core.submit(act, in_order=True), 2.0), Failed) and out:
            core.opted_out.add(place)

    def fork(
        self,
        parent: str,
        child: str,
        at: str | None = None,
        *,
        user: str | None = None,
        partition: str = "",
        audience: Audience = "private",
    ) -> None:
        """Records that `child` goes on from `parent` after the turn `at` (its turn id, inclusive; None: after what has
        been captured by now). Durable, no network; the copy is made before the child's first delivery.
        """
        core = self._core
        if core.closed or core.settings.read_only:
            return
        # A conversation's name does not hang on who speaks in it: without a user the default one stands for anybody.
        person = core.settings.user_peer if user is None else user
        ends = [
            identities.resolve(
                Turn(session_key=key, user=person, partition=partition, audience=audience), core.settings
            )
            for key in (parent, child)
        ]
        if not all(isinstance(end, Identity) for end in ends) or ends[0] == ends[1]:
            return
        wall_us = core.ports.read_clock().wall_us

        def act(connection: Any) -> bool:
            core.moves += 1  # what was accepted before there was a server may find its home here
            located = [identities.locate(end) if isinstance(end, Identity) else end for end in ends]
            return forking.record(connection, Conversations(), located[1], located[0], at, wall_us=wall_us)  # type: ignore[arg-type]

        self._wait(core.submit(act, in_order=True), 2.0)

    def forget(self, user: str | None, partition: str = "") -> Forgotten:
        """Removes a person's turns from the outbox and its ledger, whatever their state; nothing is deleted
        remotely."""
        core = self._core
        who = identities.resolve(Turn(session_key="-", user=user, partition=partition), core.settings)
        if isinstance(who, NoIdentity):
            return Forgotten(False, reason=who.skip.value)
        peer = who.user_peer

        def act(connection: Any) -> tuple[int, int, list[str]]:
            connection.execute("PRAGMA secure_delete=ON")
            core.wipe = True
            core.unknow(peer)
            return retaining.forget(connection, peer)

        found = self._wait(core.submit(act, in_order=True), 5.0)
        if found is None or isinstance(found, Failed):
            return Forgotten(False, reason=SkipReason.STORE_FAILED.value)
        return Forgotten(True, found[0], found[1], tuple(found[2]))

    def _wait(self, waiter: Waiter[Any], seconds: float) -> Any:
        """The value, or None when it takes longer, or on a thread that must not wait."""
        until = time.monotonic() + seconds
        bounded: Waiter[Any] = Waiter(deadline=until, on_deadline=None)
        waiter.add_done_callback(lambda done: bounded.resolve(done.value))
        try:
            return bounded.result()
        except WouldBlockLoop:
            return None

    # -- status --------------------------------------------------------------------------------------------------------

    def is_on_server(self, session: SessionKey) -> bool:
        """Whether the server is known to have this conversation. From memory; any thread; False before the ledger was
        read."""
        return session in self._core.on_server

    @property
    def ledger_coming(self) -> bool:
        """Whether the ledger is about to be read: a runtime that has just started, and no trouble with its disk."""
        core = self._core
        return not (core.ledger_read or core.closed or core.given_up or core.trouble.text)

    def knows(self, realm: Realm, key: str, user: str | None = None) -> bool:
        """Whether the server is known to have a private conversation of this key, of that remote peer or of anybody.
        As `is_on_server`, but looks through all of them: not for the turn path."""
        key = content.storable(key)
        return any(
            held.key == key and held.realm == realm and held.audience == "private" and user in (None, held.user)
            for held in list(self._core.on_server)
        )

    def status(self) -> dict[str, Any]:
        """JSON-able; read from what the actors published, without asking any of them."""
        core = self._core
        counts = core.counts
        found: dict[str, Any] = {
            "open": counts is not None and not core.closed,
            "read_only": core.settings.read_only,
            "waiting_for_disk": len(core.intake),
            "skipped": dict(sorted(core.skips.copy().items())),
            "waiting": dict(sorted(Counter(list(core.waiting.values())).items())),
            "trouble": core.trouble.text,
            "set_aside_files": list(core.set_aside_files),
            "path": str(core.path),
        }
        if counts is not None:
            found |= {
                "pending_turns": counts.turns,
                "pending_messages": counts.messages,
                "oldest_age": counts.oldest,
                "set_aside": counts.set_aside,
                "expired": counts.expired,
                "conversations": counts.conversations,
                "delivered": counts.delivered,
                "doubled": counts.doubled,
                "last_delivery": counts.last_delivery,
                "file_bytes": counts.file_bytes,
                "forks_pending": counts.forks_pending,
                "forks_failed": dict(counts.forks_failed),
            }
        return found

    def give_up(self, given_up: bool = True) -> None:
        """Told by the runtime when the write side has given up, and when it runs again."""
        self._core.given_up = given_up

    @property
    def nothing_owed(self) -> bool:
        """Whether, as was last published, nothing accepted is undelivered and nothing waits for the disk."""
        counts = self._core.counts
        return counts is not None and counts.turns == 0 and len(self._core.intake) == 0

    def close(self) -> None:
        """Nothing is taken any more; what was handed over is written while the tree stops."""
        self._core.closed = True


def _chars(turn: Turn) -> int:
    prompt = turn.prompt
    if isinstance(prompt, str):
        size = len(prompt)
    else:
        size = sum(len(part) + 1 for part in prompt if isinstance(part, str)) if isinstance(prompt, tuple | list) else 0
    return size + (len(turn.answer) if isinstance(turn.answer, str) else 0)


def _after_fork() -> None:
    """In a forked child there is no writer: capture says so instead of waiting for one."""
    for core in list(_cores):
        core.closed = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
