"""The egress proof of the whole product: credentials go in by every door of `Memory`, and no outlet holds one.

Outlets: the bytes that a server received, every log record at DEBUG, the metrics, the status, receipts and contexts,
the outbox and the snapshots as files, the command line's output, and the texts of the server's own errors.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from honcho_actors import Memory, Settings, Turn, TurnRequest
from honcho_actors.local.process import start
from honcho_actors.model import ReceiptState
from tests.privacy.canaries import Canaries
from tests.privacy.relay import Relay


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start(tmp_path_factory.mktemp("honcho")) as running:
        yield running.url


def files(*folders: Path) -> bytes:
    return b"".join(path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())


def command_line(*arguments: str, state: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "honcho_actors.cli", *arguments],
        env={"HONCHO_ACTORS_STATE_DIR": str(state), "HONCHO_ACTORS_CACHE_DIR": str(state), "HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    return done.stdout + done.stderr


def settings(url: str, state: Path, **more: Any) -> Settings:
    fields = {"state_dir": state / "state", "cache_dir": state / "cache", "settle_time": 0.2, "dialectic_cadence": 1}
    return Settings(base_url=url, **{**fields, **more})


def feed(memory: Memory, canaries: Canaries) -> list[object]:
    """Credentials by every door; what came back."""
    give = canaries.give
    back: list[object] = []
    for number in range(12):
        user, key = f"person{number % 3}", f"room{number % 4}"
        query = f"my new key is {give()}, remember it and tell me about number {number}"
        back.append(memory.context(TurnRequest(key, user=user, query=query)))
        metadata = {
            "note": give(),
            give(): "x",
            "deep": {"list": [give(), {"more": f"token {give()}"}]},
            "fine": number,
        }
        turn = Turn(
            key, user, (f"use {give()}", "and something ordinary to say"), f"done with {give()}", metadata=metadata
        )
        back.append(memory.capture(turn))
        back.append(memory.capture(Turn(key, user, f"only {give()}", None)))
        back.append(memory.search(f"where is {give()}", "session", key))
    secret = give("github")
    back.append(memory.context(TurnRequest(secret, user=give("github"), query="an ordinary question about the garden")))
    back.append(memory.capture(Turn(give("github"), give("honcho"), "hello there", "hello", turn_id="ordinary")))
    memory.fork("room1", give("github"))
    memory.opt_out(give("github"))
    return back


def withheld(registry: CollectorRegistry, field: str) -> float:
    return registry.get_sample_value("honcho_actors_egress_withheld_total", {"field": field}) or 0.0


def ask_until_withheld(memory: Memory, canaries: Canaries, registry: CollectorRegistry) -> None:
    """Turns of a person who is known by now, so that the dialectic is asked: the message is left out of the
    question."""
    end = time.monotonic() + 20.0
    while not withheld(registry, "query"):
        assert time.monotonic() < end, "the dialectic was never asked with a message"
        query = f"look again, the key {canaries.give()} is the one that I use for the garden pump"
        memory.context(TurnRequest("room1", user="person1", query=query))
        time.sleep(0.02)


def test_no_credential_leaves_by_the_wire_or_stays_in_an_outlet(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    canaries, registry = Canaries(7), CollectorRegistry()
    own_key = "own-deployment-" + "value-77"
    with Relay(server) as relay:
        with Memory.start(settings(relay.url, tmp_path, api_key=own_key), registry=registry) as memory:
            back = feed(memory, canaries)
            said = [memory.capture(Turn("room9", "person0", f"the value is {own_key}, keep it", "ordinary answer"))]
            assert memory.flush(20.0)
            ask_until_withheld(memory, canaries, registry)
            back += [receipt.wait(ReceiptState.DELIVERED, 5.0) for receipt in said]
            status = repr(memory.status().as_dict())
        wire = bytes(relay.received)
    keyless = wire.replace(b"Bearer " + own_key.encode(), b"")
    assert b"and something ordinary to say" in wire
    assert b"ordinary answer" in wire
    assert len(canaries.given) > 100
    assert canaries.found_in(wire) == []
    assert own_key.encode() not in keyless
    assert canaries.found_in(caplog.text) == []
    assert own_key not in caplog.text
    assert canaries.found_in(generate_latest(registry)) == []
    assert canaries.found_in(status + repr(back)) == []
    assert own_key not in status + repr(back)
    assert withheld(registry, "query") > 0
    assert withheld(registry, "search") >= 12
    assert withheld(registry, "prompt") >= 24
    assert withheld(registry, "answer") >= 12
    assert withheld(registry, "metadata") >= 12


def test_no_text_of_a_withheld_turn_is_in_a_file_or_on_the_command_line(server: str, tmp_path: Path) -> None:
    """Keys that a host chose (a session's, a person's) are kept locally as they are; what was said is not."""
    canaries = Canaries(8)
    give = canaries.give
    unreachable = "http://127.0.0.1:9"
    with Memory.start(settings(unreachable, tmp_path, first_turn_wait=0.05)) as memory:
        for _ in range(10):
            memory.context(TurnRequest("room", user="ana", query=f"the key is {give()} and more words"), budget=0.01)
            turn = Turn("room", "ana", ("ordinary words", f"use {give()}"), give(), metadata={"a": give(), give(): 1})
            assert memory.capture(turn).wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.ACCEPTED
        blank = memory.capture(Turn("room", "ana", give(), give()))
        assert blank.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        shown = repr(memory.status().as_dict()) + repr(blank)
    kept = files(tmp_path)
    assert b"ordinary words" in kept
    assert canaries.found_in(kept) == []
    assert canaries.found_in(shown) == []
    for arguments in (("status", "--json"), ("outbox", "list", "--json"), ("outbox", "export")):
        assert canaries.found_in(command_line(*arguments, state=tmp_path / "state")) == []


def test_a_server_that_repeats_credentials_in_its_errors_puts_them_nowhere(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    canaries = Canaries(9)
    with Relay(server) as relay, Memory.start(settings(relay.url, tmp_path, first_turn_wait=0.5)) as memory:
        for status in (422, 400, 401, 500, 200):
            echo = f'{{"detail": "bad input: the key is {canaries.give()} in {canaries.give()}"}}'
            relay.say(status, echo.encode())
            context = memory.context(TurnRequest(f"room{status}", user="ana", query="an ordinary question to ask"))
            receipt = memory.capture(Turn(f"room{status}", "ana", "ordinary words", "and an answer"))
            found = memory.search("ordinary", "global")
            receipt.wait(ReceiptState.DELIVERED, 0.5)
            shown = repr(memory.status().as_dict()) + repr((context, receipt, found))
            assert canaries.found_in(shown) == []
    assert canaries.found_in(caplog.text) == []
    assert canaries.found_in(files(tmp_path)) == []


def test_case_71_no_word_of_a_query_is_in_any_log_of_any_library(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Memory.start(settings(server, tmp_path)) as memory:
        memory.capture(Turn("room", "ana", "my salary is 12345 a month", "noted")).wait(ReceiptState.DELIVERED, 30.0)
        for number in range(3):
            memory.context(
                TurnRequest("room", user="ana", query=f"my salary is 12345, what about tax number {number}?")
            )
            memory.search("salary 12345", "session", "room")
    assert "salary" not in caplog.text
    assert "12345" not in caplog.text


def test_case_72_a_traceback_through_the_gate_shows_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rule that breaks inside a running capture: the turn is skipped as withheld, and no record of it holds its
    words."""
    from honcho_actors.privacy import rules

    def broken(text: str) -> str | None:
        raise RuntimeError(f"broke on {text}")

    with Memory.start(settings("http://127.0.0.1:9", tmp_path)) as memory:
        monkeypatch.setattr(rules, "find", broken)
        receipt = memory.capture(Turn("room", "ana", "quietly said words", "an answer"))
        assert receipt.wait(ReceiptState.ACCEPTED, 30.0) is ReceiptState.SKIPPED
        assert receipt.reason == "withheld"
        shown = repr(memory.status().as_dict())
    assert "quietly" not in shown
    assert b"quietly" not in files(tmp_path)
