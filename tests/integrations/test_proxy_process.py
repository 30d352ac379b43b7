"""`honcho-actors proxy` as a process: what it says, how it ends, and many streams at once."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.keeper import Held, keeper
from tests.integrations.load import Proxied, run
from tests.integrations.test_proxy import ANN_TALKS, ask, chat
from tests.support.memory_world import Server
from tests.support.stub_model import StubModel

pytestmark = pytest.mark.timeout(120)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from honcho_actors.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "proxy", *arguments], capture_output=True, text=True, timeout=110, check=False
    )


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--upstream", "model"], "an address begins with http:// or https://"),
        (["--upstream", "http://m", "--host", "0.0.0.0"], "others could claim to be anybody"),
        (["--upstream", "http://m", "--token-file", "nowhere"], "the token cannot be read"),
        ([], "upstream"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("--upstream", "http://m", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be had" in done.stderr


def test_many_streams_at_once_stay_whole_and_apart() -> None:
    report = run(streams=60, events=12, pace=0.1)
    assert report.whole_and_apart, json.dumps(report.__dict__)
