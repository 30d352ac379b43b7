"""The RefreshWorker: a task actor that does one job on the event loop, tells the manager, and ends; in a storm it is
given the next in line instead.

It holds no state that anyone needs. Each call has a total deadline; killing the worker cancels the call and closes its
socket. It never decides what is published: whatever it brings is checked against the manager's own book first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from honcho_actors.honcho.outcomes import Call, FailureKind, Ok, Outcome, Priority
from honcho_actors.honcho.reading import PeerContext, SessionContext, Summaries
from honcho_actors.privacy.egress import Screened
from honcho_actors.sessions.block import card_lines
from honcho_actors.sessions.jobs import OUTCOMES, BaseJob, DialecticJob, Done, Job, SummaryJob
from honcho_actors.sessions.questions import enough, question
from honcho_actors.tracing import span
from supervision import Ref, TaskActor

if TYPE_CHECKING:  # the client loads the HTTP library, which no import of ours does
    from honcho_actors.honcho.client import Level

REPORT_SECONDS = 0.5
"""A call ends by its own deadline; this much later the worker ends itself, in case it did not."""


class Reads(Protocol):
    """The four operations that memory is read with, as `HonchoClient` has them."""

    async def session_context(
        self,
        workspace: str,
        session: str,
        *,
        peer_target: str,
        max_conclusions: int,
        tokens: int,
        summary: bool,
        include_most_frequent: bool,
        call: Call,
    ) -> Outcome[SessionContext]: ...

    async def peer_context(
        self, workspace: str, peer: str, *, max_conclusions: int, include_most_frequent: bool, call: Call
    ) -> Outcome[PeerContext]: ...

    async def summaries(self, workspace: str, session: str, *, call: Call) -> Outcome[Summaries]: ...

    async def chat(
        self, workspace: str, peer: str, query: Screened, *, session_id: str | None, level: Level, call: Call
    ) -> Outcome[str | None]: ...


ClientFactory = Callable[[str], Reads | None]
"""Gives the running loop's client for a server (`Settings.server_id`), or None when another server is set now. Called
on that loop."""


class _Go:
    """Told by a worker to itself when it has started."""


class Next(NamedTuple):
    """To a worker that stays: one more job."""

    job: Job


class Leave:
    """To a worker that stays: there is nothing more to do."""


LEAVE = Leave()


class RefreshWorker(TaskActor):
    """Does `job` with the client that `client()` gives and tells `manager` what came of it. One that `stays` is then
    told `Next` or `LEAVE`."""

    def __init__(self, job: Job, manager: Ref[Any], client: ClientFactory, stays: bool = False) -> None:
        super().__init__()
        self._job = job
        self._manager = manager
        self._client = client
        self._stays = stays

    def on_start(self) -> None:
        self.actor_ref.cast(_Go())

    async def on_receive(self, message: object) -> None:
        if isinstance(message, Next):
            self._job = message.job
        elif not isinstance(message, _Go):
            if isinstance(message, Leave):
                self.stop()
            return
        done = await self._work()
        told = self._manager.cast(replace(done, worker=self.actor_ref) if self._stays else done)
        if not self._stays or not told:
            self.stop()

    async def _work(self) -> Done:
        with span("refresh", layer=self._job.layer.value) as traced:
            done = await self._done()
            if done.failure is not None:
                traced.ended(OUTCOMES.get(done.failure, "failed"), failed=True)
            else:
                traced.ended("ok" if done.known else "nothing_known")
            exemplar = traced.exemplar
        return done if exemplar is None else replace(done, exemplar=exemplar)

    async def _done(self) -> Done:
        job = self._job
        try:
            async with asyncio.timeout(job.seconds + REPORT_SECONDS):
                reads = self._client(job.key[0])
                if reads is None:
                    return Done(job.number, FailureKind.NOT_CONFIGURED)
                if isinstance(job, BaseJob):
                    return await read_base(reads, job)
                if isinstance(job, SummaryJob):
                    return await read_summary(reads, job)
                return await ask(reads, job)
        except TimeoutError:
            return Done(job.number, FailureKind.TIMED_OUT)


def _deadline(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def read_base(reads: Reads, job: BaseJob) -> Done:
    """One request; a second one, for the person's part alone, only when the server answered and refused the first."""
    call = Call(_deadline(job.seconds), Priority.COLD if job.cold else Priority.REFRESH, job.due)
    if not job.session:
        return await _read_person(reads, job, call)
    found = await reads.session_context(
        job.workspace,
        job.session,
        peer_target=job.peer,
        max_conclusions=job.max_conclusions,
        tokens=job.tokens,
        summary=job.summary,
        include_most_frequent=True,
        call=call,
    )
    if isinstance(found, Ok):
        read = found.value
        summary = (read.summary or "") if job.summary else None
        return Done(job.number, representation=read.representation or "", card=card_lines(read.card), summary=summary)
    if found.kind is FailureKind.NOTHING_KNOWN:
        return Done(job.number, known=False)
    if found.kind not in (FailureKind.REFUSED, FailureKind.BAD_REPLY):
        return Done(job.number, found.kind)
    return await _read_person(reads, job, call)


async def _read_person(reads: Reads, job: BaseJob, call: Call) -> Done:
    person = await reads.peer_context(
        job.workspace, job.peer, max_conclusions=job.max_conclusions, include_most_frequent=True, call=call
    )
    if isinstance(person, Ok):
        return Done(job.number, representation=person.value.representation or "", card=card_lines(person.value.card))
    if person.kind is FailureKind.NOTHING_KNOWN:
        return Done(job.number, known=False)
    return Done(job.number, person.kind)


async def read_summary(reads: Reads, job: SummaryJob) -> Done:
    """The summary alone. An unknown conversation has none."""
    found = await reads.summaries(job.workspace, job.session, call=Call(_deadline(job.seconds)))
    if isinstance(found, Ok):
        return Done(job.number, summary=found.value.short or found.value.long or "")
    return Done(job.number, found.kind)


async def ask(reads: Reads, job: DialecticJob) -> Done:
    """One to three passes. A later pass that fails or gives nothing leaves the answer before it standing."""
    deadline = _deadline(job.seconds)
    answer, calls = "", 0
    for number in range(job.depth):
        text = question(job.message, cold=job.cold, answer=answer, last=number == job.depth - 1)
        if text is None:
            break
        calls += 1
        found = await reads.chat(
            job.workspace, job.peer, text, session_id=job.session, level=cast("Level", job.level), call=Call(deadline)
        )
        if not isinstance(found, Ok):
            return Done(job.number, None if answer else found.kind, answer=answer, calls=calls)
        given = (found.value or "").strip()
        done = enough(given, answer, job.max_chars)
        answer = given or answer
        if done:
            break
    return Done(job.number, answer=answer, calls=calls)
