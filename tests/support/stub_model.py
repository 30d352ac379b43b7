"""A model on a loopback socket: chat completions, responses and messages, streamed or not, tools, errors.

`with StubModel() as model`: `model.url` (for an OpenAI client it ends with `/v1`), `model.seen`, `model.script`. As a
command (`python -m tests.support.stub_model --port 8485`) it answers whoever asks, for the programs of the docs. It
shares no code with the adapters and knows nothing of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any


@dataclass(slots=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    @property
    def system(self) -> str:
        """The system text of a model call, in whichever protocol."""
        body = self.body
        if "instructions" in body:
            return str(body["instructions"])
        if isinstance(body.get("system"), (str, list)):
            return _text(body["system"])
        found = [one for one in body.get("messages", []) if one.get("role") in ("system", "developer")]
        return _text(found[0]["content"]) if found else ""

    @property
    def users(self) -> list[str]:
        """The texts of the user's messages, oldest first."""
        return [_text(one["content"]) for one in self.items if one.get("role") == "user" and _text(one["content"])]

    @property
    def items(self) -> list[Any]:
        """The conversation without its system text."""
        body = self.body
        given = body["input"] if "input" in body else body.get("messages", [])
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        return [one for one in given if one.get("role") not in ("system", "developer")]


@dataclass(slots=True)
class Say:
    """What the model does. `text` streams word by word, `pace` seconds apart. `hold`: it stops after so many events
    (-1: before it says anything) until `StubModel.release` is set or the client hangs up. `cut`: the connection breaks
    after so many events. `status` other than 200 is an error with the text as its message. `number`: makes its ids."""

    text: str | None = None
    call: tuple[str, dict[str, Any]] | None = None
    status: int = 200
    pace: float = 0.0
    hold: int | None = None
    cut: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    number: int = field(default_factory=count(1).__next__)


Script = Callable[[Asked], Say]


def echo(asked: Asked) -> Say:
    """Says how many messages it was sent, and the beginning of the last one."""
    users = asked.users
    return Say(f"You said {len(users)} things, at last: {users[-1].splitlines()[0] if users else ''}")


class StubModel:
    """The server, on a loop and a thread of its own."""

    def __init__(self, script: Script | None = None, port: int = 0) -> None:
        self.script: Script = script or echo
        self.seen: list[Asked] = []
        self.holding = threading.Event()
        """Set whenever a reply is held."""
        self.release = threading.Event()
        self.hung_up = 0
        """Clients that left in the middle of a reply."""
        self.open = 0
        self.written = 0
        """Bytes of streams that were handed to the system."""
        self.port = port
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def root(self) -> str:
        """What an Anthropic client is given."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What an OpenAI client is given."""
        return f"{self.root}/v1"

    @property
    def calls(self) -> list[Asked]:
        """The model calls among what was asked."""
        return [one for one in self.seen if one.path.endswith(("/chat/completions", "/responses", "/messages"))]

    def __enter__(self) -> StubModel:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="stub-model", daemon=True)
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        while self._writers:  # noqa: ASYNC110 (each ends in a callback of its own)
            await asyncio.sleep(0.001)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open += 1
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            self.open -= 1
            writer.transport.abort()
            self._writers.discard(writer)

    def answer(self, asked: Asked) -> Say:
        """What the script says; a script that does not understand a request says so."""
        try:
            return self.script(asked)
        except Exception as error:
            return Say(f"the script did not understand this ({type(error).__name__})", status=400)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        asked = Asked(method, path.split("?")[0], headers, await _body(reader, headers))
        self.seen.append(asked)
        kind = asked.path.rsplit("/v1", 1)[-1]
        if method != "POST" or kind not in _PLAIN:
            answer = {"path": asked.path, "query": path.partition("?")[2], "sent": len(asked.raw)}
            await _write(writer, 200, {"x-stub": "other"}, json.dumps(answer).encode())
            return True
        say = self.answer(asked)
        if say.status != 200:
            error = {"error": {"message": say.text or "stub failure", "type": "stub_error"}}
            await _write(writer, say.status, say.headers, json.dumps(error).encode())
            return True
        if not asked.body.get("stream"):
            if say.hold is not None:
                await self._hold(reader)
            if say.cut is not None:
                return False
            await _write(writer, 200, say.headers, json.dumps(_PLAIN[kind](say)).encode())
            return True
        if say.hold == -1:
            await self._hold(reader)
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in say.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        async for event in self._events(kind, say, reader):
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
            self.written += len(event)
        if say.cut is not None:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _events(self, kind: str, say: Say, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        for number, event in enumerate(_STREAMED[kind](say)):
            if say.cut == number:
                return
            if say.hold == number:
                await self._hold(reader)
            if say.pace and number:
                await asyncio.sleep(say.pace)
            yield event

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        self.holding.set()
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while not self.release.is_set():
                done, _ = await asyncio.wait({gone}, timeout=0.005)
                if done:
                    self.hung_up += 1
                    raise ConnectionResetError
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await gone


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(parts)


async def _write(writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: bytes) -> None:
    head = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in head.items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    await writer.drain()


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(one["text"] for one in content or () if isinstance(one.get("text"), str))


def _words(text: str | None) -> list[str]:
    return [word + " " for word in (text or "").split(" ")[:-1]] + (text or "").split(" ")[-1:] if text else []


def _sse(data: Any, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
TIME = 1_700_000_000


def _chat(say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text, "refusal": None}
    if say.call:
        function = {"name": say.call[0], "arguments": json.dumps(say.call[1])}
        message["tool_calls"] = [{"id": f"call_{say.number}", "type": "function", "function": function}]
    reason = "tool_calls" if say.call else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    base = {"id": "chatcmpl-1", "object": "chat.completion", "created": TIME, "model": "stub"}
    return {**base, "choices": [choice], "usage": USAGE}


def _chat_stream(say: Say) -> Iterator[bytes]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": TIME, "model": "stub"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(say.text):
        yield chunk({"content": word})
    if say.call:
        function = {"name": say.call[0], "arguments": json.dumps(say.call[1])}
        yield chunk(
            {"tool_calls": [{"index": 0, "id": f"call_{say.number}", "type": "function", "function": function}]}
        )
    yield chunk({}, "tool_calls" if say.call else "stop")
    yield _sse({**base, "choices": [], "usage": USAGE})
    yield _sse("[DONE]")


def _response(say: Say, status: str = "completed") -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if say.text is not None:
        content = [{"type": "output_text", "text": say.text, "annotations": []}]
        output.append(
            {
                "id": f"msg_{say.number}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    if say.call:
        arguments = json.dumps(say.call[1])
        output.append(
            {
                "id": f"fc_{say.number}",
                "type": "function_call",
                "call_id": f"call_{say.number}",
                "name": say.call[0],
                "arguments": arguments,
                "status": "completed",
            }
        )
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": TIME,
        "status": status,
        "model": "stub",
        "output": output if status == "completed" else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 10,
        },
    }


def _response_stream(say: Say) -> Iterator[bytes]:
    numbers = count()

    def event(kind: str, **more: Any) -> bytes:
        return _sse({"type": kind, "sequence_number": next(numbers), **more}, kind)

    yield event("response.created", response=_response(say, "in_progress"))
    whole = _response(say)
    for index, item in enumerate(whole["output"]):
        yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", **place, part=empty)
            for word in _words(say.text):
                yield event("response.output_text.delta", **place, delta=word, logprobs=[])
            yield event("response.output_text.done", **place, text=say.text, logprobs=[])
            yield event("response.content_part.done", **place, part=item["content"][0])
        else:
            place = {"item_id": item["id"], "output_index": index}
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield event(
                "response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]
            )
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)


def _message(say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if say.text is not None:
        content.append({"type": "text", "text": say.text})
    if say.call:
        content.append({"type": "tool_use", "id": f"toolu_{say.number}", "name": say.call[0], "input": say.call[1]})
    return {
        "id": f"msg_{say.number}",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": content,
        "stop_reason": "tool_use" if say.call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


def _message_stream(say: Say) -> Iterator[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return _sse({"type": kind, **more}, kind)

    whole = _message(say)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for word in _words(say.text):
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": word})
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ending: dict[str, Any] = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage={"output_tokens": 3})
    yield event("message_stop")


_PLAIN: dict[str, Callable[[Say], dict[str, Any]]] = {
    "/chat/completions": _chat,
    "/responses": _response,
    "/messages": _message,
}
_STREAMED: dict[str, Callable[[Say], Iterator[bytes]]] = {
    "/chat/completions": _chat_stream,
    "/responses": _response_stream,
    "/messages": _message_stream,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8485)
    with StubModel(port=parser.parse_args().port) as model:
        print(f"{model.url} (OpenAI), {model.root} (Anthropic); it ends with Ctrl+C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
