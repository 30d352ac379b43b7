"""The client against the embedded server, as the process that it is: every operation once, and the fault proxy
between them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from honcho_actors.honcho.client import HonchoClient, Observation, OutMessage
from honcho_actors.honcho.outcomes import FailureKind, Ok
from tests.support.calls import client, failure, read_context, text, value, within
from tests.support.faults import FaultProxyProcess


@pytest.fixture
def local_url(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "honcho_actors.local", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


async def talk(honcho: HonchoClient) -> None:
    members = {"user": Observation(True, False), "bot": Observation(False, True)}
    value(await honcho.ensure_session("w", "s", members, within()))
    when = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    batch = [
        OutMessage("user", text("I like <|endoftext|> green tea"), {"delivery_id": "ab12"}, when),
        OutMessage("bot", text("noted " * 6_000), {"delivery_id": "ab12"}, when),
    ]
    assert len(value(await honcho.add_messages("w", "s", batch, within()))) == 3


async def test_every_operation_is_understood_by_the_embedded_server(local_url: str) -> None:
    async with client(local_url) as honcho:
        assert value(await honcho.health(call=within()))
        assert failure(await read_context(honcho)).kind is FailureKind.NOTHING_KNOWN
        await talk(honcho)
        filters = {"metadata": {"delivery_id": "ab12"}}
        page = value(await honcho.list_messages("w", "s", filters=filters, call=within()))
        assert (page.total, page.items[0].text) == (3, "I like <| endoftext |> green tea")
        assert page.items[0].created_at == datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
        assert "".join(one.text for one in page.items[1:]) == text("noted " * 6_000).text
        assert page.items[1].metadata["part_of"] == page.items[2].metadata["part_of"]
        newest = value(await honcho.list_messages("w", "s", size=1, reverse=True, call=within()))
        assert newest.items[0].metadata["part"] == 2

        found = value(await honcho.session_search("w", "s", text("green tea"), call=within()))
        assert any("green tea" in one.text for one in found)
        assert value(await honcho.peer_search("w", "user", text("green tea"), call=within()))
        assert value(await honcho.workspace_search("w", text("green tea"), limit=3, call=within()))

        assert value(await honcho.put_card("w", "user", [text("name: Ada")], call=within())) == ("name: Ada",)
        assert value(await honcho.get_card("w", "user", call=within())) == ("name: Ada",)
        ids = value(
            await honcho.create_conclusions("w", [text("likes tea")], observer="user", observed="user", call=within())
        )
        context = value(await read_context(honcho))
        assert "likes tea" in context.representation
        assert context.card == ("name: Ada",)
        person = value(await honcho.peer_context("w", "user", max_conclusions=10, call=within()))
        assert "likes tea" in person.representation
        queried = value(
            await honcho.query_conclusions("w", text("tea"), observer="user", observed="user", call=within())
        )
        assert any(one.id == ids[0] for one in queried)
        listed = value(await honcho.list_conclusions("w", filters={"observer_id": "user"}, call=within()))
        assert any(one.id == ids[0] for one in listed.items)
        assert value(await honcho.delete_conclusion("w", ids[0], call=within())) is True
        assert value(await honcho.delete_conclusion("w", ids[0], call=within())) is False

        value(await honcho.set_member("w", "s", "bot", Observation(True, True), within()))
        assert value(await honcho.get_member("w", "s", "bot", call=within())) == Observation(True, True)
        assert [one.id for one in value(await honcho.list_sessions("w", filters={"id": "s"}, call=within())).items] == [
            "s"
        ]
        assert {one.id for one in value(await honcho.list_peers("w", call=within())).items} == {"user", "bot"}
        assert isinstance(await honcho.summaries("w", "s", call=within()), Ok)
        assert isinstance(await honcho.queue_status("w", session="s", call=within()), Ok)
        assert isinstance(await honcho.chat("w", "user", text("what tea?"), target="user", call=within()), Ok)
        assert value(await honcho.ensure_workspace("w", call=within())).id == "w"
        assert value(await honcho.ensure_peer("w", "user", call=within())).id == "user"


async def test_a_delivery_whose_reply_was_lost_is_found_by_asking(local_url: str) -> None:
    with await asyncio.to_thread(FaultProxyProcess, local_url) as proxy:
        async with client(proxy.url) as honcho:
            await asyncio.to_thread(proxy.plan, [{"fault": "commit_then_drop", "on": ["add_messages"], "times": 1}])
            value(await honcho.ensure_session("w", "s", {"user": Observation()}, within()))
            batch = [OutMessage("user", text("hello"), {"delivery_id": "ff00"})]
            assert failure(await honcho.add_messages("w", "s", batch, within())).kind is FailureKind.UNKNOWN_OUTCOME
            filters = {"metadata": {"delivery_id": "ff00"}}
            assert value(await honcho.list_messages("w", "s", filters=filters, size=1, call=within())).total == 1
            report = await asyncio.to_thread(proxy.report)
            assert report["fired"]["add_messages"] == {"commit_then_drop": 1}
