"""`chat`: talk, and see for each turn the exact prompt that a model is given.

With an OpenAI-compatible endpoint (OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL) the prompt is sent there and the
answer is remembered; without one the turn is remembered unanswered. Without a configured Honcho server the embedded one
is started for as long as the chat lasts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from honcho_actors.cli import out
from honcho_actors.cli.processes import ProcessFailed, in_order_when_told_to_end, start_server
from honcho_actors.cli.status import reason_off
from honcho_actors.host.prompt import Prompt, compose_prompt
from honcho_actors.model import Turn, TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

STATIC: Final = "You are a helpful assistant who remembers the person you talk with."
MODEL_TIMEOUT: Final = 120.0
DEFAULT_MODEL_URL: Final = "https://api.openai.com/v1"
FLUSH_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Model:
    """An OpenAI-compatible endpoint."""

    url: str
    name: str
    key: str

    @classmethod
    def configured(cls, name: str | None) -> Model | None:
        """From the environment; None when neither an address nor a key is set."""
        url, key = os.environ.get("OPENAI_BASE_URL", "").strip(), os.environ.get("OPENAI_API_KEY", "").strip()
        name = name or os.environ.get("OPENAI_MODEL", "").strip()
        if not (url or key) or not name:
            return None
        return cls((url or DEFAULT_MODEL_URL).rstrip("/"), name, key)

    def answer(self, prompt: Prompt, history: list[dict[str, str]]) -> str:
        """The model's answer. Raises `ModelFailed` with one clause."""
        messages = [{"role": "system", "content": prompt.system}, *history, {"role": "user", "content": prompt.user}]
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            reply = httpx.post(
                f"{self.url}/chat/completions",
                json={"model": self.name, "messages": messages},
                headers=headers,
                timeout=MODEL_TIMEOUT,
            )
            reply.raise_for_status()
            answer = reply.json()["choices"][0]["message"]["content"]
        except httpx.HTTPStatusError as error:
            raise ModelFailed(f"it answered with status {error.response.status_code}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelFailed(f"it could not be reached ({type(error).__name__})") from None
        except (ValueError, KeyError, IndexError, TypeError):
            raise ModelFailed("its answer is not a chat completion") from None
        if not isinstance(answer, str):
            raise ModelFailed("its answer holds no text")
        return answer


class ModelFailed(RuntimeError):
    """The model gave no answer; the text is one clause."""


def chat(*, user: str, session: str, model: str | None, as_json: bool) -> int:
    """Reads lines until the end of input or `/quit`."""
    settings = Settings.load()
    asked = Model.configured(model)
    with ExitStack() as stack:
        stack.enter_context(in_order_when_told_to_end())
        if not settings.configured:
            if settings.base_url is None and any(problem.field == "base_url" for problem in settings.problems):
                out.usage(reason_off(settings))
            settings = _with_local(stack, settings, reason_off(settings))
        memory = stack.enter_context(Memory.start(settings))
        if not as_json:
            out.say(f"memory: {settings.server_url}, workspace {settings.workspace}; you are {user} in {session}")
            out.say(
                f"model: {asked.name} at {asked.url}" if asked else "model: none is set; you see what one would get"
            )
            out.say("an empty line is skipped; /quit or the end of input ends it")
        history: list[dict[str, str]] = []
        for number, line in enumerate(_lines(interactive=sys.stdin.isatty() and not as_json), 1):
            found = memory.context(TurnRequest(session_key=session, user=user, query=line))
            prompt = compose_prompt(STATIC, found, line)
            answer, failed = None, None
            if asked is not None:
                try:
                    answer = asked.answer(prompt, history)
                except ModelFailed as error:
                    failed = str(error)
            memory.capture(Turn(session_key=session, user=user, prompt=line, answer=answer))
            shown = {
                "turn": number,
                "state": found.state,
                "reason": found.reason,
                "waited_ms": round(found.waited * 1000, 1),
                "age": found.age,
                "system": prompt.system,
                "user": prompt.user,
                "answer": answer,
                "failed": failed,
            }
            _show(shown, as_json)
            history.append({"role": "user", "content": prompt.user})
            if answer is not None:
                history.append({"role": "assistant", "content": answer})
        flushed = memory.flush(FLUSH_TIMEOUT)
        trouble = memory.status().outbox.get("trouble")
    if trouble:
        out.complain(f"not everything was kept, since the outbox cannot be written: {trouble}")
    elif not flushed:
        out.complain("not everything was delivered; it is kept and goes out with the next start")
    return out.FINE if flushed else out.NOT_FINE


def _with_local(stack: ExitStack, settings: Settings, why: str) -> Settings:
    """The embedded server for this chat alone; what it learns goes with it."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="honcho-actors-chat-")))
    try:
        server = start_server(folder / "server")
    except ProcessFailed as error:
        out.usage(str(error))
    stack.callback(server.stop)
    out.complain(f"{why}: the embedded server runs for this chat (process {server.pid}, {server.url})")
    return Settings(base_url=server.url, state_dir=folder / "state", cache_dir=folder / "cache", admin_port=None)


def _lines(*, interactive: bool) -> Iterator[str]:
    while True:
        if interactive:
            sys.stdout.write("\nyou> ")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line.strip():
            yield line.rstrip("\n")


def _show(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        out.emit_line(shown)
        return
    out.say(f"\n--- turn {shown['turn']}: {shown['state']} ({shown['reason']}), waited {shown['waited_ms']} ms")
    out.say("--- system")
    out.say(shown["system"])
    out.say("--- user")
    out.say(shown["user"])
    out.say("--- assistant")
    if shown["answer"] is not None:
        out.say(shown["answer"])
    elif shown["failed"]:
        out.say(f"(no answer: {shown['failed']})")
    else:
        out.say("(no model is set: OPENAI_BASE_URL, OPENAI_MODEL)")
