"""`honcho-actors proxy` as a process: what it says, how it ends, and many streams at once."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.cli import out
from honcho_actors.cli.proxy import proxy
from tests.integrations.keeper import Held, keeper
from tests.integrations.load import Proxied, run
from tests.integrations.test_proxy import ANN_TALKS, ask, chat
from tests.support.memory_world import Server
from tests.support.stub_model import StubModel

pytestmark = pytest.mark.timeout(120)


def test_it_serves_until_sigterm_drains_and_ends_with_0(tmp_path: Path) -> None:
    with Server(keeper()) as honcho, StubModel() as model:
        with Proxied(model.root, honcho.url, tmp_path) as proxy:
            assert proxy.ready["ready"] is True
            assert proxy.url.startswith("http://127.0.0.1:")
            assert ask(proxy.url, chat("hello"), ANN_TALKS)[1]["x-honcho-memory"] == "cold; filled"
            proxy.process.send_signal(signal.SIGTERM)
            assert proxy.process.wait(40) == 0
        assert honcho.remote.held["garden"] == [  # type: ignore[attr-defined]
            Held("ann", "hello", False),
            Held("assistant", "You said 1 things, at last: hello", False),
        ]


def refused(**given: Any) -> str:
    """The sentence with which the command ends at once."""
    usual = {
        "host": "127.0.0.1",
        "port": 0,
        "token_file": None,
        "user_field": False,
        "state_dir": None,
        "as_json": False,
    }
    with pytest.raises(out.Stop) as stopped:
        proxy(**{"upstream": "http://m", **usual, **given})
    assert stopped.value.code == out.USAGE
    return str(stopped.value)


def test_what_cannot_be_served_is_said_in_one_sentence(tmp_path: Path) -> None:
    assert "an address begins with http:// or https://" in refused(upstream="model")
    assert "others could claim to be anybody" in refused(host="0.0.0.0")
    assert "the token cannot be read" in refused(token_file=tmp_path / "nowhere")
    (tmp_path / "blank").write_text(" \n")
    assert "holds no token" in refused(token_file=tmp_path / "blank")


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be had" in refused(port=taken.getsockname()[1])


def test_many_streams_at_once_stay_whole_and_apart() -> None:
    report = run(streams=60, events=12, pace=0.1)
    assert report.whole_and_apart, json.dumps(report.__dict__)
