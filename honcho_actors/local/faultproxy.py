"""A proxy that does to Honcho's clients what networks do: `python -m honcho_actors.local.faultproxy --upstream URL
--port 0`.

A process of its own, for tests and for users. What it does is a plan (see `faultproxy_plan`), given as a file, as a
seeded storm, or changed at run time over its second, administrative port, which also reports how often each fault
fired. It knows nothing of ours and imports nothing of ours.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from honcho_actors.local.faultproxy_http import MAX_HEAD_BYTES, Broken, Message, forward, read_message, reset
from honcho_actors.local.faultproxy_plan import Fault, Hit, Plan, PlanError, operation_of, parse_plan, storm

LOGIN_PAGE = "<!doctype html><html><title>login</title><body>please sign in</body></html>"
NOISE = b"\x16\x03\x01 this is not the protocol that you are looking for\r\n\r\n"
HANG_LIMIT = 3600.0


class FaultProxy:
    """Listens on `port` for clients and on `admin_port` for whoever plans; forwards to `host:upstream_port`."""

    def __init__(self, host: str, upstream_port: int, plan: Plan) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self._host = host
        self._upstream_port = upstream_port
        self._clients: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._held: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._admin: asyncio.Server | None = None
        self._silent: asyncio.DatagramTransport | None = None
        self.port = 0
        self.admin_port = 0
        self.dns_port = 0

    async def start(self, port: int = 0, admin_port: int = 0, dns_port: int | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MAX_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        self._admin = await asyncio.start_server(self._administer, "127.0.0.1", admin_port, limit=MAX_HEAD_BYTES)
        self.admin_port = self._admin.sockets[0].getsockname()[1]
        if dns_port is not None:
            loop = asyncio.get_running_loop()
            self._silent, _ = await loop.create_datagram_endpoint(
                lambda: _SilentResolver(self.counts), ("127.0.0.1", dns_port)
            )
            self.dns_port = self._silent.get_extra_info("sockname")[1]

    async def close(self) -> None:
        for server in (self._server, self._admin):
            if server is not None:
                server.close()
        if self._silent is not None:
            self._silent.close()
        for writer in list(self._clients):
            writer.transport.abort()
        ending = [*self._held, *self._serving]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def report(self) -> dict[str, Any]:
        """Requests and faults by operation; how many requests are held now; what was forwarded after its client had
        gone.
        """
        return {
            **self.plan.report(),
            "seed": self.plan.seed,
            "open_clients": len(self._clients),
            "held": len(self._held),
            "forwarded": self.counts["forwarded"],
            "forwarded_after_client_gone": self.counts["forwarded_after_client_gone"],
            "upstream_failures": self.counts["upstream_failures"],
            "swallowed_name_lookups": self.counts["swallowed_name_lookups"],
        }

    # -- clients -------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            with self._served():
                while (request := await read_message(reader)) is not None:
                    if not await self._handle(request, reader, writer):
                        break
        finally:
            writer.transport.abort()
            self._clients.discard(writer)

    @contextlib.contextmanager
    def _served(self) -> Iterator[None]:
        """Around one connection's work, whose task is `close`'s to end: asyncio tells of a cancelled one as a fault."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            yield
        except (Broken, OSError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)

    async def _handle(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Treats one request. False ends the connection."""
        method, target = [*request.first.split(" "), "", ""][:2]
        hits = self.plan.throw(operation_of(method, target))
        for hit in hits:
            if hit.rule.fault is Fault.LATENCY:
                if await self._gone_within(reader, hit.delay):
                    return False
            else:
                return await self._strike(hit, request, reader, writer)
        reply = await self._forward(request)
        await self._send(writer, reply.encoded())
        return True

    async def _strike(
        self, hit: Hit, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        rule = hit.rule
        if rule.fault is Fault.REFUSE:
            reset(writer)
        elif rule.fault is Fault.HANG:
            await self._gone_within(reader, HANG_LIMIT)
        elif rule.fault is Fault.CUT_REQUEST:
            with contextlib.suppress(Broken):
                await forward(self._host, self._upstream_port, request, min(rule.keep, 0.999))
            reset(writer)
        elif rule.fault is Fault.NOISE:
            await self._send(writer, NOISE)
        elif rule.fault is Fault.GARBAGE:
            page = LOGIN_PAGE if rule.body is None else rule.body
            await self._send(writer, _reply(200, page, ("content-type", "text/html"), *rule.headers))
            return True
        elif rule.fault is Fault.STATUS:
            await self._send(writer, _reply(rule.status, rule.body or '{"detail": "fault proxy"}', *rule.headers))
            return True
        elif rule.fault is Fault.LATE_COMMIT:
            return await self._hold(hit.delay, request, reader, writer)
        else:
            return await self._after_commit(hit, await self._forward(request), reader, writer)
        return False

    async def _after_commit(
        self, hit: Hit, reply: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """The server has done it; what does the client get to know?"""
        rule = hit.rule
        data = reply.encoded()
        if rule.fault is Fault.COMMIT_THEN_DROP:
            reset(writer)
            return False
        if rule.fault is Fault.COMMIT_THEN_STATUS:
            await self._send(writer, _reply(rule.status, rule.body or '{"detail": "fault proxy"}', *rule.headers))
            return True
        if rule.fault is Fault.CUT:
            await self._send(writer, data[: max(1, int(len(data) * rule.keep))])
            reset(writer)
            return False
        if rule.fault is Fault.DRIP:
            for place in range(len(data)):
                await self._send(writer, data[place : place + 1])
                if await self._gone_within(reader, rule.interval):
                    return False
            return True
        if await self._gone_within(reader, hit.delay):  # LATE_REPLY
            return False
        await self._send(writer, data)
        return True

    async def _hold(
        self, delay: float, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Forwards later, come what may. The client is answered if it waited."""
        gone = asyncio.Event()
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        answered.add_done_callback(_looked_at)

        async def later() -> None:
            await asyncio.sleep(delay)
            try:
                if gone.is_set():
                    self.counts["forwarded_after_client_gone"] += 1
                reply = await self._forward(request)
            except Broken as broken:
                answered.set_exception(broken)
            else:
                answered.set_result(reply)

        self._keep(later())
        watch = _gone(reader)
        waited: set[asyncio.Future[Any]] = {watch, answered}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            gone.set()
            return False
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await self._send(writer, answered.result().encoded())
        return True

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    async def _forward(self, request: Message) -> Message:
        self.counts["forwarded"] += 1
        try:
            reply = await forward(self._host, self._upstream_port, request)
        except Broken:
            self.counts["upstream_failures"] += 1
            raise
        if reply is None:
            raise Broken("no reply")
        return reply

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    async def _gone_within(self, reader: asyncio.StreamReader, seconds: float) -> bool:
        """Waits, and says at once when the client has hung up meanwhile."""
        watch = _gone(reader)
        done, _ = await asyncio.wait({watch}, timeout=seconds)
        if done:
            return True
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        return False

    # -- administration ------------------------------------------------------------------------------------------------

    async def _administer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with self._served():
                request = await read_message(reader)
                if request is not None:
                    status, value = await self._command(request)
                    await self._send(writer, _reply(status, json.dumps(value), ("connection", "close")))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _command(self, request: Message) -> tuple[int, Any]:
        method, path = [*request.first.split(" "), "", ""][:2]
        if (method, path) == ("GET", "/report"):
            return 200, self.report()
        if (method, path) == ("PUT", "/plan"):
            try:
                plan = parse_plan(request.body)
            except PlanError as wrong:
                return 422, {"detail": str(wrong)}
            plan.requests, plan.fired = self.plan.requests, self.plan.fired
            self.plan = plan
            return 200, self.report()
        if (method, path) == ("POST", "/down"):
            await self._down()
            await self._until_dropped()
            return 200, self.report()
        if (method, path) == ("POST", "/up"):
            await self._up()
            return 200, self.report()
        if (method, path) == ("POST", "/drop"):
            for writer in list(self._clients):
                reset(writer)
            await self._until_dropped()
            return 200, self.report()
        return 404, {"detail": "GET /report, PUT /plan, POST /down, POST /up, POST /drop"}

    async def _down(self) -> None:
        """Refuses for real: nothing listens any more, open connections are reset. Held requests go on."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._clients):
            reset(writer)

    async def _until_dropped(self) -> None:
        """Resets are carried out by the loop: whoever ordered them is answered when they have been."""
        for _ in range(100):
            if not self._clients:
                return
            await asyncio.sleep(0.01)

    async def _up(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=MAX_HEAD_BYTES)


class _SilentResolver(asyncio.DatagramProtocol):
    """A name server that never answers: point a resolver at it and every look-up hangs."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._counts["swallowed_name_lookups"] += 1


def _gone(reader: asyncio.StreamReader) -> asyncio.Future[bytes]:
    """Done when the client hangs up, in order or by a reset, or speaks out of turn."""
    watch = asyncio.ensure_future(reader.read(1))
    watch.add_done_callback(_looked_at)
    return watch


def _looked_at(done: asyncio.Future[Any]) -> None:
    """What nobody asks of a future any more is no fault to be told of."""
    if not done.cancelled():
        done.exception()


def _reply(status: int, body: str, *headers: tuple[str, str]) -> bytes:
    names = {name.lower() for name, _ in headers}
    kind = () if "content-type" in names else (("content-type", "application/json"),)
    return Message(f"HTTP/1.1 {status} {'OK' if status == 200 else 'Fault'}", (*kind, *headers), body.encode()).encoded(
        *((name, value) for name, value in headers if name.lower() == "connection")
    )


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m honcho_actors.local.faultproxy",
        description="Stands between a client and a Honcho server and does what networks do.",
        epilog="example: python -m honcho_actors.local.faultproxy --upstream http://127.0.0.1:8000 --seed 7",
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server, http://host:port")
    parser.add_argument("--port", type=int, default=0, help="for clients; 0 takes a free one")
    parser.add_argument("--admin-port", type=int, default=0, help="for reports and plans; 0 takes a free one")
    parser.add_argument("--dns-port", type=int, help="also swallow name look-ups on this UDP port (0: a free one)")
    parser.add_argument("--plan", type=Path, help="JSON file with the rules")
    parser.add_argument("--seed", type=int, help="a seeded storm of every fault instead of a plan")
    parser.add_argument("--share", type=float, default=0.3, help="share of the requests that the storm hits")
    parser.add_argument("--ready-file", type=Path, help="written with url, admin and pid (JSON) once it listens")
    return parser.parse_args(argv)


def _planned(given: argparse.Namespace) -> Plan:
    if given.plan is not None and given.seed is not None:
        raise PlanError("--plan and --seed exclude each other")
    if given.seed is not None:
        return storm(given.seed, given.share)
    if given.plan is None:
        return Plan()
    try:
        return parse_plan(given.plan.read_bytes())
    except OSError as wrong:
        raise PlanError(f"the plan cannot be read: {wrong.strerror}") from None


async def _run(given: argparse.Namespace, host: str, upstream_port: int, plan: Plan) -> None:
    proxy = FaultProxy(host, upstream_port, plan)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await proxy.start(given.port, given.admin_port, given.dns_port)
    ready = {"url": f"http://127.0.0.1:{proxy.port}", "admin": f"http://127.0.0.1:{proxy.admin_port}"}
    if given.dns_port is not None:
        ready["dns"] = f"127.0.0.1:{proxy.dns_port}"
    print(json.dumps(ready), flush=True)
    if given.ready_file is not None:
        partial = given.ready_file.with_suffix(".part")
        partial.write_text(json.dumps(ready))
        partial.replace(given.ready_file)
    await stop.wait()
    print(json.dumps(proxy.report()), flush=True)
    await proxy.close()


def main(argv: list[str] | None = None) -> int:
    given = _arguments(argv)
    try:
        parts = urlsplit(given.upstream)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise PlanError("--upstream must be http://host:port")
        asyncio.run(_run(given, parts.hostname, parts.port or 80, _planned(given)))
    except (PlanError, ValueError) as wrong:
        print(f"faultproxy: {wrong}", file=sys.stderr)
        return 2
    except OSError as wrong:
        print(f"faultproxy: cannot listen: {wrong.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
