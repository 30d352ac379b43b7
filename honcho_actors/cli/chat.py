"""`chat`: talk, and see for each turn the exact prompt that a model is given.

With a model's endpoint (OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL, or the same of ANTHROPIC) the prompt is sent
there, the answer is shown as it comes, and remembered; without one the turn is remembered unanswered. Without a
configured Honcho server the embedded one is started for as long as the chat lasts. A turn is begun and finished by the
same object that every adapter stands on, so that earlier messages are sent again byte for byte.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from honcho_actors.cli import out
from honcho_actors.cli.model import KINDS, Model, ModelFailed
from honcho_actors.cli.processes import ProcessFailed, in_order_when_told_to_end, start_server
from honcho_actors.cli.status import reason_off
from honcho_actors.integrations import Turns
from honcho_actors.model import TurnRequest
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

STATIC: Final = "You are a helpful assistant who remembers the person you talk with."
FLUSH_TIMEOUT: Final = 10.0


def chat(*, user: str, session: str, model: str | None, protocol: str | None, as_json: bool) -> int:
    """Reads lines until the end of input or `/quit`."""
    if protocol is not None and protocol not in KINDS:
        out.usage(f"--protocol is one of {', '.join(KINDS)}")
    settings = Settings.load()
    asked = Model.configured(model, protocol)
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
        turns = stack.enter_context(Turns(memory))
        request = TurnRequest(session_key=session, user=user)
        talk: list[tuple[str, str]] = []
        for number, line in enumerate(_lines(interactive=sys.stdin.isatty() and not as_json), 1):
            talk.append(("user", line))
            with turns.begin(request, line) as turn:
                messages = _messages(talk, turn.beside([text for role, text in talk if role == "user"]))
                system = f"{STATIC}\n\n{turn.system}" if turn.system else STATIC
                shown = {
                    "turn": number,
                    "state": turn.context.state,
                    "reason": turn.context.reason,
                    "waited_ms": round(turn.context.waited * 1000, 1),
                    "age": turn.context.age,
                    "system": system,
                    "user": messages[-1]["content"],
                }
                if not as_json:
                    _show(shown)
                answer, failed = None, None
                if asked is not None:
                    try:
                        answer = asked.answer(system, messages, _nothing if as_json else out.piece)
                    except ModelFailed as error:
                        failed = str(error)
                turn.finish(answer)
            if as_json:
                out.emit_line({**shown, "answer": answer, "failed": failed})
            else:
                out.say(_ending(answer, failed))
            if answer is not None:
                talk.append(("assistant", answer))
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


def _messages(talk: list[tuple[str, str]], beside: Sequence[str]) -> list[dict[str, str]]:
    """The conversation as the model gets it: behind each message of the user what stood there at first."""
    blocks = iter(beside)
    return [{"role": role, "content": text + (next(blocks) if role == "user" else "")} for role, text in talk]


def _show(shown: dict[str, Any]) -> None:
    out.say(f"\n--- turn {shown['turn']}: {shown['state']} ({shown['reason']}), waited {shown['waited_ms']} ms")
    out.say("--- system")
    out.say(shown["system"])
    out.say("--- user")
    out.say(shown["user"])
    out.say("--- assistant")


def _ending(answer: str | None, failed: str | None) -> str:
    if answer is not None:
        return ""
    return f"(no answer: {failed})" if failed else "(no model is set: OPENAI_BASE_URL, OPENAI_MODEL)"


def _nothing(piece: str) -> None:
    return None
