"""The pool: keep-alive, dead connections, one reconnect, honest byte counts, total deadlines, TLS, names."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.honcho.client import HonchoClient, OutMessage
from honcho_actors.honcho.outcomes import Call, FailureKind, Ok
from honcho_actors.honcho.resolver import Address, ResolveError, Resolver, system_lookup
from honcho_actors.honcho.transport import PoolTransport
from tests.support.calls import client, endpoint, failure, read_context, text, value, within
from tests.support.stub_honcho import Answer, Raw, Said, Seen, StubHoncho

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def _say(answer: Answer, seen: Seen) -> Answer:
    return answer


async def settle(condition: Callable[[], bool]) -> None:
    for _ in range(4_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come about")


# -- construction --------------------------------------------------------------------------------------------------


def test_the_thread_of_a_resolver_that_was_given_up_with_its_loop_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honcho_actors.honcho.resolver.LOOK_EVERY", 0.01)
    answered_by: list[threading.Thread] = []

    def lookup(host: str, port: int) -> list[Address]:
        answered_by.append(threading.current_thread())
        return [(socket.AF_INET, ("127.0.0.1", port))]

    async def ask() -> list[Address]:
        return await Resolver(lookup).resolve("honcho.internal", 80)

    assert asyncio.run(ask()) == [(socket.AF_INET, ("127.0.0.1", 80))]
    answered_by[0].join(30)
    assert not answered_by[0].is_alive()


def test_building_a_client_touches_no_network_no_certificate_and_no_loop() -> None:
    before = threading.active_count()
    honcho = HonchoClient(endpoint("http://somewhere.internal"))
    assert threading.active_count() == before
    assert honcho.transport._ssl_context is None
    honcho.transport.abort_all()


async def test_calls_over_tls_that_begin_together_read_the_certificates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []
    failing = True

    def make(**_: Any) -> ssl.SSLContext:
        made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        if failing:
            raise OSError("no certificates")
        return made[-1]

    monkeypatch.setattr("httpx.create_ssl_context", make)
    pool = PoolTransport(Resolver())
    results = await asyncio.gather(*(pool._tls() for _ in range(50)), return_exceptions=True)
    assert [type(one) for one in results] == [OSError] * 50
    assert len(made) == 1
    failing = False
    gone = asyncio.create_task(pool._tls())
    await asyncio.sleep(0)
    gone.cancel()  # who no longer waits takes nothing from the others
    assert set(await asyncio.gather(*(pool._tls() for _ in range(50)))) == {made[1]}
    assert len(made) == 2


async def test_a_closed_client_answers_with_a_value() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=9)) as stub:
        honcho = client(stub.url)
        honcho.limiter.concurrency = 1
        flying = asyncio.create_task(read_context(honcho))
        await settle(lambda: bool(stub.seen))
        waiting = asyncio.create_task(read_context(honcho))
        await settle(lambda: honcho.limiter.waiting == 1)
        await honcho.aclose()
        assert failure(await flying).kind is FailureKind.TRANSPORT
        assert failure(await waiting).bytes_sent is False
        assert failure(await read_context(honcho)).kind is FailureKind.TRANSPORT
        await settle(lambda: stub.open == 0)


# -- keep-alive ----------------------------------------------------------------------------------------------------


async def test_calls_one_after_another_share_a_connection_and_parallel_ones_leave_as_many_idle() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=0.02)) as stub, client(stub.url) as honcho:
        for _ in range(5):
            value(await read_context(honcho))
        assert stub.accepted == 1
        await asyncio.gather(*(read_context(honcho) for _ in range(8)))
        assert honcho.status()["connections"] == {"busy": 0, "idle": stub.open, "opened": stub.accepted}
        assert stub.open == 8


async def test_idle_connections_are_closed_by_us_before_the_server_would() -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        honcho.transport._keep_alive = 0.05
        await asyncio.gather(*(read_context(honcho) for _ in range(4)))
        await settle(lambda: stub.open == 0)
        assert honcho.status()["connections"]["idle"] == 0


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async with StubHoncho(lambda seen: Raw(OK)) as stub, client(stub.url) as honcho:
        for _ in range(3):
            value(await read_context(honcho))
        assert stub.accepted == 3


async def test_a_reply_without_a_body_leaves_the_connection_whole() -> None:
    async with StubHoncho(lambda seen: Raw(b"HTTP/1.1 204 X\r\n\r\n", "keep")) as stub, client(stub.url) as honcho:
        for _ in range(3):
            assert (await honcho.delete_conclusion("w", "c", call=within())).ok
        assert stub.accepted == 1


async def test_a_server_that_speaks_on_an_idle_connection_loses_it() -> None:
    foreign = b'{"peer_representation": "of somebody else"}'
    second = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(foreign), foreign)
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    for noisy in (Raw(OK + second, "keep"), Raw(chunked + second, "keep")):
        stub = StubHoncho()
        stub.script = partial(_say, noisy)
        async with stub, client(stub.url) as honcho:
            for _ in range(3):
                assert value(await read_context(honcho)).representation == ""
            assert stub.accepted == 3, "a reply to one call is never taken for the reply to the next"


async def test_a_connection_that_carried_a_5xx_is_given_up() -> None:
    """After an unhandled error uvicorn hangs up without saying so; the next request would meet a reset."""
    async with StubHoncho(lambda seen: Said({}, 500)) as stub, client(stub.url) as honcho:
        for _ in range(3):
            failure(await read_context(honcho))
        assert stub.accepted == 3
        assert honcho.status()["connections"]["idle"] == 0


async def test_a_stale_connection_costs_an_idempotent_call_one_reconnect_and_no_failure() -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        value(await read_context(honcho))
        # As if the peer had gone between the look at the connection and the first byte.
        stream = honcho.transport._idle[0].stream
        assert stream is not None
        stream._wire.transport.close()  # type: ignore[union-attr]
        stream_type = type(stream)
        original = stream_type.broken
        stream_type.broken = property(lambda self: False)  # type: ignore[assignment,method-assign]
        try:
            assert isinstance(await read_context(honcho), Ok)
            assert stub.accepted == 2
            again = honcho.transport._idle[0].stream
            again._wire.transport.close()  # type: ignore[union-attr]
            lost = failure(await honcho.add_messages("w", "s", [OutMessage("u", text("x"))], within()))
            assert (lost.kind, lost.bytes_sent) == (FailureKind.TRANSPORT, False)
            assert stub.accepted == 2, "a write is not sent again, not even where no byte went out"
        finally:
            stream_type.broken = original  # type: ignore[method-assign]


async def test_a_read_whose_bytes_were_written_is_not_sent_again() -> None:
    async with StubHoncho(lambda seen: Raw(b"", "reset")) as stub, client(stub.url) as honcho:
        assert failure(await read_context(honcho)).kind is FailureKind.TRANSPORT
        assert len(stub.seen) == 1


# -- unknown outcome or failure: the last byte decides -------------------------------------------------------------


class Deaf:
    """Accepts and never reads, so that the kernel takes only so much of a request."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.url = "http://127.0.0.1:" + str(self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()


def large_batch() -> list[OutMessage]:
    """More than a kernel takes at once: 10 MB."""
    return [OutMessage("user", text("\U0001f600" * 24_900))] * 100


async def test_a_write_that_did_not_go_out_whole_is_certainly_not_stored() -> None:
    deaf = Deaf()
    try:
        async with client(deaf.url) as honcho:
            late = failure(await honcho.add_messages("w", "s", large_batch(), within(0.5)))
            assert (late.kind, late.bytes_sent) == (FailureKind.TIMED_OUT, False)
            small = failure(await honcho.add_messages("w", "s", [OutMessage("user", text("hello"))], within(0.7)))
            assert (small.kind, small.bytes_sent) == (FailureKind.UNKNOWN_OUTCOME, True)
    finally:
        deaf.close()


async def test_a_server_that_hangs_up_in_the_middle_of_a_large_write_has_not_had_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(10_000)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client(f"http://127.0.0.1:{port}") as honcho:
        lost = failure(await honcho.add_messages("w", "s", large_batch(), within()))
    server.close()
    await server.wait_closed()
    assert (lost.kind, lost.bytes_sent) == (FailureKind.TRANSPORT, False)


async def test_a_server_that_refuses_early_is_heard() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 413 X\r\nconnection: close\r\ncontent-length: 20\r\n\r\n" + b'{"detail": "too big"}'[:20]
        )
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client(f"http://127.0.0.1:{port}") as honcho:
        refused = failure(await honcho.add_messages("w", "s", large_batch(), within()))
    server.close()
    await server.wait_closed()
    assert (refused.kind, refused.status) == (FailureKind.REFUSED, 413)


async def test_refused_connections_and_unknown_names_sent_nothing() -> None:
    def lookup(host: str, port: int) -> Iterable[Address]:
        raise socket.gaierror(-2, "Name or service not known")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
    batch = [OutMessage("user", text("hello"))]
    async with client(closed) as honcho:
        down = failure(await honcho.add_messages("w", "s", batch, within()))
    async with HonchoClient(endpoint("http://honcho.internal"), resolver=Resolver(lookup)) as honcho:
        unknown = failure(await honcho.add_messages("w", "s", batch, within()))
    assert (down.kind, down.bytes_sent) == (unknown.kind, unknown.bytes_sent) == (FailureKind.TRANSPORT, False)
    assert "cannot resolve honcho.internal" in unknown.detail


# -- total deadlines -----------------------------------------------------------------------------------------------


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/head" not in head:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x: y\r\n" if b"/head" in head else b" ")
            await writer.drain()
            await asyncio.sleep(0.01)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("place", ["body", "head"])
async def test_a_drip_ends_at_the_total_deadline_whatever_comes_meanwhile(place: str) -> None:
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{place}"
    loop = asyncio.get_running_loop()
    async with client(url) as honcho:
        started = loop.time()
        outcomes = await asyncio.gather(*(read_context(honcho, within(0.4)) for _ in range(32)))
        took = loop.time() - started
        assert {failure(outcome).kind for outcome in outcomes} == {FailureKind.TIMED_OUT}
        assert 0.39 < took < 20
        assert honcho.status()["connections"] == {"busy": 0, "idle": 0, "opened": 32}
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("deadline", [float("nan"), float("-inf"), -1.0, 0.0])
async def test_a_deadline_that_has_passed_or_is_none_sends_nothing_or_is_bounded(deadline: float) -> None:
    async with StubHoncho() as stub, client(stub.url) as honcho:
        outcome = await read_context(honcho, Call(deadline))
        if deadline != deadline or deadline == float("-inf"):
            assert isinstance(outcome, Ok), "no usable deadline: the client's own bound holds"
        else:
            late = failure(outcome)
            assert (late.kind, late.bytes_sent, stub.accepted) == (FailureKind.TIMED_OUT, False, 0)


# -- names ---------------------------------------------------------------------------------------------------------


async def test_a_host_name_is_resolved_on_a_daemon_thread_and_kept_for_a_while() -> None:
    asked: list[str] = []

    def lookup(host: str, port: int) -> Iterable[Address]:
        asked.append(threading.current_thread().name)
        assert threading.current_thread().daemon
        return [(socket.AF_INET, ("127.0.0.1", port))]

    async with StubHoncho() as stub:
        named = stub.url.replace("127.0.0.1", "honcho.internal")
        async with HonchoClient(endpoint(named), resolver=Resolver(lookup)) as honcho:
            await asyncio.gather(*(read_context(honcho) for _ in range(10)))
            assert asked == ["honcho-resolver"]
            assert stub.seen[0].headers["host"].startswith("honcho.internal:")


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    def lookup(host: str, port: int) -> Iterable[Address]:
        return [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]

    async with StubHoncho() as stub:
        named = stub.url.replace("127.0.0.1", "honcho.internal")
        resolver = Resolver(lookup)
        async with HonchoClient(endpoint(named), resolver=resolver) as honcho:
            assert isinstance(await read_context(honcho), Ok)
            first = (await resolver.resolve("honcho.internal", stub.port))[0]
            assert first == (socket.AF_INET, ("127.0.0.1", stub.port)), "what worked is tried first from then on"
            resolver._answers.clear()
            again = await resolver.resolve("honcho.internal", stub.port)
            assert (again[0], len(again)) == (first, 2), "also when the name has been looked up again"


async def test_plain_http_to_a_name_that_leads_to_a_public_address_is_refused_before_connecting() -> None:
    def lookup(host: str, port: int) -> Iterable[Address]:
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET, ("8.8.8.8", port))]

    async with HonchoClient(endpoint("http://honcho.example"), resolver=Resolver(lookup)) as honcho:
        refused = failure(await read_context(honcho))
        assert (refused.kind, refused.bytes_sent) == (FailureKind.NOT_CONFIGURED, False)
        assert "https is demanded" in refused.detail


async def test_a_hung_resolver_holds_up_no_deadline_and_an_old_answer_is_used_meanwhile() -> None:
    hang, release = False, threading.Event()

    def lookup(host: str, port: int) -> Iterable[Address]:
        if hang:
            release.wait(20)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    async with StubHoncho(lambda seen: Raw(OK)) as stub:
        named = stub.url.replace("127.0.0.1", "honcho.internal")
        resolver = Resolver(lookup)
        async with HonchoClient(endpoint(named), resolver=resolver) as honcho:
            hang = True
            started = asyncio.get_running_loop().time()
            stuck = failure(await read_context(honcho, within(0.3)))
            assert (stuck.kind, stuck.bytes_sent) == (FailureKind.TIMED_OUT, False)
            assert asyncio.get_running_loop().time() - started < 15
            release.set()
            await settle(lambda: bool(resolver._answers))
            release.clear()
            key = next(iter(resolver._answers))
            resolver._answers[key] = (resolver._answers[key][0] - 1_000, resolver._answers[key][1])
            assert isinstance(await read_context(honcho), Ok), "the old answer, after a short wait"
        release.set()


async def test_a_client_that_is_closed_during_a_hung_lookup_answers_with_a_value() -> None:
    release = threading.Event()

    def lookup(host: str, port: int) -> Iterable[Address]:
        release.wait(20)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    honcho = HonchoClient(endpoint("http://honcho.internal"), resolver=Resolver(lookup))
    flying = asyncio.create_task(read_context(honcho, within(30)))
    await settle(lambda: bool(honcho.resolver._pending))
    await honcho.aclose()
    assert failure(await flying).kind is FailureKind.TRANSPORT
    release.set()


@pytest.mark.parametrize("fault", [KeyError("x"), UnicodeError(), RuntimeError("odd"), socket.gaierror(-3, "again")])
async def test_whatever_a_lookup_raises_is_an_unresolved_name(fault: Exception) -> None:
    def lookup(host: str, port: int) -> Iterable[Address]:
        raise fault

    async with HonchoClient(endpoint("http://honcho.internal"), resolver=Resolver(lookup)) as honcho:
        assert "cannot resolve honcho.internal" in failure(await read_context(honcho)).detail


async def test_stuck_resolver_threads_are_few_and_a_new_one_answers() -> None:
    release = threading.Event()
    calls = 0

    def lookup(host: str, port: int) -> Iterable[Address]:
        nonlocal calls
        calls += 1
        if calls == 1:
            release.wait(20)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    resolver = Resolver(lookup)
    before = threading.active_count()
    first = asyncio.create_task(resolver.resolve("honcho.internal", 80))
    await settle(lambda: calls == 1)
    resolver._asked_at[("honcho.internal", 80)] -= 60
    assert await resolver.resolve("honcho.internal", 80) == [(socket.AF_INET, ("127.0.0.1", 80))]
    assert await first
    assert threading.active_count() - before <= 3
    release.set()
    resolver.close()
    await settle(lambda: threading.active_count() <= before)


HANGS = """
    import asyncio, sys, time
    from honcho_actors.honcho.client import HonchoClient
    from honcho_actors.honcho.endpoint import parse_endpoint
    from honcho_actors.honcho.outcomes import Call
    from honcho_actors.honcho.resolver import Resolver

    def lookup(host, port):
        time.sleep(600)

    async def main():
        async with HonchoClient(parse_endpoint("http://honcho.internal"), resolver=Resolver(lookup)) as honcho:
            call = Call(asyncio.get_running_loop().time() + 0.2)
            outcome = await honcho.health(call=call)
            print(outcome.kind, flush=True)

    asyncio.run(main())
    print(time.monotonic(), flush=True)
"""


def test_a_hung_resolver_does_not_hold_up_the_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HANGS)],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    said, ended = done.stdout.split()
    assert (done.returncode, said) == (0, "timed_out"), done.stderr
    assert time.monotonic() - float(ended) < 20


def test_the_machines_own_resolver_is_asked_by_default() -> None:
    families = {family for family, _ in system_lookup("localhost", 80)}
    assert families <= {socket.AF_INET, socket.AF_INET6}
    assert families


# -- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `localhost`, made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += [
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(folder / "key.pem"),
        "-out",
        str(folder / "cert.pem"),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("no openssl command on this machine to make a certificate with")
    return folder


async def test_https_is_spoken_checked_and_kept_alive(certificate: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"POST"):
                    break
                writer.write(OK)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving)
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    async with HonchoClient(endpoint(url), ssl_context=trusting) as honcho:
        for _ in range(3):
            assert isinstance(await read_context(honcho), Ok)
        assert connections == 1
        lost = failure(await honcho.add_messages("w", "s", [OutMessage("u", text("x"))], within()))
        assert (lost.kind, lost.bytes_sent) == (FailureKind.UNKNOWN_OUTCOME, True)
    async with client(url) as honcho:
        refused: Any = failure(await read_context(honcho))
        assert (refused.kind, refused.bytes_sent) == (FailureKind.TRANSPORT, False)
        assert "CERTIFICATE_VERIFY_FAILED" in refused.detail
    server.close()
    await server.wait_closed()


async def test_a_resolver_that_was_closed_starts_no_thread_for_whoever_asks_it_still() -> None:
    asked: list[str] = []

    def lookup(host: str, port: int) -> Iterable[Address]:
        asked.append(host)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    honcho = HonchoClient(endpoint("http://honcho.internal"), resolver=Resolver(lookup))
    await honcho.aclose()
    before = set(threading.enumerate())
    with pytest.raises(ResolveError):
        await honcho.resolver.resolve("honcho.internal", 80)
    honcho.resolver.close()
    assert (asked, set(threading.enumerate()) - before) == ([], set())
