"""One call from its first check to its outcome: gate, breaker, wire, reply. Never raises, never outlives its
deadline.

The order is fixed: is there an endpoint; is the breaker shut; wait for a slot (deadline first); send; read at most so
many bytes; judge. A cancelled call gives its slot back and aborts its connection without waiting for anything.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx

from honcho_actors import tracing
from honcho_actors.honcho.breaker import Area, Breaker, Breakers, Permit
from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint, EndpointSource
from honcho_actors.honcho.limiter import Limiter
from honcho_actors.honcho.operations import Operation
from honcho_actors.honcho.outcomes import Call, Failure, FailureKind, Ok, Outcome
from honcho_actors.honcho.reading import Skip
from honcho_actors.honcho.replies import MAX_BODY_BYTES, Reply, judge
from honcho_actors.honcho.said import chain, said
from honcho_actors.honcho.stream import PublicHttp
from honcho_actors.honcho.transport import Exchange, PlainClient, PoolTransport, ReplyBody

if TYPE_CHECKING:
    from honcho_actors.metrics import Meters

T = TypeVar("T")
Read = Callable[[object, Skip], T]

NO_BODY = httpx.ByteStream(b"")
MAX_CALL_SECONDS = 3600.0
"""No call lives longer, whatever its deadline says."""
BLAMES_SERVER_AFTER = 1.0
"""Seconds in flight from which a passed deadline counts against the server; a shorter one says more about the caller.
"""


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    """What is asked, whoever it is asked of. `path`: segments from the root; `content`: the body, b"" for none."""

    op: Operation
    path: tuple[str, ...]
    read: Read[T]
    params: Mapping[str, str]
    content: bytes


@dataclass(slots=True)
class _Trip:
    """How far one attempt got: what a passed deadline or a kill is judged by."""

    breaker: Breaker
    permit: Permit | None = None
    exchange: Exchange | None = None
    sent_at: float | None = None


class Caller:
    """Carries out calls on one event loop."""

    def __init__(
        self,
        source: EndpointSource,
        transport: PoolTransport,
        limiter: Limiter,
        breakers: Breakers,
        meters: Meters | None = None,
        reread: Callable[[], object] | None = None,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._source = source
        self._http = PlainClient(transport)
        self._limiter = limiter
        self._breakers = breakers
        self._meters = meters
        self._reread = reread
        self._wall_clock = wall_clock
        self._base: _Base | None = None
        self._origin: object = None
        self._rejected: str | None = None
        self._shown: dict[Area, str] = {}
        self.skipped: Counter[str] = Counter()
        """Parts of replies that were skipped, by name."""

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        op: Operation,
        call: Call,
        path: tuple[str, ...],
        read: Read[T],
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        versioned: bool = True,
    ) -> Outcome[T]:
        """One operation. `path`: segments below `/v3` (below the root when not `versioned`)."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        code = "cancelled"
        try:
            try:
                content = b"" if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
            except (ValueError, TypeError, RecursionError):
                return Failure(FailureKind.REFUSED, op.name, detail="it cannot be said in JSON", bytes_sent=False)
            job = _Job(op, ("v3", *path) if versioned else path, read, params or {}, content)
            outcome = await self._authorised(job, call)
            code = _code(outcome)
            return outcome
        finally:
            if self._meters is not None:
                self._meters.requests.labels(op.name, code).inc()
                self._meters.request_duration.labels(op.name).observe(loop.time() - started, tracing.exemplar())

    async def _authorised(self, job: _Job[T], call: Call) -> Outcome[T]:
        """The call, and after a 401 at most one more with a key that has changed meanwhile or when read again."""
        endpoint = self._source()
        if isinstance(endpoint, BadEndpoint):
            return Failure(FailureKind.NOT_CONFIGURED, job.op.name, detail=endpoint.problem, bytes_sent=False)
        outcome = await self._timed(job, call, endpoint)
        if not (isinstance(outcome, Failure) and outcome.status == 401):
            return outcome
        fresh = self._fresher(endpoint)
        return outcome if fresh is None else await self._timed(job, call, fresh)

    def _fresher(self, rejected: Endpoint) -> Endpoint | None:
        """The same server under another key, or None. The sources are read again once for each rejected key."""
        current = self._source()
        if _same(current, rejected) and self._reread is not None and self._rejected != (rejected.key or ""):
            self._rejected = rejected.key or ""
            try:
                self._reread()
            except Exception:  # noqa: BLE001 boundary: a source of keys that fails is one without a new key
                return None
            current = self._source()
        if isinstance(current, BadEndpoint) or current.key == rejected.key or current.origin != rejected.origin:
            return None
        return current

    async def _timed(self, job: _Job[T], call: Call, endpoint: Endpoint) -> Outcome[T]:
        now = asyncio.get_running_loop().time()
        latest = now + MAX_CALL_SECONDS
        deadline = min(call.deadline, latest) if math.isfinite(call.deadline) else latest
        if deadline <= now:
            return Failure(FailureKind.TIMED_OUT, job.op.name, detail="the deadline had passed", bytes_sent=False)
        trip = _Trip(self._breaker_of(job.op, endpoint))
        try:
            async with asyncio.timeout_at(deadline):
                return await self._gated(job, call, deadline, endpoint, trip)
        except TimeoutError:
            return self._out_of_time(job.op, trip)
        finally:
            if trip.permit is not None:
                trip.breaker.forget(trip.permit)

    async def _gated(self, job: _Job[T], call: Call, deadline: float, endpoint: Endpoint, trip: _Trip) -> Outcome[T]:
        op = job.op
        loop = asyncio.get_running_loop()
        breaker = trip.breaker
        if op.area is not Area.HEALTH and breaker.retry_in(loop.time()) > 0:
            return _open(op, breaker, loop.time())
        if not await self._limiter.acquire(call.priority, deadline, call.due):
            if loop.time() >= deadline:
                return Failure(FailureKind.TIMED_OUT, op.name, detail="no slot before the deadline", bytes_sent=False)
            return Failure(FailureKind.RATE_LIMITED, op.name, detail="the queue is full", bytes_sent=False)
        try:
            if call.wanted is not None and not call.wanted():
                return Failure(FailureKind.NOT_CONFIGURED, op.name, detail="not wanted any more", bytes_sent=False)
            trip.permit = Permit.ORDINARY if op.area is Area.HEALTH else breaker.admit(loop.time())
            if trip.permit is None:
                return _open(op, breaker, loop.time())
            outcome = await self._sent(job, endpoint, trip)
            self._record(op, trip, outcome)
            return outcome
        finally:
            self._limiter.release()

    async def _sent(self, job: _Job[T], endpoint: Endpoint, trip: _Trip) -> Outcome[T]:
        op = job.op
        exchange = trip.exchange = Exchange(op.idempotent, job.content)
        trip.sent_at = asyncio.get_running_loop().time()
        whole = False
        try:
            base = self._base_of(endpoint)
            target = endpoint.target(*job.path, query=job.params)
            request = httpx.Request(
                op.method,
                base.url,
                headers=base.headers(op.method, job.content),
                stream=NO_BODY,  # the exchange has it: the transport hands it over in one piece
                extensions={"exchange": exchange, "endpoint": endpoint, "target": target.encode("ascii")},
            )
            response = await self._http.send(request)
            reply = await _read(response, exchange.reply_headers)
            if reply is None:
                kind = FailureKind.UNKNOWN_OUTCOME if op.stores else FailureKind.BAD_REPLY
                return Failure(kind, op.name, response.status_code, f"the reply is longer than {MAX_BODY_BYTES} bytes")
            await response.aclose()
            whole = True
            return judge(op, reply, job.read, self._skip, (endpoint.key,), self._wall_clock())
        except PublicHttp as refused:
            return Failure(FailureKind.NOT_CONFIGURED, op.name, detail=str(refused), bytes_sent=False)
        except Exception as failed:  # noqa: BLE001 boundary: whatever the network or its library raises is a value here
            sent = exchange.all_sent()
            kind = FailureKind.UNKNOWN_OUTCOME if op.stores and sent else FailureKind.TRANSPORT
            return Failure(kind, op.name, detail=said(chain(failed), (endpoint.key,)), bytes_sent=sent)
        finally:
            if not whole:
                exchange.abort()

    def _breaker_of(self, op: Operation, endpoint: Endpoint) -> Breaker:
        """The breaker of this part of this server: what another server did before says nothing of it."""
        if self._origin != endpoint.origin:
            if self._origin is not None:
                self._breakers.renew()
                now = asyncio.get_running_loop().time()
                for area in Area:
                    self._show(area, now)
            self._origin = endpoint.origin
        return self._breakers[op.area]

    def _base_of(self, endpoint: Endpoint) -> _Base:
        """What every request to this endpoint shares."""
        base = self._base
        if base is None or (base.endpoint is not endpoint and base.endpoint != endpoint):
            base = self._base = _Base.of(endpoint)
        return base

    def _out_of_time(self, op: Operation, trip: _Trip) -> Failure:
        now = asyncio.get_running_loop().time()
        sent = trip.exchange is not None and trip.exchange.all_sent()
        if trip.permit is not None and trip.sent_at is not None and now - trip.sent_at >= BLAMES_SERVER_AFTER:
            trip.breaker.record(trip.permit, now, good=False)
            trip.permit = None
            self._show(op.area, now)
        kind = FailureKind.UNKNOWN_OUTCOME if op.stores and sent else FailureKind.TIMED_OUT
        where = "in the queue" if trip.exchange is None else "waiting for the reply" if sent else "on the way out"
        return Failure(kind, op.name, detail=f"the deadline passed {where}", bytes_sent=sent)

    def _record(self, op: Operation, trip: _Trip, outcome: Outcome[T]) -> None:
        """Tells the breaker, except of what was never sent: that is forgotten on the way out."""
        if trip.permit is None or (isinstance(outcome, Failure) and outcome.kind is FailureKind.NOT_CONFIGURED):
            return
        permit, trip.permit = trip.permit, None
        now = asyncio.get_running_loop().time()
        if isinstance(outcome, Ok):
            trip.breaker.record(permit, now, good=True)
        else:
            good = not _blames_server(outcome)
            trip.breaker.record(permit, now, good, outcome.retry_after)
        self._show(op.area, now)

    def _show(self, area: Area, now: float) -> None:
        state = self._breakers[area].state(now).value
        if self._meters is not None and area is not Area.HEALTH and self._shown.get(area) != state:
            self._shown[area] = state
            self._meters.breaker_state.labels(area.value).set(_LEVEL[state])

    def _skip(self, part: str) -> None:
        self.skipped[part] += 1


_LEVEL = {"closed": 0, "half_open": 1, "open": 2}


def _same(current: Endpoint | BadEndpoint, other: Endpoint) -> bool:
    return isinstance(current, Endpoint) and current.key == other.key


def _blames_server(failure: Failure) -> bool:
    if failure.kind in (FailureKind.TRANSPORT, FailureKind.BAD_REPLY, FailureKind.RATE_LIMITED):
        return True
    if failure.kind is FailureKind.UNKNOWN_OUTCOME:
        return True
    return failure.status is not None and failure.status >= 500


def _open(op: Operation, breaker: Breaker, now: float) -> Failure:
    wait = breaker.retry_in(now)
    return Failure(
        FailureKind.BREAKER_OPEN,
        op.name,
        detail="left alone after repeated failures",
        retry_after=wait,
        bytes_sent=False,
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """Origin and headers as httpx wants them, made once: parsing costs more than sending. The target travels beside."""

    endpoint: Endpoint
    url: httpx.URL
    common: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, endpoint: Endpoint) -> _Base:
        url = httpx.URL(endpoint.origin)
        common = [
            (b"Host", url.netloc),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
            (b"user-agent", b"honcho-actors"),
        ]
        if endpoint.key is not None:
            common.append((b"authorization", f"Bearer {endpoint.key}".encode()))
        return cls(endpoint, url, tuple(common))

    def headers(self, method: str, content: bytes) -> httpx.Headers:
        """Those of one request."""
        if content:
            length = str(len(content)).encode()
            return httpx.Headers([*self.common, (b"content-type", b"application/json"), (b"content-length", length)])
        if method in ("POST", "PUT", "PATCH"):
            return httpx.Headers([*self.common, (b"content-length", b"0")])
        return httpx.Headers(list(self.common))


async def _read(response: httpx.Response, raw_headers: Sequence[tuple[bytes, bytes]]) -> Reply | None:
    """The reply read to its end, None when it is longer than is taken."""
    headers = {name.lower(): value for name, value in raw_headers}
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced[:20]) > MAX_BODY_BYTES:
        return None
    assert isinstance(response.stream, ReplyBody)
    body = await response.stream.whole(MAX_BODY_BYTES)
    if body is None:
        return None
    retry_after = headers.get(b"retry-after")
    return Reply(
        status=response.status_code,
        body=body,
        content_type=headers.get(b"content-type", b"").decode("latin-1").strip().lower(),
        encoding=headers.get(b"content-encoding", b"").decode("latin-1"),
        retry_after=None if retry_after is None else retry_after.decode("latin-1"),
        delimited=bool(announced) or b"transfer-encoding" in headers,
    )


def _code(outcome: Outcome[Any]) -> str:
    """The closed label of `requests_total`."""
    status = outcome.status
    if isinstance(outcome, Failure) and outcome.kind in _KIND_CODES:
        return outcome.kind.value
    if status is None:
        return outcome.kind.value if isinstance(outcome, Failure) else "2xx"
    return str(status) if status in (401, 403, 404, 409, 422, 429) else f"{status // 100}xx"


_KIND_CODES = frozenset(
    {FailureKind.BAD_REPLY, FailureKind.TRANSPORT, FailureKind.TIMED_OUT, FailureKind.UNKNOWN_OUTCOME}
    | {FailureKind.BREAKER_OPEN, FailureKind.NOT_CONFIGURED}
)
