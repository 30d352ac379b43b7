"""The proxy as programs meet it: raw sockets before it, a model behind it, and what must never change on the way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import json
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from honcho_actors.integrations.proxy import BadUpstream, Naming, app, naming
from honcho_actors.integrations.proxy.upstream import Address
from honcho_actors.integrations.sse import Events
from tests.integrations.keeper import ANN, Held, House, settled
from tests.integrations.running import Running
from tests.support.memory_world import until
from tests.support.stub_model import Say, StubModel

ANN_TALKS = {"x-honcho-session": "garden", "x-honcho-user": "ann"}
ASKED = "what shall I do with the tomatoes this week?"
HERE = [(b"host", b"127.0.0.1:8486")]
CLAIMS = [(b"x-honcho-user", b"ann"), (b"x-honcho-session", b"s")]
KEY = "sk-" + "a1B2c3D4" * 4


def chat(text: str = ASKED, **more: Any) -> bytes:
    return json.dumps({"model": "stub", "messages": [{"role": "user", "content": text}], **more}).encode()


def streaming() -> bytes:
    """A whole request for a stream, as a socket sends it."""
    body = chat(stream=True)
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in ANN_TALKS.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def ask(
    root: str,
    body: bytes | Iterator[bytes] = b"",
    headers: dict[str, str] | None = None,
    path: str = "/v1/chat/completions",
    method: str = "POST",
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and the body's bytes."""
    host = root.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        given = {"content-type": "application/json", "authorization": f"Bearer {KEY}", **(headers or {})}
        connection.request(method, path, body=body, headers=given, encode_chunked=not isinstance(body, bytes))
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


@pytest.fixture
def proxy(home: House, model: StubModel) -> Iterator[Running]:
    with Running(home.memory, model.root) as running:
        yield running


class TestPassing:
    def test_without_a_name_a_request_reaches_the_model_byte_for_byte(self, proxy: Running, model: StubModel) -> None:
        body = b'{ "messages": [ {"role":"user", "content":"caf\xc3\xa9 \\ud83d\\ude00"} ],  "n":1.0, "n":1 }\n'
        status, _, _ = ask(proxy.root, body)
        assert status == 200
        assert model.seen[-1].raw == body

    @pytest.mark.parametrize("headers", [{}, ANN_TALKS], ids=["nobody", "ann"])
    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
    def test_a_stream_arrives_byte_for_byte(
        self, proxy: Running, model: StubModel, path: str, headers: dict[str, str]
    ) -> None:
        say = Say("Water them é早 in the morning.")
        model.script = lambda asked: say
        body = json.dumps({"model": "stub", "input": ASKED, "messages": [{"role": "user", "content": ASKED}]})
        body = body[:-1] + ', "stream": true}'
        direct = ask(model.root, body.encode(), headers, path)
        through = ask(proxy.root, body.encode(), headers, path)
        assert through[0] == direct[0] == 200
        assert through[2] == direct[2]
        assert through[1]["content-type"] == "text/event-stream"
        assert through[1].get("x-honcho-memory") == ("cold; filled" if headers else None)

    def test_what_the_model_refuses_is_passed_on_as_it_is(self, proxy: Running, model: StubModel) -> None:
        model.script = lambda asked: Say("slow down", status=429, headers={"retry-after": "7", "x-request-id": "r1"})
        direct, through = ask(model.root, chat()), ask(proxy.root, chat(), ANN_TALKS)
        assert (through[0], through[2]) == (429, direct[2])
        assert through[1]["retry-after"] == "7"
        assert through[1]["x-request-id"] == "r1"

    def test_unknown_paths_methods_and_bodies_are_forwarded(self, proxy: Running, model: StubModel) -> None:
        status, headers, body = ask(proxy.root, b"\x00\xff" * 3_000, ANN_TALKS, "/v1/files?purpose=x%20y&z=%2F")
        assert (status, headers["x-stub"]) == (200, "other")
        assert json.loads(body) == {"path": "/v1/files", "query": "purpose=x%20y&z=%2F", "sent": 6_000}
        assert ask(proxy.root, b"", {}, "/v1/models", "GET")[0] == 200
        assert ask(proxy.root, b"", {}, "/a/%2e%2e/b", "DELETE")[0] == 200
        assert model.seen[-1].path == "/a/%2e%2e/b"

    def test_a_body_of_unknown_length_passes_in_pieces(self, proxy: Running, model: StubModel) -> None:
        pieces = iter([b"a" * 70_000, b"b" * 70_000])
        headers = {"transfer-encoding": "chunked"}
        status, _, body = ask(proxy.root, pieces, headers, "/v1/files")
        assert (status, json.loads(body)["sent"]) == (200, 140_000)
        assert model.seen[-1].headers.get("transfer-encoding") == "chunked"

    def test_our_headers_and_those_of_the_hop_stay_here(self, proxy: Running, model: StubModel) -> None:
        more = {
            **ANN_TALKS,
            "x-honcho-anything": "1",
            "connection": "x-hop, keep-alive",
            "x-hop": "1",
            "te": "trailers",
        }
        ask(proxy.root, chat(), {**more, "x-kept": "yes"})
        seen = model.seen[-1].headers
        assert not any(name.startswith("x-honcho-") for name in seen)
        assert not {"connection", "x-hop", "te"} & set(seen)
        assert seen["x-kept"] == "yes"
        assert seen["authorization"] == f"Bearer {KEY}"
        assert seen["host"] == model.root.removeprefix("http://")

    def test_what_is_too_large_for_memory_passes_without(
        self, proxy: Running, model: StubModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(app, "MAX_BODY_BYTES", 10_000)
        body = chat("x" * 200_000)
        assert ask(proxy.root, body, ANN_TALKS)[0] == 200
        assert model.seen[-1].raw == body

    def test_a_model_that_is_not_there_is_said_in_the_sdks_own_form(self, home: House) -> None:
        with Running(home.memory, "http://127.0.0.1:9") as proxy:
            status, _, body = ask(proxy.root, chat(), ANN_TALKS)
        assert status == 502
        assert json.loads(body)["error"]["type"] == "proxy_error"
        assert home.holds("garden", [Held("ann", ASKED, True)])

    def test_a_caller_that_leaves_ends_the_models_work(self, proxy: Running, home: House, model: StubModel) -> None:
        model.script = lambda asked: Say("Too late.", hold=2)
        before = model.hung_up
        host, port = proxy.root.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(streaming())
            assert model.holding.wait(20)
        until(lambda: model.hung_up == before + 1, 20.0)
        until(lambda: proxy.upstream.busy == 0, 20.0)
        assert home.holds("garden", [Held("ann", ASKED, True)])

    def test_nothing_is_read_from_the_model_faster_than_the_caller_takes_it(
        self, proxy: Running, model: StubModel
    ) -> None:
        word = "x" * 60_000
        model.script = lambda asked: Say(" ".join([word] * 1_000))
        host, port = proxy.root.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            caller.sendall(streaming())
            caller.recv(1)
            stood = -1
            while stood != (stood := model.written):  # it comes to a stand while nobody reads
                time.sleep(0.3)
            assert model.written < 40_000_000
        until(lambda: proxy.upstream.busy == 0, 20.0)

    def test_what_follows_an_answer_is_never_taken_for_the_next_one(self, home: House) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
            stray = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray"

            def serve() -> None:
                for _ in range(2):
                    link, _ = server.accept()
                    link.recv(65_536)
                    link.sendall(answer + stray)
                    threading.Timer(5.0, link.close).start()

            threading.Thread(target=serve, daemon=True).start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            with Running(home.memory, url) as proxy:
                for _ in range(2):
                    assert ask(proxy.root, b"", {}, "/x", "GET")[2] == b"ok"

    def test_what_an_answer_says_of_its_own_connection_stays_there(self, home: House) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            lines = "HTTP/1.1 200 OK", "connection: x-inner, close", "x-inner: 1", "x-outer: 2", "content-length: 2"

            def serve() -> None:
                link, _ = server.accept()
                link.recv(65_536)
                link.sendall("\r\n".join(lines).encode() + b"\r\n\r\nok")
                link.close()

            threading.Thread(target=serve, daemon=True).start()
            with Running(home.memory, f"http://127.0.0.1:{server.getsockname()[1]}") as proxy:
                _, headers, body = ask(proxy.root, b"", {}, "/x", "GET")
            assert (body, headers["x-outer"], "x-inner" in headers) == (b"ok", "2", False)


def test_a_caller_who_leaves_while_the_model_takes_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "STALLED_SECONDS", 0.01)
    sent = [{"type": "http.request", "body": b"x", "more_body": True}] * 3

    async def main() -> list[bytes]:
        async def receive() -> Any:
            return sent.pop() if sent else {"type": "http.disconnect"}

        incoming = app._Incoming(receive)
        pieces = incoming.pieces()
        first = await anext(pieces)  # and nobody asks for the next one
        await asyncio.wait_for(incoming.left(), 20)
        read = [first]
        with contextlib.suppress(app.Left):
            async for piece in pieces:
                read.append(piece)
        return read

    assert asyncio.run(main()) == [b"x"] * 3


class TestNames:
    def test_one_header_of_the_two_is_nobody(self, proxy: Running, home: House, model: StubModel) -> None:
        for headers in ({"x-honcho-user": "ann"}, {"x-honcho-session": "garden"}, {**ANN_TALKS, "x-honcho-user": " "}):
            ask(proxy.root, chat(), headers)
            assert model.seen[-1].raw == chat()
        assert home.memory.flush(20)
        assert home.remote.held == {}

    def test_a_name_that_comes_twice_is_nobodys(self) -> None:
        assert Naming().named([*HERE, *CLAIMS], {}) is not None
        assert Naming().named([*HERE, *CLAIMS, (b"x-honcho-user", b"bob")], {}) is None
        assert Naming().named([*HERE, *CLAIMS, (b"X-Honcho-Session", b"t")], {}) is None

    @pytest.mark.parametrize(
        "page", [{"origin": "http://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "cross-site"}]
    )
    def test_a_web_page_that_reaches_the_port_through_a_browser_is_nobody(
        self, proxy: Running, model: StubModel, page: dict[str, str]
    ) -> None:
        ask(proxy.root, chat(), {**ANN_TALKS, **page})
        assert model.seen[-1].raw == chat()

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]:8486", "::1"])
    def test_this_machine_may_be_called_by_any_name_that_is_its_alone(self, host: str) -> None:
        assert Naming().named([(b"host", host.encode()), *CLAIMS], {}) is not None

    def test_a_name_that_is_no_text_or_too_long_is_nobodys(self) -> None:
        for user in (b"\xff\xfe", b"a" * (naming.MAX_NAME + 1)):
            assert Naming().named([*HERE, (b"x-honcho-user", user), (b"x-honcho-session", b"s")], {}) is None

    @pytest.mark.parametrize(
        ("path", "field"),
        [
            ("/v1/chat/completions", {"user": "ann"}),
            ("/v1/responses", {"safety_identifier": "ann"}),
            ("/v1/messages", {"metadata": {"user_id": "ann"}}),
        ],
    )
    def test_the_requests_own_user_counts_only_where_the_operator_says_so(
        self, home: House, model: StubModel, path: str, field: dict[str, Any]
    ) -> None:
        body = chat(input=ASKED, **field)
        with Running(home.memory, model.root) as proxy:
            ask(proxy.root, body, {}, path)
            assert model.seen[-1].raw == body
        with Running(home.memory, model.root, Naming(user_field=True)) as proxy:
            ask(proxy.root, body, {}, path)
            assert ANN in model.seen[-1].system
        assert home.memory.flush(20)
        assert [one.peer for held in home.remote.held.values() for one in held] == ["ann", "assistant"]

    def test_where_a_token_is_set_a_claim_without_it_is_nobodys(self, home: House, model: StubModel) -> None:
        token = "t" * 20
        with Running(home.memory, model.root, Naming(token=token)) as proxy:
            for wrong in ({}, {"x-honcho-token": "u" * 20}, {"x-honcho-token": ""}):
                ask(proxy.root, chat(), {**ANN_TALKS, **wrong})
                assert model.seen[-1].raw == chat()
            ask(proxy.root, chat(), {**ANN_TALKS, "x-honcho-token": token})
            assert ANN in model.seen[-1].system
        assert token not in repr(Naming(token=token))

    @pytest.mark.parametrize("said", [[b"shared"], [b"Shared"], [b"group"], [b""], [b"private", b"private"], [b"\xff"]])
    def test_a_room_that_is_not_surely_private_is_shared(self, said: list[bytes]) -> None:
        named = Naming().named([*HERE, *CLAIMS, *((b"x-honcho-audience", one) for one in said)], {})
        assert named is not None
        assert named.request.audience == "shared"
        assert Naming().named([*HERE, *CLAIMS, (b"x-honcho-audience", b"Private")], {}).request.audience == "private"  # type: ignore[union-attr]

    @pytest.mark.parametrize("said", [[b"subagent"], [b"SubAgent"], [b"tool"], [b"main", b"subagent"]])
    def test_what_is_not_surely_the_person_themselves_is_not_captured(self, said: list[bytes]) -> None:
        named = Naming().named([*HERE, *CLAIMS, *((b"x-honcho-scope", one) for one in said)], {})
        assert named is not None
        assert named.request.scope == "subagent"
        for words, automated in (([b"1"], True), ([b"on"], True), ([b"1", b"1"], True), ([b"0"], False), ([], False)):
            given = Naming().named([*HERE, *CLAIMS, *((b"x-honcho-automated", one) for one in words)], {})
            assert given is not None
            assert given.request.automated is automated

    def test_the_requests_own_user_does_not_decide_between_two_headers(self) -> None:
        naming, twice = Naming(user_field=True), [(b"x-honcho-user", b"ann"), (b"x-honcho-user", b"bob")]
        assert naming.named([*HERE, *twice], {"user": "carol"}) is None
        assert naming.named(HERE, {"user": "carol"}) is not None

    def test_an_empty_token_is_nobodys_and_opens_nothing(self) -> None:
        for given in ([], [(b"x-honcho-token", b"")]):
            assert Naming(token="").named([*HERE, *CLAIMS, *given], {}) is None

    def test_a_call_that_an_sdk_repeats_is_the_same_turn(self, proxy: Running, home: House) -> None:
        for count in ("0", "1", "2"):
            ask(proxy.root, chat(), {**ANN_TALKS, "x-stainless-retry-count": count})
        assert home.holds(
            "garden", [Held("ann", ASKED, False), Held("assistant", f"You said 1 things, at last: {ASKED}", False)]
        )

    def test_a_turn_that_the_caller_names_is_captured_once(self, proxy: Running, home: House) -> None:
        for _ in range(3):
            ask(proxy.root, chat(), {**ANN_TALKS, "x-honcho-turn": "m-17"})
        assert len(home.said("garden")) == 2

    @pytest.mark.parametrize("header", ["x-honcho-scope: subagent", "x-honcho-automated: 1"])
    def test_what_is_not_the_persons_own_is_not_captured(self, proxy: Running, home: House, header: str) -> None:
        name, value = header.split(": ")
        ask(proxy.root, chat(), {**ANN_TALKS, name: value})
        assert home.said("garden") == []

    def test_a_shared_room_never_reads_private_memory(self, proxy: Running, home: House, model: StubModel) -> None:
        ask(proxy.root, chat(), {**ANN_TALKS, "x-honcho-audience": "shared"})
        assert ANN not in model.seen[-1].raw.decode()


class TestNeverLogged:
    def test_neither_texts_nor_keys_nor_names_are_logged_whatever_happens(
        self, home: House, model: StubModel, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        canary = "canary-of-the-text"
        headers = {"x-honcho-session": "secret-session", "x-honcho-user": "secret-user"}
        with Running(home.memory, model.root) as proxy:
            ask(proxy.root, chat(canary), headers)
            model.script = lambda asked: Say(canary, status=500)
            ask(proxy.root, chat(canary), headers, f"/v1/chat/completions?key={KEY}")
            model.script = lambda asked: Say(canary, cut=2)
            with pytest.raises(http.client.IncompleteRead):
                ask(proxy.root, chat(canary, stream=True), headers)
            ask(proxy.root, b'{"messages": [{"role": "user", "content": ' + b"[" * 20_000, headers)
        for one in caplog.records:
            if one.name.startswith(("honcho_actors", "uvicorn")):
                said = one.getMessage()
                assert not any(word in said for word in (canary, KEY, "secret-session", "secret-user")), one


class TestReadingAlong:
    @pytest.mark.parametrize("seed", range(20))
    def test_events_are_the_same_however_their_bytes_are_cut(self, seed: int) -> None:
        chance = random.Random(seed)
        events = [{"n": number, "text": "é早\n" * chance.randint(0, 30)} for number in range(50)]
        end = chance.choice([b"\n", b"\r\n", b"\r"])
        whole = b"".join(
            b": comment" + end + b"event: x" + end + b"data: " + json.dumps(one).encode() + end + end for one in events
        )
        whole += b"data: not json" + end + end + b"data: [DONE]" + end + end
        reader, found, at = Events(), [], 0
        while at < len(whole):
            size = chance.choice([1, 2, 3, 50, 5_000])
            found += list(reader.feed(whole[at : at + size]))
            at += size
        assert found == events
        assert reader.done

    def test_a_stream_that_ends_without_a_blank_line_is_read_to_its_end(self) -> None:
        reader = Events()
        assert list(reader.feed(b'data: {"n": 1}\r\rdata: {"n": 2}')) == [{"n": 1}]
        assert list(reader.end()) == [{"n": 2}]
        assert list(reader.end()) == []

    def test_an_event_without_end_is_bounded_and_the_next_one_is_read(self) -> None:
        reader = Events()
        for _ in range(200):
            assert list(reader.feed(b"data: " + b"x" * 100_000)) == []
        assert list(reader.feed(b'\n\ndata: {"n": 1}\n\n')) == [{"n": 1}]


class TestAddresses:
    @pytest.mark.parametrize(
        ("url", "path", "target"),
        [
            ("http://model:8000", b"/v1/x", b"/v1/x"),
            ("http://model:8000/", b"/v1/x", b"/v1/x"),
            ("https://model/v1", b"/v1/x", b"/v1/x"),
            ("https://model/v1/", b"/x", b"/v1/x"),
            ("https://model/openai", b"/v1/x", b"/openai/v1/x"),
            ("https://model/v1", b"/v10/x", b"/v1/v10/x"),
        ],
    )
    def test_a_prefix_is_put_before_a_path_once(self, url: str, path: bytes, target: bytes) -> None:
        assert Address.parse(url).target(path, b"") == target
        assert Address.parse(url).target(path, b"a=b") == target + b"?a=b"

    @pytest.mark.parametrize(
        "url", ["", "model", "ftp://model", "http://", "http://u:p@model", "http://model:x", "http://[::1"]
    )
    def test_what_is_no_address_is_said_so(self, url: str) -> None:
        with pytest.raises(BadUpstream):
            Address.parse(url)


def test_two_people_through_one_process_never_meet(proxy: Running, home: House, model: StubModel) -> None:
    """Their turns by chance, their replies streamed or not: no text of one in anything that the other's model got."""
    turns = int(os.environ.get("HONCHO_PROXY_TURNS", "300"))
    chance = random.Random(5)
    home.remote.about = {"ann": "canary-ann-moves", "bob": "canary-bob-moves"}
    home.remote.persons = {one: (f"canary-{one}-known", []) for one in ("ann", "bob")}
    model.script = lambda asked: Say("canary-ann-said" if "canary-ann" in asked.users[-1] else "canary-bob-said")
    history: dict[str, list[Any]] = {"ann": [], "bob": []}
    host = proxy.root.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    seen: dict[str, int] = {"ann": 0, "bob": 0}
    for number in range(turns):
        who, other = chance.choice([("ann", "bob"), ("bob", "ann")])
        talk = history[who]
        if len(talk) > 40:
            talk.clear()
        talk.append({"role": "user", "content": f"canary-{who}-asks {number} about the beds and the paths"})
        body = json.dumps({"model": "stub", "messages": talk, "stream": chance.random() < 0.5})
        named = {"x-honcho-session": f"talk-of-{who}", "x-honcho-user": who}
        connection.request("POST", "/v1/chat/completions", body=body, headers=named)
        reply = connection.getresponse().read()
        got = model.calls[-1].raw
        assert f"canary-{other}".encode() not in got + reply
        seen[who] += f"canary-{who}-known".encode() in got and f"canary-{who}-moves".encode() in got
        talk.append({"role": "assistant", "content": f"canary-{who}-said"})
        if number % 50 == 0:
            settled(home)
            model.seen.clear()
    connection.close()
    assert min(seen.values()) > turns // 8
    for who, other in (("ann", "bob"), ("bob", "ann")):
        held = home.said(f"talk-of-{who}")
        assert len(held) == 2 * sum(1 for one in held if one.peer == who)
        assert not any(f"canary-{other}" in one.text for one in held)


def test_fuzzed_requests_are_answered_or_hung_up_on_and_the_next_one_is_served(
    proxy: Running, home: House, model: StubModel
) -> None:
    chance = random.Random(11)
    host, port = proxy.root.removeprefix("http://").split(":")
    for _ in range(200):
        request, is_whole = fuzzed(chance)
        answer = b""
        with (
            socket.create_connection((host, int(port)), timeout=20) as caller,
            contextlib.nullcontext() if is_whole else contextlib.suppress(ConnectionError),
        ):
            caller.sendall(request)
            if not is_whole:
                caller.shutdown(socket.SHUT_WR)
            while piece := caller.recv(65_536):
                answer += piece
        assert not is_whole or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), (request[:200], answer[:200])
    assert ask(proxy.root, chat(), ANN_TALKS)[0] == 200
    until(lambda: proxy.upstream.busy == 0, 20.0)
    assert home.memory.flush(20)
    gc.collect()


def fuzzed(chance: random.Random) -> tuple[bytes, bool]:
    """A request with something wrong in it, in its bytes or in its meaning; and whether it is a whole one, that has to
    be answered."""
    if chance.random() < 0.2:
        return chance.randbytes(chance.randint(0, 300)), False
    body: bytes = chance.choice(BODIES)(chance)
    path = chance.choice(
        ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/", "/v1/threads/x/messages", "/%ff"]
    )
    lines = [f"{chance.choice(['POST', 'POST', 'GET', 'PUT', 'BREW'])} {path} HTTP/1.1", "host: localhost"]
    lines.append("connection: close")
    lines += [f"x-honcho-user: {chance.choice(['ann', 'bob', '', 'x' * 2_000, 'é'])}", "x-honcho-session: fuzz"]
    length = len(body) + chance.choice([0, 0, 0, 0, -1, 5])
    said = chance.choice([f"content-length: {max(0, length)}", f"content-length: {len(body)}", "te: x"])
    lines.append(said)
    whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    if chance.random() < 0.2:
        at = chance.randrange(len(whole))
        return whole[:at] + chance.randbytes(3) + whole[at:], False
    return whole, said == f"content-length: {len(body)}"


def _value(chance: random.Random, depth: int = 3) -> Any:
    kinds: list[Any] = [None, True, 1e308, -1, "", "text", "\ud800", "é早", "x" * 5_000, [], {}]
    if depth == 0 or chance.random() < 0.4:
        return chance.choice(kinds)
    if chance.random() < 0.5:
        return [_value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    names = ["role", "content", "type", "text", "messages", "input", "system", "instructions", "tool_calls", "x"]
    return {chance.choice(names): _value(chance, depth - 1) for _ in range(chance.randint(0, 5))}


def _messages(chance: random.Random) -> list[Any]:
    roles = ["user", "assistant", "system", "developer", "tool", None, 5, "user"]
    return [
        {"role": chance.choice(roles), "content": _value(chance), "tool_calls": _value(chance)}
        if chance.random() < 0.8
        else _value(chance)
        for _ in range(chance.randint(0, 6))
    ]


BODIES: list[Any] = [
    lambda chance: chance.randbytes(chance.randint(0, 500)),
    lambda chance: b"[" * 50_000,
    lambda chance: b'{"messages": ' + b"9" * 10_000 + b"}",
    lambda chance: json.dumps(_value(chance)).encode(),
    lambda chance: json.dumps({"messages": _messages(chance), "stream": chance.random() < 0.5}).encode(),
    lambda chance: json.dumps({"input": _messages(chance), "system": _value(chance)}).encode(),
    lambda chance: json.dumps(
        {"messages": _messages(chance), "system": _value(chance), "input": _value(chance)}
    ).encode(),
    lambda chance: json.dumps(
        {"input": "text", "instructions": _value(chance), "conversation": _value(chance)}
    ).encode(),
]
