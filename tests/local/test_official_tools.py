"""The official SDK's ordinary tour, sync and async, and the official command line's doctor, against `local`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from honcho import Honcho
from honcho.http.exceptions import NotFoundError, UnprocessableEntityError

from honcho_actors.local.process import Handle
from tests.local.conftest import Space

FIRST = "I moved to Porto in March and I work as a nurse."


@pytest.fixture
def sdk(server: Handle, space: Space) -> Iterator[Honcho]:
    made = Honcho(base_url=server.url, api_key="any", workspace_id=space.name, max_retries=0)
    yield made
    made._http.close()


def test_the_tour_of_the_sync_client(sdk: Honcho, space: Space) -> None:
    alice, bot = sdk.peer("alice", metadata={"k": 1}), sdk.peer("bot", configuration={"observe_me": False})
    session = sdk.session("first", metadata={"topic": "moving"})
    session.add_peers([alice, bot])
    session.add_messages(
        [alice.message(FIRST, metadata={"delivery_id": "abc"}), bot.message("Noted, Porto it is."), alice.message("ok")]
    )
    space.settle()
    assert [peer.id for peer in sdk.peers()] == ["alice", "bot"]
    assert [item.id for item in sdk.sessions()] == ["first"]
    assert alice.get_metadata() == {"k": 1}
    assert {peer.id for peer in session.peers()} == {"alice", "bot"}
    assert [message.content for message in session.messages(filters={"metadata": {"delivery_id": "abc"}})] == [FIRST]
    context = session.context(tokens=1000, peer_target="alice")
    assert context.messages[0].content == FIRST
    assert "alice said: I moved to Porto" in (context.peer_representation or "")
    assert sdk.search("nurse")[0].content == FIRST
    assert FIRST in [message.content for message in session.search("Porto")]
    assert [message.content for message in alice.search("Porto")] == [FIRST]
    assert alice.set_card(["Name: Alice"]) == ["Name: Alice"]
    assert alice.get_card() == ["Name: Alice"]
    made = alice.conclusions.create([{"content": "alice likes green tea", "session_id": "first"}])
    assert alice.conclusions.query("tea")[0].content == "alice likes green tea"
    alice.conclusions.delete(made[0].id)
    assert all(item.content != "alice likes green tea" for item in alice.conclusions.list())
    assert "Porto" in alice.representation()
    assert alice.context().peer_card == ["Name: Alice"]
    assert "Porto" in (alice.chat("Where does Alice live? Is it Porto?") or "")
    assert "Porto" in "".join(alice.chat_stream("Porto?"))
    assert session.summaries().short_summary is None
    assert sdk.queue_status().pending_work_units == 0
    copy = session.clone()
    assert [message.content for message in copy.messages()] == [message.content for message in session.messages()]
    session.delete()


def test_the_tour_of_the_async_client(server: Handle, space: Space) -> None:
    async def tour() -> None:
        sdk = Honcho(base_url=server.url, api_key="any", workspace_id=space.name, max_retries=0)
        try:
            alice, bot = await sdk.aio.peer("alice"), await sdk.aio.peer("bot")
            session = await sdk.aio.session("first")
            await session.aio.add_peers([alice, bot])
            await session.aio.add_messages([alice.message(FIRST), bot.message("Noted.")])
            while (await sdk.aio.queue_status()).pending_work_units:  # noqa: ASYNC110 (the server has no event)
                await asyncio.sleep(0.01)
            context = await session.aio.context(tokens=1000, peer_target="alice", peer_perspective="alice")
            assert "alice said: I moved to Porto" in (context.peer_representation or "")
            assert (await sdk.aio.search("nurse"))[0].content == FIRST
            assert await alice.aio.set_card(["Name: Alice"]) == ["Name: Alice"]
            assert (await alice.aio.context()).peer_card == ["Name: Alice"]
            assert "Porto" in (await alice.aio.chat("Porto?") or "")
            assert [message.content async for message in await session.aio.messages()] == [FIRST, "Noted."]
        finally:
            sdk._http.close()
            if sdk._async_http_client is not None:
                await sdk._async_http_client.close()

    asyncio.run(tour())


def test_the_sdk_reads_the_servers_refusals_as_its_own_errors(sdk: Honcho) -> None:
    with pytest.raises(NotFoundError, match="Peer ghost not found"):
        sdk.session("s").context(peer_target="ghost")
    peer = sdk.peer("alice")
    with pytest.raises(UnprocessableEntityError):
        sdk.session("s").add_messages([peer.message("x") for _ in range(101)])


def test_the_official_doctor_finds_nothing_wrong(server: Handle, space: Space, tmp_path: Path) -> None:
    space.put("/peers/alice/card", {"peer_card": ["Name: Alice"]}, 200)
    config = tmp_path / "honcho"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"environmentUrl": server.url, "apiKey": "any"}))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HONCHO_CONFIG_DIR": str(config),
        "HONCHO_WORKSPACE_ID": space.name,
        "HONCHO_PEER_ID": "alice",
        "HONCHO_NO_UPDATE_CHECK": "1",
    }
    command = [str(Path(sys.executable).parent / "honcho"), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["passed"] == report["total"] == 6
    assert {check["check"] for check in report["checks"]} >= {"API connectivity", "Queue health", "Peer exists"}
