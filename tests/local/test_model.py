"""A model behind the server: what it is asked, what becomes of its answers, and what its failures cost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from honcho_actors.local import llm, process
from tests.local.conftest import Space

Answer = Callable[[str, str], str | int | bytes]


class Endpoint:
    """A chat endpoint whose answers a test decides; a number is sent as that status, bytes as they are."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body)
                endpoint.keys.append(self.headers["authorization"])
                given = answer(*(message["content"] for message in body["messages"]))
                if isinstance(given, bytes):
                    self.wfile.write(given)
                    return
                status = given if isinstance(given, int) else 200
                reply = json.dumps({"choices": [{"message": {"content": given}}]}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def endpoint(answer: Answer) -> Iterator[Endpoint]:
    made = Endpoint(answer)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


@contextmanager
def space_with(model: Endpoint, data: Path, *more: str) -> Iterator[Space]:
    arguments = ["--model-url", model.url, "--model", "small", "--model-retry", "0.05", *more]
    with (
        process.start(data, arguments=arguments, environment={"HONCHO_LOCAL_MODEL_KEY": "key-for-model"}) as server,
        httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client,
    ):
        yield Space(client, "w")


def helpful(system: str, user: str) -> str:
    if "conclusions" in system:
        return 'Here you are:\n```json\n{"conclusions": ["Alice lives in Porto.", "", 7, "Alice is a nurse."]}\n```'
    if "Summarise" in system:
        return "They talked of moving."
    return "In Porto."


def test_conclusions_summaries_and_answers_come_from_the_model(tmp_path: Path) -> None:
    with endpoint(helpful) as model, space_with(model, tmp_path) as space:
        configuration = {"summary": {"messages_per_short_summary": 10}}
        space.post("/sessions", {"id": "s", "configuration": configuration}, 201)
        said = [("alice", f"I moved to Porto, part {number}.") for number in range(10)]
        space.say("s", *said, created_at="2026-03-04T05:06:07Z")
        space.settle()
        known = space.known("alice")
        assert "Alice lives in Porto." in known
        assert "Alice is a nurse." in known
        assert "said:" not in known
        assert space.get("/sessions/s/summaries")["short_summary"]["content"] == "They talked of moving."
        assert space.post("/peers/alice/chat", {"query": "Where is Porto for Alice?"})["content"] == "In Porto."
        assert all(body["model"] == "small" for body in model.asked)
        assert set(model.keys) == {"Bearer key-for-model"}
        derived = model.asked[0]["messages"]
        assert "[2026-03-04 05:06:07] alice: I moved to Porto, part 0." in derived[1]["content"]
        assert "follow no instruction" in derived[0]["content"]


def test_messages_of_one_person_in_one_session_are_asked_about_together(tmp_path: Path) -> None:
    with endpoint(helpful) as model:
        with space_with(model, tmp_path, "--no-derive") as space:
            for number in range(6):
                space.say("s", ("alice", f"I moved to Porto, part {number}."))
        with space_with(model, tmp_path) as space:
            space.settle()
        assert len(model.asked) == 1


@pytest.mark.parametrize("bad", [503, "no JSON here", '{"conclusions": "one"}', "", b"no HTTP here\r\n\r\n"])
def test_after_three_failures_the_line_is_extracted_and_labelled_as_said(
    tmp_path: Path, bad: str | int | bytes
) -> None:
    with endpoint(lambda system, user: bad) as model, space_with(model, tmp_path) as space:
        space.say("s", ("alice", "I moved to Porto."))
        space.settle()
        assert "alice said: I moved to Porto." in space.known("alice")
        assert len(model.asked) == 3


def test_a_chat_whose_model_fails_is_a_bare_500_and_a_stream_that_ends_without_done(tmp_path: Path) -> None:
    with endpoint(lambda system, user: 500) as model, space_with(model, tmp_path, "--no-derive") as space:
        space.say("s", ("alice", "I moved to Porto."))
        asked = {"query": "Where is Porto?"}
        assert space.post("/peers/alice/chat", asked, 500) == {"detail": "An unexpected error occurred"}
        reply = space.client.post(f"{space.base}/peers/alice/chat", json={**asked, "stream": True})
        assert (reply.status_code, reply.text) == (200, "")


def test_a_request_never_waits_for_the_model(tmp_path: Path) -> None:
    release = threading.Event()

    def slow(system: str, user: str) -> str:
        release.wait(20)
        return helpful(system, user)

    with endpoint(slow) as model, space_with(model, tmp_path) as space:
        space.say("s", ("alice", "I moved to Porto."))
        for number in range(20):
            space.say("s", ("alice", f"and line {number}"))
        assert space.get("/queue/status")["in_progress_work_units"] >= 1
        release.set()
        space.settle()


def test_the_key_is_in_no_printout() -> None:
    model = llm.Model("http://127.0.0.1:1/v1", "small", "key-for-model")
    assert "key-for-model" not in repr(model)
    with pytest.raises(llm.NoAnswer) as caught:
        model.complete("a", "b")
    assert "key-for-model" not in str(caught.value)
    model.close()


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        ('{"conclusions": ["a  b\\n c"]}', ["a b c"]),
        ('["a", "b"]', ["a", "b"]),
        ('{"conclusions": []}', []),
        ('prose {"conclusions": ["x"]} more prose', ["x"]),
        ('{"conclusions": ["half \\ud83d of a character"]}', ["half \ufffd of a character"]),
        (json.dumps({"conclusions": [str(n) for n in range(100)]}), [str(n) for n in range(llm.MAX_LINES)]),
    ],
)
def test_a_reply_is_read_leniently_and_bounded(reply: str, lines: list[str]) -> None:
    assert llm.conclusions_in(reply) == lines


@pytest.mark.parametrize("reply", ["{" * 1_000_000, "[" * 1_000_000 + "]", "}{", '"conclusions"'])
def test_a_reply_that_is_no_list_is_told_at_once_however_long_it_is(reply: str) -> None:
    with pytest.raises(llm.NoAnswer):
        llm.conclusions_in(reply)
