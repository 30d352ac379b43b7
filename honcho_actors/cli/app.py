"""The command tree: names, options and help. What a command does stands in a module of its own, loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from honcho_actors.cli import out
from honcho_actors.cli.outbox_app import outbox_app

app = typer.Typer(
    name="honcho-actors",
    help="A supervised memory runtime for long-running assistants, over Honcho.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Directory of the runtime's state.", show_default="the settings'")
]


def run() -> int:
    """Runs the command line; gives the exit code. No exception of ours or of a library leaves as a traceback."""
    try:
        code = app(standalone_mode=False)
    except out.Stop as stop:
        if str(stop):
            out.complain(str(stop))
        return stop.code
    except (typer.Abort, KeyboardInterrupt):
        out.complain("interrupted")
        return 130
    except BrokenPipeError:
        return out.stdout_went_away()
    except Exception as error:  # noqa: BLE001 - boundary: a command ends in a sentence, never in a traceback
        explained = getattr(error, "format_message", None)  # what the parser of the command line raises
        if explained is not None:
            out.complain(f"{explained()} (honcho-actors --help)")
            return out.USAGE
        out.complain(f"this went wrong inside the command: {type(error).__name__}: {error}")
        return out.NOT_FINE
    return code if isinstance(code, int) else out.FINE


@app.command(epilog="Example: honcho-actors demo --transcript talk.jsonl --json")
def demo(
    transcript: Annotated[
        Path | None,
        typer.Option(help="JSON Lines of role, content, time (and session, user); default: a bundled conversation."),
    ] = None,
    as_json: AsJson = False,
    delay: Annotated[float, typer.Option(help="Seconds that the embedded server takes for a request.", min=0)] = 0.2,
    pace: Annotated[float, typer.Option(help="Seconds between two turns.", min=0)] = 0.25,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the server's data and the runtime's state in this new directory.")
    ] = None,
) -> int:
    """Replays a conversation over real HTTP: cold, warm, an outage, recovery, a restart; then shows the figures."""
    from honcho_actors.cli.demo import demo as command

    return command(transcript=transcript, as_json=as_json, delay=delay, pace=pace, keep=keep)


@app.command(epilog="Example: honcho-actors chat --user ada --session kitchen")
def chat(
    user: Annotated[str, typer.Option(help="The person who talks.")] = "you",
    session: Annotated[str, typer.Option(help="The conversation.")] = "chat",
    model: Annotated[str | None, typer.Option(help="Model name; default: OPENAI_MODEL, else none is asked.")] = None,
    as_json: AsJson = False,
) -> int:
    """Talk, and see turn by turn the exact prompt that a model is given.

    The model is any OpenAI-compatible endpoint: OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL. Without one, the prompt
    alone is shown.
    """
    from honcho_actors.cli.chat import chat as command

    return command(user=user, session=session, model=model, as_json=as_json)


@app.command(epilog="Example: HONCHO_URL=http://127.0.0.1:8000 honcho-actors serve")
def serve(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Take turns as JSON Lines on stdin, answer on stdout.")
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """Runs the memory runtime until SIGTERM or end of input: delivers what is queued, and can be asked how it is."""
    from honcho_actors.cli.serve import serve as command

    return command(stdio=stdio, state_dir=state_dir, as_json=as_json)


@app.command(epilog="Example: honcho-actors local --port 8000 --data ./honcho-data")
def local(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 picks a free one.", min=0, max=65535)] = 8000,
    data: Annotated[Path | None, typer.Option(help="Directory of its database; default: a temporary one.")] = None,
    delay: Annotated[float, typer.Option(help="Seconds added to every request.", min=0)] = 0.0,
) -> int:
    """Runs the embedded Honcho-compatible server. It stores and searches, and derives nothing without a model."""
    from honcho_actors.cli.local import local as command

    return command(port=port, data=data, delay=delay)


@app.command(epilog="Example: honcho-actors status --json")
def status(state_dir: StateDir = None, as_json: AsJson = False) -> int:
    """What the running process says of itself; without one, what this process would do, and says so."""
    from honcho_actors.cli.status import status as command

    return command(state_dir=state_dir, as_json=as_json)


@app.command(epilog="Example: honcho-actors sessions --limit 20")
def sessions(
    state_dir: StateDir = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> int:
    """The conversations that the running process keeps ready. What is not here may still be on the server."""
    from honcho_actors.cli.inspect import sessions as command

    return command(state_dir=state_dir, limit=limit, as_json=as_json)


@app.command(epilog="Example: honcho-actors tree")
def tree(state_dir: StateDir = None, as_json: AsJson = False) -> int:
    """The supervision tree of the running process."""
    from honcho_actors.cli.inspect import tree as command

    return command(state_dir=state_dir, as_json=as_json)


app.add_typer(outbox_app, name="outbox")


@app.command("import", epilog="Example: honcho-actors import chat.jsonl conversations.json --user ada")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="JSON Lines of messages, `messages` JSON, or a ChatGPT export."),
    ],
    user: Annotated[
        str | None, typer.Option(help="Whose words these are.", show_default="the settings' user_peer")
    ] = None,
    state_dir: StateDir = None,
    wait: Annotated[
        float, typer.Option(help="Seconds without a delivery after which it ends; 0 does not wait.", min=0, max=86_400)
    ] = 30.0,
    as_json: AsJson = False,
) -> int:
    """Brings in what was said elsewhere, once: what an earlier import brought in is known and not sent again."""
    from honcho_actors.cli.importing import import_ as command

    return command(files=files, user=user, state_dir=state_dir, wait=wait, as_json=as_json)


@app.command(epilog="Example: honcho-actors settings --toml > honcho-actors.toml")
def settings(
    state_dir: StateDir = None,
    as_json: AsJson = False,
    toml: Annotated[bool, typer.Option("--toml", help="A commented file that changes nothing.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="JSON Schema of that file.")] = False,
) -> int:
    """Every setting: its value, where it came from, and what lost."""
    from honcho_actors.cli.inspect import settings as command

    return command(state_dir=state_dir, as_json=as_json, toml=toml, schema=schema)


Timeout = Annotated[float, typer.Option(help="Total seconds for the one request.", min=0.1, max=600.0)]


@app.command(epilog="Example: honcho-actors ping --timeout 2")
def ping(timeout: Timeout = 5.0, as_json: AsJson = False) -> int:
    """Asks the server once, from this process, and says how long it took."""
    from honcho_actors.cli.doctor import ping as command

    return command(timeout=timeout, as_json=as_json)


@app.command(epilog="Example: honcho-actors doctor")
def doctor(state_dir: StateDir = None, timeout: Timeout = 5.0, as_json: AsJson = False) -> int:
    """What is wrong, each with what to do about it."""
    from honcho_actors.cli.doctor import doctor as command

    return command(state_dir=state_dir, timeout=timeout, as_json=as_json)
