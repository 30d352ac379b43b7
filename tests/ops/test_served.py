"""What the endpoint of a running runtime answers over sockets: the OP cases that are about it, the page, the scrape.

The original's operator command showed its own process. Here the running one is asked over its endpoint, so the cases
hold for what that endpoint answers; the command's own half stands in tests/cli.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from honcho_actors import Memory, Settings, TurnRequest
from honcho_actors.ops.access import ticket
from honcho_actors.ops.announcement import find
from tests.conftest import LeftTheMachine
from tests.support.memory_world import Remote, Server, until

SECRET = "-".join(("hch", "v3", "0123456789abcdef" * 2))


class Desk:
    """A runtime, and its endpoint as whoever holds the token asks it."""

    def __init__(self, memory: Memory, state_dir: Path) -> None:
        self.memory = memory
        found = find(state_dir)
        assert found is not None
        self.url, self.token, _ = found

    def reply(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {self.token}", **headers}, timeout=20.0)

    def ask(self, path: str) -> Any:
        reply = self.reply(path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def turn(self, key: str, user: str = "ann") -> None:
        self.memory.context(TurnRequest(session_key=key, user=user, query="what about the garden?"), 5.0)


Open = Callable[..., Desk]


@pytest.fixture
def remote() -> Remote:
    return Remote({"ann": ("Ann grows tomatoes.", ["Name: Ann"])})


@pytest.fixture
def server(remote: Remote) -> Iterator[Server]:
    with Server(remote) as running:
        yield running


@pytest.fixture
def desk(server: Server, tmp_path: Path) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def opened(*, counter: Callable[[str], int] | None = None, **changed: Any) -> Desk:
            given = {
                "base_url": server.url,
                "state_dir": tmp_path / "state",
                "cache_dir": tmp_path / "cache",
                "metrics_port": 0,
                **changed,
            }
            memory = Memory.start(Settings(**given), counter=counter)
            stack.callback(memory.close, 2.0)
            return Desk(memory, given["state_dir"])

        yield opened


class TestStatus:
    def test_OP8_without_a_key_it_says_absent_and_without_a_server_that_memory_is_off(self, desk: Open) -> None:
        shown = desk(base_url=None).ask("/status")
        assert shown["settings"]["api_key"] == "absent"
        assert (shown["state"], shown["settings"]["configured"]) == ("off", False)
        assert "no server" in shown["health"]

    def test_OP9_with_a_key_it_says_present_and_no_page_shows_it(self, desk: Open) -> None:
        opened = desk(api_key=SECRET)
        opened.turn("one")
        assert opened.ask("/status")["settings"]["api_key"] == "present"
        for path in ("/status", "/settings", "/overview", "/sessions", "/outbox", "/tree", "/metrics", "/", "/readyz"):
            assert SECRET not in opened.reply(path).text, path

    def test_OP10_OP11_every_field_is_there_and_a_limit_that_is_not_set_is_null(self, desk: Open) -> None:
        opened = desk()
        shown = opened.ask("/status")
        assert {
            "state", "health", "pid", "version", "started_at", "uptime", "degraded", "settings", "sessions", "outbox",
            "client", "tree", "endpoints", "problems",
        } <= set(shown)  # fmt: skip
        values = opened.ask("/settings")["values"]
        assert values["dialectic_per_hour"] is None
        assert set(values) >= {"workspace", "user_peer", "ai_peer", "recall_mode", "save_messages", "metrics_host"}

    def test_a_corrupt_store_is_nothing_with_a_reason_and_takes_no_other_part_along(
        self, desk: Open, tmp_path: Path
    ) -> None:
        (tmp_path / "state").mkdir(mode=0o700)
        (tmp_path / "state" / "outbox.db").write_bytes(b"this is no database" * 500)
        opened = desk()
        until(lambda: opened.ask("/outbox").get("pending_turns") == 0, 20.0)
        outbox = opened.ask("/status")["outbox"]
        assert (outbox["pending_turns"], outbox["delivered"], outbox["last_delivery"]) == (0, 0, None)
        assert len(outbox["set_aside_files"]) == 1
        opened.turn("one")
        assert opened.ask("/overview")["sessions"]["manager"] == "running"

    def test_readiness_is_lost_when_memory_is_off_and_not_when_it_is_degraded(
        self, desk: Open, server: Server, remote: Remote
    ) -> None:
        opened = desk()
        metrics = str(opened.memory.status().endpoints["metrics"]).removesuffix("/metrics")
        assert httpx.get(f"{metrics}/readyz").json() == {"ready": True, "state": "ready"}
        remote.statuses |= {"session_context": 500, "peer_context": 500}
        for number in range(3):
            opened.turn(f"new-{number}", f"new-{number}")
        until(lambda: opened.memory.status().state == "degraded", 20.0)
        assert httpx.get(f"{metrics}/readyz").json() == {"ready": True, "state": "degraded"}
        assert httpx.get(f"{metrics}/healthz").json() == {"alive": True}
        assert httpx.get(f"{metrics}/status").status_code == 404, "the scrape port shows no more"
        opened.memory.close(2.0)
        off = desk(base_url=None)
        assert off.reply("/readyz").status_code == 503


class TestSessions:
    def test_OP12_OP31_an_empty_table_is_an_empty_list_and_the_manager_runs(self, desk: Open) -> None:
        opened = desk()
        assert opened.ask("/sessions") == []
        assert opened.ask("/status")["sessions"]["manager"] == "running"

    def test_OP13_OP30_a_row_says_what_is_not_known_yet(self, desk: Open, remote: Remote) -> None:
        remote.closed["session_context"] = remote.closed["peer_context"] = threading.Event()
        opened = desk()
        opened.memory.prewarm(TurnRequest(session_key="waits", user="ann"))
        until(lambda: [row["state"] for row in opened.ask("/sessions")] == ["loading"], 20.0)
        assert opened.ask("/sessions")[0]["age"] is None
        for gate in remote.closed.values():
            gate.set()
        opened.turn("waits")
        until(lambda: [row["state"] for row in opened.ask("/sessions")] == ["ready"], 20.0)
        row = opened.ask("/sessions")[0]
        assert (row["key"], row["user"], row["turns"]) == ("waits", "ann", 1)
        assert row["age"] >= 0.0

    def test_a_conversation_of_a_stranger_is_empty_and_one_that_failed_is_absent_for_its_reason(
        self, desk: Open, remote: Remote
    ) -> None:
        opened = desk()
        opened.turn("strange", "zoe")
        remote.statuses |= {"session_context": 500, "peer_context": 500}
        opened.turn("fails", "yan")
        rows = {row["key"]: (row["state"], row["reason"]) for row in opened.ask("/sessions")}
        assert rows["strange"][0] == "empty"
        assert rows["fails"] == ("absent", "server_error")

    def test_OP32_OP33_while_the_manager_is_away_it_says_so_and_what_was_published_is_shown(self, desk: Open) -> None:
        opened = desk()
        opened.turn("one")
        tree = opened.memory._tree
        assert tree is not None
        tree.runtime.close(5.0)
        status = tree.sessions.status()
        assert status["manager"] == "away"
        assert [row.key for row in tree.sessions.rows()] == ["one"]

    def test_the_latest_turns_come_first_in_recent(self, desk: Open) -> None:
        opened = desk()
        for key in ("one", "two", "three", "one"):
            opened.turn(key)
            until(lambda: sum(row["turns"] for row in opened.ask("/sessions")) > 0, 20.0)
            time.sleep(0.02)
        until(lambda: opened.ask("/recent")[0]["key"] == "one", 20.0)
        assert [row["key"] for row in opened.ask("/recent?limit=2")] == ["one", "three"]
        assert {row["key"] for row in opened.ask("/sessions")} == {"one", "two", "three"}


class TestContext:
    def test_OP34_a_conversation_that_is_held_is_reported_without_serving_a_turn(
        self, desk: Open, remote: Remote
    ) -> None:
        opened = desk()
        opened.turn("one")
        until(lambda: opened.ask("/sessions")[0]["turns"] == 1, 20.0)
        before = len(remote.asked)
        shown = opened.ask("/context?key=one&user=ann")
        assert (shown["tracked"], shown["chosen_by"], shown["row"]["key"]) == (True, "key", "one")
        assert "tomatoes" not in json.dumps(shown)
        assert opened.ask("/sessions")[0]["turns"] == 1
        assert len(remote.asked) == before

    def test_OP35_one_that_is_not_held_is_not_made(self, desk: Open) -> None:
        opened = desk()
        for path in ("/context?key=nobody", "/context?key=nobody&user=ann", "/context"):
            shown = opened.ask(path)
            assert (shown["tracked"], shown["row"], shown["chosen_by"]) == (False, None, None)
        assert opened.ask("/sessions") == []

    def test_OP36_without_a_key_it_is_the_one_that_was_read_last(self, desk: Open) -> None:
        opened = desk()
        opened.turn("first", "ann")
        opened.turn("second", "zoe")
        shown = opened.ask("/context")
        assert (shown["row"]["key"], shown["chosen_by"]) == ("second", "most_recent")

    def test_another_person_s_conversation_of_the_same_key_is_not_taken_for_it(self, desk: Open) -> None:
        opened = desk()
        opened.turn("one", "ann")
        assert opened.ask("/context?key=one&user=zoe")["tracked"] is False


class TestPage:
    def test_the_page_is_let_in_by_a_ticket_once_and_its_key_opens_its_figures_alone(self, desk: Open) -> None:
        opened = desk()
        shown = {"Authorization": f"Ticket {ticket(opened.token, time.time())}"}
        key = httpx.get(f"{opened.url}/key", headers=shown).json()["key"]
        assert httpx.get(f"{opened.url}/key", headers=shown).status_code == 401
        bearer = {"Authorization": f"Bearer {key}"}
        found = httpx.get(f"{opened.url}/overview", headers=bearer).json()
        assert {"state", "health", "turns", "waits", "outbox", "breakers", "spend", "tree", "sessions"} <= set(found)
        assert httpx.get(f"{opened.url}/status", headers=bearer).status_code == 401
        assert httpx.get(f"{opened.url}/overview").status_code == 401

    def test_the_page_s_policy_lets_run_what_is_in_it_and_nothing_else(self, desk: Open) -> None:
        opened = desk()
        reply = httpx.get(opened.url + "/")
        assert reply.status_code == 200
        policy = reply.headers["content-security-policy"]
        for kind in ("script", "style"):
            inline = re.findall(rf"<{kind}>(.*?)</{kind}>", reply.text, re.DOTALL)
            assert len(inline) == 1
            digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}'" in policy
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"unsafe|https?:|\*", policy)
        assert not re.search(r"\b(src|href)=\"(?!data:|#)", reply.text), "nothing is loaded from anywhere"
        assert not re.search(r"\son\w+=|\sstyle=", reply.text), "no handler and no style in an attribute"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in reply.headers

    def test_the_page_is_refused_under_a_foreign_host_name(self, desk: Open) -> None:
        opened = desk()
        for path in ("/", "/key", "/overview"):
            assert opened.reply(path, Host="rebound.example:80").status_code == 403

    def test_the_hour_outlives_a_restart_of_the_endpoint(self, desk: Open) -> None:
        opened = desk()
        opened.turn("one")
        until(lambda: opened.ask("/overview")["turns"]["total"] == 1.0, 20.0)
        tree = opened.memory._tree
        assert tree is not None
        before = opened.token
        root = tree._root
        assert root is not None
        endpoint = root.which_child("endpoint").ref
        assert endpoint is not None
        endpoint.kill()

        def again() -> bool:
            found = find(opened.memory.settings.state_dir)
            return found is not None and found[1] != before

        until(again, 20.0)
        found = find(opened.memory.settings.state_dir)
        assert found is not None
        opened.url, opened.token, _ = found
        assert opened.ask("/overview")["turns"]["total"] == 1.0


class TestScrape:
    def test_prometheus_s_own_request_gets_openmetrics_and_another_one_text(self, desk: Open) -> None:
        url = str(desk().memory.status().endpoints["metrics"])
        plain = httpx.get(url)
        assert plain.headers["content-type"].startswith("text/plain")
        accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
        rich = httpx.get(url, headers={"Accept": accept})
        assert rich.headers["content-type"].startswith("application/openmetrics-text")
        assert rich.text.endswith("# EOF\n")

    def test_a_scrape_answers_while_the_manager_is_busy(self, desk: Open) -> None:
        """Field case 103: it waits for no actor."""
        busy, let_go = threading.Event(), threading.Event()

        def count(text: str) -> int:
            """A host's counter of tokens, which the manager calls, and which hangs."""
            busy.set()
            let_go.wait(30.0)
            return len(text) // 3

        opened = desk(counter=count)
        url = str(opened.memory.status().endpoints["metrics"])
        opened.memory.prewarm(TurnRequest(session_key="one", user="ann"))
        assert busy.wait(20.0)
        try:
            assert "honcho_actors_sessions" in httpx.get(url, timeout=30.0).text
            assert opened.ask("/status")["state"] == "ready"
            assert opened.ask("/overview")["state"] == "ready"
        finally:
            let_go.set()

    def test_who_reaches_the_scrape_port_is_a_setting_that_falls_closed(self, desk: Open, tmp_path: Path) -> None:
        assert Settings(metrics_host="everybody").metrics_host == "127.0.0.1"
        opened = desk(metrics_host="0.0.0.0")
        port = int(str(opened.memory.status().endpoints["metrics"]).split(":")[2].split("/")[0])
        reply = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Host": "pod-7.cluster.local:9464"})
        assert reply.status_code == 200, "it listens for other machines, whatever they call it"
        inside = opened.reply("/status", Host="pod-7.cluster.local")
        assert inside.status_code == 403, "the admin endpoint stays on loopback"

    def test_108_ipv6_alone_is_served_too(self, desk: Open) -> None:
        if not socket.has_ipv6:
            pytest.skip("this machine has no IPv6")
        with contextlib.closing(socket.socket(socket.AF_INET6)) as one:
            try:
                one.bind(("::1", 0))
            except OSError:
                pytest.skip("this machine has no IPv6 loopback")
        url = str(desk(metrics_host="::1").memory.status().endpoints["metrics"])
        assert url.startswith("http://[::1]:")
        assert httpx.get(url).status_code == 200


class TestTripwire:
    """OP18 and OP19: the original pinned its test client; here the whole suite stands behind one."""

    def test_OP18_it_is_in_force_in_every_test(self) -> None:
        assert socket.socket.connect.__qualname__.startswith("tripwire.")
        assert socket.getaddrinfo.__qualname__.startswith("tripwire.")

    def test_OP19_it_raises_on_use_and_no_handler_for_exceptions_swallows_it(self) -> None:
        assert not issubclass(LeftTheMachine, Exception)
        with socket.socket() as one:
            for address in (("192.0.2.1", 80), ("203.0.113.9", 443)):
                with pytest.raises(LeftTheMachine):
                    one.connect(address)
        with pytest.raises(LeftTheMachine):
            socket.getaddrinfo("honcho.example.org", 443)
