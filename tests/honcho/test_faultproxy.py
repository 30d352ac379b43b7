"""The fault proxy, as the process that it is, in front of a scripted server on a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.honcho.client import HonchoClient, OutMessage
from honcho_actors.honcho.outcomes import FailureKind, Ok
from honcho_actors.local.faultproxy import main
from honcho_actors.local.faultproxy_plan import Fault, Plan, PlanError, Rule, operation_of, parse_plan, storm
from tests.support.calls import client, failure, read_context, text, value, within
from tests.support.faults import FaultProxyProcess
from tests.support.stub_honcho import Said, Seen, StubHoncho


def script(seen: Seen) -> Said:
    if seen.path.endswith("/messages"):
        return Said([{"id": f"m{number}"} for number, _ in enumerate(seen.json()["messages"])], 201)
    return Said({"peer_representation": "likes tea", "peer_card": ["name: Ada"]})


async def add(honcho: HonchoClient, seconds: float = 5.0) -> Any:
    return await honcho.add_messages("w", "s", [OutMessage("user", text("hello there"))], within(seconds))


def stored(stub: StubHoncho) -> int:
    return sum(seen.path.endswith("/messages") for seen in stub.seen)


@pytest.fixture
def refused_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


async def test_every_fault_is_seen_by_the_client_as_what_it_is_and_is_counted() -> None:
    async with StubHoncho(script) as stub:
        with await asyncio.to_thread(FaultProxyProcess, stub.url) as proxy:

            async def plan(**rule: Any) -> None:
                await asyncio.to_thread(proxy.plan, [rule] if rule else [])

            async with client(proxy.url) as honcho:
                assert value(await read_context(honcho)).representation == "likes tea"

                await plan(fault="latency", delay=0.15)
                started = asyncio.get_running_loop().time()
                assert isinstance(await read_context(honcho), Ok)
                assert asyncio.get_running_loop().time() - started >= 0.15

                await plan(fault="refuse", on="add_messages")
                assert failure(await add(honcho)).kind in (FailureKind.UNKNOWN_OUTCOME, FailureKind.TRANSPORT)
                assert stored(stub) == 0
                assert isinstance(await read_context(honcho), Ok)

                await plan(fault="hang")
                assert failure(await read_context(honcho, within(0.5))).kind is FailureKind.TIMED_OUT

                await plan(fault="drip", interval=0.01)
                assert failure(await read_context(honcho, within(0.5))).kind is FailureKind.TIMED_OUT

                await plan(fault="cut", keep=0.9)
                assert failure(await read_context(honcho)).kind is FailureKind.TRANSPORT

                await plan(fault="garbage")
                assert failure(await read_context(honcho)).kind is FailureKind.BAD_REPLY

                await plan(fault="noise")
                assert failure(await read_context(honcho)).kind is FailureKind.TRANSPORT

                await plan(fault="status", status=429, headers={"retry-after": "3"}, body='{"detail":"slow down"}')
                limited = failure(await read_context(honcho))
                assert (limited.kind, limited.retry_after) == (FailureKind.RATE_LIMITED, 3.0)

                report = await asyncio.to_thread(proxy.report)
        assert report["fired"]["session_context"] == {
            "cut": 1, "drip": 1, "garbage": 1, "hang": 1, "latency": 1, "noise": 1, "status": 1,
        }  # fmt: skip
        assert report["fired"]["add_messages"] == {"refuse": 1}
        assert proxy.last_report["requests"]["session_context"] == 9


async def test_a_write_that_was_committed_and_not_answered_is_an_unknown_outcome() -> None:
    async with StubHoncho(script) as stub:
        with await asyncio.to_thread(FaultProxyProcess, stub.url) as proxy:
            async with client(proxy.url) as honcho:
                for rule in (
                    {"fault": "commit_then_drop"},
                    {"fault": "commit_then_status", "status": 500},
                    {"fault": "cut", "keep": 0.5},
                ):
                    before = stored(stub)
                    await asyncio.to_thread(proxy.plan, [rule])
                    assert failure(await add(honcho)).kind is FailureKind.UNKNOWN_OUTCOME, rule
                    assert stored(stub) == before + 1
                before = stored(stub)
                await asyncio.to_thread(proxy.plan, [{"fault": "late_reply", "delay": 30.0}])
                assert failure(await add(honcho, 0.7)).kind is FailureKind.UNKNOWN_OUTCOME
                assert stored(stub) == before + 1
                await asyncio.to_thread(proxy.plan, [{"fault": "cut_request", "keep": 0.5}])
                await add(honcho)
                assert stored(stub) == before + 1


async def test_a_held_request_is_forwarded_after_its_client_has_gone() -> None:
    async with StubHoncho(script) as stub:
        with await asyncio.to_thread(FaultProxyProcess, stub.url) as proxy:
            await asyncio.to_thread(proxy.plan, [{"fault": "late_commit", "on": ["add_messages"], "delay": 2.0}])
            async with client(proxy.url) as honcho:
                assert failure(await add(honcho, 0.7)).kind is FailureKind.UNKNOWN_OUTCOME
            assert stored(stub) == 0
            for _ in range(1_000):
                if stored(stub):
                    break
                await asyncio.sleep(0.02)
            assert stored(stub) == 1
            report = await asyncio.to_thread(proxy.report)
            assert report["forwarded_after_client_gone"] == 1
            await asyncio.to_thread(proxy.plan, [{"fault": "late_commit", "on": ["add_messages"], "delay": 0.1}])
            async with client(proxy.url) as honcho:
                assert isinstance(await add(honcho, 20.0), Ok), "a client that waits is answered"
            assert stored(stub) == 2


async def test_down_refuses_for_real_and_up_serves_again_on_the_same_port() -> None:
    async with StubHoncho(script) as stub:
        with await asyncio.to_thread(FaultProxyProcess, stub.url) as proxy:
            async with client(proxy.url) as honcho:
                assert isinstance(await read_context(honcho), Ok)
                await asyncio.to_thread(proxy.down)
                down = failure(await add(honcho))
                assert (down.kind, down.bytes_sent) == (FailureKind.TRANSPORT, False)
                await asyncio.to_thread(proxy.up)
                assert isinstance(await read_context(honcho), Ok)


async def test_name_lookups_that_are_pointed_at_it_are_swallowed_and_counted() -> None:
    async with StubHoncho(script) as stub:
        with await asyncio.to_thread(FaultProxyProcess, stub.url, extra=["--dns-port", "0"]) as proxy:
            host, _, port = proxy.ready["dns"].partition(":")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
                asker.settimeout(0.3)
                asker.sendto(
                    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01x\x00\x00\x01\x00\x01", (host, int(port))
                )
                with pytest.raises(TimeoutError):
                    asker.recv(512)
            assert (await asyncio.to_thread(proxy.report))["swallowed_name_lookups"] == 1


def test_the_same_seed_meets_the_same_traffic_alike_whatever_runs_beside_it() -> None:
    first, second = storm(7, 0.5), storm(7, 0.5)
    alone = [[hit.rule.fault for hit in first.throw("add_messages")] for _ in range(400)]
    beside = []
    for number in range(400):
        if number % 3 == 0:
            second.throw("chat")
        beside.append([hit.rule.fault for hit in second.throw("add_messages")])
    assert alone == beside
    assert alone != [[hit.rule.fault for hit in storm(8, 0.5).throw("add_messages")] for _ in range(400)]
    share = sum(map(bool, alone)) / 400
    assert 0.4 < share < 0.6
    assert {hits[0] for hits in alone if hits} == set(Fault) - {Fault.LATENCY, Fault.NOISE}


def test_rules_count_their_turns_and_latency_adds_up() -> None:
    plan = Plan(1, (Rule(Fault.LATENCY, delay=0.1), Rule(Fault.LATENCY, delay=0.2), Rule(Fault.CUT, times=1, skip=1)))
    faults = [[hit.rule.fault.value for hit in plan.throw("chat")] for _ in range(3)]
    assert faults == [["latency", "latency"], ["latency", "latency", "cut"], ["latency", "latency"]]
    assert plan.report()["fired"]["chat"] == {"cut": 1, "latency": 6}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("{", "not JSON"),
        ('{"rules": 3}', 'list of "rules"'),
        ('{"rules": [{"fault": "explode"}]}', "rule 1: the fault must be one of"),
        ('{"rules": [{"fault": "cut", "on": ["nonsense"]}]}', "rule 1: `on` must name operations"),
        ('{"rules": [{"fault": "cut", "chance": 2}]}', "`chance` must be a number from 0 to 1"),
        ('{"rules": [{"fault": "cut", "colour": 2}]}', "unknown key 'colour'"),
    ],
)
def test_a_plan_that_cannot_be_used_is_refused_in_one_sentence(plan: str, says: str) -> None:
    with pytest.raises(PlanError, match=says.replace("(", "\\(")):
        parse_plan(plan)


def test_a_bad_start_is_one_sentence_and_exit_2(
    tmp_path: Path, refused_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "plan.json"
    bad.write_text("[{}]")
    upstream = ["--upstream", "http://127.0.0.1:9"]
    for arguments in (
        ["--upstream", "ftp://h"],
        ["--upstream", "http://127.0.0.1:9/below"],
        [*upstream, "--plan", str(bad)],
        [*upstream, "--plan", str(tmp_path / "absent.json")],
        [*upstream, "--port", str(refused_port)],
    ):
        assert main(arguments) == 2
        said, errors = capsys.readouterr()
        assert errors.startswith("faultproxy: ")
        assert (said, len(errors.splitlines())) == ("", 1)


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("POST", "/v3/workspaces/w/sessions/s/messages", "add_messages"),
        ("POST", "/v3/workspaces/w/sessions/s/messages/list?page=1", "list_messages"),
        ("GET", "/v3/workspaces/w/sessions/s/context?tokens=0", "session_context"),
        ("POST", "/v3/workspaces/w/sessions/s/peers", "ensure_session"),
        ("POST", "/v3/workspaces/w/conclusions/query", "query_conclusions"),
        ("GET", "/metrics", "other"),
    ],
)
def test_operations_are_told_apart_by_their_request_line(method: str, target: str, name: str) -> None:
    assert operation_of(method, target) == name


async def test_a_proxy_that_is_ended_in_the_middle_of_everything_says_nothing_about_it() -> None:
    async with StubHoncho(lambda seen: Said({}, delay=60.0)) as stub:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "honcho_actors.local.faultproxy", "--upstream", stub.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        ready = json.loads(await process.stdout.readline())
        port, admin = (int(ready[name].rsplit(":", 1)[1]) for name in ("url", "admin"))
        talks = [await asyncio.open_connection("127.0.0.1", number) for number in (*[port] * 6, admin)]
        for _, writer in talks[:4]:
            writer.write(b"GET /v3/workspaces/w/peers/p/context HTTP/1.1\r\nhost: x\r\n\r\n")
        talks[4][1].write(b"GET /half")
        talks[6][1].write(b"GET /half")
        while len(stub.seen) < 4:  # noqa: ASYNC110 (the stub sees what is forwarded)
            await asyncio.sleep(0.01)
        process.terminate()
        said, errors = await asyncio.wait_for(process.communicate(), 20.0)
        for _, writer in talks:
            writer.transport.abort()
        assert (process.returncode, errors) == (0, b"")
        assert json.loads(said)["forwarded"] == 4
